"""The decision core: one event in, what to log and what to do out.

``Core._decide`` is the pipeline, in reading order. The runtime calls ``handle`` with each report
and request, appends ``Step.events`` to the log, and only then carries out ``Step.actions``. A
replay calls ``apply`` with each logged event.
"""

from collections import Counter
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
from wharfinger.core.seams import adaptation as remedies
from wharfinger.core.seams import verdicts
from wharfinger.core.seams.admission import AdmissionView
from wharfinger.core.seams.policy import Policy
from wharfinger.core.seams.provisioning import Order, ProvisioningPolicy, ProvisioningView, Release
from wharfinger.core.settings import CORE, CoreSettings
from wharfinger.core.state import ManagerState, WorkloadRecord
from wharfinger.core.triggers import is_news
from wharfinger.errors import Conflict, NotFound
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision, Place, ReasonCode, Refuse, Stage, recommended
from wharfinger.model.profile import Measurements
from wharfinger.model.view import Capabilities, Request, View
from wharfinger.model.workload import Workload

UNTIL_SERVERS_CHANGE = frozenset({ReasonCode.TOO_LARGE, ReasonCode.TARGET_TOO_HIGH})
"""Refusals that no room, only another server can change: not tried again before."""
_BEGINNINGS = frozenset({ev.ManagerStarted, ev.EngineSynced})


@dataclass(frozen=True, slots=True)
class Step:
    """The outcome of one event: what to log together, the cause first, and then to carry out.

    No events = the event changes nothing.
    """

    events: tuple[ev.Event, ...]
    actions: tuple[act.Action, ...]


class Mode(StrEnum):
    """What a manager does with what it decides."""

    ACT = "act"
    """It does it."""
    RECOMMEND = "recommend"
    """It says so, and does nothing: starts, profiles, resizes and moves nothing."""


