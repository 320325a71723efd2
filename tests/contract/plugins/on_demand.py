"""A provisioning that acquires and releases servers; and a placement that asks for one."""

from dataclasses import dataclass

from wharfinger.core.seams.provisioning import Order, ProvisioningView, Release
from wharfinger.core.seams.verdicts import Acquire
from wharfinger.model.decisions import Decision, Place, ReasonCode, Refuse, Stage
from wharfinger.model.view import Request, View
from wharfinger.policies.placement.least_loaded import LeastLoaded


@dataclass(frozen=True, slots=True)
class OnDemandSettings:
    """Tunables.

    Attributes:
        platform: Of the servers that are acquired.
        max_ordered: So many may be on their way at a time.
        keep_seconds: An acquired server is kept for so long at least.
    """

    platform: str = "small"
    max_ordered: int = 1
    keep_seconds: float = 20.0


class OnDemand:
    """Orders while something waits; releases what is empty."""

    name = "on-demand"

    def __init__(self, settings: OnDemandSettings | None = None) -> None:
        self.settings = settings or OnDemandSettings()

    def provision(self, view: ProvisioningView) -> tuple[Order | Release, ...]:
        waiting = sum(view.waiting.values())
        if not waiting:
            return tuple(Release(name, self._decision("empty")) for name in self._idle(view))
        platform, ordered = self.settings.platform, sum(view.ordered.values())
        if platform in view.not_acquired:
            return ()
        missing = min(waiting, self.settings.max_ordered) - ordered
        decision = self._decision(f"{waiting} workloads wait")
        return tuple(Order(platform, decision) for _ in range(missing))

    def wake_at(self, view: ProvisioningView) -> float | None:
        """When the next has been kept for long enough."""
        due = [since + self.settings.keep_seconds for since in view.acquired.values()]
        return min((time for time in due if time > view.now), default=None)

    def _idle(self, view: ProvisioningView) -> list[str]:
        cluster, kept = view.cluster, self.settings.keep_seconds
        return [
            name
            for name, since in view.acquired.items()
            if view.now - since >= kept and not cluster.residents[cluster.row(name)]
        ]

    def _decision(self, message: str) -> Decision:
        return Decision(Stage.PLACEMENT, self.name, True, ReasonCode.OK, message)


@dataclass(frozen=True, slots=True)
class AcquiringSettings:
    """``platform``: of the server that is acquired for a workload."""

    platform: str = "small"


class Acquiring(LeastLoaded):
    """Where no server has room, one is acquired."""

    name = "acquiring"

    def __init__(self, settings: AcquiringSettings | None = None) -> None:
        self.settings = settings or AcquiringSettings()

    def place(self, request: Request, view: View) -> Place | Refuse | Acquire:
        verdict = super().place(request, view)
        lacks = (ReasonCode.NO_ROOM, ReasonCode.TOO_LARGE)
        if isinstance(verdict, Refuse) and verdict.decision.reason in lacks:
            return Acquire(self.settings.platform, verdict.decision)
        return verdict
