"""Means that run out under the local engine, and programs that take all they can get."""

import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import requires_root, wait_until
from tests.support.local import (
    MEBIBYTE,
    finished,
    harness,
    is_gone,
    names,
    run_as_nobody,
    session,
    start,
    started,
)
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.allocation import Allocation, Placement


@pytest.fixture
def open_files() -> Iterator[Callable[[int], None]]:
    """Leaves the process this many descriptors; afterwards the limit is what it was."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def leave(count: int) -> None:
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + count, before[1]))

    yield leave
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("left", range(0, 7, 2))
def test_without_descriptors_a_start_fails_retryably_and_ends_are_still_told(
    tmp_path: Path, open_files: Callable[[int], None], left: int
) -> None:
    with session(tmp_path) as cluster:
        gate = tmp_path / "gate"
        script = f"until [ -e {gate} ]; do sleep 0.01; done; exit 9"
        started(cluster, start(cluster, "runs", script))
        gate.touch()
        open_files(left)
        cluster.perform(start(cluster, "late", "exit 0"))
        end = cluster.wait_for_end("late")
        assert finished(cluster, "runs").exit_code == 9
        open_files(1000)
        assert isinstance(end, ev.StartFailed)
        assert end.retryable


@requires_root
def test_on_a_full_disk_a_start_fails_retryably_and_what_runs_keeps_its_status(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "wharfinger-test", state], check=False
    ).returncode:
        pytest.skip("may not mount a tmpfs here")
    try:
        gate = tmp_path / "gate"
        with harness(tmp_path).trial() as cluster:
            started(
                cluster, start(cluster, "runs", f"until [ -e {gate} ]; do sleep 0.01; done; exit 9")
            )
            _fill(state / "filler")
            cluster.perform(start(cluster, "late", "exit 0"))
            assert cluster.wait_for(ev.StartFailed, "late").retryable
            gate.touch()
            assert finished(cluster, "runs").exit_code == 9
            (state / "filler").unlink()
        assert not names(state)
    finally:
        umount = ["umount", state]
        wait_until(lambda: subprocess.run(umount, check=False).returncode == 0, what="no user")


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue


@requires_root
def test_memory_beyond_the_limit_is_an_end_with_its_own_name(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        if not cluster.engine.capabilities.memory_limit:
            pytest.skip("memory can't be limited here")
        hog = f"exec {sys.executable} -S -c 'b\"x\" * (1 << 30)'"
        cluster.perform(start(cluster, "hog", hog, memory_bytes=48 * MEBIBYTE))
        assert (finished(cluster, "hog").signal, finished(cluster, "hog").reason) == (
            9,
            "out-of-memory",
        )


@requires_root
def test_memory_is_not_taken_below_what_is_in_use(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        if not cluster.engine.capabilities.memory_limit:
            pytest.skip("memory can't be limited here")
        script = "b = bytearray(64 << 20); print(1, flush=True); import time; time.sleep(300)"
        action = start(cluster, "k", f"exec {sys.executable} -S -c '{script}'")
        pid = started(cluster, action)
        wait_until(lambda: cluster.engine.read_log("k").data, what="it holds its memory")
        server = action.placements[0].server
        cluster.perform(
            act.ResizeAllocation("k", (Placement(server, Allocation(1000, 4 * MEBIBYTE)),))
        )
        failed = cluster.wait_for(ev.ResizeFailed, "k")
        assert "in use" in failed.reason
        assert not is_gone(pid)


@requires_root
def test_a_fork_bomb_harms_nobody_and_ends_when_asked(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        if not cluster.engine.capabilities.memory_limit:
            pytest.skip("nothing holds a fork bomb here")
        bomb = "echo armed; bomb() { bomb | bomb & }; bomb; sleep 300"
        started(cluster, start(cluster, "bomb", bomb, memory_bytes=64 * MEBIBYTE, best_effort=True))
        wait_until(lambda: cluster.engine.read_log("bomb").data, what="it goes off")
        cluster.perform(start(cluster, "neighbour", "exit 8"))
        assert finished(cluster, "neighbour").exit_code == 8
        cluster.perform(act.StopWorkload("bomb", 0.0))
        finished(cluster, "bomb")


@requires_root
def test_groups_nested_deeper_than_a_path_harm_nobody_and_are_removed(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "for line in open('/proc/self/cgroup'):\n"
        "    for base in ('/sys/fs/cgroup/unified', '/sys/fs/cgroup', '/sys/fs/cgroup/pids'):\n"
        "        own = base + line.strip().split(':')[2]\n"
        "        if '/k' in own and os.path.isdir(own):\n"
        "            os.chdir(own)\n"
        "            try:\n"
        "                for _ in range(40):\n"
        "                    os.mkdir('x' * 200); os.chdir('x' * 200)\n"
        "            except OSError as error:\n"
        "                print(error, file=sys.stderr)\n"
        "            break\n"
        "print('nested', flush=True)\n"
        "import time; time.sleep(300)\n"
    )
    (tmp_path / "nest.py").write_text(script)
    with session(tmp_path) as cluster:
        started(cluster, start(cluster, "neighbour", "exec sleep 300"))
        pid = started(cluster, start(cluster, "k", f"exec {sys.executable} -S {tmp_path}/nest.py"))
        wait_until(
            lambda: cluster.engine.read_log("k").data.endswith(b"nested\n"), what="it has nested"
        )
        assert set(cluster.engine.usage()) == {"neighbour", "k"}
        cluster.perform(act.StopWorkload("k", 0.0))
        assert finished(cluster, "k").reason == "stopped"
        assert is_gone(pid)


@requires_root
def test_an_ordinary_user_runs_workloads_too() -> None:
    script = textwrap.dedent(
        """
        from contextlib import suppress
        from pathlib import Path
        from unittest import SkipTest
        from wharfinger.engines.local import LocalEngine
        from wharfinger.testing import EngineHarness, ShellPrograms, engine_checks
        import sys
        for number, check in enumerate(engine_checks()):
            directory = Path(sys.argv[1]) / str(number)
            directory.mkdir()
            with suppress(SkipTest):
                check(EngineHarness(directory, LocalEngine, ShellPrograms(directory)))
            assert not list((directory / "state").glob("k*")), check
        print("kept")
        """
    )
    assert run_as_nobody(script) == "kept\n"
