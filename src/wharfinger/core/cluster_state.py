"""The state that a snapshot keeps, and what is derived from it.

Derived are the rows of servers and their residents (``Residency``), the queues and the index of
keys. The fold changes it, event by event, with the methods here.
"""

from dataclasses import replace

from wharfinger.core import events as ev
from wharfinger.core.deadlines import Deadlines
from wharfinger.core.followups import FollowUps
from wharfinger.core.lifecycle import ENDED, NEXT, ON_SERVER, Phase, Trigger
from wharfinger.core.ordered import Ordered
from wharfinger.core.queues import QueueEntry, WaitingQueues, entry_of
from wharfinger.core.residency import Residency
from wharfinger.core.seams.contention import ContentionModel
from wharfinger.core.seams.placement import ServerIndex
from wharfinger.core.state import ManagerState, WorkloadRecord, held
from wharfinger.core.tracking import CopiesState, ProbeState
from wharfinger.core.triggers import trigger_in
from wharfinger.model.allocation import Placement, ceiling_of
from wharfinger.model.decisions import Decision, ReasonCode
from wharfinger.model.profile import ProfilingPlan

UNDECIDED = frozenset({Phase.SUBMITTED, Phase.ADMITTED, Phase.CLASSIFIED})
"""Phases that a workload leaves within the handling of one event."""


