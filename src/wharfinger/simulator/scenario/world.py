"""The world of one run: a scenario with what its files hold, and the ground truth of both.

``build`` makes one, ``physical`` that of the physics; ``population`` and ``submission`` draw in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from wharfinger.errors import InvalidInput
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.scenario_types import Scenario, ServerGroup
from wharfinger.simulator.scenario.traces import TraceJob
from wharfinger.simulator.truth.ground_truth import GroundTruth


@dataclass(frozen=True)
class World:
    """A cluster, its ground truth, and all that its workloads are drawn from.

    Attributes:
        scenario: With classes and servers filled in.
        streams: Of the run.
        groups: Of servers, as many as run.
        applications: All that may come.
        trace_jobs: The workloads, where a trace states them.
        notes: What a reader of results should know.
        needs: Of the physics: thousandths of a CPU that each application can use on a server, and
            memory that it takes.
        loads: Of the physics: how much each application loads memory.
        promised: CPU and memory that servers promise over what they have.
    """

    scenario: Scenario
    streams: Streams
    groups: tuple[ServerGroup, ...]
    truth: GroundTruth
    applications: tuple[str, ...]
    trace_jobs: tuple[TraceJob, ...] = ()
    notes: tuple[str, ...] = ()
    needs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)
    promised: tuple[float, float] = (1.0, 1.0)
    _rates: dict[str, tuple[float, ...]] = field(default_factory=dict)

    @cached_property
    def max_cpu_millicpus(self) -> int:
        """Of the largest server."""
        return max(group.cpu_millicpus for group in self.groups)

    def rates_of(self, application: str) -> tuple[float, ...]:
        """Its rates alone on each platform, in their order.

        Raises:
            InvalidInput: It runs on none of them.
        """
        rates = self._rates.get(application)
        if rates is None:
            names = [group.platform for group in self.groups]
            rates = tuple(self.truth.most(name, application) for name in names)
            if not max(rates):
                raise InvalidInput(
                    f"application {application!r} runs on none of the platforms "
                    f"{', '.join(names)}; leave it out, or add one on which it does (more "
                    "--servers keep more platforms)"
                )
            self._rates[application] = rates
        return rates


def apportion(weights: Sequence[float], total: int) -> list[int]:
    """Whole numbers in proportion to weights that add up to a total (largest remainder).

    >>> apportion([1.0, 1.0, 1.0], 10)
    [4, 3, 3]
    """
    whole = sum(weights)
    exact = [weight * total / whole for weight in weights]
    counts = [int(value) for value in exact]
    by_rest = sorted(range(len(exact)), key=lambda index: counts[index] - exact[index])
    for index in by_rest[: total - sum(counts)]:
        counts[index] += 1
    return counts


def scaled(groups: Sequence[ServerGroup], servers: int | None) -> tuple[ServerGroup, ...]:
    """So many servers in the same proportions; platforms that get none are left out."""
    if servers is None:
        return tuple(groups)
    counts = apportion([float(group.count) for group in groups], servers)
    pairs = zip(groups, counts, strict=True)
    return tuple(replace(group, count=count) for group, count in pairs if count)


def listed_servers(scenario: Scenario) -> tuple[ServerGroup, ...]:
    """The servers that a scenario lists.

    Raises:
        InvalidInput: It lists none.
    """
    if not scenario.servers:
        raise InvalidInput(f"scenario {scenario.name}: no servers; list them under spec.servers")
    return scenario.servers
