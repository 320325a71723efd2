"""How large a run is: as its scenario says, other numbers, or a share of everything."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wharfinger.errors import InvalidInput
from wharfinger.simulator.scenario.arrivals import Arrivals
from wharfinger.simulator.scenario.population import apportion
from wharfinger.simulator.scenario.scenario_types import Scenario, ServerGroup


@dataclass(frozen=True, slots=True)
class Size:
    """What replaces a scenario's own numbers.

    Attributes:
        servers: How many, in the scenario's proportions; ``None`` = as it says. The rate of
            arrivals stays, so fewer servers are more loaded. So with ``workloads``.
        scale: Factor of servers, workloads and the rate of arrivals together: the load stays.
    """

    servers: int | None = None
    workloads: int | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.scale == 1.0:
            return
        if not self.scale > 0:
            raise InvalidInput(f"--scale {self.scale:g} is not above 0; write e.g. 0.2")
        for name in ("servers", "workloads"):
            if getattr(self, name) is not None:
                raise InvalidInput(f"--scale sets the number of {name} too; leave --{name} out")

    def of_workloads(self, stated: int) -> int:
        """How many, where so many are stated."""
        return self._of(stated) if self.workloads is None else self.workloads

    def of_groups(self, groups: Sequence[ServerGroup]) -> tuple[ServerGroup, ...]:
        """The same with other counts; a platform that has no server any more is left out."""
        if self.servers is None and self.scale == 1.0:
            return tuple(groups)
        weights = [float(group.count) for group in groups]
        total = self._of(int(sum(weights))) if self.servers is None else self.servers
        pairs = zip(groups, apportion(weights, total), strict=True)
        return tuple(replace(group, count=count) for group, count in pairs if count)

    def of_arrivals(self, scenario: Scenario) -> Scenario:
        """A scenario whose workloads come at the scaled rate; one stated as a load follows it."""
        if self.scale == 1.0:
            return scenario
        return replace(scenario, arrivals=_at_rate(scenario.arrivals, self.scale))

    def _of(self, stated: int) -> int:
        return max(1, round(stated * self.scale))


def _at_rate(arrivals: Arrivals, factor: float) -> Arrivals:
    recorded, bursts = arrivals.recorded, arrivals.bursts
    if recorded is not None:
        if factor > 1:
            raise InvalidInput(
                f"--scale {factor:g}: recorded arrivals can't be made more; write 1 or less"
            )
        return replace(arrivals, recorded=replace(recorded, share=recorded.share * factor))
    return replace(
        arrivals,
        every_seconds=arrivals.every_seconds and arrivals.every_seconds / factor,
        spread_seconds=arrivals.spread_seconds / factor,
        bursts=bursts and replace(bursts, size=max(1, round(bursts.size * factor))),
    )
