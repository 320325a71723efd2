"""What a workload may use, and the kernel files that say so.

From ``Limits`` to ``Write`` is a pure function, ``write_all`` carries the writes out. The order
of the writes matters to the kernel and is explained where it does. Memory, which the kernel may
refuse for good reasons, is in ``memory``. Called by ``control`` and ``group``.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wharfinger.errors import EngineFault
from wharfinger.host.cgroups.files import read_text, write_raw, write_value
from wharfinger.model.platform import MILLICPUS_PER_CPU

UNIFIED = "unified"
"""The key of the v2 directory among a group's paths."""

PERIOD_MICROSECONDS = 100_000
LEAST_QUOTA_MICROSECONDS = 1_000
SHARES_PER_CPU = 1024
LEAST_SHARES, MOST_SHARES = 2, 262_144
WEIGHT_PER_CPU = 100
LEAST_WEIGHT, MOST_WEIGHT = 1, 10_000

_LEAST_MILLICPUS = LEAST_QUOTA_MICROSECONDS * MILLICPUS_PER_CPU // PERIOD_MICROSECONDS


@dataclass(frozen=True, slots=True)
class Limits:
    """What one workload may use on one server.

    Attributes:
        cpu_millicpus: CPU time per second in thousandths of a CPU: the quota, and in proportion
            the weight. Not looked at for best-effort work.
        best_effort: No quota, the lowest weight, and idle scheduling where the kernel has it.
        memory_bytes: The limit on memory, page cache included; swap is no way around it.
        cpus: The CPUs it may run on; empty = wherever its parent may.
        memory_nodes: The NUMA nodes it may take memory from; empty = wherever its parent may.
        max_processes: Processes and threads together: the guard against fork bombs.

    Raises:
        ValueError: A number that no kernel could keep; a fault of the caller.
    """

    cpu_millicpus: int
    best_effort: bool
    memory_bytes: int
    cpus: tuple[int, ...] = ()
    memory_nodes: tuple[int, ...] = ()
    max_processes: int = 4096

    def __post_init__(self) -> None:
        if self.cpu_millicpus < 0 or (self.cpu_millicpus == 0 and not self.best_effort):
            raise ValueError(f"cpu_millicpus is {self.cpu_millicpus}; guaranteed work needs some")
        if self.memory_bytes <= 0:
            raise ValueError(f"memory_bytes is {self.memory_bytes}; it must be positive")
        if self.max_processes <= 0:
            raise ValueError(f"max_processes is {self.max_processes}; it must be positive")

    @property
    def quota_microseconds(self) -> int | None:
        """CPU time per period of 100 ms, at least the kernel's 1 ms; ``None`` = no quota."""
        if self.best_effort:
            return None
        asked = self.cpu_millicpus * PERIOD_MICROSECONDS // MILLICPUS_PER_CPU
        return max(LEAST_QUOTA_MICROSECONDS, asked)

    @property
    def note(self) -> str:
        """One sentence where the kernel gives something else than was asked, else empty."""
        if self.best_effort or self.cpu_millicpus >= _LEAST_MILLICPUS:
            return ""
        return (
            f"cpu_millicpus {self.cpu_millicpus} is below the kernel's smallest quota; "
            f"the workload gets {_LEAST_MILLICPUS}"
        )

    @property
    def shares(self) -> int:
        """v1: ``cpu.shares``."""
        if self.best_effort:
            return LEAST_SHARES
        return shares_of(self.cpu_millicpus)

    @property
    def weight(self) -> int:
        """v2: ``cpu.weight``."""
        if self.best_effort:
            return LEAST_WEIGHT
        return weight_of(self.cpu_millicpus)


def shares_of(cpu_millicpus: int) -> int:
    """v1 weight: 1024 for each CPU, which is what one ordinary process weighs."""
    shares = cpu_millicpus * SHARES_PER_CPU // MILLICPUS_PER_CPU
    return min(MOST_SHARES, max(LEAST_SHARES, shares))