class ClusterState:
    """The state that a snapshot keeps, and everything derived from it.

    Attributes:
        by_key: Name of the workload whose current key this is, or that of its copies beside it.
        undecided: Workloads for which the pipeline has a next step now.
        unprofiled: Admitted, and waiting for room for their profiling runs; in order.
        ended: (order, uid, name) of ended workloads, oldest first.
        arriving: Stopped to be migrated, and now to be started where room is held for them.
        resize_wanted: On servers, with an allocation that differs from their reservation.
        recommended: They wait, and hold room where they would be placed.
        reserved: They wait, and hold room that others have left, or are to leave, for them.
        touched: Changed since the pending actions were derived last; names, in order.
        dropped_keys: Keys that no record has any more; the engine may forget them.
        questions: By the question's key, names of the workloads that deciders are asked about.
        reviews: When the admission reviews each workload that waits for that.
        retries: When each replacement of a lost part that failed is asked for again.
        followups: What follows from ends and times.
        kept_keys: Of earlier starts, whose output is kept, too.
        probing: Beside which sources of interference rise now.
    """

    def __init__(
        self,
        state: ManagerState,
        contention: ContentionModel | None = None,
        index: ServerIndex | None = None,
    ) -> None:
        self.state = state
        self.queues = WaitingQueues()
        self.residency = Residency(state, self.queues, contention, index)
        self.by_key: dict[str, str] = {}
        self.undecided: dict[str, None] = {}
        self.unprofiled: Ordered[QueueEntry] = Ordered()
        self.resize_wanted: dict[str, None] = {}
        self.suspended: dict[str, None] = {}
        self.throttled: dict[str, None] = {}
        self.arriving: dict[str, None] = {}
        self.questions: dict[str, str] = {}
        self.recommended: dict[str, None] = {}
        self.reserved: dict[str, None] = {}
        self.touched: dict[str, None] = {}
        self.dropped_keys: list[str] = []
        self.reviews = Deadlines()
        self.retries = Deadlines()
        self.followups = FollowUps(state)
        self.kept_keys: set[str] = set()
        self.probing: dict[str, None] = {}
        records = state.workloads.values()
        for record in records:
            self.index(record)
        self.ended = Ordered(_end_of(record) for record in records if record.ended)

    def record_of(self, key: str) -> WorkloadRecord | None:
        """The workload whose current key this is, or that of its copies beside it."""
        name = self.by_key.get(key)
        return None if name is None else self.state.workloads[name]

    def running(self, key: str) -> WorkloadRecord | None:
        """The workload that runs under this key; ``None`` = there is none."""
        record = self.record_of(key)
        return record if record and record.phase in (Phase.RUNNING, Phase.ADJUSTING) else None

    def await_profiling(self, record: WorkloadRecord) -> None:
        """It waits for room for its profiling runs."""
        self.undecided.pop(record.name, None)
        if (entry := entry_of(record)) not in self.unprofiled:
            self.unprofiled.add(entry)

    def decided(
        self, time: float, name: str, decision: Decision | None, trigger: Trigger | None = None
    ) -> WorkloadRecord:
        """Record a decision about a workload, if there was one, and where it moves it."""
        record = self.state.workloads[name]
        if decision is not None:
            record.remember(time, decision)
        if trigger is not None:
            self.move(time, record, trigger)
        return record

    def give_key(self, record: WorkloadRecord, key: str) -> None:
        """Give it the key of a new start or profiling."""
        if self.by_key.pop(record.key, None) is not None:
            # The output of the start before is kept, profiling has none.
            if record.handle:
                self._keep_key(record, record.key)
            else:
                self.dropped_keys.append(record.key)
        record.key, record.handle = key, ""
        record.attempts += 1
        self.by_key[key] = record.name

    def _keep_key(self, record: WorkloadRecord, key: str) -> None:
        """Keep the output of this start, in place of the one that was kept; empty = of none."""
        if record.previous_key and record.previous_key != key:
            self.kept_keys.discard(record.previous_key)
            self.dropped_keys.append(record.previous_key)
        record.previous_key = key
        if key:
            self.kept_keys.add(key)

    def drop(self, record: WorkloadRecord) -> None:
        """Remove an ended record; ``ForgetWorkload`` follows for its keys."""
        del self.state.workloads[record.name]
        self.by_key.pop(record.key, None)
        if record.key:
            self.dropped_keys.append(record.key)
        self._keep_key(record, "")
        self.ended.remove(_end_of(record))
        self.followups.leave(record)

    def reported(self, time: float, event: ev.Event) -> WorkloadRecord | None:
        """Move the workload that a report is about; ``None`` = the report is stale."""
        record = self.record_of(getattr(event, "key", ""))
        if record is None:
            return None
        trigger = trigger_in(self.state, event, record)
        if (record.phase, trigger) not in NEXT:
            return None
        self.move(time, record, trigger)
        return record

    # --- moving -----------------------------------------------------------------------------

    def move(self, time: float, record: WorkloadRecord, trigger: Trigger) -> None:
        """Move a workload along an edge of the lifecycle, with all that its phase implies."""
        source, target = record.phase, NEXT[record.phase, trigger]
        destination = record.planned if source is Phase.MIGRATING else ()
        self._leave_phase(time, record, target)
        record.phase, record.phase_since = target, time
        if target is Phase.SUSPENDED:
            self.suspended[record.name] = None
        if (target is Phase.SUSPENDED or source is Phase.SUSPENDED) and target in ON_SERVER:
            self.residency.neighbors_change(record, time)
            for placement in record.placements:
                self.residency.review(placement.server)
        if target is Phase.QUEUED:
            record.placements, record.planned = (), destination
            if destination:
                self.arriving[record.name] = None
            self.enqueue(record)
        elif target in ENDED:
            record.ended_at = time
            # After a clock was set back, the time alone would make the newest the oldest.
            record.ended_order = max(time, self.ended[-1][0]) if self.ended else time
            self.ended.add(_end_of(record))
        if target in UNDECIDED:
            self.undecided[record.name] = None
        else:
            self.undecided.pop(record.name, None)
        self.touched[record.name] = None
        self.residency.ends.forget(held(record))
        self.followups.changed(record)
        if target in ENDED or source is Phase.PROFILING:
            wake_waiting(self, record)

    def _leave_phase(self, time: float, record: WorkloadRecord, target: Phase) -> None:
        source = record.phase
        if source is Phase.QUEUED:
            self.dequeue(record)
            # Also when a log is replayed: nobody else takes it from there.
            self.arriving.pop(record.name, None)
        elif source is Phase.ADMITTED:
            self.leave_unprofiled(record)
        elif source is Phase.PROFILING:
            end_copies(self, record, time)
        elif source is Phase.SUSPENDED:
            self.suspended.pop(record.name)
        elif source is Phase.RUNNING and record.probe is not None:
            end_probe(self, record, time)
        if source in ON_SERVER and target not in ON_SERVER:
            self.residency.neighbors_change(record, time)
            freed = held(record) if record.preempted_for else ()
            self.throttled.pop(record.name, None)
            self.residency.release(record)
            if record.preempted_for:
                self._make_over(record, freed)
            has_run = source is not Phase.PLACED and source is not Phase.STARTING
            self.state.account(record.queue).end(record.name, time, has_run=has_run)
            record.reclassifying, record.ready_at = False, None
            if record.copies is not None:
                end_copies(self, record, time)
                record.copies = None
            self.want_resize(record, wanted=False)
        if record.review_at is not None:
            self.review_at(record, None)
        if record.question:
            self.drop_question(record)

    def _make_over(self, record: WorkloadRecord, freed: tuple[Placement, ...]) -> None:
        """It has left for another's sake, which gets the room before all others."""
        waiting = self.state.workloads.get(record.preempted_for)
        self.residency.has_left(record)
        if waiting is not None and waiting.phase is Phase.QUEUED and not waiting.paused:
            there = tuple(p for p in freed if p.server in self.state.servers)
            reserve(self, waiting, (*waiting.reserved, *there))

    # --- reviews, deciders, queues -----------------------------------------------------------

    def review_at(self, record: WorkloadRecord, time: float | None) -> None:
        """The admission reviews it then, if it still waits; ``None`` = never."""
        record.review_at = time
        if time is None:
            self.reviews.drop(record.name)
        else:
            self.reviews.put(record.name, time)

    def wait_until(self, record: WorkloadRecord, time: float) -> None:
        """It is not tried before this time, or before there may be more room."""
        self.undecided.pop(record.name, None)
        if record.phase is Phase.QUEUED:
            record.retry_at = time
            self.queues.defer(record, time)
        else:
            self.review_at(record, time)

    def unpark(self, record: WorkloadRecord) -> None:
        """Try it again."""
        if record.phase is Phase.QUEUED and not record.question:
            self.queues.leave(record)
            self.enqueue(record)

    def asked_by(self, key: str) -> WorkloadRecord | None:
        """The workload about which a decider was asked under this key, and has not answered."""
        name = self.questions.get(key)
        return None if name is None else self.state.workloads.get(name)

    def delegate(self, record: WorkloadRecord) -> None:
        """It is not tried here until the decider has answered."""
        self.questions[record.question] = record.name
        self.queues.park(record)
        self.touched[record.name] = None

    def drop_question(self, record: WorkloadRecord) -> None:
        """An answer is no longer expected."""
        self.questions.pop(record.question, None)
        record.question = ""

    def undelegate(self, record: WorkloadRecord) -> None:
        """The decider has answered: it waits again, but is not asked about before a change."""
        self.drop_question(record)
        if record.phase is Phase.QUEUED:
            self.queues.leave(record)
            self.queues.join(record)
        self.touched[record.name] = None

    def enqueue(self, record: WorkloadRecord) -> None:
        """Enter its queue."""
        if self.queues.join(record):
            self.queues.room_changed = True
        else:
            self.queues.arrive(record)

    def leave_unprofiled(self, record: WorkloadRecord) -> None:
        """It no longer waits for profiling."""
        if self.unprofiled.remove(entry_of(record)):
            self.queues.room_changed = True

    def dequeue(self, record: WorkloadRecord) -> None:
        """Leave its queue, if it waits in one."""
        record.retry_at = None
        if record.phase is Phase.QUEUED:
            recommend(self, record, ())
            reserve(self, record, ())
            self.queues.leave(record)
            self.queues.room_changed = True  # the next one may be first now

    def want_resize(self, record: WorkloadRecord, *, wanted: bool) -> None:
        """Set whether its allocation should follow its reservation, or replace what it has lost."""
        record.resize_wanted, record.resize_at = wanted, None
        self.retries.drop(record.name)
        if not wanted:
            record.lost, record.replacing = (), 0
        if wanted:
            self.resize_wanted[record.name] = None
        else:
            self.resize_wanted.pop(record.name, None)

    def index(self, record: WorkloadRecord) -> None:
        """Enter a record into everything that is derived."""
        if record.key:
            self.by_key[record.key] = record.name
        if record.previous_key:
            self.kept_keys.add(record.previous_key)
        if record.copies is not None and record.copies.under_way:
            self.by_key[record.copies.key] = record.name
        self.followups.enter(record)
        self.residency.index(record)
        if record.resize_at is not None:
            self.retries.put(record.name, record.resize_at)
        elif record.resize_wanted:
            self.resize_wanted[record.name] = None
        if record.review_at is not None:
            self.reviews.put(record.name, record.review_at)
        if record.preempted_for:
            self.residency.leave_for(record, record.preempted_for)
        if record.probe is not None and record.probe.under_way:
            self.probing[record.name] = None
            hold_probe(self, record.probe)
        self._index_phase(record)

    def _index_phase(self, record: WorkloadRecord) -> None:
        index_ceiling(self, record)
        if record.phase is Phase.SUSPENDED:
            self.suspended[record.name] = None
        elif record.phase is Phase.QUEUED:
            self.enqueue(record)
            held, record.recommended = record.recommended, ()
            recommend(self, record, held)
            held, record.reserved = record.reserved, ()
            reserve(self, record, held)
            if record.planned:
                self.arriving[record.name] = None
            if record.question:
                self.delegate(record)
        elif record.phase is Phase.ADMITTED and record.deferral not in (
            None,
            ReasonCode.DEPENDENCY,
        ):
            if record.review_at is None:
                self.await_profiling(record)
        elif record.phase in UNDECIDED and record.review_at is None:
            self.undecided[record.name] = None


