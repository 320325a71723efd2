"""Processes, identified uniquely, watched and ended without races; and trees of them.

Pidfds identify processes, because a pid may be reused. Where a workload has no cgroup, its tree is
bound and measured by descent: the supervisor is a subreaper, so daemons stay its descendants.
"""

import hashlib
import os
import select
import signal
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

KEY_VARIABLE = "WHARFINGER_KEY"
"""In a workload's environment, it holds the key by which :func:`kill_orphans` finds the tree."""
RUNS_VARIABLE = "WHARFINGER_RUNS"
"""Beside the key, it names the directory of runs: another manager's may use the same key."""

_KEY, _RUNS = KEY_VARIABLE.encode(), RUNS_VARIABLE.encode()
_MAX_ENVIRON_BYTES = 8 << 20
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_ROUNDS = 20  # a tree that still forks after so many looks is a fork bomb
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process: pids are reused, these three (start in clock ticks since boot) are not."""

    boot_id: str
    pid: int
    start_ticks: int

    def is_alive(self) -> bool:
        """Whether it runs; a process that ended and was not reaped does not."""
        pidfd = open_pidfd(self)
        if pidfd is None:
            return False
        os.close(pidfd)
        return True


def identity_of(pid: int) -> ProcessIdentity | None:
    """The identity of the process with this pid; ``None`` where there is none."""
    try:
        return ProcessIdentity(_BOOT_ID.read_text().strip(), pid, int(_stat(pid)[19]))
    except (OSError, IndexError, ValueError):
        return None


def open_pidfd(identity: ProcessIdentity) -> int | None:
    """A pidfd of this very process; ``None`` when it is gone. The caller closes it.

    The identity is compared after the descriptor is open, which excludes a reused pid.
    """
    try:
        pidfd = os.pidfd_open(identity.pid)
    except (OSError, OverflowError, ValueError):
        return None
    if identity_of(identity.pid) == identity and not has_ended(pidfd):
        return pidfd
    os.close(pidfd)
    return None


def marker_of(run_dir: Path, mark: str = "") -> dict[str, str]:
    """What a run's processes have in their environment; ``mark`` ends the key of a part of them."""
    place = hashlib.sha256(os.fsencode(os.path.realpath(run_dir.parent))).hexdigest()
    return {KEY_VARIABLE: run_dir.name + mark, RUNS_VARIABLE: place[:16]}


def kill_orphans(*run_dirs: Path, mark: str = "", timeout_seconds: float = 10.0) -> int:
    """Kill every process of ours whose environment has a run's :func:`marker_of`.

    One that version 0.1 started has the key alone. As root: of anybody, for what it runs as
    others. The last resort where there is no cgroup: it misses processes that cleared their
    environment, and gives up after the timeout. Returns how many were killed.
    """
    deadline = time.monotonic() + timeout_seconds
    markers = [
        {name.encode(): os.fsencode(value) for name, value in marker_of(run_dir, mark).items()}
        for run_dir in run_dirs
    ]
    killed = 0
    while True:
        pidfds = list(_marked_processes(markers))
        for pidfd in pidfds:
            send_signal(pidfd, signal.SIGKILL)
        for pidfd in pidfds:
            killed += has_ended(pidfd, max(0.0, deadline - time.monotonic()))
            os.close(pidfd)
        if not pidfds or time.monotonic() >= deadline:
            return killed


def _marked_processes(markers: Sequence[Mapping[bytes, bytes]]) -> Iterator[int]:
    for pid in _all_pids():
        if pid == os.getpid():
            continue
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            continue
        # While the descriptor shows it alive, this is its environment.
        if _has_marker(pid, markers) and not has_ended(pidfd):
            yield pidfd
        else:
            os.close(pidfd)


def _has_marker(pid: int, markers: Sequence[Mapping[bytes, bytes]]) -> bool:
    try:
        directory = Path(f"/proc/{pid}")
        if os.geteuid() not in {0, directory.stat().st_uid}:  # those of root may have others' ids
            return False
        with (directory / "environ").open("rb") as environ:
            lines = environ.read(_MAX_ENVIRON_BYTES).split(b"\0")
    except OSError:
        return False
    variables = {name: value for name, _, value in (line.partition(b"=") for line in lines)}
    return any(
        variables.get(_KEY) == marker[_KEY] and variables.get(_RUNS, marker[_RUNS]) == marker[_RUNS]
        for marker in markers
    )


def has_ended(pidfd: int, timeout_seconds: float = 0.0) -> bool:
    """Whether the process has ended, reaped or not; waits for it up to the timeout."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(timeout_seconds * 1000))


def send_signal(pidfd: int, number: signal.Signals) -> None:
    """Signal it; a process that is gone, or not ours to signal, is no error."""
    with suppress(ProcessLookupError, PermissionError):
        signal.pidfd_send_signal(pidfd, number)


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """What a tree uses: CPU time, reaped processes included, and resident memory."""

    cpu_seconds: float
    memory_bytes: int
    processes: int


def descendants(root: int) -> frozenset[int]:
    """Pids of all processes below ``root``, without itself."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for pid in _all_pids():
        fields = _stat(pid)
        if fields:
            children[int(fields[1])].append(pid)
    pids: set[int] = set()
    unseen = [root]
    while unseen:
        below = [pid for pid in children[unseen.pop()] if pid not in pids]
        pids.update(below)
        unseen += below
    return frozenset(pids)


def children_of(pid: int) -> tuple[int, ...]:
    """Pids of a process's own children; empty when it is gone."""
    with suppress(OSError):
        return tuple(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    fields = {child: _stat(child) for child in _all_pids()}  # a kernel without that file
    return tuple(child for child, stat in fields.items() if stat and int(stat[1]) == pid)


def bind_tree(root: int, cpus: tuple[int, ...]) -> None:
    """Bind every thread below ``root`` to these CPUs; what they start inherits it."""
    bound: set[int] = set()
    for _ in range(_ROUNDS):
        fresh = {thread for pid in descendants(root) for thread in _threads(pid)} - bound
        if not fresh:
            return
        for thread in fresh:
            with suppress(ProcessLookupError, PermissionError):
                os.sched_setaffinity(thread, cpus)
        bound |= fresh


def measure_tree(root: int) -> TreeUsage:
    """What all below ``root`` use, and what ``root`` has reaped of them."""
    pids = descendants(root)
    ticks = memory_bytes = 0
    for pid in pids:
        fields = _stat(pid)
        if fields:
            ticks += sum(int(field) for field in fields[11:15])
            memory_bytes += int(fields[21]) * _PAGE_BYTES
    ticks += sum(int(field) for field in _stat(root)[13:15])
    return TreeUsage(ticks / _TICKS_PER_SECOND, memory_bytes, len(pids))


def _all_pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - names


def _threads(pid: int) -> tuple[int, ...]:
    try:
        return tuple(int(name) for name in os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 - names
    except OSError:
        return ()


def _stat(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []
