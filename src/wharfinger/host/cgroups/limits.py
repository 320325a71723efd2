"""What a workload may use, and the kernel's files that limit and report it, on v1 and v2.

A group's ``Paths`` are its directories by controller, v2's also under ``UNIFIED``; on a hybrid
machine some controllers are on v2 and some are not.
"""

import errno
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from wharfinger.errors import EngineFault
from wharfinger.host.cgroups.files import read_int, read_text, write_raw, write_value
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.quota import QUOTA_PERIOD_SECONDS, short_period_seconds

UNIFIED = "unified"
"""The key of the v2 directory among a group's paths."""

_PERIOD_MICROSECONDS = round(QUOTA_PERIOD_SECONDS * 1e6)
_MIN_QUOTA_MICROSECONDS = 1_000
# Per CPU (what one ordinary process weighs), smallest, largest: cpu.shares and cpu.weight.
_WEIGHTS = {1: (1024, 2, 262_144), 2: (100, 1, 10_000)}

Paths = Mapping[str, Path]


class Means(StrEnum):
    """What can be limited, done or read through cgroups."""

    QUOTA = "quota"
    WEIGHT = "weight"
    MEMORY = "memory"
    MEMORY_USE = "memory use"
    MEMORY_PEAK = "memory peak"
    MEMORY_EVENTS = "memory events"
    CPUSET = "cpuset"
    PROCESSES = "processes"
    KILL = "kill"
    FREEZER = "freezer"


FILES: Mapping[Means, Mapping[int, tuple[str, str]]] = {
    Means.QUOTA: {1: ("cpu", "cpu.cfs_quota_us"), 2: ("cpu", "cpu.max")},
    Means.WEIGHT: {1: ("cpu", "cpu.shares"), 2: ("cpu", "cpu.weight")},
    Means.MEMORY: {1: ("memory", "memory.limit_in_bytes"), 2: ("memory", "memory.max")},
    Means.MEMORY_USE: {1: ("memory", "memory.usage_in_bytes"), 2: ("memory", "memory.current")},
    Means.MEMORY_PEAK: {1: ("memory", "memory.max_usage_in_bytes"), 2: ("memory", "memory.peak")},
    Means.MEMORY_EVENTS: {1: ("memory", "memory.oom_control"), 2: ("memory", "memory.events")},
    Means.CPUSET: {1: ("cpuset", "cpuset.cpus"), 2: ("cpuset", "cpuset.cpus")},
    Means.PROCESSES: {1: ("pids", "pids.max"), 2: ("pids", "pids.max")},
    Means.KILL: {2: (UNIFIED, "cgroup.kill")},
    Means.FREEZER: {1: ("freezer", "freezer.state"), 2: (UNIFIED, "cgroup.freeze")},
}
"""Controller and file by version. What v2 does without a controller is under ``UNIFIED``."""


def file_of(paths: Paths, means: Means) -> Path | None:
    """The group's file for a means; ``None`` where no hierarchy of it has the controller."""
    for version, (controller, file) in FILES[means].items():
        if controller in paths and (version == 2) == _on_v2(paths, controller):
            return paths[controller] / file
    return None


def read_number(paths: Paths, means: Means) -> int | None:
    """The number in the group's file; ``None`` = unknown, or no limit."""
    file = file_of(paths, means)
    return read_int(file) if file else None


def _on_v2(paths: Paths, controller: str) -> bool:
    return controller in paths and paths[controller] == paths.get(UNIFIED)


