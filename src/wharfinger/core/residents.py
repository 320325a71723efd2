"""What an adaptation reads of the cluster: the core's side of ``Residents``."""

from functools import partial
from itertools import islice

from wharfinger.core.cluster_state import ClusterState
from wharfinger.core.lifecycle import Phase
from wharfinger.core.memory_needs import need_of, sized
from wharfinger.core.residency import may_take
from wharfinger.core.run_times import run_seconds
from wharfinger.core.seams.placement import PlacementPolicy
from wharfinger.core.seams.policy import Policy
from wharfinger.core.settings import settings_in
from wharfinger.core.state import ManagerState, WorkloadRecord
from wharfinger.model.allocation import Allocation
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.profile import Estimate
from wharfinger.model.view import Capabilities, OffTarget, Request, View
from wharfinger.model.workload import Adapt, Workload

WAITING = 8
"""So many of each queue are named that wait for room."""


class ClusterResidents:
    """What an adaptation reads; see ``Residents``."""

    def __init__(self, cluster: ClusterState, policy: Policy, *, recommends: bool) -> None:
        self._cluster = cluster
        self.state: ManagerState = cluster.state
        self.placement: PlacementPolicy = policy.placement
        self.estimates = policy.estimation.name if policy.estimation else ""
        self.recommends = recommends
        self._queues = policy.admission.queues
        self._note_key = f"placement:{policy.placement.name}"

    def may_adjust(self, record: WorkloadRecord) -> bool:
        """Whether this manager and its user let it be adjusted."""
        return not self.recommends and record.workload.adapt is Adapt.AUTO

    def able(self, record: WorkloadRecord) -> Capabilities:
        """What the engine can do with a workload."""
        return self.state.capabilities.within(record.limits)

    def most_servers(self, record: WorkloadRecord) -> int:
        """On how many servers it may be, by its user, the engine and its limits."""
        return min(record.workload.scale.max_servers, self.able(record).max_servers_per_workload)

    def view(self, workload: Workload | None = None) -> View:
        """The servers as columns of numbers; those that a workload may not go to accept none."""
        requires = () if workload is None else workload.requires
        return self._cluster.residency.columns.view(self.state.capabilities, requires)

    def request(
        self,
        record: WorkloadRecord,
        now: float,
        *,
        off_target: OffTarget | None = None,
        load: float | None = None,
        may_preempt: bool = True,
    ) -> Request:
        """What a placement is asked about a workload; what runs may preempt nothing."""
        memory, allowed = need_of(record.workload, self.state.memory_needs), None
        if record.workload.requires:
            allowed = self._cluster.residency.columns.allowed(record.workload.requires)
        return Request(
            sized(record.workload, memory),
            self._excluded(record, now) if record.excluded else frozenset(),
            off_target,
            record.classification,
            max(0.0, now - record.submitted_at),
            load,
            record.measurements,
            self.state.notes.get(self._note_key, ""),
            now,
            record.starts > 0,
            partial(run_seconds, self.state.accounts.values(), now),
            memory=memory,
            allowed=allowed,
            lost=record.lost,
            granted=record.granted if record.on_server else (),
            limits=record.limits,
            may_preempt=may_preempt and not record.on_server,
        )

    def _excluded(self, record: WorkloadRecord, now: float) -> frozenset[int]:
        """Rows of servers that failed to start it; none after a while, or if no other suffices."""
        longest = settings_in(self.state).max_backoff_seconds
        if record.not_before is not None and now >= record.not_before + longest:
            return frozenset()
        servers = self.state.servers
        memory = need_of(record.workload, self.state.memory_needs)
        need = Request(sized(record.workload, memory)).reserved(self.state.capabilities)
        others = (server for name, server in servers.items() if name not in record.excluded)
        if not any(
            may_take(server, record.workload)
            and server.cpu_millicpus >= need.cpu_millicpus
            and server.memory_bytes >= need.memory_bytes
            for server in others
        ):
            return frozenset()
        row = self._cluster.residency.columns.row
        return frozenset(row(name) for name in record.excluded if name in servers)

    def running(self, key: str) -> WorkloadRecord | None:
        """The workload that runs under this key."""
        return self._cluster.running(key)

    def neighbors(self, record: WorkloadRecord) -> list[WorkloadRecord]:
        """What else holds resources where a workload is, each once."""
        if not record.on_server:
            return []
        residents = (
            r for p in record.placements for r in self._cluster.residency.residents_of(p.server)
        )
        return list({r.uid: r for r in residents if r is not record}.values())

    def suspended(self) -> list[WorkloadRecord]:
        """Those that get no CPU time for a neighbor's sake."""
        names = self._cluster.suspended
        records = [self.state.workloads[name] for name in names] if names else []
        return [record for record in records if not record.paused]

    def throttled(self) -> list[WorkloadRecord]:
        """Those that run under a ceiling for a neighbor's sake."""
        records = map(self.state.workloads.__getitem__, self._cluster.throttled)
        return [record for record in records if record.phase is Phase.RUNNING]

    def wants_resize(self) -> list[WorkloadRecord]:
        """Those whose allocation should follow a changed reservation, and may now."""
        cluster = self._cluster
        if not cluster.resize_wanted:
            return []
        names = cluster.resize_wanted if cluster.queues.room_changed else cluster.touched
        return [self.state.workloads[name] for name in names if name in cluster.resize_wanted]

    def waiting_for_room(self) -> list[tuple[str, Allocation]]:
        """The first of each queue, and of those that wait for profiling, that lack room."""
        cluster, waiting = self._cluster, []
        lines = [cluster.queues.open(queue) for queue in self._queues]
        for line in (*lines, cluster.unprofiled):
            for *_, name in islice(line, WAITING):
                record = self.state.workloads[name]
                if record.deferral is ReasonCode.NO_ROOM and record.decisions:
                    numbers = record.decisions[-1].decision.numbers
                    cpu = int(numbers.get("cpu_needed_millicpus", 0.0))
                    memory_bytes = int(numbers.get("memory_needed_bytes", 0.0))
                    waiting.append((name, Allocation(cpu, memory_bytes)))
        return waiting

    def slowdown_of(self, record: WorkloadRecord) -> Estimate | None:
        """What its neighbors leave of its performance alone."""
        return self._cluster.residency.slowdown_of(record)

    def platform_of(self, record: WorkloadRecord) -> str:
        """Name of the platform on which it runs, with most of its CPU; empty = unknown."""
        cpu: dict[str, int] = {}
        for placed in record.placements:
            server = self.state.servers.get(placed.server)
            name = server.platform.name if server else ""
            cpu[name] = cpu.get(name, 0) + placed.allocation.cpu_millicpus
        return max(cpu, key=lambda name: cpu[name], default="")