def weight_of(cpu_millicpus: int) -> int:
    """v2 weight: 100 for each CPU, which is what one ordinary process weighs."""
    weight = cpu_millicpus * WEIGHT_PER_CPU // MILLICPUS_PER_CPU
    return min(MOST_WEIGHT, max(LEAST_WEIGHT, weight))


@dataclass(frozen=True, slots=True)
class Write:
    """One value for one kernel file.

    Attributes:
        optional: The file depends on the kernel's version or configuration; where it is not,
            nothing is written.
    """

    path: Path
    value: str
    optional: bool = False


def cpu_list(numbers: tuple[int, ...]) -> str:
    """The kernel's list format, without ranges: ``"0,2,3"``."""
    return ",".join(str(number) for number in sorted(numbers))


def limit_writes(paths: Mapping[str, Path], limits: Limits) -> tuple[Write, ...]:
    """All limits but memory, in the order the kernel wants.

    Args:
        paths: The group's directory in each controller's hierarchy, v2's under ``UNIFIED``.
        limits: What to set.
    """
    writes: list[Write] = []
    if "cpuset" in paths:
        writes += _cpuset_writes(paths["cpuset"], limits)
    if "cpu" in paths:
        write_cpu = _cpu_writes_v2 if on_v2(paths, "cpu") else _cpu_writes_v1
        writes += write_cpu(paths["cpu"], limits)
    if "pids" in paths:
        writes.append(Write(paths["pids"] / "pids.max", str(limits.max_processes)))
    return tuple(writes)


def on_v2(paths: Mapping[str, Path], controller: str) -> bool:
    """Whether the controller is on v2 here; on a hybrid machine some are and some are not."""
    return paths[controller] == paths.get(UNIFIED)


def _cpuset_writes(group: Path, limits: Limits) -> list[Write]:
    writes = []
    if limits.memory_nodes:
        writes.append(Write(group / "cpuset.mems", cpu_list(limits.memory_nodes)))
    if limits.cpus:
        writes.append(Write(group / "cpuset.cpus", cpu_list(limits.cpus)))
    return writes


def _cpu_writes_v1(group: Path, limits: Limits) -> list[Write]:
    quota = limits.quota_microseconds
    return [
        *_weight_writes(group, "cpu.shares", limits.shares, idle=limits.best_effort),
        Write(group / "cpu.cfs_period_us", str(PERIOD_MICROSECONDS)),
        Write(group / "cpu.cfs_quota_us", "-1" if quota is None else str(quota)),
    ]


def _cpu_writes_v2(group: Path, limits: Limits) -> list[Write]:
    quota = limits.quota_microseconds
    return [
        *_weight_writes(group, "cpu.weight", limits.weight, idle=limits.best_effort),
        Write(group / "cpu.max", f"{'max' if quota is None else quota} {PERIOD_MICROSECONDS}"),
    ]


def _weight_writes(group: Path, file: str, value: int, *, idle: bool) -> list[Write]:
    # The kernel refuses a weight while a group is idle, so idle is left first and entered last.
    writes = [Write(group / "cpu.idle", "0", optional=True), Write(group / file, str(value))]
    if idle:
        writes.append(Write(group / "cpu.idle", "1", optional=True))
    return writes


def write_all(writes: Iterable[Write]) -> None:
    """Carry out all writes in order; where one fails, the files before it get their values back.

    Raises:
        EngineFault: The first failure; its cause is the kernel's ``OSError``.
    """
    done: list[Write] = []
    for write in writes:
        former = read_text(write.path)
        if former is None and write.optional:
            continue
        try:
            write_value(write.path, write.value)
        except EngineFault:
            _put_back(done)
            raise
        if former:
            done.append(Write(write.path, former))


def _put_back(done: list[Write]) -> None:
    for write in reversed(done):
        # What failed first is what the caller is told.
        with suppress(OSError):
            write_raw(write.path, write.value)