@dataclass(frozen=True, slots=True)
class ResizeRefused:
    """The group keeps the limits that it had, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What one workload may use on one server; ``ValueError`` for numbers that no kernel accepts.

    Attributes:
        cpu_millicpus: The quota, and in proportion the weight; of best-effort work the quota alone,
            0 = none.
        best_effort: The lowest weight, and idle scheduling where the kernel has it.
        memory_bytes: The limit on memory, page cache included; swap does not extend it.
        cpus: Those it may run on; empty = its parent's. Likewise ``memory_nodes``.
        max_processes: Processes and threads together: the guard against fork bombs.
        latency_critical: The quota's period is short, so that a program that has used it up waits
            for milliseconds; what it leaves of one period it may use in the next.
    """

    cpu_millicpus: int
    best_effort: bool
    memory_bytes: int
    cpus: tuple[int, ...] = ()
    memory_nodes: tuple[int, ...] = ()
    max_processes: int = 4096
    latency_critical: bool = False

    def __post_init__(self) -> None:
        if self.cpu_millicpus < 0 or (self.cpu_millicpus == 0 and not self.best_effort):
            raise ValueError(f"cpu_millicpus is {self.cpu_millicpus}; guaranteed work needs some")
        for name in ("memory_bytes", "max_processes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be positive")

    @property
    def period_microseconds(self) -> int:
        """In which the quota may be used."""
        if not self.latency_critical or self.best_effort:
            return _PERIOD_MICROSECONDS
        return round(short_period_seconds(self.cpu_millicpus) * 1e6)

    @property
    def quota_microseconds(self) -> int | None:
        """CPU time per period, at least the kernel's 1 ms; ``None`` = no quota."""
        if self.best_effort and not self.cpu_millicpus:
            return None
        asked = self.cpu_millicpus * self.period_microseconds // MILLICPUS_PER_CPU
        return max(_MIN_QUOTA_MICROSECONDS, asked)

    @property
    def burst_microseconds(self) -> int:
        """CPU time that may be saved up from former periods: one quota, which is the most."""
        return (self.quota_microseconds or 0) if self.latency_critical else 0

    def weight(self, version: int) -> int:
        """v1's ``cpu.shares`` or v2's ``cpu.weight``."""
        return weight_of(0 if self.best_effort else self.cpu_millicpus, version)


