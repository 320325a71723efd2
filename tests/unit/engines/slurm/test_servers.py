"""Nodes as servers: sizes, platforms, what others hold, and what keeps work away."""

import pytest
from msgspec import structs

from tests.support.fake_slurm import GIBIBYTE, node
from wharfinger.engines.slurm.client.base import Node
from wharfinger.engines.slurm.servers import Held, platforms_of, servers_of, why_not_accepting
from wharfinger.model.platform import ConditionKind, Server


def _server(one: Node, own: Held | None = None) -> Server:
    return servers_of([one], ["main"], [], {one.name: own} if own else {})[one.name]


def test_a_server_is_as_large_as_its_node_and_others_hold_the_rest() -> None:
    busy = node("n1", cpus=8, cpus_allocated=5, memory_allocated_bytes=3 * GIBIBYTE)
    server = _server(busy, Held(1500, GIBIBYTE))
    assert (server.cpu_millicpus, server.memory_bytes) == (8000, 8 * GIBIBYTE)
    # Of our jobs' two whole CPUs half a one is nobody's to give: Slurm has three left.
    assert (server.others_cpu_millicpus, server.others_memory_bytes) == (3500, 2 * GIBIBYTE)
    assert _server(busy, Held(9000, 9 * GIBIBYTE)).others_cpu_millicpus == 0


def test_more_than_all_is_all() -> None:
    assert _server(node("n1", cpus=2, cpus_allocated=99)).others_cpu_millicpus == 2000


@pytest.mark.parametrize(
    ("states", "told"),
    [
        ({"idle"}, ""),
        ({"mixed"}, ""),
        ({"allocated", "completing"}, ""),
        ({"idle", "drain"}, "Slurm says drain: disk"),
        ({"mixed", "drain"}, "Slurm says drain: disk"),
        ({"down", "not_responding"}, "Slurm says down+not_responding: disk"),
        ({"idle", "maintenance"}, "Slurm says maintenance: disk"),
        ({"who_knows"}, "Slurm says who_knows: disk"),
        (set(), "Slurm says in no known state: disk"),
    ],
)
def test_states_of_nodes(states: set[str], told: str) -> None:
    one = node("n1", states=frozenset(states), reason=" di\nsk ".replace("\n", ""))
    assert why_not_accepting(one) == told
    server = _server(one)
    assert server.accepting is not bool(told)
    assert [c.kind for c in server.conditions] == ([ConditionKind.DRAINING] if told else [])


def test_only_nodes_of_the_partitions_that_have_a_size_are_servers() -> None:
    nodes = [
        node("n1"),
        node("n2", partitions=("other",)),
        node("n3", cpus=0),
        node("n4", memory_bytes=0),
        node("n5", partitions=("other", "main")),
    ]
    assert list(servers_of(nodes, ["main"], [], {})) == ["n1", "n5"]


def test_platforms_are_named_by_features_or_by_size() -> None:
    nodes = [
        node("n1", features=("rack1", "zen3")),
        node("n2", cpus=8, features=("cpu:icelake",)),
        node("n3", memory_bytes=8 * GIBIBYTE),
        node("n4", memory_bytes=8 * GIBIBYTE - 1000),
        node("n5", cpus=16),
    ]
    platforms = platforms_of(nodes, ["zen3", "cpu:*"])
    assert [platforms[n.name].name for n in nodes] == [
        "zen3",
        "icelake",
        "x86-64-4cpu",
        "x86-64-4cpu",
        "x86-64-16cpu",
    ]
    assert platforms["n4"].memory_bytes == 8 * GIBIBYTE
    large = structs.replace(nodes[2], name="n6", memory_bytes=64 * GIBIBYTE)
    names = {name: p.name for name, p in platforms_of([*nodes, large], []).items()}
    assert names["n3"] == "x86-64-4cpu-8gib"
    assert names["n6"] == "x86-64-4cpu-64gib"


def test_features_and_partition_are_labels() -> None:
    server = _server(node("n1", features=("gpu", "rack1"), partitions=("main", "long")))
    assert server.labels == {
        "slurm/feature.gpu": "yes",
        "slurm/feature.rack1": "yes",
        "slurm/partition": "main",
    }
