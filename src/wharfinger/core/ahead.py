"""What may go ahead of a blocked head: the pipeline asks here, behind one, before it decides."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from math import inf

import numpy as np

from wharfinger.core.backfill import KeptRoom, expected_start, keep_room
from wharfinger.core.cluster_state import ClusterState
from wharfinger.core.ends import copy_end, end_if_placed
from wharfinger.core.own_decisions import refused
from wharfinger.core.queues import BlockedHead, entry_of
from wharfinger.core.residents import ClusterResidents
from wharfinger.core.seams.estimation import Profiling
from wharfinger.core.seams.policy import Policy
from wharfinger.core.seams.verdicts import PlacementVerdict
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.decisions import Decision, Place, ReasonCode, Refuse
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.view import Request

PASSED_SECONDS = 600.0
"""So long later queues may pass a blocked workload of which no user says how long it runs."""


class Backfilling:
    """Verdicts on those behind a blocked head, and what is told of the head itself.

    Attributes:
        unprofiled: The first of those that wait for room to be profiled, if it was refused.
        again_at: When one of them accepts less room; ``None`` = none will be.
    """

    def __init__(self, cluster: ClusterState, residents: ClusterResidents, policy: Policy) -> None:
        self._cluster = cluster
        self._residents = residents
        self._policy = policy
        self.unprofiled: BlockedHead | None = None
        self.again_at: float | None = None

    def head(self, now: float, record: WorkloadRecord, refusal: Refuse) -> BlockedHead | None:
        """A workload that was refused, for which room is kept; ``None`` = nothing goes ahead."""
        waits_for_own = refusal.decision.reason is ReasonCode.WAITS_FOR_QUALITY
        if not self._policy.admission.backfill or waits_for_own:
            return None
        request = self._residents.request(record, now)
        return BlockedHead(request, refusal.cpu_needed, refusal.servers_needed)

    def blocked_before(self, record: WorkloadRecord) -> BlockedHead | None:
        """The first that is blocked, for long, in a queue that is served before this workload's.

        Later queues may pass it until it has waited for as long as it runs. Best-effort work uses
        what others leave, and waits for none of them.
        """
        if record.workload.best_effort:
            return None
        heads = self._cluster.queues.heads
        earlier = takewhile(lambda queue: queue != record.queue, self._policy.admission.queues)
        blocked = filter(None, map(heads.of, earlier))
        return next((head for head in blocked if _is_passed_for_long(head.request)), None)

    def urgent(self, queues: Iterable[str]) -> int | None:
        """The priority of the first that waits to be profiled, if one in a queue has a lower one.

        ``None`` = none has, or that first is best-effort work, which uses what others leave.
        """
        line, open_in = self._cluster.unprofiled, self._cluster.queues.open
        if not line or self._cluster.state.workloads[line[0][3]].workload.best_effort:
            return None
        first = line[0][0]
        lower = any(waiting[-1][0] > first for queue in queues if (waiting := open_in(queue)))
        return -first if lower else None

    def profiled_before(self, record: WorkloadRecord) -> BlockedHead | None:
        """What waits for room to be profiled, where its priority is higher than this workload's."""
        first, line = self.unprofiled, self._cluster.unprofiled
        if first is None or not line or line[0][3] != first.name:
            return None
        waiting = first.request.workload
        exempt = record.workload.best_effort or waiting.best_effort
        return first if waiting.priority > record.workload.priority and not exempt else None

    def expected(self, now: float, head: BlockedHead | None, decision: Decision) -> Decision:
        """The refusal of a head, with when and where it should start, unless that is said."""
        if head is None or decision.reason is ReasonCode.BEHIND_OTHERS:
            return decision
        kept = self._keep_room(now, head)
        return decision if kept is None else expected_start(decision, kept, now)

    def placed(
        self,
        now: float,
        record: WorkloadRecord,
        place: Callable[[frozenset[int]], PlacementVerdict],
        head: BlockedHead,
    ) -> Place | Refuse:
        """The placement's verdict, where that does not delay the head; else another, or none.

        ``place`` answers without the servers in these rows.
        """
        verdict = place(frozenset())
        if isinstance(verdict, Refuse):
            return verdict
        if not isinstance(verdict, Place):
            # Nothing is stopped or acquired for one that is not first.
            return Refuse(_behind(verdict.decision, head.name))
        first = self.profiled_before(record)
        heads = [head] if first is None or first is head else [head, first]
        kept = [room for each in heads if (room := self._keep_room(now, each))]
        delayed = _delayed(now, record, verdict, kept)
        if delayed is not None:
            other = place(frozenset().union(*(room.rows for room in kept)))
            if not isinstance(other, Place) or _delayed(now, record, other, kept):
                return Refuse(_would_delay(verdict.decision, delayed, now))
            verdict = other
        return replace(verdict, decision=_placed_ahead(verdict.decision, [h.name for h in heads]))

    def profiled(
        self, now: float, record: WorkloadRecord, request: Request, planned: Profiling
    ) -> Profiling:
        """Its profiling where it delays no blocked head, and none that waits before it for that."""
        heads = self._cluster.queues.heads.before(record)
        first = next(iter(self._cluster.unprofiled), None)
        if first is not None and first < entry_of(record):
            before = self.unprofiled
            heads.append(before if before is not None and before.name == first[3] else None)
        if not heads:
            return planned
        there = [head for head in heads if head is not None]
        kept = [room for head in there if (room := self._keep_room(now, head))]
        profiling: Profiling | None = planned if len(there) == len(heads) else None
        if profiling is not None and _copy_delays(profiling.plan, kept, now):
            avoided = request.excluded.union(*(room.rows for room in kept))
            assert self._policy.estimation is not None
            elsewhere = replace(request, excluded=avoided)
            view = self._residents.view(record.workload)
            profiling = self._policy.estimation.plan(elsewhere, request.seen(view))
        if profiling is None or profiling.plan is None or _copy_delays(profiling.plan, kept, now):
            return Profiling(_behind_others(planned.decision))
        ahead = _placed_ahead(profiling.decision, [head.name for head in there])
        return replace(profiling, decision=ahead)

    def gives_way(self, record: WorkloadRecord) -> bool:
        """Whether best-effort work would take a whole CPU that others wait for to be profiled."""
        able, waiting = self._cluster.state.capabilities, self._cluster.unprofiled
        return record.workload.best_effort and not able.shares_cpus and bool(waiting)

    def ask_again(self) -> None:
        """All that wait for room to be profiled are asked for again."""
        self.unprofiled = self.again_at = None

    def is_due(self, now: float) -> bool:
        """Whether one of them has waited until it accepts less room."""
        return self.again_at is not None and self.again_at <= now

    def waits_for_copy(self, request: Request, refused: Profiling) -> None:
        """The first that is refused profiling for want of room keeps others from delaying it."""
        before, decision = self.unprofiled, refused.decision
        if refused.again_at is not None:
            self.again_at = min(self.again_at or inf, refused.again_at)
        if decision.reason is not ReasonCode.NO_ROOM or (
            before is not None and before.request.workload.priority >= request.workload.priority
        ):
            return
        needed, servers = decision.numbers.get("cpu_needed_millicpus"), self._residents.view().names
        cpu_needed = None if needed is None else np.full(len(servers), int(needed), dtype=np.int64)
        self.unprofiled = BlockedHead(request, cpu_needed)

    def _keep_room(self, now: float, head: BlockedHead) -> KeptRoom | None:
        view = self._residents.view(head.request.workload)
        return keep_room(head, view, self._cluster, now)