def weight_of(cpu_millicpus: int, version: int) -> int:
    """The weight in proportion: a whole CPU weighs as much as one ordinary process."""
    per_cpu, smallest, largest = _WEIGHTS[version]
    return min(largest, max(smallest, cpu_millicpus * per_cpu // MILLICPUS_PER_CPU))


@dataclass(frozen=True, slots=True)
class _Write:
    """One value for one kernel file; one that is ``optional`` may not exist in this kernel."""

    path: Path
    value: str
    optional: bool = False


def _write_all(writes: Iterable[_Write]) -> None:
    done: list[_Write] = []
    for write in writes:
        former = read_text(write.path)
        if former is None and write.optional:
            continue
        try:
            write_value(write.path, write.value)
        except EngineFault:
            for earlier in reversed(done):
                with suppress(OSError):  # the first failure is reported
                    write_raw(earlier.path, earlier.value)
            raise
        if former:
            done.append(_Write(write.path, former))


def set_limits(paths: Paths, limits: Limits) -> None:
    """Write all limits but memory, in the kernel's order; after a failure, restore the former."""
    writes: list[_Write] = []
    if cpuset := paths.get("cpuset"):
        numbers = {"cpuset.mems": limits.memory_nodes, "cpuset.cpus": limits.cpus}
        for file, allowed in numbers.items():
            if allowed:
                writes.append(_Write(cpuset / file, ",".join(map(str, sorted(allowed)))))
    if cpu := paths.get("cpu"):
        writes += _cpu_writes(cpu, limits, 2 if _on_v2(paths, "cpu") else 1)
    if pids := paths.get("pids"):
        writes.append(_Write(pids / "pids.max", str(limits.max_processes)))
    _write_all(writes)


def set_weight(group: Path, cpu_millicpus: int, version: int) -> None:
    """Let a group weigh as so many CPUs beside its siblings; 0 = it gets what they all leave."""
    writes = _weight_writes(group, weight_of(cpu_millicpus, version), version)
    if not cpu_millicpus:
        writes.append(_Write(group / "cpu.idle", "1", optional=True))
    _write_all(writes)


def _weight_writes(group: Path, weight: int, version: int) -> list[_Write]:
    # The kernel refuses a weight while a group is idle, so idle is left first and entered last.
    file = FILES[Means.WEIGHT][version][1]
    return [_Write(group / "cpu.idle", "0", optional=True), _Write(group / file, str(weight))]


def _cpu_writes(group: Path, limits: Limits, version: int) -> list[_Write]:
    quota, period = limits.quota_microseconds, limits.period_microseconds
    burst = str(limits.burst_microseconds)
    writes = _weight_writes(group, limits.weight(version), version)
    # The kernel refuses a burst above the quota, so it is taken away first and given last.
    if version == 2:
        writes.append(_Write(group / "cpu.max.burst", "0", optional=True))
        writes.append(_Write(group / "cpu.max", f"{quota or 'max'} {period}"))
        writes.append(_Write(group / "cpu.max.burst", burst, optional=True))
    else:
        writes.append(_Write(group / "cpu.cfs_burst_us", "0", optional=True))
        # A quota of another period could be none of this one's.
        writes.append(_Write(group / "cpu.cfs_quota_us", "-1"))
        writes.append(_Write(group / "cpu.cfs_period_us", str(period)))
        writes.append(_Write(group / "cpu.cfs_quota_us", str(quota or -1)))
        writes.append(_Write(group / "cpu.cfs_burst_us", burst, optional=True))
    if limits.best_effort:
        writes.append(_Write(group / "cpu.idle", "1", optional=True))
    return writes


def resize_memory(paths: Paths, memory_bytes: int) -> ResizeRefused | None:
    """Move the limit on memory, swap included; refused where that would have to kill."""
    if "memory" not in paths:
        return None
    group, value = paths["memory"], str(memory_bytes)
    former = read_number(paths, Means.MEMORY)
    rising = former is not None and memory_bytes > former
    if not _on_v2(paths, "memory"):
        alone = _Write(group / "memory.limit_in_bytes", value)
        with_swap = _Write(group / "memory.memsw.limit_in_bytes", value, optional=True)
        try:
            # Memory + swap may never be limited below memory alone.
            _write_all((with_swap, alone) if rising else (alone, with_swap))
        except EngineFault as fault:
            # v1 reclaims what it can, and says EBUSY when that is not enough.
            if isinstance(fault.__cause__, OSError) and fault.__cause__.errno == errno.EBUSY:
                return _refused(paths, memory_bytes)
            raise
        return None
    writes = (
        _Write(group / "memory.max", value),
        _Write(group / "memory.swap.max", "0", optional=True),
        # After one process is killed for memory, the state of the others is unknown: the kernel
        # then kills all of them, and the kill is reported.
        _Write(group / "memory.oom.group", "1", optional=True),
    )
    if not rising:
        return _lower_memory(paths, memory_bytes, writes)
    _write_all(writes)
    return None


def _lower_memory(
    paths: Paths, memory_bytes: int, writes: tuple[_Write, ...]
) -> ResizeRefused | None:
    """v2 kills to reach a lower ``memory.max``; ``memory.high`` reclaims and throttles instead.

    So use is brought down by it first, and can't grow between the look at it and the write.
    """
    high = paths["memory"] / "memory.high"
    former_high = read_text(high) or "max"
    write_value(high, str(memory_bytes))
    try:
        if (read_number(paths, Means.MEMORY_USE) or 0) > memory_bytes:
            return _refused(paths, memory_bytes)
        _write_all(writes)
    finally:
        write_value(high, former_high)
    return None


def _refused(paths: Paths, memory_bytes: int) -> ResizeRefused:
    used_bytes = read_number(paths, Means.MEMORY_USE)
    return ResizeRefused(
        f"memory cannot be limited to {memory_bytes} bytes: {used_bytes} bytes are in use and the "
        "kernel could not reclaim enough of them"
    )
