"""A cluster of values for testing the core: it plays client, clock and engine by hand."""

from dataclasses import dataclass, field, replace
from random import Random

import numpy as np

from tests.support.spreading import policy_named
from wharfinger.contention.combined import Combined
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.codec import decode_event, decode_state, encode_event, encode_state
from wharfinger.core.ends import ExpectedEnds
from wharfinger.core.pipeline import Core, Mode, Step
from wharfinger.core.residency import resident
from wharfinger.core.seams.contention import ContentionModel
from wharfinger.core.seams.estimation import Profiling, ProfilingPlanner
from wharfinger.core.settings import CoreSettings
from wharfinger.core.state import WorkloadRecord, held
from wharfinger.model.allocation import Allocation
from wharfinger.model.arrays import Array
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.interference import SharedResource
from wharfinger.model.platform import Platform, Server
from wharfinger.model.profile import FurtherRun, ProfilingPlan
from wharfinger.model.view import Capabilities, Request, View
from wharfinger.model.workload import Reservation, Run, Workload, WorkloadType
from wharfinger.policies.placement.harmony import Harmony
from wharfinger.testing.contention import answers
from wharfinger.testing.policy import make_request, make_view

PLATFORM = Platform("test", "x86_64", "", 64_000, 2**40)
MIB = 2**20


class ProfileTheLabelled:
    """Profiles workloads that are labelled for it: copies where there is room, else they wait.

    Where two servers have room, one of them runs on both.
    """

    name = "labelled"

    def beside(self, request: Request, view: View) -> None:
        """What starts is not profiled."""

    def plan(self, request: Request, view: View) -> Profiling | None:
        if "profile" not in request.workload.labels:
            return None
        room = view.cpu_capacity - view.cpu_allocated
        servers = [name for name, free in zip(view.names, room, strict=True) if free >= 500]
        reason = ReasonCode.OK if servers else ReasonCode.NO_ROOM
        decision = Decision(Stage.PROFILING, self.name, bool(servers), reason, "labelled for it")
        if not servers:
            return Profiling(decision)
        setting = Setting(PLATFORM.name, Configuration(500), 2)
        plan = ProfilingPlan(
            servers[0],
            (500, 250),
            64 * MIB,
            (SharedResource.INTEGER,),
            8.0,
            further=(FurtherRun(setting, tuple(servers[:2])),) if len(servers) > 1 else (),
        )
        return Profiling(decision, plan)


LABELLED = ProfileTheLabelled()
COMBINED = Combined()
NEWCOMERS = [make_request(Random(seed), make_view(Random(seed), 0)) for seed in range(6)]
ABLE = Capabilities()


def server(name: str, cpus: int = 2, memory_mib: int = 4096, *, accepting: bool = True) -> Server:
    return Server(name, PLATFORM, cpus * 1000, memory_mib * MIB, accepting=accepting)


def workload(
    name: str,
    millicpus: int = 1000,
    memory_mib: int = 256,
    *,
    priority: int = 0,
    best_effort: bool = False,
    profile: bool = False,
) -> Workload:
    return Workload(
        name,
        WorkloadType.BEST_EFFORT if best_effort else WorkloadType.BATCH,
        Run(("true",)),
        reservation=Reservation(millicpus, memory_mib * MIB),
        priority=priority,
        labels={"profile": "yes"} if profile else {},
    )


