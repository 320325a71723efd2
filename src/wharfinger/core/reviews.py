"""Which workloads the admission reviews, and what it is asked."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from wharfinger.core.seams.admission import AdmissionPolicy, AdmissionView
from wharfinger.core.seams.verdicts import Admit, Divert, ReviewVerdict, WaitUntil
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.view import Request

if TYPE_CHECKING:
    from wharfinger.core.cluster_state import ClusterState

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
