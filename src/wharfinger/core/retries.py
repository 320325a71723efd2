"""When the replacement of a lost part that failed is asked for again."""

from typing import TYPE_CHECKING

from wharfinger.core.settings import MOST_DOUBLED, settings_in
from wharfinger.core.state import WorkloadRecord

if TYPE_CHECKING:
    from wharfinger.core.cluster_state import ClusterState


def replace_later(cluster: "ClusterState", record: WorkloadRecord, time: float) -> None:
    """It has failed now: it is wanted later, and later each time."""
    wait = 2.0 ** min(record.resizes_failed, MOST_DOUBLED)
    record.resizes_failed += 1
    cluster.want_resize(record, wanted=True)
    cluster.resize_wanted.pop(record.name)
    record.resize_at = time + min(wait, settings_in(cluster.state).max_backoff_seconds)
    cluster.retries.put(record.name, record.resize_at)


def want_due(cluster: "ClusterState", now: float) -> None:
    """Let what failed and is due by now be asked for; so where the clock was set back."""
    longest = settings_in(cluster.state).max_backoff_seconds
    while (first := cluster.retries.first()) and not 0 < first[0] - now <= longest:
        cluster.retries.drop(first[1])
        cluster.resize_wanted[first[1]] = cluster.touched[first[1]] = None
