"""Searches of a placement, counted by the core and shown as metrics."""

from tests.support.cluster import Cluster, running, server, workload
from tests.support.courses import curve
from tests.unit.service.test_records import scraped
from wharfinger.core import events as ev
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Estimate

DISK = SharedResource.STORAGE_BANDWIDTH
POLICY = "paragon[rule=published,confidence=0.5]"


def placed(cluster: Cluster, name: str, tolerated: float, caused: float) -> None:
    """A workload with these scores for the disk, from its submission until it runs."""
    scores = {"tolerated": tolerated, "caused": caused}
    known = curve((500, 100.0), **{k: {DISK: Estimate(v, 0.0)} for k, v in scores.items()})
    cluster.tell(ev.WorkloadSubmitted(workload(name, 500, profile=True)))
    cluster.tell(ev.ProfilingFailed(cluster.key(name), "no runs"))
    cluster.tell(ev.WorkloadClassified(cluster.key(name), known))
    running(cluster, name)


def test_what_was_relaxed_is_counted_shown_and_survives_a_replay() -> None:
    cluster = Cluster(POLICY)
    cluster.tell(ev.ServerReported(server("a")))
    cluster.sync()
    placed(cluster, "quiet", 20.0, 0.0)
    placed(cluster, "gentle", 100.0, 10.0)
    placed(cluster, "loud", 100.0, 60.0)
    counts = cluster.manager.state.searches
    assert (counts.satisfied, counts.one_relaxed, counts.back_tracks) == (2, 1, 1)
    shown = scraped(cluster)  # type: ignore[arg-type]
    assert shown["wharfinger_searches_total", "none"] == 2
    assert shown["wharfinger_searches_total", "one"] == 1
    assert shown["wharfinger_search_back_tracks_total", ""] == 1
    assert shown["wharfinger_search_timeouts_total", ""] == 0
    for point in (0, len(cluster.log) // 2, len(cluster.log)):
        assert cluster.replayed(point).state.searches == counts
