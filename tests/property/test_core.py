"""What holds of the core whatever happens, in whatever order, however often.

Hypothesis plays clients, engine, clock and crashes. After every step the books are
checked; at the end the log is replayed from a snapshot at any point.
"""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.cluster import MIB, server, workload
from tests.support.courses import curve
from tests.support.drawn import (
    ABLE,
    ADMITTING,
    ANY_NAMES,
    DEMANDING,
    LIMITS,
    POLICIES,
    SERVERS,
    SPREADING,
    TARGETS,
    USED_SERVERS,
    WORKLOADS,
    wanted_workload,
)
from tests.support.histories import (
    adjusted_calmly,
    columns,
    folds_alike_under_any_settings,
    placed_within_capacity,
    recommended_only,
)
from tests.support.spreading import policy_named
from tests.support.watched import WatchedCluster
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.codec import encode_state
from wharfinger.core.lifecycle import ON_SERVER, Phase
from wharfinger.core.pipeline import Mode
from wharfinger.core.state import WorkloadRecord
from wharfinger.errors import Conflict
from wharfinger.model.decisions import Decision, ReasonCode, Refuse, Stage
from wharfinger.model.interference import SharedResource
from wharfinger.model.pairs import PairProfile
from wharfinger.model.performance import STALE_SECONDS, Quantity, Reading, Sample
from wharfinger.model.platform import Server
from wharfinger.model.profile import Entry, Estimate, Measurements
from wharfinger.model.view import Capabilities, WorkloadLimits
from wharfinger.native import least_loaded
from wharfinger.policies.adaptation.slack import TargetSettings
from wharfinger.runtime.requests import RequestOutcome, application, submission

LONGEST_SUSPENSION = TargetSettings().max_suspension_seconds
SCORES = st.dictionaries(
    st.sampled_from([SharedResource.INTEGER, SharedResource.STORAGE_BANDWIDTH]),
    st.builds(Estimate, st.floats(0, 100), st.floats(0, 20)),
)
SHARES = st.tuples(st.floats(0, 2), st.floats(0, 2))
PAIRS = st.dictionaries(
    st.sampled_from(["", "test"]),
    st.builds(
        PairProfile, st.sampled_from(["one", "two"]), SHARES, SHARES, SHARES, st.just(()), SHARES
    ),
)
CLASSIFIED = st.builds(
    lambda rate, slope, std, tolerated, caused, pairs: curve(
        *((cpu, rate * (cpu / 1000) ** slope) for cpu in (250, 500, 2000, 4000)),
        std=std,
        tolerated=tolerated,
        caused=caused,
        total=1000.0,
        pairs=pairs,
    ),
    st.floats(1, 1000),
    st.floats(0, 1.2),
    st.sampled_from([0.0, 0.1, 0.5]),
    SCORES,
    SCORES,
    PAIRS,
)
MEASURED = st.builds(
    lambda entries: Measurements({Quantity.RATE: {c: Entry(r) for c, r in entries.items()}}),
    st.dictionaries(st.sampled_from([250, 500]), st.floats(1, 1000), max_size=2),
)


