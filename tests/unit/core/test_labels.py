"""Servers' labels and what workloads require of them: where they go, and what is told."""

from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest

from tests.support.cluster import Cluster, running, server, workload
from wharfinger.core import events as ev
from wharfinger.core.label_columns import KEPT
from wharfinger.core.lifecycle import Phase
from wharfinger.core.tables import ServerTable
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.platform import Server
from wharfinger.model.requirements import Requirement, are_met
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Workload
from wharfinger.native import least_loaded
from wharfinger.policies.registry import POLICIES

GPU = (Requirement("gpu", ("a100", "h100")),)
NOT_SPOT = (Requirement("spot", ("yes",), excluded=True),)


def labelled(name: str, cpus: int = 2, *, accepting: bool = True, **labels: str) -> Server:
    return replace(server(name, cpus, accepting=accepting), labels=labels)


def requiring(name: str, requires=GPU, millicpus: int = 1000, **more) -> Workload:
    return replace(workload(name, millicpus, **more), requires=requires)


def submit(cluster: Cluster, *workloads: Workload) -> None:
    for each in workloads:
        cluster.tell(ev.WorkloadSubmitted(each))


def servers_of(cluster: Cluster, name: str) -> list[str]:
    return [placement.server for placement in cluster.record(name).placements]


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.tell(
        ev.ServersReported(
            (labelled("plain", 4), labelled("a", gpu="a100", spot="yes"), labelled("v", gpu="v100"))
        )
    )
    cluster.sync()
    return cluster


@pytest.mark.parametrize("policy", POLICIES)
def test_a_workload_goes_only_where_its_labels_let_it(policy: str) -> None:
    cluster = Cluster(policy)
    cluster.tell(
        *(ev.ServerReported(labelled(f"plain{row}", 8)) for row in range(4)),
        ev.ServerReported(labelled("a", gpu="a100", spot="yes")),
        ev.ServerReported(labelled("h", gpu="h100")),
    )
    cluster.sync()
    submit(cluster, *(requiring(f"g{row}", millicpus=500) for row in range(4)))
    submit(cluster, *(requiring(f"s{row}", NOT_SPOT, 500) for row in range(4)))
    submit(cluster, requiring("both", (*GPU, *NOT_SPOT), 500))
    placed = {name: servers_of(cluster, name) for name in cluster.manager.state.workloads}
    assert {server for row in range(4) for server in placed[f"g{row}"]} <= {"a", "h"}
    assert all(placed[f"s{row}"] and placed[f"s{row}"] != ["a"] for row in range(4))
    assert placed["both"] in ([], ["h"])
    cluster.check_books()


def test_who_is_allowed_nowhere_waits_without_blocking_and_is_told_what_servers_have(
    cluster: Cluster,
) -> None:
    submit(cluster, requiring("w", (Requirement("gpu", ("h100",)),), priority=9), workload("x"))
    record = cluster.record("w")
    assert record.deferral is ReasonCode.NOT_ALLOWED
    assert record.message == (
        "no server that accepts work has gpu=h100; on the servers gpu is a100 or v100"
    )
    decision = record.decisions[-1].decision
    assert decision.would_change == "a server with gpu=h100, or another spec.requires"
    assert {c.reason for c in decision.candidates} == {ReasonCode.NOT_ALLOWED}
    assert cluster.record("x").phase is Phase.PLACED
    cluster.tell(ev.ServerReported(labelled("v", gpu="h100")))
    assert servers_of(cluster, "w") == ["v"]


def test_a_closed_server_with_the_labels_is_told_and_taken_when_it_opens(cluster: Cluster) -> None:
    closed = labelled("h", gpu="h100", accepting=False)
    cluster.tell(ev.ServerReported(closed))
    submit(cluster, requiring("w", (Requirement("gpu", ("h100",)),)))
    assert ", and 1 that accept none now; on the servers" in cluster.record("w").message
    cluster.tell(ev.ServersReported((replace(closed, accepting=True),)))
    assert servers_of(cluster, "w") == ["h"]


def test_too_large_is_judged_by_the_allowed_servers(cluster: Cluster) -> None:
    submit(cluster, requiring("w", millicpus=3000), requiring("x", (), 3000))
    assert cluster.record("w").deferral is ReasonCode.TOO_LARGE
    assert cluster.record("w").message == (
        "no server with gpu=a100|h100 has 3 CPU and 256Mi, even when empty"
    )
    assert servers_of(cluster, "x") == ["plain"]


def test_a_label_that_no_server_has_is_said_to_be_unset(cluster: Cluster) -> None:
    submit(cluster, requiring("w", (Requirement("site", ("north",)),)))
    assert cluster.record("w").message.endswith("on the servers site is not set")


def test_what_runs_stays_when_labels_change_and_goes_by_them_when_it_is_placed_again(
    cluster: Cluster,
) -> None:
    made = requiring("w")
    submit(cluster, replace(made, run=replace(made.run, restartable=True)))
    running(cluster, "w")
    cluster.tell(ev.ServerReported(labelled("a", gpu="v100")))
    assert cluster.record("w").phase is Phase.RUNNING
    cluster.tell(ev.ServerCordoned("a", drain=True))
    assert cluster.record("w").phase is Phase.RUNNING  # Nothing else has the label.
    cluster.tell(ev.ServerReported(labelled("h", gpu="h100")))
    assert [p.server for p in cluster.record("w").planned] == ["h"]


