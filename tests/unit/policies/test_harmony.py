"""The index of scores, over a view whose servers change."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.cluster import Cluster, GentleScores, running, server, workload
from tests.support.courses import curve
from tests.support.views import seen
from wharfinger.core import events as ev
from wharfinger.model.allocation import Allocation
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Estimate
from wharfinger.policies.placement.harmony import Harmony, InHarmony

DISK = SharedResource.STORAGE_BANDWIDTH
SOURCES = len(SharedResource)
NEED = Allocation(500, 2**20)
EMPTY_NORM = SOURCES * 180.0
"""100 tolerated and 0 caused, of somebody with 90 and 10."""


def classified(cluster: Cluster, name: str, tolerated: float, caused: float) -> None:
    """A workload that runs, with these scores for the disk."""
    scores = {"tolerated": tolerated, "caused": caused}
    known = curve((1000, 100.0), **{k: {DISK: Estimate(v, 0.0)} for k, v in scores.items()})
    cluster.tell(ev.WorkloadSubmitted(workload(name, 500, profile=True)))
    cluster.tell(ev.ProfilingFailed(cluster.key(name), "no runs"))
    cluster.tell(ev.WorkloadClassified(cluster.key(name), known))
    running(cluster, name)


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    for name in ("a", "b", "c"):
        made.tell(ev.ServerReported(server(name)))
    made.sync()
    return made


def best(cluster: Cluster, z: float = 0.0, **asked) -> InHarmony:
    view = cluster.manager.view
    return view.index.best(view, GentleScores(), NEED, z, keep=10, **asked)


def test_who_has_least_to_spare_comes_first_and_the_empty_ones_last(cluster):
    classified(cluster, "first", 80.0, 30.0)
    found = best(cluster)
    assert found.rows == [0, 1, 2]
    assert found.norms == pytest.approx([EMPTY_NORM - 20 - 30, EMPTY_NORM, EMPTY_NORM])
    assert found.complete
    assert best(cluster, excluded={0, 2}).rows == [1]
    assert best(cluster, platforms=()).rows == []


def test_a_new_classification_of_a_resident_is_read(cluster):
    """Nothing about its server has changed but the scores."""
    classified(cluster, "first", 80.0, 30.0)
    assert best(cluster).rows == [0, 1, 2]
    known = curve((1000, 100.0), tolerated={DISK: Estimate(5.0, 0.0)})
    record = cluster.record("first")
    record.reclassifying = True
    cluster.tell(ev.WorkloadClassified(record.key, known))
    assert best(cluster).rows == [1, 2]


def test_who_leaves_and_who_is_closed_is_not_found(cluster):
    classified(cluster, "first", 80.0, 30.0)
    cluster.tell(ev.ServerLeft("b", "unplugged"))
    assert best(cluster).rows == [0, 1]
    cluster.tell(ev.ServerReported(server("c", accepting=False)))
    assert best(cluster).rows == [0]
    cluster.tell(ev.ServerReported(server("b")))
    assert best(cluster).rows == [0, 2]
    cluster.tell(ev.WorkloadFinished(cluster.key("first"), 0, None, "exited"))
    assert best(cluster).norms == [EMPTY_NORM] * 2


def test_doubt_asks_for_more(cluster):
    """The newcomer's own: 10 points give or take 2 where 13 are tolerated."""
    classified(cluster, "first", 13.0, 0.0)
    assert best(cluster, z=1.4).rows == [0, 1, 2]
    assert best(cluster, z=1.6).rows == [1, 2]


def test_what_counts_of_the_scores_can_be_chosen(cluster):
    classified(cluster, "first", 80.0, 30.0)
    view = cluster.manager.view
    index = Harmony(lambda scores: replace(scores, caused=np.minimum(scores.caused, 5.0)))
    found = index.best(view, GentleScores(), NEED, 0.0)
    assert (found.rows, found.norms) == ([0], pytest.approx([EMPTY_NORM - 20 - 5]))


def test_of_equal_servers_the_less_loaded_one_comes_first(cluster):
    cluster.tell(ev.ServerReported(server("d", 8)))
    cluster.tell(ev.ServerReported(server("e", 8)))
    for name in ("first", "second", "third", "fourth"):
        classified(cluster, name, 80.0, 30.0)
    view = cluster.manager.view
    load = view.cpu_allocated / view.cpu_capacity
    found = best(cluster)
    keys = [(norm, load[row], row) for row, norm in zip(found.rows, found.norms, strict=True)]
    assert keys == sorted(keys)
    assert len(keys) == 5


def test_without_scores_there_is_nothing_to_be_asked():
    index, view = Harmony(), seen(2, 4)
    index.touch(0)
    assert index.best(view, GentleScores(), NEED, 0.0) is None