def wake_waiting(cluster: ClusterState, record: WorkloadRecord) -> None:
    """Something about it has changed: those that wait for that are looked at again."""
    if cluster.followups.waiting:
        for name in cluster.followups.woken(record):
            waiting = cluster.state.workloads.get(name)
            if waiting is not None and waiting.phase in UNDECIDED and waiting.review_at is None:
                cluster.undecided[name] = None


def _end_of(record: WorkloadRecord) -> tuple[float, int, str]:
    return record.ended_order, record.uid, record.name


def recommend(
    cluster: ClusterState, record: WorkloadRecord, placements: tuple[Placement, ...]
) -> None:
    """Hold room where a waiting workload would be placed; nowhere = no longer."""
    former, record.recommended = record.recommended, placements
    _hold_instead(cluster, record, cluster.recommended, former, placements)


def index_ceiling(cluster: ClusterState, record: WorkloadRecord) -> None:
    """It may run under another ceiling than before, or under none."""
    if record.on_server and ceiling_of(record.placements) is not None:
        cluster.throttled[record.name] = None
    else:
        cluster.throttled.pop(record.name, None)


def reserve(
    cluster: ClusterState, record: WorkloadRecord, placements: tuple[Placement, ...]
) -> None:
    """Hold room that others leave for it; none = no longer."""
    former, record.reserved = record.reserved, placements
    _hold_instead(cluster, record, cluster.reserved, former, placements)


