"""Machines of many shapes, divided; and what a wrong ``--servers`` is told."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cgroup_tree import lay
from wharfinger.errors import InvalidInput
from wharfinger.host.cgroups import OwnLimits
from wharfinger.host.topology import LocalServer, discover_servers, parse_cpus, siblings_of

GIBIBYTE = 1024**3
FREE = OwnLimits()


@dataclass(frozen=True)
class Shape:
    """A machine: each level's number of the next; threads are numbered as x86 does it,
    all first threads before all second ones."""

    nodes: int = 1
    caches: int = 1
    cores: int = 2
    threads: int = 1
    gibibytes: int = 16
    model: str = "AMD EPYC 7B13 64-Core Processor"

    @property
    def cpus(self) -> int:
        return self.nodes * self.caches * self.cores * self.threads

    def lay(self, root: Path) -> tuple[Path, Path]:
        sysfs, procfs = root / "sys", root / "proc"
        cpu, node = sysfs / "devices/system/cpu", sysfs / "devices/system/node"
        lay(cpu, {"online": f"0-{self.cpus - 1}\n"})
        all_cores = self.nodes * self.caches * self.cores
        for number in range(self.cpus):
            core = number % all_cores
            threads = ",".join(str(core + all_cores * t) for t in range(self.threads))
            cache = core // self.cores
            sharers = ",".join(
                str(c + all_cores * t)
                for t in range(self.threads)
                for c in range(cache * self.cores, (cache + 1) * self.cores)
            )
            home = cpu / f"cpu{number}"
            package = f"{cache // self.caches}\n"
            lay(home / "topology", {"core_cpus_list": threads, "physical_package_id": package})
            lay(home / "cache/index0", {"level": "1\n", "shared_cpu_list": threads})
            lay(home / "cache/index3", {"level": "3\n", "shared_cpu_list": sharers})
        for index in range(self.nodes):
            per_node = self.caches * self.cores
            cpus = ",".join(
                str(core + all_cores * thread)
                for thread in range(self.threads)
                for core in range(index * per_node, (index + 1) * per_node)
            )
            kibibytes = self.gibibytes * 1024**2 // self.nodes
            meminfo = f"Node {index} MemTotal:    {kibibytes} kB\n"
            lay(node / f"node{index}", {"cpulist": cpus, "meminfo": meminfo})
        lay(procfs, {"meminfo": f"MemTotal:   {self.gibibytes * 1024**2} kB\nMemFree: 1 kB\n"})
        lay(procfs, {"cpuinfo": f"processor\t: 0\nmodel name\t: {self.model}\n"})
        return sysfs, procfs


def _divide(
    shape: Shape,
    root: Path,
    spec: str | None = None,
    *,
    affinity: range | set[int] | None = None,
    limits: OwnLimits = FREE,
) -> tuple[LocalServer, ...]:
    sysfs, procfs = shape.lay(root)
    allowed = range(shape.cpus) if affinity is None else affinity
    return discover_servers(spec, sysfs=sysfs, procfs=procfs, affinity=allowed, limits=limits)


def test_by_default_each_numa_node_is_a_server(tmp_path: Path) -> None:
    first, second = _divide(Shape(nodes=2, cores=4, threads=2, gibibytes=64), tmp_path)
    assert (first.server.name, second.server.name) == ("server0", "server1")
    assert first.cpus == (0, 1, 2, 3, 8, 9, 10, 11)
    assert first.memory_nodes == (0,)
    assert second.cpus == (4, 5, 6, 7, 12, 13, 14, 15)
    assert second.memory_nodes == (1,)
    assert first.server.platform == second.server.platform
    assert first.server.platform.name == "amd-epyc-7b13-8cpu"
    assert first.server.platform.architecture == os.uname().machine
    assert first.server.cpu_millicpus == 8000
    assert first.server.memory_bytes == pytest.approx(32 * GIBIBYTE * 0.95, rel=1e-6)


def test_a_small_machine_keeps_a_quarter_gibibyte_for_the_system(tmp_path: Path) -> None:
    (only,) = _divide(Shape(gibibytes=1), tmp_path)
    assert only.server.memory_bytes == GIBIBYTE - 256 * 1024**2


def test_neighbours_in_the_last_level_cache_stay_together(tmp_path: Path) -> None:
    first, second = _divide(Shape(caches=2, cores=2, threads=2), tmp_path, "2")
    assert (first.cpus, second.cpus) == ((0, 1, 4, 5), (2, 3, 6, 7))


def test_the_threads_of_a_core_are_not_parted_while_there_are_cores(tmp_path: Path) -> None:
    servers = _divide(Shape(cores=4, threads=2), tmp_path, "3")
    assert [server.cpus for server in servers] == [(0, 4), (1, 5), (2, 3, 6, 7)]


def test_more_servers_than_cores_get_a_thread_each(tmp_path: Path) -> None:
    servers = _divide(Shape(cores=1, threads=2), tmp_path, "2")
    assert [server.cpus for server in servers] == [(0,), (1,)]


def test_named_servers_get_what_they_name_and_their_share_of_memory(tmp_path: Path) -> None:
    shape = Shape(cores=8, gibibytes=80)
    big, small = _divide(shape, tmp_path, " big = 0-2+6 , small=4 ")
    assert (big.server.name, big.cpus) == ("big", (0, 1, 2, 6))
    assert (small.server.name, small.cpus) == ("small", (4,))
    assert big.server.memory_bytes == pytest.approx(4 * small.server.memory_bytes, abs=8)
    assert small.server.memory_bytes == pytest.approx(76 * GIBIBYTE / 8, abs=8)
    assert big.server.platform.name == "amd-epyc-7b13-4cpu"


def test_cpus_and_nodes_outside_our_affinity_are_not_given_away(tmp_path: Path) -> None:
    (only,) = _divide(Shape(nodes=2, cores=4, gibibytes=64), tmp_path, affinity={5, 6})
    assert only.cpus == (5, 6)
    assert only.memory_nodes == (1,)
    assert only.server.memory_bytes < 32 * GIBIBYTE


def test_a_quota_and_limit_on_ourselves_make_the_servers_smaller(tmp_path: Path) -> None:
    limits = OwnLimits(cpu_millicpus=1500, memory_bytes=2 * GIBIBYTE)
    first, second = _divide(Shape(cores=4), tmp_path, "2", limits=limits)
    assert (first.server.cpu_millicpus, second.server.cpu_millicpus) == (750, 750)
    assert first.server.platform.cpu_millicpus == 2000
    assert first.server.memory_bytes == GIBIBYTE


def test_numa_nodes_of_different_size_are_different_platforms(tmp_path: Path) -> None:
    shape = Shape(nodes=2, cores=2, gibibytes=64)
    sysfs, procfs = shape.lay(tmp_path)
    meminfo = sysfs / "devices/system/node/node1/meminfo"
    meminfo.write_text(f"Node 1 MemTotal:    {8 * 1024**2} kB\n")
    first, second = discover_servers(
        None, sysfs=sysfs, procfs=procfs, affinity=range(4), limits=FREE
    )
    assert first.server.platform.name == "amd-epyc-7b13-2cpu-48.6gib"
    assert second.server.platform.name == "amd-epyc-7b13-2cpu-12.2gib"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("AMD EPYC", "amd-epyc-2cpu"),
        ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", "intel-xeon-e5-2680-v4-2cpu"),
        ("AMD Ryzen 7 5800U with Radeon Graphics", "amd-ryzen-7-5800u-2cpu"),
        ("", f"{os.uname().machine.replace('_', '-')}-2cpu"),
    ],
)
def test_platforms_are_named_after_the_processor(tmp_path: Path, model: str, name: str) -> None:
    (only,) = _divide(Shape(model=model), tmp_path)
    assert only.server.platform.name == name


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("0", "there must be at least one server; use --servers 1"),
        ("5", "may run on 3 CPUs and each server needs one of its own; use --servers 3"),
        ("9" * 30, "use --servers 3"),
        ("", "write e.g. 2 or big=0-3+6,small=4"),
        ("two", "'two' is not NAME=CPUS"),
        ("-1", "'-1' is not NAME=CPUS"),
        ("a=0,", "'' is not NAME=CPUS"),
        ("a/b=0", "'a/b=0' is not NAME=CPUS"),
        ("..=0", "'..=0' is not NAME=CPUS"),
        ("a=", "'' is not a range of CPUs for 'a'"),
        ("a=2-1", "'2-1' is not a range of CPUs for 'a'"),
        ("a=0-x", "'0-x' is not a range of CPUs for 'a'"),
        ("a=0,a=1", "the name 'a' is there twice; several ranges"),
        ("a=0-1,b=1", "CPU 1 is given to 'a' and to 'b'; give it to one of them"),
        ("a=0+9", "CPU 9 of 'a' does not exist or is offline; this process may use 0-1+3"),
        ("a=2", "this process may not run on CPU 2 of 'a'; use 0-1+3, or"),
        ("a" * 5000, "…"),
    ],
)
def test_a_wrong_specification_gets_one_clear_line(tmp_path: Path, spec: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        _divide(Shape(cores=4), tmp_path, spec, affinity={0, 1, 3})
    message = str(caught.value)
    assert message.startswith("--servers ")
    assert said in message
    assert "\n" not in message
    assert len(message) < 400


def test_one_cpu_can_be_one_server_only(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"may run on 1 CPU .*use --servers 1, or start"):
        _divide(Shape(cores=1), tmp_path, "2")


@given(
    st.builds(
        Shape,
        nodes=st.integers(1, 3),
        caches=st.integers(1, 3),
        cores=st.integers(1, 4),
        threads=st.integers(1, 2),
        gibibytes=st.integers(1, 64),
    ),
    st.data(),
)
def test_no_cpu_and_no_memory_is_given_twice(
    tmp_path_factory: pytest.TempPathFactory, shape: Shape, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, shape.cpus))
    servers = _divide(shape, tmp_path_factory.mktemp("machine"), str(count))
    assert len(servers) == count
    given_away = [cpu for server in servers for cpu in server.cpus]
    assert sorted(given_away) == list(range(shape.cpus))
    sizes = [len(server.cpus) for server in servers]
    assert max(sizes) - min(sizes) <= shape.threads
    assert sum(server.server.memory_bytes for server in servers) <= shape.gibibytes * GIBIBYTE


def test_this_machine_is_divided() -> None:
    servers = discover_servers()
    assert {cpu for server in servers for cpu in server.cpus} == os.sched_getaffinity(0)
    for server in servers:
        assert 0 < server.server.cpu_millicpus <= 1000 * len(server.cpus)
        assert server.server.memory_bytes > 0


def test_cpu_lists_of_the_kernel() -> None:
    assert parse_cpus("0-2,8\n") == {0, 1, 2, 8}
    assert parse_cpus("\n") == frozenset()


def test_siblings_are_the_other_threads_of_the_cores(tmp_path: Path) -> None:
    sysfs, _ = Shape(cores=4, threads=2).lay(tmp_path)
    assert siblings_of([1, 2], range(8), sysfs) == (5, 6)


@pytest.mark.parametrize(
    ("shape", "cpus", "allowed", "why"),
    [
        (Shape(cores=2), [1], range(2), "--sibling: CPU 1 has its core alone"),
        (Shape(cores=2, threads=2), [1, 3], range(4), "CPU 1: all hardware threads"),
        (Shape(cores=2, threads=2), [1], [0, 1], "CPU 1: its sibling 3 may not be used here"),
    ],
)
def test_without_siblings_there_is_a_reason(
    tmp_path: Path, shape: Shape, cpus: list[int], allowed: list[int], why: str
) -> None:
    sysfs, _ = shape.lay(tmp_path)
    with pytest.raises(InvalidInput, match=why):
        siblings_of(cpus, allowed, sysfs)
