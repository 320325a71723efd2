"""Which workloads the admission reviews."""

from collections.abc import Iterator

from wharfinger.core.cluster_state import ClusterState
from wharfinger.core.state import WorkloadRecord

SET_BACK_SECONDS = 1.0
"""A workload that began to wait so much later than now did so before the clock was set back."""


def due_reviews(cluster: ClusterState, now: float) -> Iterator[WorkloadRecord]:
    """Those whose review is due, each once: after a clock was set back, none waits for its time."""
    seen: set[str] = set()
    while (first := cluster.reviews.first()) is not None and first[1] not in seen:
        record = cluster.state.workloads[first[1]]
        if first[0] > now and record.phase_since <= now + SET_BACK_SECONDS:
            return
        seen.add(record.name)
        yield record