class Cluster:
    """A core with a log, and everything that it asked for.

    Attributes:
        log: Every event in order, as bytes: (time, kind, payload).
        asked: Every action in order.
        modes: Of each process in order.
    """

    def __init__(
        self,
        policy: str = "least-loaded",
        *,
        keep_ended: int = 10_000,
        able: Capabilities = ABLE,
        mode: Mode = Mode.ACT,
        planner: ProfilingPlanner | None = LABELLED,
        contention: ContentionModel | None = COMBINED,
        **settings,
    ) -> None:
        self.settings = settings
        self.policy = policy
        self.keep_ended = keep_ended
        self.able = able
        self.mode = mode
        self.planner = planner
        self.contention = contention
        self.now = 0.0
        self.processes = 0
        self.modes: list[Mode] = []
        self.log: list[tuple[float, str, bytes]] = []
        self.asked: list[act.Action] = []
        self.manager = self.make_manager(None)
        self.start()

    def make_manager(self, snapshot: bytes | None) -> Core:
        policy = policy_named(self.policy, self.planner, self.contention, **self.settings)
        if policy.placement.index() is None:
            # Whoever places does not look at it; the core keeps it all the same.
            policy.placement.index = Harmony
        return Core(
            policy,
            state=None if snapshot is None else decode_state(snapshot),
            settings=CoreSettings(keep_ended=self.keep_ended),
            mode=self.mode,
        )

    def start(self) -> None:
        self.processes += 1
        self.modes.append(self.mode)
        nonce = f"n{self.processes}"
        self.tell(self.manager.started(nonce, "0", "test", self.able))

    def tell(self, *events: ev.Report | ev.ClientRequest) -> Step:
        for event in events:
            step = self.manager.handle(self.now, event)
            for logged in step.events:
                kind, payload = encode_event(logged)
                self.log.append((self.now, kind, payload))
            self.asked.extend(step.actions)
        return step

    def conclude(self, event: ev.Event) -> None:
        """An event of the core's own, as if a policy had concluded it."""
        self.manager._record(self.now, event)
        self.log.append((self.now, *encode_event(event)))

    def sync(self) -> Step:
        """The engine reports that it knows everything that it was asked to start."""
        return self.tell(ev.EngineSynced(self.started_keys(), tuple(self.manager.state.servers)))

    def started_keys(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(a.key for a in self.asked if isinstance(a, act.StartWorkload)))

    def replayed(self, from_entry: int = 0) -> Core:
        """A core made from a snapshot after ``from_entry`` entries and the rest of the log."""
        manager = self.make_manager(None)
        for entry in self.log[:from_entry]:
            manager.apply(entry[0], decode_event(*entry[1:]))
        manager = self.make_manager(encode_state(manager.state))
        for entry in self.log[from_entry:]:
            manager.apply(entry[0], decode_event(*entry[1:]))
        return manager

    def folded(self, manager: Core) -> Core:
        """A core of any policy and settings, once it has the whole log."""
        for time, kind, payload in self.log:
            manager.apply(time, decode_event(kind, payload))
        return manager

    def record(self, name: str) -> WorkloadRecord:
        return self.manager.find(name)

    def key(self, name: str) -> str:
        return self.manager.find(name).key

    def check_books(self) -> None:
        """What the columns say is what the records hold, server by server."""
        view = self.manager.view
        cpu, memory, residents, copies = (dict.fromkeys(view.names, 0) for _ in range(4))
        there: dict[str, list[WorkloadRecord]] = {name: [] for name in view.names}
        for record in self.manager.state.workloads.values():
            for placement in held(record) if record.on_server else ():
                there[placement.server].append(record)
            for placement in record.copied:
                copies[placement.server] += 1
            own = held(record) if record.on_server else ()
            for placement in (*own, *record.copied, *record.recommended, *record.reserved):
                cpu[placement.server] += placement.allocation.cpu_millicpus
                memory[placement.server] += placement.allocation.memory_bytes
                residents[placement.server] += 1
        for known in self.manager.state.servers.values():
            cpu[known.name] += known.others_cpu_millicpus
            memory[known.name] += known.others_memory_bytes
        assert list(cpu.values()) == view.cpu_allocated.tolist()
        assert list(memory.values()) == view.memory_allocated.tolist()
        assert list(residents.values()) == view.residents.tolist()
        assert list(copies.values()) == view.copies.tolist()
        unsettled = [
            any(r.tracking is not None and r.tracking.violating for r in records)
            for records in there.values()
        ]
        assert unsettled == view.unsettled.astype(bool).tolist()
        residency = self.manager._cluster.residency
        kept, fresh = (
            residency.ends,
            ExpectedEnds(self.manager.state.workloads, residency.residents, residency.copies),
        )
        for name in view.names:
            assert kept.freed_on(name, self.now) == fresh.freed_on(name, self.now)
        if self.contention is not None:
            self._check_contention(there)

    def _check_contention(self, there: dict[str, list[WorkloadRecord]]) -> None:
        """As a table made anew has it."""
        fresh = self.contention.table()
        for row, (name, records) in enumerate(there.items()):
            known = self.manager.state.servers.get(name)
            records.sort(key=lambda record: record.uid)
            seen = (resident(record, name) for record in records)
            residents = [r for r in seen if r is not None]
            fresh.put(row, known.platform.name if known else None, residents)
        view = replace(self.manager.view, contention=None)
        table = self.manager.view.contention
        assert answers(table, view, NEWCOMERS) == answers(fresh, view, NEWCOMERS)
        for server, records in there.items():
            for record in records:
                row = view.row(server)
                slowdown = fresh.slowdown_of(row, record.name)
                assert table.slowdown_of(row, record.name) == slowdown
        self._check_index()

    def _check_index(self) -> None:
        """The index of scores answers as one made anew."""
        view, fresh = self.manager.view, Harmony()
        if not isinstance(view.index, Harmony) or view.contention.score_columns(0) is None:
            return
        known, need = GentleScores(), Allocation(250, MIB)
        for z in (0.0, 0.8):
            kept, made = (
                index.best(view, known, need, z, keep=100) for index in (view.index, fresh)
            )
            assert (kept.rows, kept.norms) == (made.rows, made.norms)


@dataclass(frozen=True)
class GentleScores:
    """Of a newcomer that causes little and tolerates much."""

    tolerated: Array = field(default_factory=lambda: np.full(len(SharedResource), 90.0))
    tolerated_variance: Array = field(default_factory=lambda: np.full(len(SharedResource), 9.0))
    caused: Array = field(default_factory=lambda: np.full(len(SharedResource), 10.0))
    caused_variance: Array = field(default_factory=lambda: np.full(len(SharedResource), 4.0))


def running(cluster: Cluster, *names: str) -> None:
    """Take placed workloads to running."""
    for name in names:
        key = cluster.key(name)
        cluster.tell(ev.StartAccepted(key), ev.WorkloadStarted(key, "pid 1"))