def _hold_instead(
    cluster: ClusterState,
    record: WorkloadRecord,
    holders: dict[str, None],
    former: tuple[Placement, ...],
    placements: tuple[Placement, ...],
) -> None:
    """Hold room in place of former room; ``holders`` are those that hold any."""
    if former:
        cluster.residency.columns.hold(former, sign=-1)
        cluster.queues.free(former)
    holders.pop(record.name, None)
    if placements:
        holders[record.name] = None
        cluster.residency.columns.hold(placements)


def end_probe(cluster: ClusterState, record: WorkloadRecord, time: float) -> None:
    """The answer to its probe is here, or is not awaited any more."""
    probe = record.probe
    if probe is None or not probe.under_way:
        return
    hold_probe(cluster, probe, sign=-1)
    cluster.queues.free(probe.placements)
    record.probe = replace(probe, answered_at=time)
    cluster.probing.pop(record.name, None)
    cluster.touched[record.name] = None


def hold_probe(cluster: ClusterState, probe: ProbeState, *, sign: int = 1) -> None:
    """Count what it holds, and that no other plan is carried out there (with -1: no longer)."""
    columns = cluster.residency.columns
    columns.hold(probe.placements, sign=sign)
    for server in probe.servers:
        columns.count_copy(server, sign)


def begin_copies(
    cluster: ClusterState, record: WorkloadRecord, key: str, plan: ProfilingPlan, time: float
) -> None:
    """Copies of what has been placed are profiled beside it."""
    record.copies = CopiesState(key, plan, time)
    cluster.by_key[key] = record.name
    cluster.residency.count_copies(record, 1)
    cluster.touched[record.name] = None


def end_copies(cluster: ClusterState, record: WorkloadRecord, time: float) -> None:
    """The answer to its profiling runs is here, or is not awaited any more."""
    beside = record.copies
    cluster.residency.end_copies(record, time)
    if beside is not None and beside.under_way:
        cluster.by_key.pop(beside.key, None)
        cluster.dropped_keys.append(beside.key)
        cluster.touched[record.name] = None
