"""Real processes in real groups: what the kernel of this machine makes of our limits."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wharfinger.host.cgroups import (
    CgroupControl,
    Group,
    Limits,
    Means,
    ResizeRefused,
    discover,
    find_hierarchies,
)
from wharfinger.host.cgroups.group import Freezer, kill_until_empty
from wharfinger.monitor.counters import throttled_periods

pytestmark = pytest.mark.root

DEADLINE_SECONDS = 60.0
MEBIBYTE = 1024**2
# The shell enters the groups by itself, as the supervisor does, and becomes the program.
ENTER = 'for f in $GROUPS_TO_ENTER; do echo $$ > "$f" || exit 70; done; exec "$@"'
BUSY = ("sh", "-c", "while :; do :; done")
# Three grandchildren in sessions of their own, whose parents are gone, beside their program.
DAEMONS = (
    "sh",
    "-c",
    "for i in 1 2 3; do (setsid sh -c 'while :; do sleep 1000; done' &); done; sleep 1000",
)
BOMB = (sys.executable, "-c", "import os\nwhile 1:\n try: os.fork()\n except OSError: pass")
MAX_PROCESSES = 12
# Takes memory, says so, and gives it back or holds it as the next line says.
HOLD_MEMORY = (
    sys.executable,
    "-c",
    "import sys; held = b'x' * int(sys.argv[1]); print('held', flush=True); sys.stdin.readline()",
)


def _limits(
    millicpus: int = 500,
    memory: int = 256 * MEBIBYTE,
    *,
    best_effort: bool = False,
    latency_critical: bool = False,
) -> Limits:
    cpus = (min(os.sched_getaffinity(0)),)
    return Limits(
        millicpus,
        best_effort,
        memory,
        cpus=cpus,
        max_processes=MAX_PROCESSES,
        latency_critical=latency_critical,
    )


def _wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.005)


def _share(group: Group) -> float:
    """CPUs that it uses for a second, and longer where it got none."""

    def used() -> float:
        seconds = group.usage().cpu_seconds
        assert seconds is not None
        return seconds

    began, before = time.monotonic(), used()
    _wait_for(lambda: time.monotonic() - began > 1.0 and used() > before, "a second")
    return (used() - before) / (time.monotonic() - began)


@pytest.fixture(params=["as it is", "v1 only"])
def discovered(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], CgroupControl]:
    """A manager's start; on a hybrid machine also as if no v2 were mounted."""
    mountinfo = Path("/proc/self/mountinfo")
    if request.param == "v1 only":
        if not any(hierarchy.version == 1 for hierarchy in find_hierarchies()):
            pytest.skip("no v1 hierarchy is mounted")
        lines = mountinfo.read_text().splitlines(keepends=True)
        mountinfo = tmp_path / "mountinfo"
        mountinfo.write_text("".join(line for line in lines if " - cgroup2 " not in line))
    return lambda: discover(f"test-{os.getpid()}", mountinfo_file=mountinfo)


def _groups(control: CgroupControl) -> list[Group]:
    """The workloads' groups that are there now."""
    found = {path.parts[-2:] for claim in control.claims for path in claim.base.glob("*/*/")}
    return [control.group(server, key) for server, key in sorted(found)]


@pytest.fixture
def control(discovered: Callable[[], CgroupControl]) -> Iterator[CgroupControl]:
    control = discovered()
    yield control
    for group in _groups(control):
        group.kill_all()
        group.remove()
    control.close()
    assert not any(claim.base.exists() for claim in control.claims)


def _needs(present: bool, what: str) -> None:
    if not present:
        pytest.skip(f"no {what} for this process on this machine")


