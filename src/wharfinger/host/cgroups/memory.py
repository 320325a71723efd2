"""The limit on a group's memory: set, moved without killing, and what hit it.

The paths are a group's, as in ``limits``. Called by ``control`` for a new group and by
``Group`` for one in use.
"""

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wharfinger.errors import EngineFault
from wharfinger.host.cgroups.files import read_field, read_int, read_text, write_value
from wharfinger.host.cgroups.limits import Write, on_v2, write_all

Paths = Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class ResizeRefused:
    """The group keeps the limits that it had, and why."""

    reason: str


def memory_writes(paths: Paths, memory_bytes: int, *, rising: bool) -> tuple[Write, ...]:
    """The limit on memory, so that swap is no way around it.

    Args:
        paths: The group's; without a memory controller there is nothing to write.
        memory_bytes: The limit.
        rising: Whether it is above the present one. On v1 memory + swap may never be limited
            below memory alone, so the one goes up first and comes down last.
    """
    if "memory" not in paths:
        return ()
    group, value = paths["memory"], str(memory_bytes)
    if on_v2(paths, "memory"):
        return (
            Write(group / "memory.max", value),
            Write(group / "memory.swap.max", "0", optional=True),
            # When one of a workload's processes is killed for memory the rest is in no known
            # state: all of it goes, and is reported so.
            Write(group / "memory.oom.group", "1", optional=True),
        )
    alone = Write(group / "memory.limit_in_bytes", value)
    with_swap = Write(group / "memory.memsw.limit_in_bytes", value, optional=True)
    return (with_swap, alone) if rising else (alone, with_swap)


def resize(paths: Paths, memory_bytes: int) -> ResizeRefused | None:
    """Move the limit of a group in use; refused where that would have to kill.

    Raises:
        EngineFault: The kernel refuses for another reason; the limit is what it was.
    """
    if "memory" not in paths:
        return None
    former = limit_bytes(paths)
    rising = former is not None and memory_bytes > former
    writes = memory_writes(paths, memory_bytes, rising=rising)
    if on_v2(paths, "memory") and not rising:
        return _lower_v2(paths, memory_bytes, writes)
    try:
        write_all(writes)
    except EngineFault as fault:
        # v1 reclaims what it can and says EBUSY when that is not enough.
        if isinstance(fault.__cause__, OSError) and fault.__cause__.errno == errno.EBUSY:
            return _refused(paths, memory_bytes)
        raise
    return None


def _lower_v2(paths: Paths, memory_bytes: int, writes: tuple[Write, ...]) -> ResizeRefused | None:
    """v2 kills to reach a lower ``memory.max``, so the use is brought down first.

    ``memory.high`` reclaims and throttles and never kills: with it at the new limit the group
    can't grow past it between the look at its use and the write.
    """
    high = paths["memory"] / "memory.high"
    former_high = read_text(high) or "max"
    write_value(high, str(memory_bytes))
    try:
        if (current_bytes(paths) or 0) > memory_bytes:
            return _refused(paths, memory_bytes)
        write_all(writes)
    finally:
        write_value(high, former_high)
    return None


def _refused(paths: Paths, memory_bytes: int) -> ResizeRefused:
    return ResizeRefused(
        f"memory cannot be limited to {memory_bytes} bytes: {current_bytes(paths)} bytes are in "
        "use and the kernel could not reclaim enough of them"
    )


def limit_bytes(paths: Paths) -> int | None:
    """The limit now; ``None`` = none."""
    return _read(paths, v2="memory.max", v1="memory.limit_in_bytes")


def current_bytes(paths: Paths) -> int | None:
    """What counts against the limit now, page cache included; ``None`` = not known."""
    return _read(paths, v2="memory.current", v1="memory.usage_in_bytes")


def _read(paths: Paths, *, v2: str, v1: str) -> int | None:
    if "memory" not in paths:
        return None
    return read_int(paths["memory"] / (v2 if on_v2(paths, "memory") else v1))


def out_of_memory_kills(paths: Paths) -> int | None:
    """Processes of the group killed for reaching its limit; ``None`` = not known."""
    if "memory" not in paths:
        return None
    file = "memory.events" if on_v2(paths, "memory") else "memory.oom_control"
    return read_field(paths["memory"] / file, "oom_kill")