class AnyHistory(RuleBasedStateMachine):
    """Any interleaving of everything that can happen."""

    @initialize(
        policy=st.sampled_from([*POLICIES, *ADMITTING]),
        able=ABLE,
        amid=st.sampled_from([None, True, False]),
    )
    def begin(self, policy: str, able: Capabilities, amid: bool | None) -> None:
        self.cluster = WatchedCluster(policy, keep_ended=5, able=able)
        self.acknowledged: set[str] = set()
        self.deleted: set[str] = set()
        self.expiring: set[str] = set()
        if amid is not None:
            self._begin_amid_things(profiled=amid)
        self.running: set[str] = set()
        """Keys that the engine runs: started, and not yet ended."""

    def _begin_amid_things(self, *, profiled: bool) -> None:
        """One with a target and little, which may be restarted and spread, and two beside it."""
        self.cluster.tell(ev.ServerReported(server("a", 1)))
        self.cluster.sync()
        wanted = wanted_workload(
            TARGETS[1],
            restartable=True,
            servers=3,
            serves=self.cluster.policy in SPREADING,
            name="w0",
            millicpus=1000,
            memory_mib=64,
            profile=profiled,
        )
        fillers = (workload(name, 100, 64, best_effort=True) for name in ("w1", "w2"))
        for each in (wanted, *fillers):
            self.cluster.tell(ev.WorkloadSubmitted(each))
            self.acknowledged.add(each.name)
        self.all_goes_well()
        if profiled or self.cluster.policy in SPREADING:
            self.cluster.tell(ev.ServerReported(server("b", 4)))
            self.cluster.tell(ev.ServerReported(server("c", 2)))

    # --- the cluster ---

    @rule(name=SERVERS, cpus=st.integers(0, 4), accepting=st.booleans())
    def server_reported(self, name: str, cpus: int, accepting: bool) -> None:
        self.cluster.tell(ev.ServerReported(server(name, cpus, accepting=accepting)))

    @rule(servers=st.lists(USED_SERVERS, max_size=3))
    def servers_reported(self, servers: list[Server]) -> None:
        """Others take room and give it back, also what is ours, and labels change."""
        self.cluster.tell(ev.ServersReported(tuple(servers)))

    @rule(name=SERVERS)
    def server_left(self, name: str) -> None:
        self.cluster.tell(ev.ServerLeft(name, "gone"))

    @rule(
        mode=st.sampled_from(Mode),
        policy=st.sampled_from([None, None, *POLICIES, *ADMITTING, *SPREADING]),
    )
    def crash(self, mode: Mode, policy: str | None) -> None:
        """The manager dies and the next takes over from the log, perhaps by another policy."""
        self.cluster.mode = mode
        self.cluster.policy = policy or self.cluster.policy
        self.cluster.manager = self.cluster.replayed(len(self.cluster.log) // 2)
        self.cluster.start()
        self.cluster.sync()

    @rule(seconds=st.one_of(st.floats(-100, 100), st.just(1000.0)))
    def time_passes(self, seconds: float) -> None:
        self.cluster.now += seconds
        if self.cluster.manager.wake_at(self.cluster.now) is not None:
            self.cluster.tell(ev.TimePassed())

    # --- clients ---

    @rule(submitted=st.one_of(WORKLOADS, DEMANDING, DEMANDING))
    def submit(self, submitted) -> None:
        try:
            new = submission(self.cluster.manager, submitted).created
        except Conflict:
            return
        if new:
            self.tell_as_previewed(ev.WorkloadSubmitted(submitted))
            self.acknowledged.add(submitted.name)

    @rule(
        offered=WORKLOADS,
        handle=st.sampled_from(["job 1", "job 2"]),
        limits=st.one_of(st.none(), LIMITS),
        withdraws=st.booleans(),
    )
    def offer(self, offered, handle: str, limits: WorkloadLimits | None, withdraws: bool) -> None:
        """The engine holds it, perhaps under a name that another has, or holds it no more."""
        event: ev.Report = ev.WorkloadOffered(offered, handle, limits)
        record = self.cluster.manager.state.workloads.get(offered.name)
        is_mine = record is not None and record.offer == handle
        self.cluster.tell(ev.OfferWithdrawn(offered.name, "cancelled") if withdraws else event)
        if not withdraws and (record is None or record.ended or is_mine):
            self.acknowledged.add(offered.name)

    @rule(changed=st.one_of(WORKLOADS, DEMANDING))
    def update(self, changed) -> None:
        record = self.cluster.manager.state.workloads.get(changed.name)
        if record is None or record.ended or record.revoking:
            return
        if record.workload.type == changed.type and record.workload.array == changed.array:
            self.tell_as_previewed(ev.WorkloadUpdated(changed))

    @rule(applied=DEMANDING)
    def apply(self, applied) -> None:
        """Created, updated, replaced, run again, or left as it is."""
        acknowledged, requests = application(self.cluster.manager, applied)
        self.cluster.tell(*requests)
        record = self.cluster.manager.state.workloads[applied.name]
        if acknowledged.outcome is RequestOutcome.REPLACED and not record.ended:
            assert applied in (record.workload, record.resubmitted)
        self.acknowledged.add(applied.name)

    def tell_as_previewed(self, request: ev.WorkloadSubmitted | ev.WorkloadUpdated) -> None:
        """A preview changes nothing, and is of just what is decided then."""
        cluster, name = self.cluster, request.workload.name
        before = encode_state(cluster.manager.state)
        previewed = cluster.manager.preview(request.workload, cluster.now)
        assert encode_state(cluster.manager.state) == before
        decided = [
            event.decision
            for event in cluster.tell(request).events
            if getattr(event, "name", "") == name and getattr(event, "decision", None)
        ]
        assert list(map(_ranked_alike, previewed[: len(decided)])) == list(
            map(_ranked_alike, decided)
        )
        further = previewed[len(decided) :]
        waits = cluster.record(name).phase is Phase.QUEUED
        assert not further or (waits and all(d.stage is Stage.PLACEMENT for d in further))

    @rule(name=ANY_NAMES)
    def delete(self, name: str) -> None:
        record = self.cluster.manager.state.workloads.get(name)
        if record is None:
            return
        if record.ended:
            self.cluster.tell(ev.WorkloadForgotten(name))
            self.acknowledged.discard(name)
        elif not record.revoking:
            self.cluster.tell(ev.WorkloadRevoked(name))

    @rule(name=ANY_NAMES)
    def delete_at_once(self, name: str) -> None:
        """It is forgotten as soon as it has ended."""
        record = self.cluster.manager.state.workloads.get(name)
        if record is not None and not record.ended:
            self.deleted.add(name)
            self.cluster.tell(ev.WorkloadRevoked(name, forget=True))

    @rule(name=ANY_NAMES, kind=st.sampled_from(["restart", "suspend", "resume"]))
    def request(self, name: str, kind: str) -> None:
        record = self.cluster.manager.state.workloads.get(name)
        if record is None or record.ended or record.revoking:
            return
        if kind == "restart":
            self.cluster.tell(ev.RestartRequested(name))
        elif kind == "resume":
            self.cluster.tell(ev.ResumeRequested(name))
        elif self.cluster.able.suspend:
            self.cluster.tell(ev.SuspendRequested(name))

    @rule(name=SERVERS, drain=st.booleans(), ends=st.booleans())
    def cordon(self, name: str, drain: bool, ends: bool) -> None:
        state = self.cluster.manager.state
        if ends and name in state.cordoned:
            self.cluster.tell(ev.ServerUncordoned(name))
        elif name in state.servers:
            self.cluster.tell(ev.ServerCordoned(name, drain))
            assert not state.servers[name].accepting

    # --- the engine: any report about any key that was ever asked about, true or stale ---

    @precondition(lambda self: self.cluster.asked)
    @rule(
        data=st.data(),
        kind=st.integers(0, 16),
        code=st.sampled_from([0, 1, None]),
        measured=MEASURED,
        known=CLASSIFIED,
    )
    def report(self, data, kind: int, code: int | None, measured, known) -> None:
        action = data.draw(st.sampled_from(self.cluster.asked[-20:]))
        key = action.key
        planned = action.placements if isinstance(action, act.ResizeAllocation) else None
        given = getattr(action, "placements", ())
        event = [
            ev.StartAccepted(key),
            ev.WorkloadStarted(key, "pid 1"),
            ev.StartFailed(key, "busy", retryable=True),
            ev.StartFailed(key, "no such program", retryable=False),
            ev.WorkloadFinished(key, code, None if code is not None else 9, "exited"),
            ev.WorkloadVanished(key, "supervisor killed"),
            ev.AllocationResized(key, planned) if planned else ev.ResizeFailed(key, "no"),
            ev.ProfilingFinished(key, measured),
            ev.ProfilingFailed(key, "nothing"),
            ev.WorkloadClassified(key, known),
            ev.ClassificationFailed(key, "no estimator"),
            ev.ReadinessChanged(key, ready=True),
            ev.ReadinessChanged(key, ready=False, reason="no answer"),
            ev.WorkloadEvicted(key, "node-failure: it is down"),
            ev.WorkloadEvicted(key, "preempted"),
            ev.PlacementsLost(key, given[:1], "drained"),
            ev.PlacementsLost(key, given[1:], "node-failure"),
        ][kind]
        self.cluster.tell(event)

    @rule()
    def all_goes_well(self) -> None:
        """Everything that was asked is done, and what is asked then, too."""
        entries = {Quantity.RATE: {500: Entry(50.0), 1000: Entry(100.0)}}
        for action in self.cluster.asked:  # grows meanwhile
            key = action.key
            match action:
                case act.StartWorkload():
                    self.cluster.tell(ev.StartAccepted(key), ev.WorkloadStarted(key, "pid 1"))
                case act.ResizeAllocation(placements=placements):
                    self.cluster.tell(ev.AllocationResized(key, placements))
                case act.ProfileWorkload():
                    self.cluster.tell(ev.ProfilingFinished(key, Measurements(entries)))
                case act.ClassifyWorkload():
                    known = curve((500, 50.0), (1000, 110.0), (4000, 400.0))
                    self.cluster.tell(ev.WorkloadClassified(key, known))
                case act.StopWorkload():
                    self.cluster.tell(ev.WorkloadFinished(key, None, 15, "killed"))

    @rule(
        name=st.sampled_from(["a", "a", "b", "c"]),
        paces=st.lists(st.sampled_from([None, 0.0, 0.5, 0.9, 1.0, 1.5]), min_size=1, max_size=4),
        periods=st.sampled_from([1, 2, 4, 12]),
    )
    def measured(self, name: str, paces: list[float | None], periods: int) -> None:
        """Whoever runs there, at some pace, for some periods."""
        for _ in range(periods):
            self.cluster.now += 10.0
            there = [
                record
                for record in self.cluster.manager.state.workloads.values()
                if record.placements and record.placements[0].server == name
            ]
            samples = (
                _sample(record.key, paces[at % len(paces)]) for at, record in enumerate(there)
            )
            self.cluster.tell(ev.ServerMeasured(name, tuple(samples)))

    # --- what always holds ---

    @invariant()
    def books_are_right(self) -> None:
        self.cluster.check_books()

    @invariant()
    def what_is_derived_is_what_a_look_at_everything_finds(self) -> None:
        manager, now = self.cluster.manager, self.cluster.now
        residency, view = manager._cluster.residency, manager.view
        rows, loads, *_ = least_loaded(
            view.cpu_capacity,
            view.cpu_allocated,
            view.memory_capacity,
            view.memory_allocated,
            view.accepting,
            500,
            2**20,
            2,
        )
        assert view.loads.least_loaded(500, 2**20, 2) == (rows.tolist(), loads.tolist())
        unsettled = [name for name in view.names if view.unsettled[view.row(name)]]
        assert residency.columns.unsettled() == unsettled
        residents = (record for name in unsettled for record in residency.residents_of(name))
        off = [r for r in residents if r.tracking is not None and r.tracking.violating]
        stale = [r.performance.measured_at + STALE_SECONDS for r in off]
        assert residency.stale_at(now) == min(
            [*stale, now + STALE_SECONDS] if stale else [], default=None
        )

    @invariant()
    def no_acknowledged_workload_is_lost(self) -> None:
        workloads = self.cluster.manager.state.workloads
        kept = {name for name, record in workloads.items() if not record.forget}
        forgotten = self.acknowledged - set(workloads) - self.deleted - self.expiring
        ended = {r.name for r in self.cluster.manager.state.workloads.values() if r.ended}
        assert not forgotten or len(ended) == 5, "only the oldest ended ones may go"
        self.acknowledged = kept
        self.deleted &= set(workloads)
        self.expiring = {r.name for r in workloads.values() if _expires(r)}

    @invariant()
    def whoever_waits_is_in_one_queue(self) -> None:
        manager = self.cluster.manager
        among = [entry[3] for line in manager._cluster.queues._all.values() for entry in line]
        waiting = [r for r in manager.state.workloads.values() if r.phase is Phase.QUEUED]
        assert sorted(among) == sorted(record.name for record in waiting)
        assert {record.queue for record in waiting} <= set(manager.policy.admission.queues)
        assert sum(manager.queue_lengths().values()) == len(waiting)

    @invariant()
    def nobody_waits_in_a_class_beyond_its_slack(self) -> None:
        """When that is over the manager wants to be woken, and then it may take any server."""
        cluster = self.cluster
        manager, now = cluster.manager, cluster.now
        if not manager.state.synced:
            return
        for record in manager.state.workloads.values():
            if record.phase is Phase.QUEUED and record.queue.startswith("class-"):
                due = manager.wake_at(now)
                told = [d for d in record.decisions if "slack_seconds" in d.decision.numbers]
                over = told[-1].time + told[-1].decision.numbers["slack_seconds"]
                assert due is not None
                assert due <= max(now, over + 1e-6)

    @precondition(lambda self: self.cluster.manager.state.synced)
    @rule()
    def in_time_all_may_take_any_server(self) -> None:
        """Woken when it asks to be, a manager keeps no workload in a class without end."""
        cluster = self.cluster
        for _ in range(200):
            waiting = cluster.manager.state.workloads.values()
            classes = [r.name for r in waiting if r.phase is Phase.QUEUED and "class" in r.queue]
            due = cluster.manager.wake_at(cluster.now)
            if not classes:
                return
            assert due is not None
            cluster.now = max(cluster.now, due)
            cluster.tell(ev.TimePassed())
        raise AssertionError(f"{classes} wait without end")

    @invariant()
    def nobody_waits_for_servers_that_have_room(self) -> None:
        cluster = self.cluster
        view = cluster.manager.view
        for record in cluster.manager.state.workloads.values():
            if record.phase is Phase.QUEUED and record.deferral is ReasonCode.PROBES_BUSY:
                request = cluster.manager._residents.request(record, cluster.now)
                verdict = policy_named(cluster.policy).placement.place(request, view)
                assert isinstance(verdict, Refuse) or not cluster.manager.state.synced

    @invariant()
    def no_start_is_asked_for_under_two_keys_at_once(self) -> None:
        live = [
            r.key for r in self.cluster.manager.state.workloads.values() if r.phase in ON_SERVER
        ]
        assert len(live) == len(set(live))

    @invariant()
    def everything_asked_belongs_to_what_is_known(self) -> None:
        starts: dict[str, str] = {}
        for action in self.cluster.asked:
            if isinstance(action, act.StartWorkload):
                assert starts.setdefault(action.key, action.workload.name) == action.workload.name

    @invariant()
    def nobody_is_suspended_without_a_reason(self) -> None:
        """When its time has come and nobody beside it misses a target, it goes on."""
        cluster = self.cluster
        if not cluster.manager.state.synced or cluster.mode is not Mode.ACT:
            return
        due = cluster.manager.wake_at(cluster.now)
        for record in cluster.manager.state.workloads.values():
            if record.phase is Phase.SUSPENDED and not (record.revoking or record.paused):
                assert due is not None
                assert due <= max(cluster.now, record.phase_since + LONGEST_SUSPENSION)

    @precondition(lambda self: self.cluster.manager.state.synced)
    @rule()
    def in_the_end_all_that_is_suspended_goes_on(self) -> None:
        """Woken when it asks to be, a manager comes to rest with nobody suspended."""
        cluster = self.cluster
        if cluster.mode is not Mode.ACT:
            return
        for _ in range(100):
            due = cluster.manager.wake_at(cluster.now)
            if due is None:
                break
            cluster.now = max(cluster.now, due)
            cluster.tell(ev.TimePassed())
        else:
            raise AssertionError("it asks to be woken forever")
        left = cluster.manager.state.workloads.values()
        assert not [
            r.name
            for r in left
            if r.phase is Phase.SUSPENDED and not (r.revoking or r.paused or r.stop_reason)
        ]

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        log = self.cluster.log
        end = encode_state(self.cluster.manager.state)
        for point in {0, len(log) // 3, len(log) // 2, len(log) - 1}:
            replayed = self.cluster.replayed(point)
            assert encode_state(replayed.state) == end
            assert columns(replayed) == columns(self.cluster.manager)
        placed_within_capacity(self.cluster)
        adjusted_calmly(self.cluster)
        recommended_only(self.cluster)
        folds_alike_under_any_settings(self.cluster)


def _ranked_alike(decision: Decision) -> Decision:
    """Servers that have left, and hold something still, stand last after a snapshot."""
    candidates = sorted(decision.candidates, key=lambda candidate: candidate.server)
    return replace(decision, candidates=tuple(candidates))


def _expires(record: WorkloadRecord) -> bool:
    return any(
        each is not None and each.ttl_after_finished_seconds is not None
        for each in (record.workload, record.resubmitted)
    )


def _sample(key: str, pace: float | None) -> Sample:
    if pace is None:
        return Sample(key)
    readings = {
        Quantity.RATE: Reading(100.0 * pace, "progress lines"),
        Quantity.REMAINING: Reading(300.0 / max(pace, 0.01), "progress lines"),
        Quantity.CPU: Reading(pace, "CPU time", trusted=False),
        Quantity.MEMORY: Reading(400.0 * MIB * pace, "its control group", trusted=False),
    }
    return Sample(key, readings)


AnyHistory.TestCase.settings = settings(stateful_step_count=60)
test_any_history = AnyHistory.TestCase
