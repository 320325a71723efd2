"""The decision core: one event in, what to log and what to do out.

``Core._decide`` is the pipeline, in reading order. The runtime calls ``handle`` with each report
and request, appends ``Step.events`` to the log, and only then carries out ``Step.actions``. A
replay calls ``apply`` with each logged event.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from math import inf

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core import own_decisions as own
from wharfinger.core.ahead import Backfilling
from wharfinger.core.backfill import may_fit
from wharfinger.core.cluster_state import ClusterState
from wharfinger.core.codec import decode_state, encode_state
from wharfinger.core.draining import drained
from wharfinger.core.eligibility import Eligibility
from wharfinger.core.fold import apply
from wharfinger.core.lifecycle import Phase
from wharfinger.core.memory_needs import exceeds_all
from wharfinger.core.ordering import Ordering
from wharfinger.core.pending import PendingActions
from wharfinger.core.pools import place_within
from wharfinger.core.preempting import Preempting
from wharfinger.core.queues import BlockedHead, entry_of
from wharfinger.core.remedies import event_of
from wharfinger.core.residency import may_take
from wharfinger.core.residents import ClusterResidents
from wharfinger.core.retries import want_due
from wharfinger.core.reviews import AdmissionViews, due_reviews, verdict_on
from wharfinger.core.seams import verdicts
from wharfinger.core.seams.adaptation import Remedy
from wharfinger.core.seams.admission import AdmissionView
from wharfinger.core.seams.policy import Policy
from wharfinger.core.settings import CORE, CoreSettings
from wharfinger.core.state import ManagerState, WorkloadRecord
from wharfinger.core.triggers import as_change, is_news, only_news
from wharfinger.errors import NotFound
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision, Place, ReasonCode, Refuse, Stage, recommended
from wharfinger.model.profile import Measurements
from wharfinger.model.view import ALL_REASONS, Capabilities, Request, View
from wharfinger.model.workload import Workload

_BEGINNINGS = frozenset({ev.ManagerStarted, ev.EngineSynced})
_NEEDS_ANOTHER_SERVER = frozenset({ReasonCode.TOO_LARGE, ReasonCode.NOT_ALLOWED})
"""Room does not help: these are tried again when servers change."""


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
    """It says so, and starts, resizes and moves nothing; but it profiles, to say it by target, and
    finishes a migration that was begun before it."""
    RECOMMEND_COLD = "recommend-cold"
    """The same without profiling runs: what it says is by cold starts."""


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
        self._cluster.queues.backfill = policy.admission.backfill
        self._note_key = f"placement:{policy.placement.name}"
        self._events: list[ev.Event] = []
        self._tried_before: set[str] = set()
        self._eligibility = Eligibility(self._cluster, self._settings, self._record, self._hold)
        queues = policy.admission.queues
        self._preempting = Preempting(
            self._cluster, queues, self._residents.view, self._record, self._hold
        )
        self._ahead = Backfilling(self._cluster, self._residents, policy)
        self._admission_views = AdmissionViews(self._cluster, self._residents, policy)
        self._ordering = Ordering(
            self.state, self._settings, self._record, self._residents.view, self.queue_lengths
        )

    @property
    def recommends(self) -> bool:
        """Whether it only reports what it would do."""
        return self.mode is not Mode.ACT

    # --- in and out ----------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The cluster as policies see it now."""
        return self._residents.view()

    def handle(self, now: float, event: ev.Report | ev.ClientRequest) -> Step:
        """Decide what follows from one report or request; ``now`` in seconds since the epoch."""
        event = only_news(self._cluster, event)
        if isinstance(event, ev.WorkloadOffered):
            event = as_change(self.state, event)
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
            self._ahead.again_at,
        ]
        due += [first[0] for at in (cluster.reviews, cluster.retries) if (first := at.first())]
        due.append(cluster.followups.wake_at())
        if self.state.not_acquired:
            due.extend(self._ordering.not_acquired(now).values())
        if self.policy.provisioning is not None:
            due.append(self.policy.provisioning.wake_at(self._ordering.seen(now)))
        return min([time for time in due if time is not None], default=None)

    # --- questions, asked before a request is made an event ------------------------------------

    def find(self, name: str) -> WorkloadRecord:
        """One workload's state; to be read only.

        Raises:
            NotFound: There is no such workload.
        """
        record = self.state.workloads.get(name)
        if record is None:
            raise NotFound(f"no workload {name!r}")
        return record

    def members(self, name: str) -> list[WorkloadRecord]:
        """The workload of this name, or all of the array of this name; to be read only.

        Raises:
            NotFound: There is neither.
        """
        members = self._cluster.followups.members(name)
        return members or [self.find(name)]

    def knows(self, name: str) -> bool:
        """Whether there is, or was, a workload or an array of this name."""
        followups = self._cluster.followups
        if followups.members(name) or followups.forgotten_run(name):
            return True
        return bool(followups.forgotten_members(name, 0.0))

    def record_of(self, key: str) -> WorkloadRecord | None:
        """The workload whose current key this is; to be read only."""
        return self._cluster.record_of(key)

    def residents_of(self, server: str) -> list[WorkloadRecord]:
        """What holds resources on a server, from placement to end; to be read only."""
        return self._cluster.residency.residents_of(server)

    def measured(self, record: WorkloadRecord) -> Measurements | None:
        """All measurements of a workload, from before it ran and since."""
        return self.policy.adaptation.measured(record, self._residents.platform_of(record))

    def preview(self, workload: Workload, now: float) -> list[Decision]:
        """What would be decided, on a copy of the state, if it were submitted or tried now."""
        existing = self.state.workloads.get(workload.name)
        state = decode_state(encode_state(self.state))
        fork = Core(self.policy, state=state, settings=self._settings, mode=self.mode)
        is_new = existing is None or existing.ended or existing.revoking
        asked = ev.WorkloadSubmitted if is_new else ev.WorkloadUpdated
        if self.state.synced:
            # Which workloads wait for room, and block others, is derived by trying.
            fork._place_waiting(now)
        else:
            fork._ahead.unprofiled = self._ahead.unprofiled
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
        head = self._ahead.blocked_before(record) or self._cluster.queues.heads.of(record.queue)
        if head is not None and head.name != record.name:
            return self._place_ahead(now, record, head, in_full=True).decision
        verdict = self._place(now, record, in_full=True)
        if isinstance(verdict, Refuse) and self.policy.admission.blocks(verdict.decision.reason):
            return self._ahead.expected(
                now, self._ahead.head(now, record, verdict), verdict.decision
            )
        return verdict.decision

    def behind(self, record: WorkloadRecord) -> list[Decision]:
        """The decision that says how many are served before a workload, if they keep it waiting."""
        if record.phase is not Phase.QUEUED:
            return []
        ahead = self._cluster.queues.before(record.queue, entry_of(record))
        if not ahead or not self.policy.admission.blocks(ReasonCode.NO_ROOM):
            return []
        return [own.behind_others(self.policy.admission.name, ahead, record.queue)]

    def request(self, record: WorkloadRecord, now: float) -> Request:
        """What the placement is asked about a workload."""
        return self._residents.request(record, now)

    def measured_as(self, record: WorkloadRecord) -> tuple[WorkloadRecord | None, str]:
        """Who tells what it needs without a profile, and how that is known."""
        return self._cluster.followups.measured_as(record)

    def neighbors(self, record: WorkloadRecord) -> list[str]:
        """What else holds resources where a workload is; names, in the order of arrival."""
        return [other.name for other in self._residents.neighbors(record)]

    def queue_lengths(self) -> dict[str, int]:
        """How many workloads wait, by queue."""
        return dict(self._cluster.queues.lengths(self.policy.admission.queues))

    def admission_view(self, now: float) -> AdmissionView:
        """What the admission reads now."""
        return self._admission_views.at(now)

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
        if state.synced and (cluster.arriving or cluster.reserved):
            # Before anything asks for the room that was held for them, copies included.
            self._arrive(now)
            self._take_reserved(now)
        self._eligibility.follow_up(now)
        want_due(cluster, now)
        self._review(now)
        if cluster.undecided:
            for name in list(cluster.undecided):
                self._advance(now, state.workloads[name])
        if state.synced:
            # What runs comes before what waits, for the same room.
            for remedy in self.policy.adaptation.remedies(now, event, self._residents):
                self._carry_out(now, remedy)
            if state.cordoned and cluster.queues.room_changed and not self.recommends:
                for migrated in drained(now, cluster, self._residents, self.policy.placement):
                    self._record(now, migrated)
            self._place_waiting(now)
            if self.policy.provisioning is not None and not self.recommends:
                self._ordering.provision(now, self.policy.provisioning)
        while len(cluster.ended) > self._settings.keep_ended:
            self._record(now, ev.WorkloadForgotten(cluster.ended[0][2]))
        # What the admission remembers of this step.
        remembered = self.policy.admission.observe(self.admission_view(now))
        self._note(now, self._admission_views.key, remembered)

    def _track(self, now: float, event: ev.ServerMeasured) -> None:
        adaptation, samples = self.policy.adaptation, []
        for sample in event.samples:
            record = self._cluster.running(sample.key)
            if record is None:
                continue
            tracked = adaptation.track(record, now, self._cluster.residency.slowdown_of(record))
            if tracked.says_something or record.tracking:
                samples.append(tracked)
        if samples:
            self._record(now, ev.TargetsTracked(tuple(samples)))

    def _arrive(self, now: float) -> None:
        """Start those that were stopped to be migrated where room is held for them.

        So does a core that only recommends: what its predecessor has stopped would not run else.
        """
        for name in list(self._cluster.arriving):
            record = self.state.workloads[name]
            placements = record.planned
            servers = " and ".join(placement.server for placement in placements)
            # The decision to migrate explains the server; later decisions may follow it.
            decided = (timed.decision for timed in reversed(record.decisions))
            migrating = (d for d in decided if d.stage is Stage.ADAPTATION and d.accepted)
            chosen = next(migrating, None)
            if chosen is None or not self._may_arrive(record):
                self._record(
                    now, ev.WorkloadDeferred(name, own.not_migrated(servers, paused=record.paused))
                )
                continue
            decision = replace(
                chosen,
                stage=Stage.PLACEMENT,
                reason=ReasonCode.OK,
                message=f"migrated: {servers} held room for it",
                predicted=record.predicted,
            )
            key = self._new_key(record)
            self._record(now, ev.WorkloadPlaced(name, key, placements, decision))

    def _take_reserved(self, now: float) -> None:
        """Place those for which others have left, before anything else gets that room."""
        for record in self._preempting.ready():
            with self._preempting.lent(record):
                verdict = self._place(now, record)
            if not self.recommends and not self._is_held(record):
                self._answer(now, record, verdict)
            self._preempting.give_up(now, record, verdict.decision)

    def _may_arrive(self, record: WorkloadRecord) -> bool:
        """Whether it can be started now where room was held for it."""
        is_full = self._cluster.followups.is_array_full(record)
        return not record.paused and not is_full and self._fits(record, record.planned)

    def _fits(self, record: WorkloadRecord, placements: Sequence[Placement]) -> bool:
        """Whether all of it can be allocated now, each server being named once."""
        view, servers = self.view, self.state.servers
        if len({placement.server for placement in placements}) < len(placements):
            return False
        for placement in placements:
            server, need = servers.get(placement.server), placement.allocation
            if server is None or not may_take(server, record.workload):
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

        If its servers have changed since, the decider is asked again; else the proposal was wrong.
        """
        if record.phase is not Phase.QUEUED or self._is_held(record):
            return
        most = self._residents.most_servers(record)
        if not event.placements:
            self._hold(now, record, event.decision)
        elif len(event.placements) > most:
            self._hold(now, record, own.beyond_limits(event.decision, most))
        elif self._fits(record, event.placements):
            if self.recommends:
                self._recommend(now, record, Place(event.placements, event.decision))
                return
            places, key = event.placements, self._new_key(record)
            self._record(now, ev.WorkloadPlaced(record.name, key, places, event.decision))
        else:
            changed = self._changed_since(event)
            decision = own.conflict(event.decision, changed)
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
        present, offered = set(event.known_keys), set(event.offers)
        for record in list(self.state.workloads.values()):
            taken = record.on_server and record.phase is not Phase.PLACED
            if taken and record.key not in present:
                reason = "the engine knows nothing of it any more"
                self._record(now, ev.WorkloadVanished(record.key, reason))
            elif record.offer and record.offer not in offered:
                withdrawn = ev.OfferWithdrawn(record.name, "the engine holds it no more")
                if is_news(self._cluster, withdrawn):
                    self._record(now, withdrawn)

    def _advance(self, now: float, record: WorkloadRecord) -> None:
        """Admission, profiling and queueing, as far as a workload gets without waiting."""
        if record.phase is Phase.SUBMITTED and not self._eligibility.may_begin(now, record):
            return
        # Neither is changed by what comes before the queue.
        request, view = self._residents.request(record, now), self.admission_view(now)
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
            case verdicts.Admit(decision, _, _, rank) if submitted:
                assert decision is not None, f"{admission.name} tells nothing"
                self._record(now, ev.WorkloadAdmitted(record.name, decision, rank))
            case verdicts.Admit(decision, queue, review_at, rank):
                self._record(now, ev.WorkloadQueued(record.name, queue, decision, review_at, rank))
            case verdicts.WaitUntil(time, decision):
                self._record(now, ev.WorkloadDeferred(record.name, decision, time))
            case Refuse(decision=decision):
                self._record(now, ev.WorkloadRejected(record.name, decision))

    def _review(self, now: float) -> None:
        """Those whose review is due."""
        for record in due_reviews(self._cluster, now, self.policy.admission.queues):
            verdict = None
            if record.phase is Phase.QUEUED:
                request, view = self._residents.request(record, now), self.admission_view(now)
                verdict = verdict_on(record, self.policy.admission, request, view)
            match verdict:
                case verdicts.Divert(queue, decision, review_at, rank):
                    later = review_at if review_at is None or review_at > now else None
                    diverted = ev.WorkloadDiverted(record.name, queue, decision, later, rank)
                    self._record(now, diverted)
                case verdicts.WaitUntil(time, decision) if time > now:
                    self._record(now, ev.WorkloadReviewed(record.name, decision, time))
                case Refuse(decision=decision):
                    self._record(now, ev.WorkloadRejected(record.name, decision))
                case _:
                    self._record(now, ev.WorkloadReviewed(record.name))

    def _profile(self, now: float, record: WorkloadRecord, request: Request) -> bool:
        """Plan its profiling, or hold it until there is room; whether it is to be profiled."""
        planner = self.policy.estimation
        like, _ = self._cluster.followups.measured_as(record)
        if like is not None and like.measurements is not None:
            request = replace(request, measurements=like.measurements)
        view = self._residents.view(record.workload)
        verdict = planner and planner.plan(request, request.seen(view))
        if not verdict:
            return False
        told, completes = verdict.decision, verdict.plan is not None and verdict.plan.completes
        is_planned = verdict.known or (verdict.plan is not None and not completes)
        if is_planned and self._is_measured(now, record, told):
            return True
        # A workload that no server could hold waits for a placement, not for profiling runs.
        never = self.mode is Mode.RECOMMEND_COLD or exceeds_all(request, view)
        if not never and verdict.plan:
            verdict = self._ahead.profiled(now, record, request, verdict)
        if completes and (never or verdict.plan is None):
            return self._is_measured(now, record, told)
        if never or verdict.decision.accepted:
            decision = replace(verdict.decision, accepted=True, would_change="")
            key = self._new_key(record)
            if never or verdict.plan is None:
                beside = verdict.beside and not never
                planned = ev.ClassificationPlanned(record.name, key, decision, beside=beside)
                self._record(now, planned)
            else:
                name = like.name if completes and like and like is not record else ""
                plan = ev.ProfilingPlanned(record.name, key, decision, verdict.plan, name)
                self._record(now, plan)
        else:
            self._hold(now, record, verdict.decision)
            self._ahead.waits_for_copy(request, verdict)
        return True

    def _profile_beside(self, now: float, record: WorkloadRecord) -> None:
        """Plan copies of what has been placed without a profile, where there is room for them."""
        planner = self.policy.estimation
        request = self._residents.request(record, now)
        view = request.seen(self._residents.view(record.workload))
        verdict = planner and planner.beside(request, view)
        if verdict and verdict.plan is not None:
            key = f"{record.uid}-{record.attempts}-beside-{self._nonce()}"
            self._record(now, ev.CopiesPlanned(record.name, key, verdict.decision, verdict.plan))

    def _is_measured(self, now: float, record: WorkloadRecord, decision: Decision) -> bool:
        """Whether there are, or soon will be, measurements of its program without a new profile."""
        like, why = self._cluster.followups.measured_as(record)
        if like is None:
            return False
        if like.measurements is None:
            self._eligibility.wait_for(now, record, [like.name], why)
            return True
        told = replace(decision, accepted=True, would_change="", message=f"not profiled: {why}")
        key, name = self._new_key(record), "" if like is record else like.name
        self._record(now, ev.ClassificationPlanned(record.name, key, told, name))
        return True

    def _hold(self, now: float, record: WorkloadRecord, decision: Decision) -> None:
        if record.deferral is not decision.reason:
            self._record(now, ev.WorkloadDeferred(record.name, decision))

    def _recommend(
        self, now: float, record: WorkloadRecord, verdict: verdicts.PlacementVerdict
    ) -> None:
        """Say what would be done; room is held for a placement as if it had been made."""
        decision = recommended(verdict.decision)
        if isinstance(verdict, Place):
            told = ev.WorkloadDeferred(record.name, decision, placements=verdict.placements)
            self._record(now, told)
        else:
            self._hold(now, record, decision)

    def _is_recommended(self, now: float, record: WorkloadRecord) -> bool:
        """Whether what is recommended for it still stands; else it holds room no longer."""
        servers = [self.state.servers.get(placement.server) for placement in record.recommended]
        if all(server is not None and may_take(server, record.workload) for server in servers):
            return bool(servers)
        self._record(now, ev.WorkloadDeferred(record.name, own.withdrawn(record.recommended)))
        return False

    def _place_waiting(self, now: float) -> None:
        queues = self._cluster.queues
        if self._is_head_held() or self._ahead.is_due(now):
            queues.room_changed = True
        if not queues.end_delays(now, self._settings.max_backoff_seconds) and (
            not queues.room_changed
        ):
            for name in queues.heads.take_arrived():
                record = self.state.workloads[name]
                head = queues.heads.of(record.queue)
                if head is not None and record.phase is Phase.QUEUED and not self._is_held(record):
                    queues.heads.tried.add(name)
                    self._answer(now, record, self._place_ahead(now, record, head))
            if not self._is_head_held():
                return
            queues.room_changed = True
        queues.heads.clear()
        freed, self._tried_before, queues.heads.tried = queues.freed(), queues.heads.tried, set()
        urgent = self._ahead.urgent(self.policy.admission.queues)
        if urgent is not None:
            # Before others, of a lower priority, take the room that its copies need.
            self._serve_all(now, freed, urgent)
            self._profile_waiting(now, urgent)
            queues.heads.clear()
        self._serve_all(now, freed)
        if self._profile_waiting(now):
            self._serve_all(now, freed)
        while self._is_head_held():
            queues.heads.clear()
            self._serve_all(now, None)
        # Placing only takes room: no other workload fits because of it.
        queues.room_changed = False

    def _is_head_held(self) -> bool:
        """Whether one that blocks its queue is suspended by its user, or its array is full now."""
        heads = map(self.state.workloads.get, self._cluster.queues.heads.names())
        return any(head is not None and self._is_held(head) for head in heads)

    def _serve_all(self, now: float, freed: tuple[str, ...] | None, least: float = -inf) -> None:
        for queue in self.policy.admission.queues:
            self._serve(now, queue, freed, least)

    def _profile_waiting(self, now: float, least: float = -inf) -> bool:
        """Profile what waits for that, down to the ``least`` priority; whether one was queued."""
        queued, tries, refused = False, self.policy.admission.backfill, set[tuple[int, int]]()
        self._ahead.ask_again()
        for *_, name in list(self._cluster.unprofiled):
            record = self.state.workloads[name]
            if record.workload.priority < least:
                break
            need = record.workload.reservation
            if any(need.cpu_millicpus >= cpu and need.memory_bytes >= m for cpu, m in refused):
                continue  # There is no room for it either.
            self._advance(now, record)
            queued = queued or record.phase is Phase.QUEUED
            if record.phase is Phase.ADMITTED and entry_of(record) in self._cluster.unprofiled:
                tries -= 1
                if not record.workload.requires:  # Others may go to more servers than that.
                    # Of equal priorities memory decides: trying all keeps fewer targets (0116).
                    refused.add((need.cpu_millicpus if least > -inf else 0, need.memory_bytes))
                if tries < 0 or self._ahead.unprofiled is None:
                    break
        return queued

    def _serve(self, now: float, queue: str, freed: tuple[str, ...] | None, least: float) -> None:
        """Try those of one queue in order, down to the ``least`` priority; the placed leave it.

        Behind the first that blocks, of this queue or one served before it, a few are tried that
        must not delay it: those that were tried before only for the servers ``freed`` since.
        """
        position, queues = 0, self._cluster.queues
        sizes = getattr(self.policy.placement, "follows_targets", False)
        line, head, tries = queues.open(queue), None, self.policy.admission.backfill
        if line:
            head = self._ahead.blocked_before(self.state.workloads[line[0][3]])
        while position < len(line):
            record = self.state.workloads[line[position][3]]
            if record.workload.priority < least:
                return
            before = len(line)
            leaving = head is not None and record.name in self._cluster.residency.leaving_for
            held = leaving or self._is_held(record)
            if held or (record.recommended and self._is_recommended(now, record)):
                pass
            elif head is not None:
                tries -= 1
                was_tried = record.name in self._tried_before
                queues.heads.tried.add(record.name)
                view = self._residents.view(record.workload)
                if may_fit(record, view, freed if was_tried else None, sizes=sizes):
                    self._answer(now, record, self._place_ahead(now, record, head))
            elif self._holds_up(now, record):
                head = queues.heads.of(queue)
                if head is None:
                    return
            if head is not None and tries <= 0:
                return
            position += len(line) == before

    def _is_held(self, record: WorkloadRecord) -> bool:
        """Whether it may not be placed now, whatever room there is."""
        cluster, held = self._cluster, bool(record.question) or record.paused
        held = held or cluster.queues.is_delayed(record) or cluster.followups.is_array_full(record)
        return held or self._ahead.gives_way(record)

    def _holds_up(self, now: float, record: WorkloadRecord) -> bool:
        """Try to place it; whether the workloads behind it in its queue must wait."""
        queues, blocks = self._cluster.queues, self.policy.admission.blocks
        if record.name in self._cluster.residency.leaving_for:
            # Before its victims have left, its placement would name them again, or more.
            is_blocked = blocks(ReasonCode.PREEMPTING)
        else:
            verdict = self._place(now, record)
            first = self._ahead.profiled_before(record) if isinstance(verdict, Place) else None
            if first is not None:
                verdict = self._place_ahead(now, record, first)
            if isinstance(verdict, Refuse) and (first or blocks(verdict.decision.reason)):
                head = first or self._ahead.head(now, record, verdict)
                if record.deferral is not verdict.decision.reason:
                    self._hold(now, record, self._ahead.expected(now, head, verdict.decision))
                queues.heads.put(record, head)
                return True
            is_blocked = self._answer(now, record, verdict)
        if is_blocked:
            queues.heads.put(record, None)
        return is_blocked

    def _answer(
        self, now: float, record: WorkloadRecord, verdict: verdicts.PlacementVerdict
    ) -> bool:
        """Carry out a placement's verdict; whether those behind it wait for what it does."""
        match verdict:
            case Place(placements, decision, note) if not self.recommends:
                key = self._new_key(record)
                self._record(now, ev.WorkloadPlaced(record.name, key, placements, decision))
                self._note(now, self._note_key, note)
                if record.profiled_beside:
                    self._profile_beside(now, record)
            case Refuse(decision) if decision.reason is ReasonCode.WILL_MISS:
                self._record(now, ev.WorkloadRejected(record.name, decision))
            case Refuse(decision, waits_for):
                self._hold(now, record, decision)
                if decision.reason in _NEEDS_ANOTHER_SERVER:
                    self._cluster.queues.park(record)
                elif waits_for:
                    self._cluster.queues.await_room(record, waits_for)
            case _ if self.recommends:
                self._recommend(now, record, verdict)
            case verdicts.Preempt():
                reason = self._preempting.stop(now, record, verdict)
                return self.policy.admission.blocks(reason)
            case verdicts.Acquire(platform, decision):
                self._acquire(now, record, platform, decision)
            case verdicts.Delegate(decider, decision):
                key = f"question-{record.uid}-{self.state.next_question}-{self._nonce()}"
                self._record(now, ev.PlacementDelegated(record.name, key, decider, decision))
            case verdicts.WaitUntil(time, decision):
                if not self._cluster.queues.defer_again(record, time, decision.reason):
                    self._record(now, ev.WorkloadDeferred(record.name, decision, time))
        return False

    def _place(
        self,
        now: float,
        record: WorkloadRecord,
        avoided: frozenset[int] = frozenset(),
        *,
        in_full: bool = False,
        may_preempt: bool = True,
    ) -> verdicts.PlacementVerdict:
        """The placement's verdict; a migrated workload goes back rather than nowhere.

        Unless ``in_full``, the record of a refusal that ``_hold`` would not log may lack something.
        """
        request = self._residents.request(record, now, may_preempt=may_preempt)
        if record.deferral is not None and not in_full:
            request = replace(request, told=frozenset((record.deferral,)))
        view = self._residents.view(record.workload)
        allowed = self.policy.admission.servers(request, record.queue, self.admission_view(now))
        if avoided:  # A refusal without these is not logged.
            request = replace(request, excluded=request.excluded | avoided, told=ALL_REASONS)
        verdict = place_within(self.policy.placement, request, view, allowed)
        migrated = record.migrations > 0 and not (record.start_failures or avoided)
        if isinstance(verdict, Refuse) and migrated and request.excluded:
            anywhere = replace(request, excluded=frozenset())
            return place_within(self.policy.placement, anywhere, view, ())
        return verdict

    def _place_ahead(
        self, now: float, record: WorkloadRecord, head: BlockedHead, *, in_full: bool = False
    ) -> Place | Refuse:
        place = partial(self._place, now, record, in_full=in_full, may_preempt=False)
        return self._ahead.placed(now, record, place, head)

    def _acquire(
        self, now: float, record: WorkloadRecord, platform: str, decision: Decision
    ) -> None:
        self._hold(now, record, replace(decision, accepted=False, reason=ReasonCode.ACQUIRING))
        self._ordering.order_for(now, record, platform, decision)

    def _carry_out(self, now: float, remedy: Remedy) -> None:
        """Log a remedy; a core that only recommends logs a recommendation."""
        placement = self.policy.placement
        event = event_of(remedy, self.state, placement, recommends=self.recommends)
        if event is not None:
            self._record(now, event)

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
