"""What each kind of machine lets us control, what it is told, and what the operator is told."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cgroup_tree import PID, Tree
from wharfinger.errors import EngineFault, InvalidInput
from wharfinger.host.cgroups import (
    Group,
    Limits,
    Means,
    ResizeRefused,
    find_hierarchies,
    own_limits,
)
from wharfinger.model.platform import ConditionKind

LIMITS = Limits(
    cpu_millicpus=1500,
    best_effort=False,
    memory_bytes=64 * 1024**2,
    cpus=(0, 1),
    memory_nodes=(0,),
    max_processes=99,
)
BEST_EFFORT = Limits(0, best_effort=True, memory_bytes=64 * 1024**2)
BASE_OF_IDLE = "wharfinger-test-best-effort"
ALL_MISSING = {
    ConditionKind.NO_CPU_QUOTA,
    ConditionKind.NO_CPU_WEIGHT,
    ConditionKind.NO_CPU_SET,
    ConditionKind.NO_MEMORY_LIMIT,
    ConditionKind.NO_TREE_KILL,
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def _v1_tree(tree: Tree, own: str = "/") -> None:
    for controllers in ("cpu,cpuacct", "cpuset", "memory", "pids", "freezer"):
        top = tree.v1(controllers, own)
        if controllers == "cpuset":
            (top / "cpuset.cpus").write_text("0-1\n")
            (top / "cpuset.mems").write_text("0\n")


# --- pure v2 ----------------------------------------------------------------------------


def test_v2_alone_in_its_group_the_manager_gets_every_control(tree: Tree) -> None:
    own = tree.v2("/user.slice/run-1.scope")
    control = tree.discover()
    assert control.conditions() == ()
    assert (own / "manager" / "cgroup.procs").read_text() == str(PID)
    assert (own / "cgroup.subtree_control").read_text().startswith("+")


def test_v2_limits_are_written_to_the_workloads_group(tree: Tree) -> None:
    own = tree.v2("/run.scope")
    group = tree.discover().create("s", "k", LIMITS)
    leaf = own / "wharfinger-test" / "s" / "k"
    told = {path.name: path.read_text() for path in leaf.iterdir()}
    assert group.directories == (leaf,)
    assert told["cpu.max"] == "150000 100000"
    assert told["cpu.weight"] == "150"
    assert told["cpu.idle"] == "0"
    assert told["memory.max"] == str(LIMITS.memory_bytes)
    assert told["memory.swap.max"] == "0"
    assert told["memory.oom.group"] == "1"
    assert told["cpuset.cpus"] == "0,1"
    assert told["cpuset.mems"] == "0"
    assert told["pids.max"] == "99"
    assert group.kill_file == leaf / "cgroup.kill"
    assert group.freezer is None


def test_v2_best_effort_work_has_no_quota_and_the_lowest_weight(tree: Tree) -> None:
    own = tree.v2("/run.scope")
    tree.discover().create("s", "k", BEST_EFFORT)
    leaf = own / BASE_OF_IDLE / "s" / "k"
    assert (leaf / "cpu.max").read_text() == "max 100000"
    assert (leaf / "cpu.weight").read_text() == "1"
    assert (leaf / "cpu.idle").read_text() == "1"


def test_promises_outweigh_the_machines_other_processes_and_best_effort_work_yields(
    tree: Tree,
) -> None:
    own = tree.v2("/run.scope")
    for _ in range(2):  # A manager that comes back finds what it has written.
        control = tree.discover()
    for name, weight, idle in (("wharfinger-test", "2000", "0"), (BASE_OF_IDLE, "1", "1")):
        assert (own / name / "cpu.weight").read_text() == weight
        assert (own / name / "cpu.idle").read_text() == idle
    for limits, name in ((LIMITS, "wharfinger-test"), (BEST_EFFORT, BASE_OF_IDLE)):
        control.create("s", "k", limits)
        assert (own / name / "s" / "cpu.weight").read_text() == "200", "as many as its CPUs"


def test_v2_limits_of_the_managers_own_group_are_left_alone(tree: Tree) -> None:
    own = tree.v2("/run.scope")
    before = {p.name: p.read_text() for p in own.iterdir() if p.name.startswith(("cpu", "mem"))}
    tree.discover().create("s", "k", LIMITS)
    after = {p.name: p.read_text() for p in own.iterdir() if p.name.startswith(("cpu", "mem"))}
    assert after == before


def test_v2_other_processes_in_the_group_cost_the_limits_but_not_the_kill(tree: Tree) -> None:
    own = tree.v2("/user.slice/session-2.scope")
    (own / "cgroup.procs").write_text(f"17\n{PID}\n")
    control = tree.discover()
    assert Means.KILL in control.means
    assert Means.FREEZER in control.means
    messages = {condition.kind: condition.message for condition in control.conditions()}
    assert set(messages) == ALL_MISSING - {ConditionKind.NO_TREE_KILL}
    for message in messages.values():
        assert "pid 17" in message
        assert "-p Delegate=yes wharfinger up" in message
    assert (own / "manager" / "cgroup.procs").read_text() == ""


def test_v2_at_the_root_nobody_moves(tree: Tree) -> None:
    own = tree.v2("/")
    (own / "cgroup.events").unlink()  # the root has none
    (own / "cgroup.procs").write_text(f"1\n2\n{PID}\n")
    assert tree.discover().conditions() == ()
    assert (own / "manager" / "cgroup.procs").read_text() == ""


def test_v2_a_controller_that_was_not_delegated_is_said(tree: Tree) -> None:
    own = tree.v2("/run.scope")
    (own / "cgroup.controllers").write_text("memory pids\n")
    (own / "wharfinger-test" / "cgroup.controllers").write_text("memory pids\n")
    control = tree.discover()
    assert control.has_memory
    assert {condition.kind for condition in control.conditions()} == {
        ConditionKind.NO_CPU_QUOTA,
        ConditionKind.NO_CPU_WEIGHT,
        ConditionKind.NO_CPU_SET,
    }
    assert all("Delegate=yes" in condition.message for condition in control.conditions())


def test_v2_a_manager_started_by_an_earlier_ones_child_steps_out_of_its_leaf(tree: Tree) -> None:
    own = tree.v2("/run.scope")
    (own / "cgroup.procs").write_text("")
    (own / "cgroup.subtree_control").write_text("cpu cpuset memory pids\n")
    tree.cgroup = "0::/run.scope/manager\n"
    group = tree.discover().group("s", "k")
    assert group.directories == (own / "wharfinger-test" / "s" / "k",)


def test_v2_usage_and_memory_kills_are_read(tree: Tree) -> None:
    own = tree.v2("/run.scope")
    group = tree.discover().create("s", "k", LIMITS)
    (own / "wharfinger-test" / "s" / "k" / "cgroup.procs").write_text("12\n13\n")
    assert group.usage() == (1.5, 4096, 2, 12288)
    assert group.out_of_memory_kills() == 2


def test_v2_memory_in_use_is_never_cut_off_by_a_resize(tree: Tree) -> None:
    own = tree.v2("/run.scope")
    leaf = own / "wharfinger-test" / "s" / "k"
    group = tree.discover().create("s", "k", LIMITS)
    (leaf / "memory.current").write_text(str(50 * 1024**2))
    smaller = Limits(500, best_effort=False, memory_bytes=32 * 1024**2)
    refused = group.resize(smaller)
    assert isinstance(refused, ResizeRefused)
    assert "33554432" in refused.reason
    assert "52428800" in refused.reason
    assert (leaf / "memory.max").read_text() == str(LIMITS.memory_bytes)
    assert (leaf / "memory.high").read_text() == "max"
    assert (leaf / "cpu.max").read_text() == "150000 100000"
    (leaf / "memory.current").write_text("4096")
    assert group.resize(smaller) is None
    assert (leaf / "memory.max").read_text() == str(smaller.memory_bytes)
    assert (leaf / "memory.high").read_text() == "max"
    assert (leaf / "cpu.max").read_text() == "50000 100000"


# --- pure v1 ----------------------------------------------------------------------------


def test_v1_limits_are_written_to_each_hierarchy(tree: Tree) -> None:
    _v1_tree(tree, "/system.slice/w.service")
    control = tree.discover()
    assert control.conditions() == ()
    assert Means.KILL not in control.means
    group = control.create("s", "k", LIMITS)

    def told(hierarchy: str, file: str) -> str:
        own = tree.root / hierarchy / "system.slice/w.service"
        return (own / "wharfinger-test" / "s" / "k" / file).read_text()

    assert told("cpu,cpuacct", "cpu.cfs_quota_us") == "150000"
    assert told("cpu,cpuacct", "cpu.cfs_period_us") == "100000"
    assert told("cpu,cpuacct", "cpu.shares") == "1536"
    assert told("memory", "memory.limit_in_bytes") == str(LIMITS.memory_bytes)
    assert told("memory", "memory.memsw.limit_in_bytes") == str(LIMITS.memory_bytes)
    assert told("cpuset", "cpuset.cpus") == "0,1"
    assert told("pids", "pids.max") == "99"
    assert group.kill_file is None
    assert group.freezer is not None
    assert group.freezer.parts[-3:] == ("wharfinger-test", "s", "k")
    assert len(group.procs_files) == 5
    assert group.usage() == (2.5, 8192, 0, 16384)
    assert group.out_of_memory_kills() == 4


def test_v1_cpusets_have_cpus_and_memory_before_a_process_may_enter(tree: Tree) -> None:
    _v1_tree(tree)
    tree.discover().create("s", "k", BEST_EFFORT)
    for group in (BASE_OF_IDLE, f"{BASE_OF_IDLE}/s", f"{BASE_OF_IDLE}/s/k"):
        assert (tree.root / "cpuset" / group / "cpuset.cpus").read_text() == "0-1"
        assert (tree.root / "cpuset" / group / "cpuset.mems").read_text() == "0"


# --- hybrid, parts, nothing ---------------------------------------------------------------


def test_hybrid_v2_kills_and_freezes_and_v1_limits(tree: Tree) -> None:
    _v1_tree(tree)
    tree.v2("/", controllers=False)
    control = tree.discover()
    assert control.conditions() == ()
    assert Means.KILL in control.means
    group = control.create("s", "k", LIMITS)
    assert group.kill_file is not None
    assert group.freezer is None
    assert group.procs_files[0].is_relative_to(tree.root / "unified")
    assert not any(path.is_relative_to(tree.root / "freezer") for path in group.procs_files)


def test_hybrid_with_a_kernel_before_cgroup_kill_uses_the_v1_freezer(tree: Tree) -> None:
    _v1_tree(tree)
    own = tree.v2("/", controllers=False)
    for group in ("", "wharfinger-test", "wharfinger-test/s", "wharfinger-test/s/k"):
        (own / group / "cgroup.kill").unlink()
        (own / group / "cgroup.freeze").unlink()
    control = tree.discover()
    assert Means.KILL not in control.means
    assert Means.FREEZER in control.means
    assert control.create("s", "k", LIMITS).freezer is not None


def test_no_cgroups_at_all_is_said_and_fails_nothing(tree: Tree) -> None:
    control = tree.discover()
    assert {condition.kind for condition in control.conditions()} == ALL_MISSING
    group = control.create("s", "k", LIMITS)
    assert group.procs_files == ()
    assert group.usage() == (None, None, None, None)
    assert group.resize(BEST_EFFORT) is None
    assert group.kill_all() is False
    assert group.remove() is True
    with pytest.raises(EngineFault, match="cannot suspend"):
        group.freeze()
    control.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_user_without_delegation_is_told_the_mend(tree: Tree) -> None:
    own = tree.v2("/user.slice")
    (own / "cgroup.procs").chmod(0o444)
    control = tree.discover()
    assert {condition.kind for condition in control.conditions()} == ALL_MISSING
    for condition in control.conditions():
        assert "systemd-run --user --scope -p Delegate=yes wharfinger up" in condition.message


def test_a_hierarchy_mounted_in_part_as_in_a_container(tree: Tree) -> None:
    point = tree.mount("5:pids:/docker/abc/x:y", "pids", "cgroup", "rw,pids", root="/docker/abc")
    (point / "x:y").mkdir()
    (tree.root / "c").write_text(tree.cgroup)
    (tree.root / "m").write_text(tree.mountinfo)
    (hierarchy,) = find_hierarchies(tree.root / "c", tree.root / "m")
    assert hierarchy.own == point / "x:y"


@pytest.mark.parametrize("path", ["/../outside", "/elsewhere", "/docker/abc/gone (deleted)"])
def test_a_group_out_of_sight_is_not_guessed(tree: Tree, path: str) -> None:
    tree.mount(f"5:pids:{path}", "pids", "cgroup", "rw,pids", root="/docker/abc")
    assert Means.PROCESSES not in tree.discover().means


def test_escaped_mount_points_and_foreign_lines(tmp_path: Path) -> None:
    tree = Tree(tmp_path / r"with space\and more")
    tree.root.mkdir()
    tree.mountinfo = "nonsense\n22 27 0:21 / /proc rw,relatime shared:5 master:1 - proc proc rw\n"
    own = tree.v2("/run.scope")
    tree.cgroup = "1:name=systemd:/x\n\nnonsense\n" + tree.cgroup
    (tree.root / "c").write_text(tree.cgroup)
    (tree.root / "m").write_text(tree.mountinfo)
    (hierarchy,) = find_hierarchies(tree.root / "c", tree.root / "m")
    assert hierarchy.own == own


def test_own_limits_are_the_tightest_of_all_groups_above(tree: Tree) -> None:
    own = tree.v2("/a/b")
    (own / "cpu.max").write_text("150000 100000\n")
    (own.parent / "cpu.max").write_text("100000 200000\n")
    (own / "memory.max").write_text("max\n")
    (own.parent / "memory.max").write_text("1048576\n")
    (tree.root / "c").write_text(tree.cgroup)
    (tree.root / "m").write_text(tree.mountinfo)
    limits = own_limits(find_hierarchies(tree.root / "c", tree.root / "m"))
    assert (limits.cpu_millicpus, limits.memory_bytes) == (500, 1048576)


# --- groups and names -------------------------------------------------------------------


def test_a_failed_create_names_file_value_and_error(tree: Tree) -> None:
    own = tree.v2("/run.scope")
    control = tree.discover()
    quota = own / "wharfinger-test" / "s" / "k" / "cpu.max"
    quota.unlink()
    quota.mkdir()  # stands for a file that refuses: the kernel's answer is an errno either way
    with pytest.raises(EngineFault) as caught:
        control.create("s", "k", LIMITS)
    message = str(caught.value)
    assert str(quota) in message
    assert "EISDIR" in message
    assert "\n" not in message


def test_a_failed_resize_leaves_the_former_limits(tree: Tree) -> None:
    own = tree.v2("/run.scope")
    leaf = own / "wharfinger-test" / "s" / "k"
    group = tree.discover().create("s", "k", LIMITS)
    (leaf / "pids.max").unlink()
    with pytest.raises(EngineFault, match=r"pids\.max"):
        group.resize(Limits(500, best_effort=False, memory_bytes=128 * 1024**2, cpus=(1,)))
    assert (leaf / "cpu.max").read_text() == "150000 100000"
    assert (leaf / "cpuset.cpus").read_text() == "0,1"
    assert (leaf / "memory.max").read_text() == str(LIMITS.memory_bytes)


def test_a_group_is_found_again_from_what_was_written_down(tree: Tree) -> None:
    tree.v2("/run.scope")
    group = tree.discover().create("s", "k", LIMITS)
    again = Group.from_plain(group.to_plain())
    assert again == group
    assert (again.server, again.key) == ("s", "k")


@pytest.mark.parametrize(
    "path",
    ["/sys/fs/cgroup", "/", "relative/wharfinger-x/s/k", "/a/b/wharfinger-x/../k", "/a/b/c/s/k"],
)
def test_a_path_that_is_not_ours_is_never_taken_for_a_group(path: str) -> None:
    with pytest.raises(InvalidInput, match="not a workload's group"):
        Group.from_plain({"unified": path})


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "é", "a" * 201, "a\n"])
def test_names_that_no_group_can_have(tree: Tree, name: str) -> None:
    control = tree.discover()
    with pytest.raises(InvalidInput, match="can't name a group"):
        control.create("s", name, LIMITS)
    with pytest.raises(InvalidInput, match="can't name a group"):
        control.create(name, "k", LIMITS)


@pytest.mark.parametrize(
    ("millicpus", "quota", "shares", "weight"),
    [
        (1, 1000, 2, 1),
        (10, 1000, 10, 1),
        (250, 25_000, 256, 25),
        (2000, 200_000, 2048, 200),
        (1_000_000, 100_000_000, 262_144, 10_000),
    ],
)
def test_thousandths_of_a_cpu_in_the_kernels_terms(
    millicpus: int, quota: int, shares: int, weight: int
) -> None:
    limits = Limits(millicpus, best_effort=False, memory_bytes=1)
    assert limits.quota_microseconds == quota
    assert (limits.weight(1), limits.weight(2)) == (shares, weight)


@pytest.mark.parametrize(
    ("millicpus", "period", "quota"),
    # At least a tick of 4 ms, and a period of 10 to 100 ms.
    [(10, 100_000, 1000), (100, 40_000, 4000), (400, 10_000, 4000), (2000, 10_000, 20_000)],
)
def test_latency_critical_work_waits_for_its_next_quota_for_milliseconds(
    tree: Tree, millicpus: int, period: int, quota: int
) -> None:
    _v1_tree(tree, "/system.slice/w.service")
    critical = replace(LIMITS, cpu_millicpus=millicpus, latency_critical=True)
    group = tree.discover().create("s", "k", critical)
    cpu = group.paths["cpu"]
    files = ("cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.cfs_burst_us")
    assert [(cpu / file).read_text() for file in files] == [str(period), str(quota), str(quota)]
    assert group.resize(replace(critical, latency_critical=False)) is None
    told = [(cpu / file).read_text() for file in files]
    assert told == ["100000", str(max(1000, 100 * millicpus)), "0"], "batch work keeps the usual"


def test_v2_a_short_period_saves_up_one_quota(tree: Tree) -> None:
    own = tree.v2("/run.scope")
    group = tree.discover().create("s", "k", replace(LIMITS, latency_critical=True))
    leaf = own / "wharfinger-test" / "s" / "k"
    assert (leaf / "cpu.max").read_text() == "15000 10000"
    assert (leaf / "cpu.max.burst").read_text() == "15000"
    (leaf / "cpu.max.burst").unlink()  # Linux before 5.14
    assert group.resize(replace(LIMITS, latency_critical=True)) is None


@pytest.mark.parametrize(
    ("millicpus", "best_effort", "memory", "processes"),
    [(0, False, 1, 1), (-1, True, 1, 1), (1, False, 0, 1), (1, False, 1, 0)],
)
def test_limits_that_no_kernel_could_keep(
    millicpus: int, best_effort: bool, memory: int, processes: int
) -> None:
    with pytest.raises(ValueError, match="is "):
        Limits(millicpus, best_effort, memory, max_processes=processes)
