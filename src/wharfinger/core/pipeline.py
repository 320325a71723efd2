"""The decision core: one event in, what to log and what to do out.

The pipeline of a workload, in the order in which ``Manager._decide`` runs it:

    reconcile   what the engine lost sight of is vanished, before anything else is decided
    admission   what may come in, before anything is spent on it
    profiling   measure and classify, where a planner wants it
    queueing    by what is known now
    adaptation  what runs comes before what waits, for the same room
    placement   of what waits, in the admission's order
    retention   the oldest ended records go

The runtime calls ``handle`` with each report and request, appends ``Step.events`` to the
log, and only then carries out ``Step.actions``. A replay calls ``apply`` with each logged
event: what was decided is in the log and is not decided again.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.cluster_state import ClusterState
from wharfinger.core.codec import decode_state, encode_state
from wharfinger.core.fold import apply
from wharfinger.core.lifecycle import Phase
from wharfinger.core.ordered import Ordered
from wharfinger.core.own_decisions import behind_others, conflict, not_preempted
from wharfinger.core.pending import PendingActions
from wharfinger.core.queues import QueueEntry, entry_of
from wharfinger.core.residency import is_stoppable
from wharfinger.core.residents import ClusterResidents
from wharfinger.core.seams.adaptation import (
    Migrate,
    Reclassify,
    Remedy,
    Resize,
    Resume,
    Suspend,
    Unchanged,
)
from wharfinger.core.seams.admission import AdmissionView
from wharfinger.core.seams.policy import Policy
from wharfinger.core.seams.provisioning import Order, ProvisioningPolicy, ProvisioningView, Release
from wharfinger.core.seams.verdicts import (
    Acquire,
    Admit,
    Delegate,
    Divert,
    PlacementVerdict,
    Preempt,
    WaitUntil,
)
from wharfinger.core.settings import CORE, CoreSettings
from wharfinger.core.state import ManagerState, WorkloadRecord
from wharfinger.core.triggers import is_news
from wharfinger.errors import Conflict, NotFound
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision, Plan, ReasonCode, Refusal, Stage, recommended
from wharfinger.model.profile import Measurements
from wharfinger.model.view import Capabilities, ClusterView, PlacementRequest
from wharfinger.model.workload import Workload

UNTIL_SERVERS_CHANGE = frozenset({ReasonCode.TOO_LARGE, ReasonCode.TARGET_TOO_HIGH})
"""Refusals that no room, only another server can change: not tried again before."""
_BEGINNINGS = frozenset({ev.ManagerStarted, ev.EngineSynced})


@dataclass(frozen=True, slots=True)
class Step:
    """What came of one event.

    Attributes:
        events: To be logged together, the cause first; empty when it was no news.
        actions: To be carried out once the events are on disk.
    """

    events: tuple[ev.Event, ...]
    actions: tuple[act.Action, ...]


class Mode(StrEnum):
    """What a manager does with what it decides."""

    ACT = "act"
    """It does it."""
    RECOMMEND = "recommend"
    """It says so, and does nothing: starts, profiles, resizes and moves nothing."""


class Manager:
    """The core. Deterministic: the same state and events give the same steps.

    Args:
        policy: Its parts decide.
        state: What a snapshot held; ``None`` = a new cluster.
        settings: The core's own.
        mode: Whether it acts, or only says what it would do.

    Attributes:
        policy: What decides.
        mode: As given.
        state: What is known; to be read only.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        state: ManagerState | None = None,
        settings: CoreSettings | None = None,
        mode: Mode = Mode.ACT,
    ) -> None:
        self.policy = policy
        self.mode = mode
        self.state = ManagerState() if state is None else state
        self._settings = settings or CoreSettings()
        self._cluster = ClusterState(self.state, policy.contention, policy.placement.index())
        self._residents = ClusterResidents(self._cluster, policy, recommends=self.recommends)
        self._pending = PendingActions(self._cluster, self._residents)
        self._note_key = f"placement:{policy.placement.name}"
        self._admission_key = f"admission:{policy.admission.name}"
        self._events: list[ev.Event] = []

    @property
    def recommends(self) -> bool:
        """Whether it only says what it would do."""
        return self.mode is Mode.RECOMMEND

    # --- in and out ----------------------------------------------------------------------

    @property
    def view(self) -> ClusterView:
        """The cluster as policies see it now."""
        return self._residents.view()

    def handle(self, now: float, event: ev.Report | ev.Request) -> Step:
        """Take in one report or request and decide what follows from it.

        Args:
            now: Seconds since the epoch, by the runtime's clock.
            event: What the engine, a client or the clock says.
        """
        if not is_news(self._cluster, event):
            return Step((), ())
        self._events = []
        if isinstance(event, ev.PlacementProposed):
            asked_for = self._cluster.asked_by(event.key)
            self._record(now, event)
            if asked_for is not None:
                self._commit(now, asked_for, event)
        else:
            self._record(now, event)
        if type(event) in _BEGINNINGS:
            self._pending.ask_again()
        self._decide(now, event)
        return Step(tuple(self._events), tuple(self._pending.due()))

    def started(
        self, nonce: str, version: str, engine: str, able: Capabilities
    ) -> ev.ManagerStarted:
        """The event with which this core takes a log over."""
        return ev.ManagerStarted(
            nonce=nonce,
            version=version,
            policy=self.policy.name,
            admission=self.policy.admission.name,
            engine=engine,
            capabilities=able,
            settings={**self.policy.settings(), CORE: asdict(self._settings)},
        )

    def apply(self, time: float, event: ev.Event) -> None:
        """Fold one event of the log into the state, deciding nothing."""
        apply(self._cluster, time, event)

    def wake_at(self, now: float) -> float | None:
        """When ``TimePassed`` is due, in seconds since the epoch; ``None`` = not at all."""
        if not self.state.synced:
            return None
        cluster, adaptation = self._cluster, self.policy.adaptation
        review = cluster.reviews.first()
        due = [
            cluster.queues.wake_at(now, self._settings.max_backoff_seconds),
            cluster.residency.stale_at(now),
            adaptation.wake_at(now, self._residents),
            None if review is None else review[0],
        ]
        if self.state.not_acquired:
            due.extend(self._not_acquired(now).values())
        if self.policy.provisioning is not None:
            due.append(self.policy.provisioning.wake_at(self._provisioning_view(now)))
        return min([time for time in due if time is not None], default=None)

    # --- questions, asked before a request is made an event ------------------------------------

    def check_submission(self, workload: Workload) -> bool:
        """Whether the workload is new; ``False`` = the same was handed in before.

        Raises:
            Conflict: Another workload has its name.
        """
        record = self.state.workloads.get(workload.name)
        if record is None:
            return True
        if record.workload == workload:
            return False
        mend = (
            "delete it first, or choose another name"
            if record.ended
            else "use update, or choose another name"
        )
        raise Conflict(f"workload {workload.name!r} exists ({record.phase}): {mend}")

    def check_update(self, workload: Workload) -> None:
        """Whether a live workload may be changed to this.

        Raises:
            NotFound: There is no such workload.
            Conflict: It has ended, or the change needs another program.
        """
        record = self.find(workload.name)
        if record.ended:
            raise Conflict(f"workload {workload.name!r} has ended ({record.phase})")
        if record.revoking:
            raise Conflict(f"workload {workload.name!r} is being stopped")
        if record.workload.run != workload.run or record.workload.type != workload.type:
            raise Conflict(
                f"workload {workload.name!r}: its type and program can't be changed; "
                "delete it and hand it in again"
            )

    def find(self, name: str) -> WorkloadRecord:
        """One workload's state; to be read only.

        Raises:
            NotFound: There is no such workload.
        """
        record = self.state.workloads.get(name)
        if record is None:
            raise NotFound(f"no workload {name!r}")
        return record

    def record_of(self, key: str) -> WorkloadRecord | None:
        """The workload whose newest start has this key; to be read only."""
        return self._cluster.record_of(key)

    def residents_of(self, server: str) -> list[WorkloadRecord]:
        """What holds resources there, from being placed to being gone; to be read only."""
        return self._cluster.residency.residents_of(server)

    def measured(self, record: WorkloadRecord) -> Measurements | None:
        """All that was measured of a workload, before it ran and since."""
        return self.policy.adaptation.measured(record)

    def preview(self, workload: Workload, now: float) -> list[Decision]:
        """What would be decided if the workload were submitted, or tried, now.

        A copy of the state handles that, so it is what ``handle`` would do.
        """
        known = self.state.workloads.get(workload.name)
        fork = Manager(
            self.policy,
            state=decode_state(encode_state(self.state)),
            settings=self._settings,
            mode=self.mode,
        )
        request = ev.WorkloadSubmitted(workload) if known is None else ev.WorkloadUpdated(workload)
        if self.state.synced:
            # Who waits for room, and keeps others waiting, is derived by trying.
            fork._place_waiting(now)
        step = fork.handle(now, request)
        made: list[Decision] = []
        for event in step.events:
            decision = getattr(event, "decision", None)
            if getattr(event, "name", "") == workload.name and isinstance(decision, Decision):
                made.append(decision)
        record = fork.state.workloads[workload.name]
        if record.phase is Phase.QUEUED and not any(m.stage is Stage.PLACEMENT for m in made):
            # Others are served first; what would be decided for it without them.
            made.append(fork.try_placing(now, record))
        return [*made, *fork.behind(record)]

    def try_placing(self, now: float, record: WorkloadRecord) -> Decision:
        """What is decided for a waiting workload, were it served now; nothing is logged."""
        return self._place(now, record).decision

    def behind(self, record: WorkloadRecord) -> list[Decision]:
        """What is served first, where that keeps a workload waiting."""
        if record.phase is not Phase.QUEUED:
            return []
        ahead = self._cluster.queues.before(record.queue, entry_of(record))
        if not ahead or not self.policy.admission.blocks(ReasonCode.NO_ROOM):
            return []
        return [
            Decision(
                Stage.PLACEMENT,
                self.policy.admission.name,
                accepted=False,
                reason=ReasonCode.BEHIND_OTHERS,
                message=f"{ahead} wait before it in queue {record.queue}",
                would_change="room for those, or a higher priority",
                numbers={"waiting_before": float(ahead)},
            )
        ]

    def neighbours(self, record: WorkloadRecord) -> list[str]:
        """What else holds resources where a workload is; names, in the order of arrival."""
        return [other.name for other in self._residents.neighbors(record)]

    def queue_lengths(self) -> dict[str, int]:
        """How many wait, by queue."""
        return {name: self._cluster.queues.length(name) for name in self.policy.admission.queues}

    # --- the pipeline ----------------------------------------------------------------------

    def _decide(self, now: float, event: ev.Event) -> None:
        cluster, state = self._cluster, self.state
        match event:
            case ev.ServerMeasured():
                self._track(now, event)
            case ev.EngineSynced():
                self._reconcile(now, event)
            case ev.TimePassed() if lost := cluster.residency.lost(now):
                self._record(now, ev.TrackingLost(lost))
        self._review(now)
        if cluster.undecided:
            for name in list(cluster.undecided):
                self._advance(now, state.workloads[name])
        if state.synced:
            if cluster.arriving:
                self._arrive(now)
            for remedy in self.policy.adaptation.remedies(now, event, self._residents):
                self._carry_out(now, remedy)
            self._place_waiting(now)
            if self.policy.provisioning is not None and not self.recommends:
                self._provision(now, self.policy.provisioning)
        while len(cluster.ended) > self._settings.keep_ended:
            self._record(now, ev.WorkloadForgotten(cluster.ended[0][2]))
        # What the admission remembers of this step.
        note = state.notes.get(self._admission_key, "")
        remembered = self.policy.admission.observe(now, self._events, note)
        self._note(now, self._admission_key, remembered)

    def _track(self, now: float, event: ev.ServerMeasured) -> None:
        """What the adaptation makes of the measurements; it is logged, and the fold assigns it."""
        adaptation, samples = self.policy.adaptation, []
        for sample in event.samples:
            record = self._cluster.running(sample.key)
            if record is None:
                continue
            tracked = adaptation.track(record, now, self._cluster.residency.slowdown_of(record))
            if tracked.tracking or record.tracking or tracked.observations:
                samples.append(tracked)
        if samples:
            self._record(now, ev.TargetsTracked(tuple(samples)))

    def _arrive(self, now: float) -> None:
        """One that was stopped to be migrated is started where room is held for it."""
        for name in list(self._cluster.arriving):
            del self._cluster.arriving[name]
            record = self.state.workloads[name]
            placements = record.planned
            if record.phase is not Phase.QUEUED or not self._fits(placements):
                continue
            servers = " and ".join(placement.server for placement in placements)
            # The decision to migrate says why there; other decisions may have come since.
            decided = (timed.decision for timed in reversed(record.decisions))
            chosen = next(d for d in decided if d.stage is Stage.ADAPTATION and d.accepted)
            decision = replace(
                chosen,
                stage=Stage.PLACEMENT,
                reason=ReasonCode.OK,
                message=f"migrated: {servers} held room for it",
                predicted=record.predicted,
            )
            key = self._new_key(record)
            self._record(now, ev.WorkloadPlaced(name, key, placements, decision))

    def _fits(self, placements: Sequence[Placement]) -> bool:
        """Whether all of it can be had now, on servers that are named once."""
        view, servers = self.view, self.state.servers
        if len({placement.server for placement in placements}) < len(placements):
            return False
        for placement in placements:
            server, need = servers.get(placement.server), placement.allocation
            if server is None or not server.accepting:
                return False
            row = view.row(placement.server)
            if (
                view.cpu_allocated[row] + need.cpu_millicpus > view.cpu_capacity[row]
                or view.memory_allocated[row] + need.memory_bytes > view.memory_capacity[row]
            ):
                return False
        return bool(placements)

    def _commit(self, now: float, record: WorkloadRecord, event: ev.PlacementProposed) -> None:
        """Check what a decider proposes on its snapshot against the cluster as it is now.

        Where its servers have changed since, it has lost a conflict and is asked again. Where they
        have not, the proposal was wrong: asking again before something changes would not help.
        """
        if record.phase is not Phase.QUEUED:
            return
        if not event.placements:
            self._hold(now, record, event.decision)
        elif self._fits(event.placements):
            if self.recommends:
                self._hold(now, record, recommended(event.decision))
                return
            key = self._new_key(record)
            placed = ev.WorkloadPlaced(record.name, key, event.placements, event.decision)
            self._record(now, placed)
        else:
            changed = self._changed_since(event)
            decision = conflict(event.decision, changed)
            if changed:
                self._record(now, ev.PlacementConflicted(record.name, decision))
            else:
                self._hold(now, record, decision)

    def _changed_since(self, event: ev.PlacementProposed) -> int:
        """How many of the servers of a proposal are not what they were on its snapshot."""
        view = self.view
        assert view.versions is not None
        now = dict(zip(view.names, view.versions.tolist(), strict=True))
        proposed = [placement.server for placement in event.placements]
        return sum(
            now.get(server) != version
            for server, version in zip(proposed, event.versions, strict=False)
        )

    def _reconcile(self, now: float, event: ev.EngineSynced) -> None:
        """A start that the engine had taken and knows no more has vanished.

        One that it had not taken is simply asked for again.
        """
        known = set(event.known_keys)
        for record in list(self.state.workloads.values()):
            taken = record.on_server and record.phase is not Phase.PLACED
            if taken and record.key not in known:
                reason = "the engine knows nothing of it any more"
                self._record(now, ev.WorkloadVanished(record.key, reason))

    def _advance(self, now: float, record: WorkloadRecord) -> None:
        """Admission, profiling and queueing, as far as a workload gets without waiting."""
        if record.phase is Phase.SUBMITTED:
            self._admit(now, record)
        if record.phase is Phase.ADMITTED and self._profile(now, record):
            return
        if record.phase in (Phase.ADMITTED, Phase.CLASSIFIED):
            self._enqueue(now, record)

    def _admit(self, now: float, record: WorkloadRecord) -> None:
        view = self._admission_view(now)
        match self.policy.admission.admit(self._request(record, now), view):
            case Admit(decision=decision):
                assert decision is not None, f"{self.policy.admission.name} tells nothing"
                self._record(now, ev.WorkloadAdmitted(record.name, decision))
            case WaitUntil(time, decision):
                self._record(now, ev.WorkloadDeferred(record.name, decision, time))
            case Refusal(decision=decision):
                self._record(now, ev.WorkloadRejected(record.name, decision))

    def _enqueue(self, now: float, record: WorkloadRecord) -> None:
        """The admission is asked again, with what is known by now."""
        view = self._admission_view(now)
        match self.policy.admission.enqueue(self._request(record, now), view):
            case Admit(decision, queue, review_at):
                queued = ev.WorkloadQueued(record.name, queue, decision, review_at)
                self._record(now, queued)
            case WaitUntil(time, decision):
                self._record(now, ev.WorkloadDeferred(record.name, decision, time))
            case Refusal(decision=decision):
                self._record(now, ev.WorkloadRejected(record.name, decision))

    def _review(self, now: float) -> None:
        """Those whose time has come: the admission looks at them again."""
        while (first := self._cluster.reviews.first()) is not None and first[0] <= now:
            record = self.state.workloads[first[1]]
            verdict = None
            if record.phase is Phase.QUEUED:
                view = self._admission_view(now)
                request = self._request(record, now)
                verdict = self.policy.admission.review(request, record.queue, view)
            match verdict:
                case Divert(queue, decision, review_at):
                    later = review_at if review_at is None or review_at > now else None
                    diverted = ev.WorkloadDiverted(record.name, queue, decision, later)
                    self._record(now, diverted)
                case WaitUntil(time, decision) if time > now:
                    self._record(now, ev.WorkloadReviewed(record.name, decision, time))
                case Refusal(decision=decision):
                    self._record(now, ev.WorkloadRejected(record.name, decision))
                case _:
                    self._record(now, ev.WorkloadReviewed(record.name))

    def _profile(self, now: float, record: WorkloadRecord) -> bool:
        """Plan its profiling, or let it wait for that; whether there is any to come."""
        planner = self.policy.estimation
        verdict = planner and planner.plan(record.workload, self.view)
        if not verdict:
            return False
        # Profiling runs are something that is done: a core that only recommends makes a cold
        # start. And so does what no server could hold: it has to wait for its place, not for them.
        never = self.recommends or self._exceeds_all(record.workload)
        first = next(iter(self._cluster.unprofiled), None)
        behind = first is not None and first < entry_of(record)
        if not never and verdict.plan and (behind or self._cluster.queues.is_blocked()):
            self._hold(now, record, behind_others(verdict.decision))
        elif never or verdict.decision.accepted:
            decision = replace(verdict.decision, accepted=True, would_change="")
            key = self._new_key(record)
            if never or verdict.plan is None:
                self._record(now, ev.ClassificationPlanned(record.name, key, decision))
            else:
                self._record(now, ev.ProfilingPlanned(record.name, key, decision, verdict.plan))
        else:
            self._hold(now, record, verdict.decision)
        return True

    def _exceeds_all(self, workload: Workload) -> bool:
        """Whether there are servers, and none has its memory even when empty."""
        capacities = self.view.memory_capacity
        return bool(len(capacities)) and bool(
            (capacities < workload.reservation.memory_bytes).all()
        )

    def _hold(self, now: float, record: WorkloadRecord, decision: Decision) -> None:
        """It waits; why is logged when that changes."""
        if record.deferral is not decision.reason:
            self._record(now, ev.WorkloadDeferred(record.name, decision))

    def _place_waiting(self, now: float) -> None:
        cluster = self._cluster
        if (
            not cluster.queues.end_delays(now, self._settings.max_backoff_seconds)
            and not cluster.queues.room_changed
        ):
            return
        cluster.queues.unblock()
        self._serve_all(now)
        if self._profile_waiting(now):
            self._serve_all(now)
        # Placing takes room and a place in line; neither lets anyone else in.
        cluster.queues.room_changed = False

    def _serve_all(self, now: float) -> None:
        for queue in self.policy.admission.queues:
            self._serve(now, self._cluster.queues.open(queue))

    def _profile_waiting(self, now: float) -> bool:
        """Profile those that waited for room, in order, as far as there is some.

        Returns:
            Whether one went on to a queue without: no planner asks for it any more.
        """
        queued = False
        for _, _, name in list(self._cluster.unprofiled):
            record = self.state.workloads[name]
            self._advance(now, record)
            if record.phase is Phase.ADMITTED:
                break
            queued = queued or record.phase is Phase.QUEUED
        return queued

    def _serve(self, now: float, line: Ordered[QueueEntry]) -> None:
        """Go through one queue; what is placed leaves it, and what can never be."""
        position = 0
        while position < len(line):
            record = self.state.workloads[line[position][2]]
            before = len(line)
            waits = record.question or self._cluster.queues.is_delayed(record)
            if not waits and self._holds_up(now, record):
                self._cluster.queues.block(record)
                return
            position += len(line) == before

    def _holds_up(self, now: float, record: WorkloadRecord) -> bool:
        """Look for a place for one; whether what is behind it in its queue waits for it."""
        blocks = self.policy.admission.blocks
        if record.name in self._cluster.residency.leaving_for:
            # Asked before its victims have left, its placement would name the same, or more.
            return blocks(ReasonCode.PREEMPTING)
        match self._place(now, record):
            case Plan(placements, decision, note) if not self.recommends:
                key = self._new_key(record)
                self._record(now, ev.WorkloadPlaced(record.name, key, placements, decision))
                self._note(now, self._note_key, note)
            case Refusal(decision, waits_for):
                self._hold(now, record, decision)
                if blocks(decision.reason):
                    return True
                if decision.reason in UNTIL_SERVERS_CHANGE:
                    self._cluster.queues.park(record)
                elif waits_for:
                    self._cluster.queues.await_room(record, waits_for)
            case verdict if self.recommends:
                self._hold(now, record, recommended(verdict.decision))
            case Preempt(victims, decision):
                return blocks(self._preempt(now, record, victims, decision))
            case Acquire(platform, decision):
                self._acquire(now, record, platform, decision)
            case Delegate(decider, decision):
                key = self._question_key(record)
                self._record(now, ev.PlacementDelegated(record.name, key, decider, decision))
            case WaitUntil(time, decision):
                self._record(now, ev.WorkloadDeferred(record.name, decision, time))
        return False

    def _place(self, now: float, record: WorkloadRecord) -> PlacementVerdict:
        """One that was stopped to be migrated goes back rather than nowhere."""
        request = self._request(record, now)
        verdict = self.policy.placement.place(request, self.view)
        migrated = record.migrations > 0 and not record.start_failures
        if isinstance(verdict, Refusal) and migrated and request.excluded:
            return self.policy.placement.place(replace(request, excluded=frozenset()), self.view)
        return verdict

    def _preempt(
        self, now: float, record: WorkloadRecord, victims: tuple[str, ...], decision: Decision
    ) -> ReasonCode:
        """Stop the victims; it waits until they have left. What keeps it waiting."""
        for name in victims:
            victim = self.state.workloads.get(name)
            if victim is not None and self._may_preempt(record, victim):
                self._record(now, ev.WorkloadPreempted(name, record.name, decision))
        if record.name in self._cluster.residency.leaving_for:
            told = replace(decision, accepted=False, reason=ReasonCode.PREEMPTING)
        else:
            told = not_preempted(decision)
        self._hold(now, record, told)
        return told.reason

    def _may_preempt(self, record: WorkloadRecord, victim: WorkloadRecord) -> bool:
        """Whether it can be stopped and started again; and would not be served first then."""
        queues = self.policy.admission.queues
        if victim.queue not in queues or not victim.workload.run.restartable:
            return False
        first, second = ((queues.index(r.queue), entry_of(r)) for r in (record, victim))
        return first < second and is_stoppable(victim)

    def _acquire(
        self, now: float, record: WorkloadRecord, platform: str, decision: Decision
    ) -> None:
        """Order a server for it, once."""
        told = replace(decision, accepted=False, reason=ReasonCode.ACQUIRING)
        self._hold(now, record, told)
        ordered = {order.ordered_for for order in self.state.orders.values()}
        if record.name not in ordered and platform not in self._not_acquired(now):
            self._order(now, Order(platform, decision), record.name)

    def _order(self, now: float, order: Order, ordered_for: str = "") -> None:
        key = f"order-{self.state.next_order}-{self._nonce()}"
        self._record(now, ev.ServerOrdered(key, order.platform, order.decision, ordered_for))

    def _provision(self, now: float, provisioning: ProvisioningPolicy) -> None:
        """Servers to acquire and to release."""
        view = self._provisioning_view(now)
        for wanted in provisioning.provision(view):
            if isinstance(wanted, Release):
                if wanted.server in view.acquired and wanted.server not in self.state.releasing:
                    self._record(now, ev.ServerReleased(wanted.server, wanted.decision))
            elif wanted.platform not in view.not_acquired:
                self._order(now, wanted)

    def _not_acquired(self, now: float) -> dict[str, float]:
        """Platforms of which nothing is ordered, and until when; not after a clock was set back."""
        longest = self._settings.reorder_seconds
        failed = self.state.not_acquired.items()
        return {name: at + longest for name, at in failed if 0 <= now - at < longest}

    def _provisioning_view(self, now: float) -> ProvisioningView:
        ordered: dict[str, int] = {}
        for order in self.state.orders.values():
            ordered[order.platform] = ordered.get(order.platform, 0) + 1
        acquired = {
            name: since
            for name, since in self.state.acquired.items()
            if name in self.state.servers and name not in self.state.releasing
        }
        waiting, failed = self.queue_lengths(), self._not_acquired(now)
        return ProvisioningView(self.view, waiting, ordered, acquired, failed, now)

    def _carry_out(self, now: float, remedy: Remedy) -> None:
        """Log what an adaptation wants; a core that only recommends says so instead."""
        if self.recommends and not isinstance(remedy, Unchanged | Reclassify):
            name = remedy.suspended_for if isinstance(remedy, Suspend) else remedy.name
            remedy = Unchanged(name, recommended(remedy.decision))
        match remedy:
            case Resize(name, placements, decision):
                self._record(now, ev.AllocationPlanned(name, placements, decision))
            case Unchanged(name, decision):
                # Nothing is done; why is logged when that changes.
                if self.state.workloads[name].deferral is not decision.reason:
                    self._record(now, ev.AllocationUnchanged(name, decision))
            case Suspend(name, suspended_for, decision):
                self._record(now, ev.WorkloadSuspended(name, suspended_for, decision))
            case Resume(name, decision, ineffective):
                self._record(now, ev.WorkloadResumed(name, decision, ineffective))
            case Migrate(name, placements, decision):
                self._record(now, ev.WorkloadMigrated(name, decision, placements))
            case Reclassify(name, measurements, decision):
                self._record(now, ev.ReclassificationPlanned(name, decision, measurements))

    def _note(self, now: float, part: str, note: str | None) -> None:
        if note is not None and note != self.state.notes.get(part):
            self._record(now, ev.PolicyNoted(part, note))

    # --- pieces ----------------------------------------------------------------------------

    def _record(self, now: float, event: ev.Event) -> None:
        self._events.append(event)
        apply(self._cluster, now, event)

    def _new_key(self, record: WorkloadRecord) -> str:
        """Never used before, also not in a part of the log that was lost."""
        return f"{record.uid}-{record.attempts + 1}-{self._nonce()}"

    def _question_key(self, record: WorkloadRecord) -> str:
        return f"question-{record.uid}-{self.state.next_question}-{self._nonce()}"

    def _nonce(self) -> str:
        return self.state.nonces[-1] if self.state.nonces else "0"

    def _request(self, record: WorkloadRecord, now: float) -> PlacementRequest:
        return self._residents.request(record, now)

    def _admission_view(self, now: float) -> AdmissionView:
        note = self.state.notes.get(self._admission_key, "")
        return AdmissionView(self.view, self.queue_lengths(), now, note)
