"""CPU time, I/O and instructions of a workload, for ``proxy`` and profilers.

Instructions come from perf counters of a cgroup or a process tree, which need hardware and
permission; ``open_counters`` says why there are none. CPU time is always available.
"""

import ctypes
import os
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from wharfinger.files.atomic import closing_fd
from wharfinger.host.descriptors import call_libc
from wharfinger.host.processes import descendants, measure_tree

# perf's type and number of an event: hardware is type 0, software 1.
INSTRUCTIONS = (0, 1)
BRANCHES = (0, 4)
TASK_CLOCK = (1, 1)

_NUMBERS = {"x86_64": 298, "aarch64": 241}
_ATTRIBUTE_BYTES = 112
_INHERIT = 1 << 1
_EXCLUDE_KERNEL = 1 << 5
_EXCLUDE_HYPERVISOR = 1 << 6
_TOTAL_TIMES = 3  # time enabled and time running: counters are shared when there are too few
_PID_CGROUP = 1 << 2
_CLOSE_ON_EXEC = 1 << 3

WAITING_BRANCH_SHARE = 0.3
"""A waiting loop is a load, a comparison and a branch: a third of it are branches. Of a
computation, at most a fifth are."""


class NoCounters(Exception):
    """There are no such counters; the message says why."""


def cpu_seconds(cpu_file: str, root_pid: int) -> float | None:
    """CPU time so far of a workload's whole tree; ``None`` = it can't be read."""
    if cpu_file:
        with suppress(OSError, ValueError, IndexError):
            text = Path(cpu_file).read_text()
            # v2's cpu.stat begins "usage_usec N"; v1's cpuacct.usage is a number.
            if text.startswith("usage_usec"):
                return int(text.split(None, 2)[1]) / 1e6
            return int(text) / 1e9
    return measure_tree(root_pid).cpu_seconds if root_pid else None


def io_bytes(pids: Iterable[int]) -> dict[int, int]:
    """What each has moved to and from devices so far; without those that don't tell."""
    moved = {}
    for pid in pids:
        with suppress(OSError, ValueError, KeyError):
            lines = Path(f"/proc/{pid}/io").read_text().splitlines()
            fields = dict(line.split(": ") for line in lines)
            moved[pid] = int(fields["read_bytes"]) + int(fields["write_bytes"])
    return moved


def throttled_periods(throttle_file: str) -> tuple[int, int] | None:
    """Periods of its quota so far, and in how many it was stopped; ``None`` = it has no quota."""
    if not throttle_file:
        return None
    with suppress(OSError, ValueError):
        lines = (line.split() for line in Path(throttle_file).read_text().splitlines())
        counts = {words[0]: int(words[1]) for words in lines if len(words) == 2}
        if "nr_periods" in counts and "nr_throttled" in counts:
            return counts["nr_periods"], counts["nr_throttled"]
    return None


def _open(event: tuple[int, int], pid: int, cpu: int, flags: int) -> int:
    number = _NUMBERS.get(os.uname().machine)
    if number is None:
        raise NoCounters(f"not known how to ask on {os.uname().machine}")
    kind, config = event
    options = _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR | (0 if flags & _PID_CGROUP else _INHERIT)
    attribute = struct.pack("=IIQQQQQ", kind, _ATTRIBUTE_BYTES, config, 0, 0, _TOTAL_TIMES, options)
    buffer = ctypes.create_string_buffer(attribute.ljust(_ATTRIBUTE_BYTES, b"\0"))
    arguments = map(ctypes.c_long, (pid, cpu, -1, flags | _CLOSE_ON_EXEC))
    try:
        return call_libc("syscall", ctypes.c_long(number), ctypes.byref(buffer), *arguments)
    except OSError as error:
        raise NoCounters(f"the kernel gives no counters: {error.strerror}") from error


class Counters:
    """Counts of some events over a cgroup or a tree of processes, until ``close``."""

    def __init__(self, descriptors: Sequence[Sequence[int]]) -> None:
        self._descriptors = descriptors

    def read(self) -> list[float]:
        """Each event's count so far, scaled up where the counters were shared."""
        return [sum(map(_count, group)) for group in self._descriptors]

    def close(self) -> None:
        """Give the counters back."""
        for group in self._descriptors:
            for descriptor in group:
                os.close(descriptor)
        self._descriptors = ()


def _count(descriptor: int) -> float:
    count, enabled, running = struct.unpack("=QQQ", os.read(descriptor, 24))
    return float(count * enabled / running) if running else 0.0


def open_counters(events: Sequence[tuple[int, int]], group: str, root_pid: int) -> Counters:
    """Counters over a cgroup, else over every process that is in the tree now; ``NoCounters``."""
    opened: list[list[int]] = []
    try:
        for event in events:
            opened.append([])
            _open_event(event, group, root_pid, opened[-1])
    except NoCounters:
        Counters(opened).close()
        raise
    return Counters(opened)


def _open_event(event: tuple[int, int], group: str, root_pid: int, into: list[int]) -> None:
    if group:
        with closing_fd(os.open(group, os.O_RDONLY | os.O_CLOEXEC)) as directory:
            cpus = range(os.cpu_count() or 1)
            into.extend(_open(event, directory, cpu, _PID_CGROUP) for cpu in cpus)
        return
    into.extend(_open(event, pid, -1, 0) for pid in sorted(descendants(root_pid)))
    if not into:
        raise NoCounters("it has no process yet")


def useful_instructions(instructions: float, branches: float) -> float:
    """The instructions, or 0 where the share of branches shows active waiting.

    The dissertation (chapter 3, "Performance scores") excludes segments of spinning from the rate.

    >>> useful_instructions(1000, 150)
    1000
    >>> useful_instructions(1000, 330)
    0.0
    """
    waiting = instructions > 0 and branches / instructions >= WAITING_BRANCH_SHARE
    return 0.0 if waiting else instructions