def test_a_failed_start_is_tried_again_there_when_no_other_server_is_allowed(
    cluster: Cluster,
) -> None:
    submit(cluster, requiring("w"))
    cluster.tell(ev.StartFailed(cluster.key("w"), "busy", retryable=True))
    cluster.now = 10.0
    cluster.tell(ev.TimePassed())
    assert servers_of(cluster, "w") == ["a"]


def test_room_is_kept_for_a_blocked_head_on_a_server_that_it_may_take(cluster: Cluster) -> None:
    submit(cluster, requiring("first", millicpus=2000))
    submit(cluster, requiring("head", millicpus=2000), requiring("spot", (), 1500))
    assert cluster.record("head").deferral is ReasonCode.NO_ROOM
    assert servers_of(cluster, "spot") == ["plain"]
    cluster.tell(ev.WorkloadFinished(cluster.key("first"), 0, None, "exited"))
    assert servers_of(cluster, "head") == ["a"]


def test_profiling_runs_go_where_the_workload_may_go(cluster: Cluster) -> None:
    able = Capabilities(profiles=True)
    made = Cluster(able=able, planner=None)
    made.tell(*(ev.ServerReported(each) for each in (labelled("p", 8), labelled("a", gpu="a100"))))
    residents = made.manager._residents
    made.sync()
    submit(made, requiring("w"))
    view = residents.view(made.record("w").workload)
    assert view.accepting.tolist() == [0, 1]
    assert residents.request(made.record("w"), 0.0).allowed.tolist() == [0, 1]


def test_labels_outlive_a_restart(cluster: Cluster) -> None:
    submit(cluster, requiring("w"))
    for entry in (0, len(cluster.log)):
        again = cluster.replayed(entry)
        assert again.view.labels("gpu") == {"a100": 1, "v100": 1}
        assert again.state.workloads["w"].workload.requires == GPU


# --- the columns ------------------------------------------------------------------------------

SETS = [
    (Requirement("gpu", ("a",)),),
    (Requirement("gpu", ("a", "b")), Requirement("disk", ("x",), excluded=True)),
    (Requirement("disk", ("y", "x"), excluded=True),),
    (Requirement("none", ("x",)),),
    (Requirement("none", ("x",), excluded=True),),
]


@pytest.mark.parametrize("seed", range(20))
def test_masks_and_indices_are_those_of_a_table_made_anew(seed: int) -> None:
    random, able = Random(seed), Capabilities()
    columns, there = ServerTable(), dict[str, Server]()
    for step in range(120):
        name = f"s{random.randrange(30)}"
        if name in there and random.random() < 0.3:
            del there[name]
            columns.move_to_end(name)
            columns.close(name)
            columns.drop(name)
        else:
            labels = {
                label: random.choice("abxy") for label in ("gpu", "disk") if random.random() < 0.7
            }
            is_new = name not in there
            there[name] = replace(
                server(name, random.randrange(1, 5), accepting=random.random() < 0.8),
                labels=labels,
                others_cpu_millicpus=random.choice((0, 500)),
            )
            columns.put(there[name])
            if is_new and random.random() < 0.3:
                columns.exchange(name, random.randrange(len(there)))
            if random.random() < 0.5:
                columns.hold([Placement(name, Allocation(100, 1))])
                columns.hold([Placement(name, Allocation(100, 1))], sign=-1)
        if step % 7:
            continue
        for requires in SETS:
            view = columns.view(able, requires)
            expected = [are_met(requires, there[each].labels) for each in view.names]
            assert columns.allowed(requires).astype(bool).tolist() == expected
            accepting = [
                each and there[n].accepting for each, n in zip(expected, view.names, strict=True)
            ]
            assert view.accepting.astype(bool).tolist() == accepting
            rows, _ = view.loads.least_loaded(600, 1, 5)
            scanned = least_loaded(
                view.cpu_capacity,
                view.cpu_allocated,
                view.memory_capacity,
                view.memory_allocated,
                view.accepting,
                600,
                1,
                5,
            )
            assert rows == scanned[0].tolist()


def test_a_server_that_has_left_is_the_same_to_a_requirement_old_and_new() -> None:
    columns, able = ServerTable(), Capabilities()
    for name in ("a", "b"):
        columns.put(labelled(name, gpu="x"))
    kept, new = ((Requirement("gpu", (value,), excluded=True),) for value in "yz")
    columns.allowed(kept)
    columns.close("a")
    assert columns.allowed(kept).tolist() == columns.allowed(new).tolist() == [1, 1]
    assert columns.view(able, kept).accepting.tolist() == [0, 1]


def test_as_many_requirements_as_there_are_have_right_answers() -> None:
    columns, able = ServerTable(), Capabilities()
    for row in range(2 * KEPT):
        columns.put(labelled(f"s{row}", host=f"h{row}"))
    for _, row in product(range(2), range(2 * KEPT)):
        view = columns.view(able, (Requirement("host", (f"h{row}",)),))
        assert np.flatnonzero(view.accepting).tolist() == [row]
        assert view.loads.least_loaded(1000, 1, 5)[0] == [row]
    columns.hold([Placement("s3", Allocation(2000, 1))])
    view = columns.view(able, (Requirement("host", ("h3",)),))
    assert view.loads.least_loaded(1000, 1, 5)[0] == []
