"""What an adaptation reads of the cluster, as the core has it."""

from wharfinger.core.cluster_state import ClusterState
from wharfinger.core.seams.placement import PlacementPolicy
from wharfinger.core.seams.policy import Policy
from wharfinger.core.state import ManagerState, WorkloadRecord
from wharfinger.model.profile import Estimate
from wharfinger.model.view import ClusterView, OffTarget, PlacementRequest


class ClusterResidents:
    """What an adaptation reads; see ``Residents``."""

    def __init__(self, world: ClusterState, policy: Policy, *, recommends: bool) -> None:
        self._world = world
        self.placement: PlacementPolicy = policy.placement
        self.estimates = policy.estimation.name if policy.estimation else ""
        self.recommends = recommends
        self._note_key = f"placement:{policy.placement.name}"

    @property
    def state(self) -> ManagerState:
        """What is known; to be read only."""
        return self._world.state

    def view(self) -> ClusterView:
        """The servers as columns of numbers."""
        return self._world.view()

    def request(
        self,
        record: WorkloadRecord,
        now: float,
        *,
        off_target: OffTarget | None = None,
        load: float | None = None,
    ) -> PlacementRequest:
        """What a placement is asked about a workload."""
        note = self.state.notes.get(self._note_key, "")
        return self._world.request(record, now, off_target=off_target, load=load, note=note)

    def running(self, key: str) -> WorkloadRecord | None:
        """The workload that runs under this key."""
        return self._world.running(key)

    def neighbors(self, record: WorkloadRecord) -> list[WorkloadRecord]:
        """What else holds resources where a workload is, each once."""
        if not record.on_server:
            return []
        residents = (r for p in record.placements for r in self._world.residents_of(p.server))
        return list({r.uid: r for r in residents if r is not record}.values())

    def suspended(self) -> list[WorkloadRecord]:
        """Those that get no CPU time."""
        return [self.state.workloads[name] for name in self._world.suspended]

    def wants_resize(self) -> list[WorkloadRecord]:
        """Those whose allocation should follow a changed reservation, and may now."""
        world = self._world
        if not world.resize_wanted:
            return []
        names = world.resize_wanted if world.room_changed else world.touched
        return [self.state.workloads[name] for name in names if name in world.resize_wanted]

    def slowdown_of(self, record: WorkloadRecord) -> Estimate | None:
        """What its neighbors leave of its performance alone."""
        return self._world.slowdown_of(record)

    def platform_of(self, record: WorkloadRecord) -> str:
        """Name of the platform on which it runs."""
        return self._world.platform_of(record)
