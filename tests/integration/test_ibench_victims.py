"""The small programs that sources are let loose on: they work, tell, end, and leave nothing."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wharfinger.host.binaries import ibench_path
from wharfinger.host.cgroups import find_hierarchies
from wharfinger.ibench import victim, victims
from wharfinger.ibench.victims import Duration, VictimPlace, effects

pytestmark = pytest.mark.slow

CPU = min(os.sched_getaffinity(0))
PIECES = bytes(1 << 20)


@contextmanager
def working(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-I", victim.__file__, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


def told(child: subprocess.Popen[bytes]) -> int:
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(b"\n")
    child.stdin.flush()
    return int(child.stdout.readline())


def has_direct_reads(path: Path) -> bool:
    """A tmpfs has none before Linux 6.6."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("kind", ["hash", "blocks", "cached"])
def test_each_tells_how_much_it_did(kind: str, tmp_path: Path):
    (tmp_path / "file").write_bytes(PIECES)
    if kind == "blocks" and not has_direct_reads(tmp_path / "file"):
        pytest.skip(f"{tmp_path}: this file system cannot be read past the page cache")
    arguments = [] if kind == "hash" else [str(tmp_path / "file")]
    with working(kind, *arguments) as child:
        first = told(child)
        assert 0 < first < told(child)
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(60) == 0


def test_requests_are_answered_by_a_peer():
    command = [str(ibench_path()), "peer", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as peer:
        assert peer.stdout is not None
        port = peer.stdout.readline().decode().rpartition(":")[2].strip(' "}\n')
        with working("ask", "127.0.0.1", port) as child:
            first = told(child)
            assert 0 < first < told(child)
        peer.kill()


def test_a_program_enters_its_groups_before_it_is_another(tmp_path: Path):
    procs = tmp_path / "cgroup.procs"
    procs.touch()
    command = [sys.executable, "-I", victim.__file__, "enter", str(procs), "--", "/bin/sh", "-c"]
    done = subprocess.run([*command, "echo $$"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == procs.read_text()


def test_what_needs_root_is_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    rooted = [each for each in victims._VICTIMS if "CPU" not in each[0]]
    monkeypatch.setattr(victims, "_VICTIMS", rooted)
    place = VictimPlace(CPU, tmp_path, Duration(1, 0.01))
    found = list(effects(place, lambda words: None, lambda: True))
    assert len(found) == 3
    assert all("needs root" in each.reason and not each.kept for each in found)


def test_without_time_all_are_skipped(tmp_path: Path):
    place = VictimPlace(CPU, tmp_path, Duration(1, 0.01))
    for each in effects(place, lambda words: None, lambda: False):
        assert each.reason.startswith("the time was over")


@pytest.mark.long
def test_they_leave_nothing(tmp_path: Path):
    place = VictimPlace(CPU, tmp_path, Duration(3, 0.1))
    for each in effects(place, lambda words: None, lambda: True):
        assert each.kept or each.reason, each
    left = [path for one in find_hierarchies() for path in one.own.glob(f"ibench-*-{os.getpid()}")]
    assert left == []
    assert list(tmp_path.iterdir()) == []