def _is_passed_for_long(request: Request) -> bool:
    workload = request.workload
    stated = workload.expected_seconds or (workload.target and workload.target.completion_seconds)
    return request.waited_seconds >= (stated or PASSED_SECONDS)


def _delayed(
    now: float, record: WorkloadRecord, verdict: Place, kept: Sequence[KeptRoom]
) -> KeptRoom | None:
    """The first room that is kept for another which a placement would delay."""
    ends_at = end_if_placed(record, verdict.decision, now)
    return next((each for each in kept if each.is_delayed_by(verdict.placements, ends_at)), None)


def _copy_delays(plan: ProfilingPlan | None, kept: list[KeptRoom], now: float) -> bool:
    """The same of profiling runs."""
    if plan is None:
        return False
    ends_at = copy_end(plan, now, now)
    return any(room.is_delayed_by(plan.placements, ends_at) for room in kept)


def _behind_others(decision: Decision) -> Decision:
    """Others wait before it for profiling."""
    message = "others wait before it for room to be profiled"
    mend = "room for those, or a higher priority"
    return refused(decision, ReasonCode.BEHIND_OTHERS, message, mend)


def _would_delay(decision: Decision, kept: KeptRoom, now: float) -> Decision:
    """It fits, but would take room that is kept for a blocked one before it."""
    head = kept.head
    message = f"it would delay {head}, which waits for room before it: {kept.when(now)}"
    mend = f"an expected duration or a time limit with which it ends before that, or {head} placed"
    return refused(replace(decision, predicted=None), ReasonCode.BEHIND_OTHERS, message, mend)


def _behind(decision: Decision, head: str) -> Decision:
    """It is not placed as one behind a blocked one may be."""
    message = f"{head} waits before it; ahead of that one it is only placed where there is room"
    return refused(decision, ReasonCode.BEHIND_OTHERS, message, f"room, or {head} placed")


def _placed_ahead(decision: Decision, heads: Sequence[str]) -> Decision:
    """It is placed or profiled before those that wait for room."""
    message = f"{decision.message}; ahead of {' and '.join(heads)}: does not delay it"
    return replace(decision, message=message)