@pytest.fixture
def start() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    started: list[subprocess.Popen[str]] = []

    def run(group: Group, *command: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            ["sh", "-c", ENTER, "enter", *command],
            env={**os.environ, "GROUPS_TO_ENTER": " ".join(map(str, group.procs_files))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_quota_limits_cpu_time(control: CgroupControl, start) -> None:
    _needs(Means.QUOTA in control.means, "CPU quota")
    group = control.create("s", "quota", _limits(200))
    process = start(group, *BUSY)
    _wait_for(lambda: process.pid in group.pids(), "the program is in its group")
    assert 0 < _share(group) < 0.5  # 0.2 was asked for


def test_a_short_quota_is_kept_too_and_its_throttling_is_counted(
    control: CgroupControl, start
) -> None:
    _needs(Means.QUOTA in control.means, "CPU quota")
    group = control.create("s", "short", _limits(200, latency_critical=True))
    process = start(group, *BUSY)
    _wait_for(lambda: process.pid in group.pids(), "the program is in its group")
    stat = str(group.paths["cpu"] / "cpu.stat")
    assert 0 < _share(group) < 0.5  # 0.2 was asked for

    def is_counted() -> bool:
        counted = throttled_periods(stat)
        assert counted is not None
        periods, throttled = counted
        return periods > 15 and throttled > 0

    _wait_for(is_counted, "periods of 20 ms, 50 of which are a second")
    for millicpus in (1, 50, 900, 100):
        assert group.resize(_limits(millicpus, latency_critical=True)) is None
    assert group.resize(_limits(100)) is None, "and back to the usual period"


def test_a_quota_moves_while_the_program_runs(control: CgroupControl, start) -> None:
    _needs(Means.QUOTA in control.means, "CPU quota")
    group = control.create("s", "resize", _limits(10))
    process = start(group, *BUSY)
    _wait_for(lambda: process.pid in group.pids(), "the program is in its group")
    assert group.resize(_limits(0, best_effort=True)) is None
    assert group.resize(_limits(0, best_effort=True)) is None
    before = group.usage().cpu_seconds or 0.0
    _wait_for(lambda: (group.usage().cpu_seconds or 0.0) > before + 0.3, "CPU time without quota")
    assert group.resize(_limits(200)) is None
    assert process.poll() is None


def test_too_much_memory_is_killed_and_seen(control: CgroupControl, start) -> None:
    _needs(control.has_memory, "memory limit")
    group = control.create("s", "memory", _limits(1000, 48 * MEBIBYTE))
    assert group.out_of_memory_kills() == 0
    process = start(group, *HOLD_MEMORY, str(200 * MEBIBYTE))
    assert process.wait(DEADLINE_SECONDS) == -signal.SIGKILL
    assert (group.out_of_memory_kills() or 0) >= 1


def test_memory_below_use_is_refused_and_the_program_lives(control: CgroupControl, start) -> None:
    _needs(control.has_memory, "memory limit")
    group = control.create("s", "shrink", _limits(1000, 256 * MEBIBYTE))
    process = start(group, *HOLD_MEMORY, str(100 * MEBIBYTE))
    assert process.stdout.readline() == "held\n"
    refused = group.resize(_limits(300, 32 * MEBIBYTE))
    assert isinstance(refused, ResizeRefused)
    assert str(32 * MEBIBYTE) in refused.reason
    assert process.poll() is None
    assert group.out_of_memory_kills() == 0
    assert group.resize(_limits(300, 512 * MEBIBYTE)) is None
    assert group.resize(_limits(300, 200 * MEBIBYTE)) is None
    process.communicate("\n")
    assert process.returncode == 0


def test_a_fork_bomb_stays_in_its_group(control: CgroupControl, start) -> None:
    _needs(Means.PROCESSES in control.means, "limit on processes")
    group = control.create("s", "bomb", _limits())
    start(group, *BOMB)
    _wait_for(lambda: len(group.pids()) >= 3, "it forks")
    assert len(group.pids()) <= MAX_PROCESSES
    assert group.kill_all(DEADLINE_SECONDS)
    assert group.remove(DEADLINE_SECONDS)


def test_daemonised_grandchildren_are_killed(control: CgroupControl, start) -> None:
    _needs(Means.KILL in control.means or Means.FREEZER in control.means, "cgroup.kill or freezer")
    killable = control.create("s", "kill", _limits())
    process = start(killable, *DAEMONS)
    _wait_for(lambda: len(killable.pids()) >= 7, "the daemons run")
    assert killable.kill_all(DEADLINE_SECONDS)
    assert killable.pids() == ()
    assert process.wait(DEADLINE_SECONDS) == -signal.SIGKILL
    assert killable.kill_all()


@pytest.mark.parametrize("means", ["freezer", "pids.max"])
def test_older_kernels_without_cgroup_kill_kill_each(
    control: CgroupControl, start, means: str
) -> None:
    needed = {Means.FREEZER, Means.PROCESSES}
    _needs(needed <= control.means, "freezer or limit on processes")
    group = control.create("s", "old", _limits())
    process = start(group, *BOMB)
    _wait_for(lambda: len(group.pids()) >= 3, "it forks")
    assert kill_until_empty(
        group.pids,
        kill_file=None,
        freezer=Freezer(group.directories[0], 2 if Means.KILL in control.means else 1)
        if means == "freezer"
        else None,
        pids_max=group.paths["pids"] / "pids.max" if means == "pids.max" else None,
        timeout_seconds=DEADLINE_SECONDS,
    )
    assert process.wait(DEADLINE_SECONDS) == -signal.SIGKILL


def _stands_still(ticks: Callable[[], int]) -> bool:
    """For a time in which it would have run."""
    before, began = ticks(), time.monotonic()
    _wait_for(lambda: time.monotonic() - began > 0.3, "a while")
    return ticks() == before


def test_what_is_frozen_stands_still_and_can_be_killed(control: CgroupControl, start) -> None:
    _needs(Means.FREEZER in control.means, "freezer")
    killable = control.create("s", "freeze", _limits())
    process = start(killable, *BUSY)
    _wait_for(lambda: process.pid in killable.pids(), "it is in its group")

    def ticks() -> int:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
        return sum(map(int, stat.rpartition(")")[2].split()[11:13]))

    _wait_for(lambda: ticks() > 0, "it runs")
    assert killable.freeze(DEADLINE_SECONDS)
    # Its last ticks may show a moment later than that it is frozen.
    _wait_for(lambda: _stands_still(ticks), "it stands still")
    frozen_at = ticks()
    killable.thaw()
    _wait_for(lambda: ticks() > frozen_at, "it goes on")
    assert killable.freeze(DEADLINE_SECONDS)
    assert killable.kill_all(DEADLINE_SECONDS)
    assert process.wait(DEADLINE_SECONDS) == -signal.SIGKILL


def test_groups_that_the_workload_made_itself_are_killed_and_removed(
    control: CgroupControl, start
) -> None:
    _needs(Means.KILL in control.means or Means.FREEZER in control.means, "cgroup.kill or freezer")
    group = control.create("s", "nested", _limits())
    name = "unified" if Means.KILL in control.means else "freezer"
    inner = group.directories[0] / "inner" / "deeper"
    inner.mkdir(parents=True)
    process = start(Group({name: inner}), "sleep", "1000")
    _wait_for(lambda: process.pid in group.pids(), "it is in the inner group")
    assert group.remove(timeout_seconds=0) is False
    assert group.kill_all(DEADLINE_SECONDS)
    assert group.remove(DEADLINE_SECONDS)
    assert not group.exists()


def test_removal_waits_for_emptiness_and_leaves_nothing(control: CgroupControl, start) -> None:
    group = control.create("s", "end", _limits())
    _needs(bool(group.paths), "cgroup")
    process = start(group, "sleep", "1000")
    _wait_for(lambda: process.pid in group.pids(), "it is in its group")
    group.kill_all(timeout_seconds=0)
    assert group.remove(DEADLINE_SECONDS)
    assert not _groups(control)
    control.close()
    assert not any(claim.base.exists() for claim in control.claims)
    assert group.usage() == (None, None, None, None)
    assert group.out_of_memory_kills() is None
    assert group.kill_all()


def test_leftovers_are_found_by_the_next_manager(
    discovered: Callable[[], CgroupControl], control: CgroupControl, start
) -> None:
    group = control.create("s", "left", _limits())
    _needs(bool(group.paths), "cgroup")
    process = start(group, "sleep", "1000")
    _wait_for(lambda: process.pid in group.pids(), "it is in its group")
    (found,) = _groups(discovered())
    assert found.pids() == (process.pid,)
    control.close()  # with a workload in it, its group stays
    assert process.pid in group.pids()


def test_a_key_that_is_a_kernels_file_is_refused(control: CgroupControl) -> None:
    _needs(bool(control.claims), "cgroup")
    with pytest.raises(Exception, match=r"cgroup\.procs.*choose another name"):
        control.create("s", "cgroup.procs", _limits())


def _as_nobody(groups: tuple[Path, ...]) -> dict[str, object]:
    """What an ordinary user, put into these groups, finds; ``groups`` become the user's."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - another process
        try:
            for group in groups:
                (group / "cgroup.procs").write_text(str(os.getpid()))
                for path in (group, *group.glob("cgroup.*")):
                    os.chown(path, 65534, 65534)
            os.setgid(65534)
            os.setuid(65534)
            control = discover("nobody")
            group = control.create("s", "k", _limits())
            answer = {
                "kinds": [condition.kind.value for condition in control.conditions()],
                "messages": [condition.message for condition in control.conditions()],
                "procs": [str(path) for path in group.procs_files],
                "removed": group.remove(),
            }
            control.close()
            os.write(write, json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    answer: dict[str, object] = json.loads(text)
    return answer


def test_an_ordinary_user_without_delegation_gets_to_work_and_is_told_why() -> None:
    answer = _as_nobody(())
    kinds, messages = answer["kinds"], answer["messages"]
    assert isinstance(kinds, list)
    assert isinstance(messages, list)
    assert len(kinds) == 5
    assert all("wharfinger up" in text or "start the manager" in text for text in messages)
    assert answer["procs"] == []


def test_an_ordinary_user_with_a_delegated_group_kills_by_it() -> None:
    own = [hierarchy.own for hierarchy in find_hierarchies() if hierarchy.version == 2]
    _needs(bool(own), "cgroup v2")
    delegated = own[0] / f"delegated-{os.getpid()}"
    delegated.mkdir()
    try:
        answer = _as_nobody((delegated,))
        kinds = answer["kinds"]
        assert isinstance(kinds, list)
        assert "no-tree-kill" not in kinds
        assert answer["procs"] == [str(delegated / "wharfinger-nobody/s/k/cgroup.procs")]
        assert answer["removed"] is True
    finally:
        delegated.rmdir()
