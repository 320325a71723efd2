"""The decision core: one event in, what to log and what to do out.

The pipeline of a workload, in the order in which ``Manager._decide`` runs it:

    reconcile   what the engine lost sight of is vanished, before anything else is decided
    admission   who may come in, before anything is spent on them
    profiling   measure and classify, where a planner wants it
    queueing    by what is known now
    adaptation  those who run come before those who wait, for the same room
    placement   who waits, in the admission's order
    retention   the oldest ended records go

The runtime calls ``handle`` with each report and request, appends ``Step.events`` to the
log, and only then carries out ``Step.actions``. A replay calls ``apply`` with each logged
event: what was decided is in the log and is not decided again.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from wharfinger.classification.base import ProfilingPlanner
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.cluster_state import World
from wharfinger.core.fold import apply
from wharfinger.core.ladder import Adaptation, recommended
from wharfinger.core.lifecycle import Phase
from wharfinger.core.ordered import Ordered
from wharfinger.core.pending import owed
from wharfinger.core.queues import Entry, entry_of
from wharfinger.core.seams.contention import ContentionModel
from wharfinger.core.state import ManagerState, WorkloadRecord
from wharfinger.errors import Conflict, NotFound
from wharfinger.model.decisions import Decision, Plan, ReasonCode, Refusal, Stage
from wharfinger.model.view import ClusterView, PlacementRequest
from wharfinger.model.workload import Workload
from wharfinger.policies.admission.admission import Admission, AdmissionView
from wharfinger.policies.placement.common import Policy

UNTIL_SERVERS_CHANGE = frozenset({ReasonCode.TOO_LARGE, ReasonCode.TARGET_TOO_HIGH})
"""Refusals that no room, only another server can change: not tried again before."""
_BEGINNINGS = (ev.ManagerStarted, ev.EngineSynced)


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
        policy: Places and resizes.
        admission: Lets in and orders.
        planner: Decides on profiling; ``None`` = nothing is profiled.
        contention: Keeps how residents slow one another, for placements that ask; ``None`` =
            nothing is kept of that.
        state: What a snapshot held; ``None`` = a new cluster.
        keep_ended: How many ended workloads keep their record and output.
        mode: Whether it acts, or only says what it would do; also an attribute.
    """

    def __init__(
        self,
        policy: Policy,
        admission: Admission,
        *,
        planner: ProfilingPlanner | None = None,
        contention: ContentionModel | None = None,
        state: ManagerState | None = None,
        keep_ended: int = 10_000,
        mode: Mode = Mode.ACT,
    ) -> None:
        self.mode = mode
        self._recommends = mode is Mode.RECOMMEND
        self._policy = policy
        self._admission = admission
        self._planner = planner
        self._keep_ended = keep_ended
        self._world = World(ManagerState() if state is None else state, contention)
        self._adaptation = Adaptation(
            self._world,
            policy,
            self._record,
            classifies="" if planner is None else planner.name,
            recommends=self._recommends,
        )
        self._asked: dict[str, list[tuple[object, ...]]] = {}
        self._events: list[ev.Event] = []

    # --- in and out ----------------------------------------------------------------------

    @property
    def state(self) -> ManagerState:
        """What is known; to be read only."""
        return self._world.state

    @property
    def view(self) -> ClusterView:
        """The cluster as policies see it now."""
        return self._world.view()

    def handle(self, now: float, event: ev.Report | ev.Request) -> Step:
        """Take in one report or request and decide what follows from it.

        Args:
            now: Seconds since the epoch, by the runtime's clock.
            event: What the engine, a client or the clock says.
        """
        if not self._world.is_news(event):
            return Step((), ())
        self._events = []
        self._record(now, event)
        if isinstance(event, _BEGINNINGS):
            self._asked.clear()
        self._decide(now, event)
        return Step(tuple(self._events), tuple(self._owed_actions()))

    def apply(self, time: float, event: ev.Event) -> None:
        """Fold one event of the log into the state, deciding nothing."""
        apply(self._world, time, event)

    def wake_at(self, now: float) -> float | None:
        """When ``TimePassed`` is due, in seconds since the epoch; ``None`` = not at all."""
        if not self.state.synced:
            return None
        world = self._world
        due = [world.lines.wake_at(now), world.stale_at(now), self._adaptation.resumes_at(now)]
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
        return self._world.record_of(key)

    def residents_of(self, server: str) -> list[WorkloadRecord]:
        """Who holds something there, from being placed to being gone; to be read only."""
        return self._world.residents_of(server)

    def preview(self, workload: Workload) -> list[Decision]:
        """What would be decided for the workload if it were handed in, or tried, now."""
        view = self._admission_view()
        decision = self._admission.admit(workload, view)
        if not decision.accepted:
            return [decision]
        known = self.state.workloads.get(workload.name)
        classification = known.classification if known else None
        profiling = (
            None if known or self._planner is None else self._planner.plan(workload, self.view)
        )
        request = PlacementRequest(workload, classification=classification)
        verdict = self._policy.place(request, view.cluster)
        behind = self._behind(workload, self._admission.queue_for(workload, view))
        measured = [] if profiling is None else [profiling.decision]
        return [decision, *measured, verdict.decision, *behind]

    def _behind(self, workload: Workload, queue: str) -> list[Decision]:
        """Who is served first, where that holds a workload up."""
        known = self.state.workloads.get(workload.name)
        entry = (-workload.priority, known.uid if known else self.state.next_uid, workload.name)
        ahead = self._world.lines.before(queue, entry)
        if not ahead or not self._admission.blocks(ReasonCode.NO_ROOM):
            return []
        return [
            Decision(
                Stage.PLACEMENT,
                self._admission.name,
                accepted=False,
                reason=ReasonCode.BEHIND_OTHERS,
                message=f"{ahead} wait before it in queue {queue}",
                would_change="room for those, or a higher priority",
                numbers={"waiting_before": float(ahead)},
            )
        ]

    def neighbours(self, record: WorkloadRecord) -> list[str]:
        """Who else holds resources where a workload is; names, in the order in which they came."""
        here = (self._world.residents.get(p.server, {}) for p in record.placements)
        names = {name: None for residents in here for name in residents if name != record.name}
        return list(names) if record.on_server else []

    def queue_lengths(self) -> dict[str, int]:
        """How many wait, by queue."""
        return {name: self._world.lines.length(name) for name in self._admission.queues}

    # --- the pipeline ----------------------------------------------------------------------

    def _decide(self, now: float, event: ev.Event) -> None:
        if isinstance(event, ev.EngineSynced):
            self._reconcile(now, event)
        for name in list(self._world.undecided):
            self._advance(now, self.state.workloads[name])
        if self.state.synced:
            self._adaptation.run(now, event)
            self._place_waiting(now)
        self._retain(now)

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
        if record.phase is Phase.ADMITTED and not record.profiled and self._profile(now, record):
            return
        if record.phase in (Phase.ADMITTED, Phase.CLASSIFIED):
            queue = self._admission.queue_for(record.workload, self._admission_view())
            self._record(now, ev.WorkloadQueued(record.name, queue))

    def _admit(self, now: float, record: WorkloadRecord) -> None:
        decision = self._admission.admit(record.workload, self._admission_view())
        answer = ev.WorkloadAdmitted if decision.accepted else ev.WorkloadRejected
        self._record(now, answer(record.name, decision))

    def _profile(self, now: float, record: WorkloadRecord) -> bool:
        """Plan its profiling, or let it wait for that; whether there is any to come."""
        verdict = self._planner and self._planner.plan(record.workload, self.view)
        if not verdict:
            return False
        # Copies are something that is done: who only recommends goes by their like. And so
        # does what no server could hold: its place, not its copy, is what it has to wait for.
        never = self._recommends or self._exceeds_all(record.workload)
        first = next(iter(self._world.unprofiled), None)
        if not never and verdict.plan and first is not None and first < entry_of(record):
            self._hold(now, record, _behind_others(verdict.decision))
        elif never or verdict.decision.accepted:
            decision = replace(verdict.decision, accepted=True, would_change="")
            plan = None if never else verdict.plan
            key = self._new_key(record)
            self._record(now, ev.ProfilingPlanned(record.name, key, decision, plan))
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
        if record.held is not decision.reason:
            self._record(now, ev.WorkloadHeld(record.name, decision))

    def _place_waiting(self, now: float) -> None:
        world = self._world
        if not world.lines.end_delays(now) and not world.room_changed:
            return
        world.lines.unblock()
        self._serve_all(now)
        if self._profile_waiting(now):
            self._serve_all(now)
        # Placing takes room and a place in line; neither lets anyone else in.
        world.room_changed = False

    def _serve_all(self, now: float) -> None:
        for queue in self._admission.queues:
            self._serve(now, self._world.lines.open(queue))

    def _profile_waiting(self, now: float) -> bool:
        """Profile those who waited for room, in order, as far as there is some.

        Returns:
            Whether somebody went on to a line without: no planner asks for it any more.
        """
        queued = False
        for _, _, name in list(self._world.unprofiled):
            record = self.state.workloads[name]
            self._advance(now, record)
            if record.phase is Phase.ADMITTED:
                break
            queued = queued or record.phase is Phase.QUEUED
        return queued

    def _serve(self, now: float, line: Ordered[Entry]) -> None:
        """Go through one line; whoever gets a place leaves it, or who can never have one."""
        position = 0
        while position < len(line):
            record = self.state.workloads[line[position][2]]
            if self._world.lines.is_delayed(record):
                position += 1
                continue
            match self._place(now, record):
                case Plan(decision=decision) if self._recommends:
                    self._hold(now, record, recommended(decision))
                    position += 1
                case Plan(placements, decision):
                    key = self._new_key(record)
                    self._record(now, ev.WorkloadPlaced(record.name, key, placements, decision))
                case Refusal(decision, waits_for):
                    self._hold(now, record, decision)
                    if self._admission.blocks(decision.reason):
                        self._world.lines.block(record)
                        return
                    if decision.reason in UNTIL_SERVERS_CHANGE:
                        self._world.lines.set_aside(record)
                    elif waits_for:
                        self._world.lines.await_room(record, waits_for)
                    else:
                        position += 1

    def _place(self, now: float, record: WorkloadRecord) -> Plan | Refusal:
        """One that was stopped to be moved goes back rather than nowhere."""
        request = self._world.request(record, now)
        verdict = self._policy.place(request, self.view)
        moved = record.moves > 0 and not record.start_failures
        if isinstance(verdict, Refusal) and moved and request.excluded:
            return self._policy.place(replace(request, excluded=frozenset()), self.view)
        return verdict

    def _retain(self, now: float) -> None:
        while len(self._world.ended) > self._keep_ended:
            self._record(now, ev.WorkloadForgotten(self._world.ended[0][2]))

    # --- pieces ----------------------------------------------------------------------------

    def _record(self, now: float, event: ev.Event) -> None:
        self._events.append(event)
        apply(self._world, now, event)

    def _new_key(self, record: WorkloadRecord) -> str:
        """Never used before, also not in a part of the log that was lost."""
        nonce = self.state.nonces[-1] if self.state.nonces else "0"
        return f"{record.uid}-{record.attempts + 1}-{nonce}"

    def _admission_view(self) -> AdmissionView:
        return AdmissionView(self.view, self.queue_lengths())

    def _owed_actions(self) -> list[act.Action]:
        """What the state now asks of the engine and was not asked before.

        Actions are derived from the state, never remembered beside it: so a crash between
        log and action loses none.
        """
        if not self.state.synced:
            return []
        due: list[act.Action] = []
        for name in self._world.touched:
            actions = owed(self.state.workloads.get(name), self.state.capabilities)
            before = self._asked.pop(name, [])
            if actions:
                asked = self._asked[name] = [_identity(action) for action in actions]
                news = zip(asked, actions, strict=True)
                due.extend(action for what, action in news if what not in before)
        self._world.touched.clear()
        due.extend(map(act.ForgetWorkload, self._world.dropped_keys))
        self._world.dropped_keys.clear()
        return due


def _behind_others(decision: Decision) -> Decision:
    return replace(
        decision,
        accepted=False,
        reason=ReasonCode.BEHIND_OTHERS,
        message="others wait before it for room to be profiled",
        would_change="room for those, or a higher priority",
    )


def _identity(action: act.Action) -> tuple[object, ...]:
    """What makes it another action than the one that was asked before."""
    about = action.workload if isinstance(action, act.MeasureWorkload) else None
    return type(action), action.key, getattr(action, "placements", None), about
