"""A workload's processes by descent, where it has no cgroup.

The supervisor is a subreaper, so daemons stay its descendants. The local engine calls this to bind
and measure a tree; the supervisor stops and kills it.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_ROUNDS = 20  # a tree that still forks after so many looks is a fork bomb


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
    """The fields of ``/proc/PID/stat`` from the third on; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []
