"""Sparrow looks at two servers for each core, and waits for these alone."""

from collections import Counter

import pytest

from tests.support.cluster import Cluster, running, server, workload
from tests.support.views import seen
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.model.decisions import Place, ReasonCode, Refuse
from wharfinger.model.view import Request, View
from wharfinger.policies.placement.sparrow import LOOKED_AT, Sparrow


def asked(view: View, name: str = "w", millicpus: int = 1000, **others) -> Place | Refuse:
    return Sparrow().place(Request(workload(name, millicpus), **others), view)


def probes(view: View, name: str = "w", millicpus: int = 1000) -> set[str]:
    """Who would be waited for if all were full."""
    answer = asked(view, name, millicpus)
    assert isinstance(answer, Refuse)
    return set(answer.waits_for)


def full(count: int, **others) -> View:
    return seen(*[8] * count, used={f"s{row}": 8000 for row in range(count)}, **others)


# --- probing -------------------------------------------------------------------------------------


def test_it_looks_at_two_servers_for_each_core() -> None:
    for millicpus, count in ((0, 2), (100, 2), (1000, 2), (1001, 3), (2500, 5), (4000, 8)):
        answer = asked(seen(*[8] * 100), "w", millicpus)
        assert answer.decision.considered == count
        assert millicpus == 0 or len(probes(full(100), "w", millicpus)) == count


def test_the_least_loaded_of_these_is_taken() -> None:
    drawn = sorted(probes(full(100), "w", 2000))
    used = {f"s{row}": 5000 for row in range(100)} | {drawn[2]: 3000}
    answer = asked(seen(*[8] * 100, used=used), "w", 2000)
    assert isinstance(answer, Place)
    assert answer.placements[0].server == drawn[2]


def test_an_emptier_server_that_was_not_drawn_is_not_seen() -> None:
    drawn = probes(full(100))
    others = {f"s{row}" for row in range(100)} - drawn
    answer = asked(seen(*[8] * 100, used=dict.fromkeys(drawn, 8000)))
    assert isinstance(answer, Refuse)
    assert answer.decision.reason is ReasonCode.PROBES_BUSY
    assert others.isdisjoint(c.server for c in answer.decision.candidates)


def test_probes_are_drawn_alike_for_all_servers() -> None:
    view = full(30)
    counts = Counter(name for i in range(3000) for name in probes(view, f"w{i}"))
    assert len(counts) == 30
    assert max(counts.values()) - min(counts.values()) < 100


def test_only_servers_that_could_ever_take_it_are_drawn() -> None:
    """Else it might wait forever while others have room."""
    few = LOOKED_AT * 2 * 10
    cpus = [8 if row % (few // 4) == 0 else 1 for row in range(few)]
    large = {f"s{row}" for row, cpu in enumerate(cpus) if cpu == 8}
    view, places = seen(*cpus), set()
    for i in range(40):
        answer = asked(view, f"w{i}", 2000)
        assert isinstance(answer, Place)
        places.add(answer.placements[0].server)
    assert places == large
    assert probes(full(2, closed=("s0",))) == {"s1"}


def test_where_no_server_could_take_it_the_usual_reason_is_given() -> None:
    assert asked(seen(1, 1), millicpus=9000).decision.reason is ReasonCode.TOO_LARGE
    assert asked(seen()).decision.reason is ReasonCode.NO_SERVERS
    excluded = asked(seen(2, 2), excluded=frozenset({0, 1}))
    assert excluded.decision.reason is ReasonCode.SERVERS_EXCLUDED


# --- late binding --------------------------------------------------------------------------------


def _full_cluster(servers: int = 40) -> Cluster:
    """Another policy has filled every server; sparrow has taken over."""
    cluster = Cluster("least-loaded")
    for row in range(servers):
        cluster.tell(ev.ServerReported(server(f"s{row}", 1)))
    cluster.sync()
    for row in range(servers):
        cluster.tell(ev.WorkloadSubmitted(workload(f"on{row}")))
        running(cluster, f"on{row}")
    cluster.policy = "sparrow"
    _take_over(cluster)
    return cluster


def _take_over(cluster: Cluster) -> None:
    cluster.manager = cluster.replayed(len(cluster.log) // 2)
    cluster.start()
    cluster.sync()


def _submit(cluster: Cluster, name: str, **others) -> set[str]:
    """The servers that it waits for."""
    cluster.tell(ev.WorkloadSubmitted(workload(name, **others)))
    record = cluster.record(name)
    assert record.deferral is ReasonCode.PROBES_BUSY
    return {candidate.server for candidate in record.decisions[-1].decision.candidates}


def _free(cluster: Cluster, name: str) -> None:
    """Whoever is on that server ends."""
    (key,) = [
        record.key
        for record in cluster.manager.state.workloads.values()
        if record.on_server and record.placements[0].server == name
    ]
    cluster.tell(ev.WorkloadStarted(key, "pid 1"), ev.WorkloadFinished(key, 0, None, "exited"))


def _place(cluster: Cluster, name: str) -> str | None:
    record = cluster.record(name)
    return record.placements[0].server if record.phase is Phase.PLACED else None


@pytest.mark.parametrize("taken_over", [False, True])
def test_one_that_waits_is_placed_on_the_first_of_its_servers_that_has_room(taken_over) -> None:
    cluster = _full_cluster()
    one, other = sorted(_submit(cluster, "w"))
    if taken_over:
        _take_over(cluster)
    for row in range(40):
        if f"s{row}" not in (one, other):
            _free(cluster, f"s{row}")
            assert _place(cluster, "w") is None
    _free(cluster, other)
    assert _place(cluster, "w") == other
    _free(cluster, one)
    assert _place(cluster, "w") == other


def test_those_behind_it_pass_and_those_for_the_same_server_go_in_order() -> None:
    cluster = _full_cluster(2)
    for name in ("first", "second"):
        assert _submit(cluster, name) == {"s0", "s1"}
    assert _submit(cluster, "urgent", priority=1) == {"s0", "s1"}
    cluster.tell(ev.WorkloadSubmitted(workload("small", millicpus=0, best_effort=True)))
    assert _place(cluster, "small"), "it needs no CPU"
    for name in ("urgent", "first", "second"):
        _free(cluster, "s1")
        if cluster.record(name).phase is Phase.QUEUED:
            _free(cluster, "s0")
        assert _place(cluster, name)


def test_room_that_comes_in_another_way_counts_too() -> None:
    cluster = _full_cluster(3)
    other = max(_submit(cluster, "w"))
    cluster.tell(ev.ServerReported(server(other, 2)))
    assert _place(cluster, "w") == other
    drawn = _submit(cluster, "later", millicpus=900)
    holder = next(iter(cluster.manager._cluster.residency.residents[min(drawn)]))
    running(cluster, *([holder] if cluster.record(holder).phase is Phase.PLACED else []))
    cluster.tell(ev.WorkloadUpdated(workload(holder, 100)))
    (planned,) = cluster.record(holder).planned
    cluster.tell(ev.AllocationResized(cluster.key(holder), (planned,)))
    assert _place(cluster, "later") == min(drawn)


def test_who_waits_is_not_asked_about_while_its_servers_stay_as_they_are(monkeypatch) -> None:
    cluster = _full_cluster()
    drawn = {name: _submit(cluster, name) for name in (f"w{i}" for i in range(30))}
    asked_about = Counter()
    place = Sparrow.place
    monkeypatch.setattr(
        Sparrow, "place", lambda s, r, v: asked_about.update([r.workload.name]) or place(s, r, v)
    )
    _free(cluster, "s5")
    assert set(asked_about) <= {name for name, servers in drawn.items() if "s5" in servers}
    asked_about.clear()
    cluster.tell(ev.WorkloadRevoked("w3"))
    assert not asked_about


def test_it_says_what_it_waits_for() -> None:
    cluster = _full_cluster()
    _submit(cluster, "w")
    record = cluster.record("w")
    assert record.message == "none of the 2 servers drawn for it has room"
    assert record.decisions[-1].decision.would_change == "1 CPU and 256Mi free on one of them"
    previewed = cluster.manager.preview(workload("another"), cluster.now)
    assert [d.reason for d in previewed] == [ReasonCode.OK, ReasonCode.PROBES_BUSY]