class Core:
    """The core. Deterministic: the same state and events give the same steps.

    Args:
        state: From a snapshot, ``None`` = a new cluster; as an attribute, to be read only.
        settings: The core's own; ``None`` = the defaults.
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
        """Whether it only reports what it would do."""
        return self.mode is Mode.RECOMMEND

    # --- in and out ----------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The cluster as policies see it now."""
        return self._residents.view()

    def handle(self, now: float, event: ev.Report | ev.ClientRequest) -> Step:
        """Decide what follows from one report or request; ``now`` in seconds since the epoch."""
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
        """The event with which this core takes over a log."""
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
        """Fold one event of the log into the state, without deciding anything."""
        apply(self._cluster, time, event)

    def wake_at(self, now: float) -> float | None:
        """When ``TimePassed`` is due, in seconds since the epoch; ``None`` = not at all."""
        if not self.state.synced:
            return None
        cluster = self._cluster
        due = [
            cluster.queues.wake_at(now, self._settings.max_backoff_seconds),
            cluster.residency.stale_at(now),
            self.policy.adaptation.wake_at(now, self._residents),
        ]
        if (review := cluster.reviews.first()) is not None:
            due.append(review[0])
        if self.state.not_acquired:
            due.extend(self._not_acquired(now).values())
        if self.policy.provisioning is not None:
            due.append(self.policy.provisioning.wake_at(self._provisioning_view(now)))
        return min([time for time in due if time is not None], default=None)

    # --- questions, asked before a request is made an event ------------------------------------

    def check_submission(self, workload: Workload) -> bool:
        """Whether the workload is new; ``False`` = the same was submitted before.

        Raises:
            Conflict: Another workload has its name.
        """
        record = self.state.workloads.get(workload.name)
        if record is None:
            return True
        if record.workload == workload:
            return False
        instead = "delete it first" if record.ended else "use update"
        raise Conflict(
            f"workload {workload.name!r} exists ({record.phase}): {instead}, or choose another name"
        )

    def check_update(self, workload: Workload) -> None:
        """Check that a live workload may be changed to this.

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
                "delete it and submit it again"
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
        """The workload whose current key this is; to be read only."""
        return self._cluster.record_of(key)

    def residents_of(self, server: str) -> list[WorkloadRecord]:
        """What holds resources on a server, from placement to end; to be read only."""
        return self._cluster.residency.residents_of(server)

    def measured(self, record: WorkloadRecord) -> Measurements | None:
        """All measurements of a workload, from before it ran and since."""
        return self.policy.adaptation.measured(record)

    def preview(self, workload: Workload, now: float) -> list[Decision]:
        """What would be decided, on a copy of the state, if it were submitted or tried now."""
        existing = self.state.workloads.get(workload.name)
        state = decode_state(encode_state(self.state))
        fork = Core(self.policy, state=state, settings=self._settings, mode=self.mode)
        asked = ev.WorkloadSubmitted if existing is None else ev.WorkloadUpdated
        if self.state.synced:
            # Which workloads wait for room, and block others, is derived by trying.
            fork._place_waiting(now)
        step = fork.handle(now, asked(workload))
        about = [event for event in step.events if getattr(event, "name", "") == workload.name]
        decisions = (getattr(event, "decision", None) for event in about)
        made = [decision for decision in decisions if isinstance(decision, Decision)]
        record = fork.state.workloads[workload.name]
        if record.phase is Phase.QUEUED and not any(m.stage is Stage.PLACEMENT for m in made):
            # Others are served first; this is the decision without them.
            made.append(fork.try_placing(now, record))
        return [*made, *fork.behind(record)]

    def try_placing(self, now: float, record: WorkloadRecord) -> Decision:
        """The decision for a waiting workload if it were served now; nothing is logged."""
        return self._place(now, record).decision

    def behind(self, record: WorkloadRecord) -> list[Decision]:
        """The decision that says how many are served before a workload, if they keep it waiting."""
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

    def neighbors(self, record: WorkloadRecord) -> list[str]:
        """What else holds resources where a workload is; names, in the order of arrival."""
        return [other.name for other in self._residents.neighbors(record)]

    def queue_lengths(self) -> dict[str, int]:
        """How many workloads wait, by queue."""
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
        if cluster.reviews.heap:
            self._review(now)
        if cluster.undecided:
            for name in list(cluster.undecided):
                self._advance(now, state.workloads[name])
        if state.synced:
            # What runs comes before what waits, for the same room.
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
        """Start those that were stopped to be migrated where room is held for them."""
        for name in list(self._cluster.arriving):
            del self._cluster.arriving[name]
            record = self.state.workloads[name]
            placements = record.planned
            if record.phase is not Phase.QUEUED or not self._fits(placements):
                continue
            servers = " and ".join(placement.server for placement in placements)
            # The decision to migrate explains the server; later decisions may follow it.
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
        """Whether all of it can be allocated now, each server being named once."""
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
        """Check a proposal, made on a snapshot, against the cluster as it is now.

        If its servers have changed since, it lost a conflict and the decider is asked again.
        Otherwise the proposal was wrong: asking again before something changes would not help.
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
        """How many servers of a proposal have changed since its snapshot."""
        view = self.view
        assert view.versions is not None
        now = dict(zip(view.names, view.versions.tolist(), strict=True))
        proposed = zip(event.placements, event.versions, strict=False)
        return sum(now.get(placement.server) != version for placement, version in proposed)

    def _reconcile(self, now: float, event: ev.EngineSynced) -> None:
        """A start that the engine had taken and no longer knows has vanished.

        One that it had not taken is pending, and asked for again.
        """
        present = set(event.known_keys)
        for record in list(self.state.workloads.values()):
            taken = record.on_server and record.phase is not Phase.PLACED
            if taken and record.key not in present:
                reason = "the engine knows nothing of it any more"
                self._record(now, ev.WorkloadVanished(record.key, reason))

    def _advance(self, now: float, record: WorkloadRecord) -> None:
        """Admission, profiling and queueing, as far as a workload gets without waiting."""
        # Neither is changed by what comes before the queue.
        request, view = self._residents.request(record, now), self._admission_view(now)
        if record.phase is Phase.SUBMITTED:
            self._ask_admission(now, record, request, view)
        if record.phase is Phase.ADMITTED and self._profile(now, record, request):
            return
        if record.phase in (Phase.ADMITTED, Phase.CLASSIFIED):
            self._ask_admission(now, record, request, view)

    def _ask_admission(
        self, now: float, record: WorkloadRecord, request: Request, view: AdmissionView
    ) -> None:
        """Whether it is admitted, before anything is spent on it; then, classified, its queue."""
        admission, submitted = self.policy.admission, record.phase is Phase.SUBMITTED
        match (admission.admit if submitted else admission.enqueue)(request, view):
            case verdicts.Admit(decision) if submitted:
                assert decision is not None, f"{admission.name} tells nothing"
                self._record(now, ev.WorkloadAdmitted(record.name, decision))
            case verdicts.Admit(decision, queue, review_at):
                self._record(now, ev.WorkloadQueued(record.name, queue, decision, review_at))
            case verdicts.WaitUntil(time, decision):
                self._record(now, ev.WorkloadDeferred(record.name, decision, time))
            case Refuse(decision=decision):
                self._record(now, ev.WorkloadRejected(record.name, decision))

    def _review(self, now: float) -> None:
        """Those whose review is due."""
        while (first := self._cluster.reviews.first()) is not None and first[0] <= now:
            record = self.state.workloads[first[1]]
            verdict = None
            if record.phase is Phase.QUEUED:
                request, view = self._residents.request(record, now), self._admission_view(now)
                verdict = self.policy.admission.review(request, record.queue, view)
            match verdict:
                case verdicts.Divert(queue, decision, review_at):
                    later = review_at if review_at is None or review_at > now else None
                    self._record(now, ev.WorkloadDiverted(record.name, queue, decision, later))
                case verdicts.WaitUntil(time, decision) if time > now:
                    self._record(now, ev.WorkloadReviewed(record.name, decision, time))
                case Refuse(decision=decision):
                    self._record(now, ev.WorkloadRejected(record.name, decision))
                case _:
                    self._record(now, ev.WorkloadReviewed(record.name))

    def _profile(self, now: float, record: WorkloadRecord, request: Request) -> bool:
        """Plan its profiling, or hold it until there is room; whether it is to be profiled."""
        planner = self.policy.estimation
        verdict = planner and planner.plan(request, self.view)
        if not verdict:
            return False
        # A core that only recommends makes no runs, so it makes a cold start. So does a workload
        # that no server could hold: it waits for a placement, not for profiling runs.
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
        return len(capacities) > 0 and bool(capacities.max() < workload.reservation.memory_bytes)

    def _hold(self, now: float, record: WorkloadRecord, decision: Decision) -> None:
        if record.deferral is not decision.reason:
            self._record(now, ev.WorkloadDeferred(record.name, decision))

    def _place_waiting(self, now: float) -> None:
        queues = self._cluster.queues
        if not queues.end_delays(now, self._settings.max_backoff_seconds) and (
            not queues.room_changed
        ):
            return
        queues.unblock()
        self._serve_all(now)
        if self._profile_waiting(now):
            self._serve_all(now)
        # Placing only takes room: no other workload fits because of it.
        queues.room_changed = False

    def _serve_all(self, now: float) -> None:
        for queue in self.policy.admission.queues:
            self._serve(now, self._cluster.queues.open(queue))

    def _profile_waiting(self, now: float) -> bool:
        """Profile those that wait for room, in order; whether one was queued without profiling."""
        queued = False
        for _, _, name in list(self._cluster.unprofiled):
            record = self.state.workloads[name]
            self._advance(now, record)
            if record.phase is Phase.ADMITTED:
                break
            queued = queued or record.phase is Phase.QUEUED
        return queued

    def _serve(self, now: float, line: Ordered[QueueEntry]) -> None:
        """Try those of one queue in order; those that are placed or rejected leave it."""
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
        """Try to place it; whether the workloads behind it in its queue must wait."""
        blocks = self.policy.admission.blocks
        if record.name in self._cluster.residency.leaving_for:
            # Before its victims have left, its placement would name them again, or more.
            return blocks(ReasonCode.PREEMPTING)
        match self._place(now, record):
            case Place(placements, decision, note) if not self.recommends:
                key = self._new_key(record)
                self._record(now, ev.WorkloadPlaced(record.name, key, placements, decision))
                self._note(now, self._note_key, note)
            case Refuse(decision, waits_for):
                self._hold(now, record, decision)
                if blocks(decision.reason):
                    return True
                if decision.reason in UNTIL_SERVERS_CHANGE:
                    self._cluster.queues.park(record)
                elif waits_for:
                    self._cluster.queues.await_room(record, waits_for)
            case verdict if self.recommends:
                self._hold(now, record, recommended(verdict.decision))
            case verdicts.Preempt(victims, decision):
                return blocks(self._preempt(now, record, victims, decision))
            case verdicts.Acquire(platform, decision):
                self._acquire(now, record, platform, decision)
            case verdicts.Delegate(decider, decision):
                key = f"question-{record.uid}-{self.state.next_question}-{self._nonce()}"
                self._record(now, ev.PlacementDelegated(record.name, key, decider, decision))
            case verdicts.WaitUntil(time, decision):
                self._record(now, ev.WorkloadDeferred(record.name, decision, time))
        return False

    def _place(self, now: float, record: WorkloadRecord) -> verdicts.PlacementVerdict:
        """The placement's verdict; a migrated workload goes back rather than nowhere."""
        request = self._residents.request(record, now)
        verdict = self.policy.placement.place(request, self.view)
        migrated = record.migrations > 0 and not record.start_failures
        if isinstance(verdict, Refuse) and migrated and request.excluded:
            return self.policy.placement.place(replace(request, excluded=frozenset()), self.view)
        return verdict

    def _preempt(
        self, now: float, record: WorkloadRecord, victims: tuple[str, ...], decision: Decision
    ) -> ReasonCode:
        """Stop the victims; the reason why it waits until they have left."""
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
        """Whether the victim is stoppable, and would not be served first afterwards."""
        queues = self.policy.admission.queues
        if victim.queue not in queues or not victim.workload.run.restartable:
            return False
        first, second = ((queues.index(r.queue), entry_of(r)) for r in (record, victim))
        return first < second and is_stoppable(victim)

    def _acquire(
        self, now: float, record: WorkloadRecord, platform: str, decision: Decision
    ) -> None:
        self._hold(now, record, replace(decision, accepted=False, reason=ReasonCode.ACQUIRING))
        ordered = {order.ordered_for for order in self.state.orders.values()}
        if record.name not in ordered and platform not in self._not_acquired(now):
            self._order(now, Order(platform, decision), record.name)

    def _order(self, now: float, order: Order, ordered_for: str = "") -> None:
        key = f"order-{self.state.next_order}-{self._nonce()}"
        self._record(now, ev.ServerOrdered(key, order.platform, order.decision, ordered_for))

    def _provision(self, now: float, provisioning: ProvisioningPolicy) -> None:
        view = self._provisioning_view(now)
        for wanted in provisioning.provision(view):
            if isinstance(wanted, Release):
                if wanted.server in view.acquired and wanted.server not in self.state.releasing:
                    self._record(now, ev.ServerReleased(wanted.server, wanted.decision))
            elif wanted.platform not in view.not_acquired:
                self._order(now, wanted)

    def _not_acquired(self, now: float) -> dict[str, float]:
        """By platform, until when nothing is ordered; ignores failures later than ``now``."""
        longest = self._settings.reorder_seconds
        failed = self.state.not_acquired.items()
        return {name: at + longest for name, at in failed if 0 <= now - at < longest}

    def _provisioning_view(self, now: float) -> ProvisioningView:
        state = self.state
        ordered = Counter(order.platform for order in state.orders.values())
        acquired = {
            name: at
            for name, at in state.acquired.items()
            if name in state.servers and name not in state.releasing
        }
        waiting, failed = self.queue_lengths(), self._not_acquired(now)
        return ProvisioningView(self.view, waiting, ordered, acquired, failed, now)

    def _carry_out(self, now: float, remedy: remedies.Remedy) -> None:
        """Log a remedy; a core that only recommends logs a recommendation."""
        if self.recommends and not isinstance(remedy, remedies.Unchanged | remedies.Reclassify):
            name = remedy.suspended_for if isinstance(remedy, remedies.Suspend) else remedy.name
            remedy = remedies.Unchanged(name, recommended(remedy.decision))
        match remedy:
            case remedies.Resize(name, placements, decision):
                self._record(now, ev.AllocationPlanned(name, placements, decision))
            case remedies.Unchanged(name, decision):
                # Nothing is done; why is logged when that changes.
                if self.state.workloads[name].deferral is not decision.reason:
                    self._record(now, ev.AllocationUnchanged(name, decision))
            case remedies.Suspend(name, suspended_for, decision):
                self._record(now, ev.WorkloadSuspended(name, suspended_for, decision))
            case remedies.Resume(name, decision, ineffective):
                self._record(now, ev.WorkloadResumed(name, decision, ineffective))
            case remedies.Migrate(name, placements, decision):
                self._record(now, ev.WorkloadMigrated(name, decision, placements))
            case remedies.Reclassify(name, measurements, decision):
                self._record(now, ev.ReclassificationPlanned(name, decision, measurements))

    def _note(self, now: float, part: str, note: str | None) -> None:
        if note is not None and note != self.state.notes.get(part):
            self._record(now, ev.PolicyNoted(part, note))

    def _record(self, now: float, event: ev.Event) -> None:
        self._events.append(event)
        apply(self._cluster, now, event)

    def _new_key(self, record: WorkloadRecord) -> str:
        """Unique also among keys in a lost part of the log."""
        return f"{record.uid}-{record.attempts + 1}-{self._nonce()}"

    def _nonce(self) -> str:
        return self.state.nonces[-1] if self.state.nonces else "0"

    def _admission_view(self, now: float) -> AdmissionView:
        note = self.state.notes.get(self._admission_key, "")
        return AdmissionView(self.view, self.queue_lengths(), now, note)
