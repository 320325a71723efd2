"""What is acknowledged survives: a kill at any moment, a full disk, a limit on a file's size."""

import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.support.store import entries
from wharfinger.errors import OutOfSpace
from wharfinger.store.sqlite import SqliteStore

MEBIBYTE = 1 << 20

OPEN = """
import sys
from pathlib import Path
from wharfinger.store.base import NewEntry
from wharfinger.store.sqlite import SqliteStore
store = SqliteStore.open(Path(sys.argv[1]), free_disk_floor_bytes=0, reserve_bytes=0)
"""

APPEND_FOR_EVER = f"""{OPEN}
while True:
    batch = [NewEntry(1.0, "Kind", b"x" * 700)] * (store.last_sequence % 5 + 1)
    print(store.append(batch), flush=True)
    if store.last_sequence % 50 < 5:
        store.save_snapshot(store.last_sequence, 1.0, 1, b"state" * 5_000)
        store.compact(40)
"""


def run(script: str, directory: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", script, str(directory)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def open_store(directory: Path) -> SqliteStore:
    return SqliteStore.open(directory, free_disk_floor_bytes=0, reserve_bytes=0)


@pytest.mark.long
def test_kill_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    chance = random.Random(20)
    acknowledged = 0
    for _ in range(30):
        with run(APPEND_FOR_EVER, tmp_path) as child:
            assert child.stdout is not None
            # Some rounds end while it opens and recovers what the last one left.
            for _ in range(chance.choice((0, 1, 3, 20, 60))):
                acknowledged = int(child.stdout.readline())
            child.send_signal(signal.SIGKILL)
            for line in child.stdout:
                if line.endswith("\n"):
                    acknowledged = int(line)
        with open_store(tmp_path) as store:
            assert store.damage is None
            assert store.last_sequence >= acknowledged
            read = [entry.sequence for entry in store.read()]
            assert read == list(range(store.first_sequence, store.last_sequence + 1))
            snapshot = store.latest_snapshot()
            assert store.first_sequence == 1 or snapshot is not None
    assert acknowledged > 300


MIGRATE = """
import os, sys
from pathlib import Path
from wharfinger.store import schema
connection = schema.connect(Path(sys.argv[1]))
connection.create_function("stop", 0, lambda: (print("half way", flush=True), sys.stdin.read()))
second = ("ALTER TABLE entries ADD COLUMN note TEXT", "SELECT stop()", "SELECT 1")
schema.migrate(connection, (*schema.MIGRATIONS, second))
"""


def test_a_kill_within_a_migration_leaves_the_old_schema(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.append(entries(5))
    command = [sys.executable, "-c", MIGRATE, str(tmp_path / "manager.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"half way\n"
        child.kill()
    with open_store(tmp_path) as store:
        assert store.damage is None
        assert store.append(entries(1)) == 6


# --- acknowledged = synced -----------------------------------------------------------------

ACKNOWLEDGE_ONE = f"""{OPEN}
print("opened", flush=True)
store.append([NewEntry(1.0, "Kind", b"MARKER" * 100)])
print("acknowledged", flush=True)
"""


def test_acknowledged_means_synced(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: apt-get install strace")
    trace = tmp_path / "trace"
    calls = "trace=fsync,fdatasync,write,pwrite64"
    command = ["strace", "-f", "-y", "-s", "65536", "-e", calls, "-o", str(trace)]
    child = [sys.executable, "-c", ACKNOWLEDGE_ONE, str(tmp_path / "state")]
    ran = subprocess.run([*command, *child], capture_output=True, text=True, check=False)
    if ran.returncode and "PTRACE" in ran.stderr:
        pytest.skip(f"strace may not trace here: {ran.stderr.splitlines()[0]}")
    assert ran.returncode == 0, ran.stderr
    lines = trace.read_text(errors="replace").splitlines()
    written = index(lines, r"pwrite64\(\d+<[^>]*manager\.db-wal>.*MARKER")
    acknowledged = index(lines, r"write\(1<[^>]*>, \"acknowledged")
    synced = [
        at
        for at, line in enumerate(lines)
        if re.search(r"f(data)?sync\(\d+<[^>]*manager\.db-wal>\)\s+= 0", line)
    ]
    assert any(written < at < acknowledged for at in synced), "\n".join(lines[-12:])
    last_write = max(
        at
        for at, line in enumerate(lines[:acknowledged])
        if re.search(r"pwrite64\(\d+<[^>]*manager\.db-wal>", line)
    )
    assert any(last_write < at < acknowledged for at in synced), "all of it is synced"


def index(lines: list[str], pattern: str) -> int:
    found = [at for at, line in enumerate(lines) if re.search(pattern, line)]
    assert found, f"no call {pattern} in the trace"
    return found[0]


# --- a full disk -----------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "wharfinger-test", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    yield disk
    umount = ["umount", str(disk)]
    wait_until(lambda: subprocess.run(umount, check=False).returncode == 0, what="no user")


def fill_disk(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4_096)):
                pass
        except OSError:
            pass
    return ballast


def open_small(disk: Path) -> SqliteStore:
    return SqliteStore.open(
        disk / "state", free_disk_floor_bytes=2 * MEBIBYTE, reserve_bytes=2 * MEBIBYTE
    )


@pytest.mark.root
def test_a_full_disk_refuses_new_work_and_keeps_room_for_what_runs(small_disk: Path) -> None:
    with open_small(small_disk) as store:
        reserve = small_disk / "state" / "manager.reserve"
        assert reserve.stat().st_blocks * 512 >= 2 * MEBIBYTE, "really allocated"
        store.append(entries(10))
        ballast = fill_disk(small_disk)
        with pytest.raises(OutOfSpace, match="nothing new is taken in until some room is freed"):
            store.append(entries(1))
        with pytest.raises(OutOfSpace):
            store.check_room()
        assert store.last_sequence == 10
        for n in range(50):
            assert store.append(entries(1, size_bytes=8_000), urgent=True) == 11 + n
        assert not reserve.exists(), "given up"
        assert len(list(store.read())) == 60
        ballast.unlink()
        store.save_snapshot(60, 1.0, 1, b"state")
        assert reserve.exists(), "made again once there was room"
        assert store.append(entries(1)) == 61


@pytest.mark.root
def test_when_the_reserve_is_used_up_nothing_is_lost(small_disk: Path) -> None:
    with open_small(small_disk) as store:
        fill_disk(small_disk)
        written = 0
        with pytest.raises(OutOfSpace):
            while True:
                written = store.append(entries(1, size_bytes=20_000), urgent=True)
        assert store.last_sequence == written
        assert len(list(store.read())) == written > 20
        with pytest.raises(OutOfSpace):
            store.append(entries(2_000, size_bytes=1_000), urgent=True)
        assert len(list(store.read())) == written
    (small_disk / "ballast").unlink()
    with open_small(small_disk) as store:
        assert store.damage is None
        assert store.last_sequence == written
        assert store.append(entries(1)) == written + 1


@pytest.mark.root
def test_a_store_is_opened_again_on_a_full_disk(small_disk: Path) -> None:
    state = small_disk / "state"
    with open_small(small_disk) as store:
        store.append(entries(100, size_bytes=1_000))
        shutil.copytree(state, small_disk / "kept")
    shutil.rmtree(state)
    (small_disk / "kept").rename(state)  # as a kill leaves it: with its WAL
    fill_disk(small_disk)
    with open_small(small_disk) as store:
        assert store.damage is None
        assert store.last_sequence == 100
        assert store.append(entries(1), urgent=True) == 101


LIMITED = f"""{OPEN}
from wharfinger.errors import OutOfSpace
written = 0
try:
    while True:
        written = store.append([NewEntry(1.0, "Kind", b"x" * 20_000)], urgent=True)
except OutOfSpace as error:
    assert store.last_sequence == written
    assert len(list(store.read())) == written
    print(written, store.room_bytes(), error)
store.close()
"""


def test_a_limit_on_a_files_size_loses_nothing(tmp_path: Path) -> None:
    limit = 6 * MEBIBYTE
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert ran.returncode == 0, ran.stderr
    written, room, message = ran.stdout.split(maxsplit=2)
    assert int(written) > 150, "both the WAL and the main file were used"
    assert int(room) < limit
    assert "free some room" in message
    assert message.count("\n") == 1
    with open_store(tmp_path) as store:
        assert store.damage is None
        assert store.last_sequence == int(written)
        assert store.append(entries(1)) == int(written) + 1
