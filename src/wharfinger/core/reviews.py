"""Which workloads the admission reviews, and what it is asked."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wharfinger.core.seams.admission import AdmissionPolicy, AdmissionView
from wharfinger.core.seams.policy import Policy
from wharfinger.core.seams.verdicts import Admit, Divert, ReviewVerdict, WaitUntil
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.profile import Measurements
from wharfinger.model.view import Request

if TYPE_CHECKING:
    from wharfinger.core.cluster_state import ClusterState
    from wharfinger.core.residents import ClusterResidents

AFTER_CHANGE = 0.0
"""Time of the review of a workload whose manifest was changed: at once, and as if it came now."""

SET_BACK_SECONDS = 1.0
"""A workload that began to wait so much later than now did so before the clock was set back."""


def due_reviews(
    cluster: "ClusterState", now: float, queues: Sequence[str]
) -> Iterator[WorkloadRecord]:
    """Those whose review is due, each once: after a clock was set back, none waits for its time.

    It is due for those in a queue that the admission does not have: they waited under another.
    """
    seen: set[str] = set()
    for name in cluster.queues.outside(queues):
        seen.add(name)
        yield cluster.state.workloads[name]
    while (first := cluster.reviews.first()) is not None and first[1] not in seen:
        record = cluster.state.workloads[first[1]]
        if first[0] > now and record.phase_since <= now + SET_BACK_SECONDS:
            return
        seen.add(record.name)
        yield record


def verdict_on(
    record: WorkloadRecord, admission: AdmissionPolicy, request: Request, view: AdmissionView
) -> ReviewVerdict | None:
    """Of one whose review is due; ``None`` = it stays."""
    has_queue = record.queue in admission.queues
    if record.review_at != AFTER_CHANGE and has_queue:
        return admission.review(request, record.queue, view)
    verdict = admission.enqueue(request, view)
    if not isinstance(verdict, Admit):
        return verdict
    message, review_at = "its manifest was changed", verdict.review_at
    if not has_queue:
        message = f"the manager has no queue {record.queue} any more"
    told = Decision(Stage.ADMISSION, admission.name, True, ReasonCode.OK, message)
    decision = verdict.decision or told
    if (verdict.queue, verdict.rank) != (record.queue, record.rank):
        return Divert(verdict.queue, decision, review_at, verdict.rank)
    return None if review_at is None else WaitUntil(review_at, decision)


class AdmissionViews:
    """What the admission reads, as it is when it asks."""

    def __init__(
        self, cluster: "ClusterState", residents: "ClusterResidents", policy: Policy
    ) -> None:
        self._cluster, self._residents, self._policy = cluster, residents, policy
        self._waiting = cluster.queues.lengths(policy.admission.queues)
        self.key = f"admission:{policy.admission.name}"
        """Of its note."""

    def at(self, now: float) -> AdmissionView:
        """Of the cluster now."""
        view, state = self._residents.view(), self._cluster.state
        note, accounts = state.notes.get(self.key, ""), state.accounts
        ways = self._before, self._known, self._profile_seconds
        return AdmissionView(view, self._waiting, now, note, accounts, *ways)

    def _before(self, queues: Sequence[str], priority: int, rank: float, name: str) -> list[int]:
        record = self._cluster.state.workloads.get(name)
        uid = sys.maxsize if record is None or record.ended else record.uid
        entry, waiting_before = (-priority, rank, uid, name), self._cluster.queues.waiting_before
        return [waiting_before(queue, entry) for queue in queues]

    def _known(self, request: Request) -> Measurements | None:
        record = self._cluster.state.workloads.get(request.workload.name)
        like = None if record is None else self._cluster.followups.measured_as(record)[0]
        return None if like is None else like.measurements

    def _profile_seconds(self, request: Request) -> float:
        planner, known = self._policy.estimation, self._known(request)
        if planner is None:
            return 0.0
        asked = replace(request, measurements=known)
        planned = planner.plan(asked, asked.seen(self._residents.view(request.workload)))
        plan = planned.plan if planned else None
        return plan.seconds if plan and (known is None or plan.completes) else 0.0
