"""One workload's group: resize, measure, freeze, kill, remove.

It may be gone, wholly or in some hierarchies, at any moment: what is read is then ``None`` or
empty, and killing and removing do nothing. It kills by ``cgroup.kill``, which no fork outruns; on
an older kernel it kills each process until none is left, with ``pids.max`` at 0 and frozen.
"""

import errno
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from wharfinger.errors import EngineFault, InvalidInput
from wharfinger.host.cgroups import files
from wharfinger.host.cgroups.claim import BASE_PREFIX
from wharfinger.host.cgroups.limits import (
    UNIFIED,
    Limits,
    Means,
    Paths,
    ResizeRefused,
    file_of,
    read_number,
    resize_memory,
    set_limits,
)

# A process enters the groups in this order. Those by which it can be found and killed come first:
# one that dies half-way leaves nothing that can't be found.
_ENTRY_ORDER = (UNIFIED, "freezer", "pids", "memory", "cpuset", "cpuacct", "cpu")
_FREEZE_SECONDS = 0.5


class GroupUsage(NamedTuple):
    """What a group uses, memory with page cache; ``None`` = not measured, or the group is gone."""

    cpu_seconds: float | None
    memory_bytes: int | None
    processes: int | None
    memory_peak_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Freezer:
    """What suspends a group: its directory in a hierarchy that can, and that one's version."""

    group: Path
    version: int

    def set(self, *, frozen: bool) -> None:
        """Ask the kernel to freeze or thaw the group; it takes effect a little later."""
        if self.version == 2:
            files.write_value(self.group / "cgroup.freeze", "1" if frozen else "0")
        else:
            files.write_value(self.group / "freezer.state", "FROZEN" if frozen else "THAWED")

    def is_frozen(self) -> bool:
        """Whether no process of the group runs any more."""
        if self.version == 2:
            return files.read_field(self.group / "cgroup.events", "frozen") == 1
        return files.read_text(self.group / "freezer.state") == "FROZEN"


@dataclass(frozen=True, slots=True)
class Group:
    """One workload's directory in each controller's hierarchy; v2's also under ``"unified"``."""

    paths: Paths

    @property
    def server(self) -> str:
        """The server that the workload is on; empty where there are no directories."""
        return self.directories[0].parent.name if self.paths else ""

    @property
    def key(self) -> str:
        """The key that it was started under; empty where there are no directories."""
        return self.directories[0].name if self.paths else ""

    @property
    def directories(self) -> tuple[Path, ...]:
        """Each directory once, in the order in which a process enters them."""
        ordered = (self.paths[name] for name in _ENTRY_ORDER if name in self.paths)
        return tuple(dict.fromkeys(ordered))

    @property
    def procs_files(self) -> tuple[Path, ...]:
        """Where a process writes its pid before it becomes the workload, in this order."""
        return tuple(directory / "cgroup.procs" for directory in self.directories)

    @property
    def has_quota(self) -> bool:
        """Whether the kernel can limit its CPU time."""
        quota = file_of(self.paths, Means.QUOTA)
        return quota is not None and quota.exists()

    @property
    def kill_file(self) -> Path | None:
        """``cgroup.kill``; ``None`` where the kernel has none (before 5.14, or v1 only)."""
        path = file_of(self.paths, Means.KILL)
        return path if path and path.exists() else None

    @property
    def freezer(self) -> Path | None:
        """The directory in the v1 freezer; ``None`` where v2 does its work or there is none."""
        return self.paths.get("freezer")

    def to_plain(self) -> dict[str, str]:
        """Controller to path: all that a later manager needs to find the group again."""
        return {name: str(path) for name, path in self.paths.items()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, str]) -> "Group":
        """The group that ``to_plain`` wrote down; ``InvalidInput`` for a path that is not ours."""
        for name, path in plain.items():
            parts = Path(path).parts
            ours = len(parts) > 4 and parts[0] == "/" and parts[-3].startswith(BASE_PREFIX)
            if name not in _ENTRY_ORDER or not ours or ".." in parts:
                raise InvalidInput(
                    f"{name}: {path!r} is not a workload's group; expected "
                    f"/.../{BASE_PREFIX}ID/SERVER/KEY, as to_plain gives it"
                )
        return cls({name: Path(path) for name, path in plain.items()})

    def exists(self) -> bool:
        """Whether any of its directories exists."""
        return any(directory.is_dir() for directory in self.directories)

    def resize(self, limits: Limits) -> ResizeRefused | None:
        """Change all the limits in place, or none; refused where less memory would have to kill."""
        former = read_number(self.paths, Means.MEMORY)
        refused = resize_memory(self.paths, limits.memory_bytes)
        if refused is not None:
            return refused
        try:
            set_limits(self.paths, limits)
        except EngineFault:
            if former is not None:
                resize_memory(self.paths, former)
            raise
        return None

    def usage(self) -> GroupUsage:
        """What it uses now."""
        tracked = next((path for path in self.directories if path.is_dir()), None)
        return GroupUsage(
            cpu_seconds=_cpu_seconds(self.paths),
            memory_bytes=read_number(self.paths, Means.MEMORY_USE),
            processes=None if tracked is None else len(pids_beneath(tracked)),
            memory_peak_bytes=read_number(self.paths, Means.MEMORY_PEAK),
        )

    def memory_in_use(self) -> int | None:
        """Bytes that can't be reclaimed, the page cache left out; ``None`` = not measured."""
        if UNIFIED in self.paths and self.paths.get("memory") == self.paths[UNIFIED]:
            names = ["anon", "shmem", "kernel_stack", "pagetables", "slab_unreclaimable"]
        else:
            names = ["total_rss", "total_shmem"]
        if "memory" not in self.paths:
            return None
        stat = self.paths["memory"] / "memory.stat"
        parts = [files.read_field(stat, name) for name in names]
        return None if parts[0] is None else sum(part or 0 for part in parts)

    def out_of_memory_kills(self) -> int | None:
        """Processes killed for exceeding the limit on memory; ``None`` = unknown."""
        events = file_of(self.paths, Means.MEMORY_EVENTS)
        return files.read_field(events, "oom_kill") if events else None

    def freeze(self, timeout_seconds: float = 1.0) -> bool:
        """Suspend all its processes; whether none runs any more after that time."""
        freezer = self._need_freezer()
        freezer.set(frozen=True)
        return files.wait_until(freezer.is_frozen, timeout_seconds)

    def thaw(self) -> None:
        """Resume its processes."""
        self._need_freezer().set(frozen=False)

    def pids(self) -> tuple[int, ...]:
        """Its processes now, including those in groups that it made itself."""
        return tuple(sorted({pid for path in self.directories for pid in pids_beneath(path)}))

    def kill_all(self, timeout_seconds: float = 2.0) -> bool:
        """Kill every process in it, even when it is frozen; whether it is empty now.

        A group that was killed may not fork any more; ``create`` makes it usable again. With a
        timeout of 0 it does not wait. Without any directory nothing is known, so ``False``.
        """
        if not self.paths:
            return False
        return kill_until_empty(
            self.pids,
            kill_file=self.kill_file,
            freezer=self._freezer(),
            pids_max=file_of(self.paths, Means.PROCESSES),
            timeout_seconds=timeout_seconds,
        )

    def remove(self, timeout_seconds: float = 1.0) -> bool:
        """Remove its directories once they are empty, within the timeout; whether all are gone."""
        # Each is tried, even when one before it stays.
        return files.wait_until(
            lambda: all([*map(files.remove_tree, self.directories)]), timeout_seconds
        )

    def _freezer(self) -> Freezer | None:
        if UNIFIED in self.paths and (self.paths[UNIFIED] / "cgroup.freeze").exists():
            return Freezer(self.paths[UNIFIED], 2)
        return Freezer(self.paths["freezer"], 1) if "freezer" in self.paths else None

    def _need_freezer(self) -> Freezer:
        freezer = self._freezer()
        if freezer is None:
            raise EngineFault(
                f"cannot suspend {self.key or 'the workload'}: neither cgroup v2 nor the v1 "
                "freezer is there for it; see the server's conditions"
            )
        return freezer


def _cpu_seconds(paths: Paths) -> float | None:
    if UNIFIED in paths:  # v2 counts CPU time with no controller at all
        microseconds = files.read_field(paths[UNIFIED] / "cpu.stat", "usage_usec")
        if microseconds is not None:
            return microseconds / 1e6
    if "cpuacct" in paths:
        nanoseconds = files.read_int(paths["cpuacct"] / "cpuacct.usage")
        if nanoseconds is not None:
            return nanoseconds / 1e9
    return None


def pids_beneath(group: Path) -> tuple[int, ...]:
    """The processes in a group and in the groups that it made beneath itself."""
    pids: set[int] = set()
    groups = [group]
    for part in groups:
        groups.extend(files.subdirectories(part))
        pids.update(map(int, (files.read_text(part / "cgroup.procs") or "").split()))
    return tuple(sorted(pids))


def kill_until_empty(
    pids: Callable[[], tuple[int, ...]],
    *,
    kill_file: Path | None,
    freezer: Freezer | None,
    pids_max: Path | None,
    timeout_seconds: float,
) -> bool:
    """Kill all, repeatedly and at least once, until the time is over; whether none is left.

    ``kill_file``, ``freezer`` and ``pids_max`` are the group's, where it has them.
    """
    struck = kill_file is not None and _strike(kill_file)
    if not struck and pids_max is not None:
        with suppress(OSError):  # the group is gone, or the kills below report it
            files.write_raw(pids_max, "0")

    def none_left() -> bool:
        if not pids():
            return True
        # After cgroup.kill no process forks any more, and what is dying would not freeze.
        with nullcontext() if struck else _frozen(freezer):
            _kill_each(pids)
        return not pids()

    return files.wait_until(none_left, timeout_seconds)


def _strike(kill_file: Path) -> bool:
    try:
        files.write_raw(kill_file, "1")
    except OSError as error:
        # No such file: an older kernel, or the group is gone. EOPNOTSUPP: it is threaded.
        if error.errno in {errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP}:
            return False
        raise files.fault(f"write '1' to {kill_file}", error) from error
    return True


@contextmanager
def _frozen(freezer: Freezer | None) -> Iterator[None]:
    if freezer is None or not freezer.group.is_dir():
        yield
        return
    freezer.set(frozen=True)
    try:
        # A process in uninterruptible sleep may not freeze in time, but can't fork either.
        files.wait_until(freezer.is_frozen, _FREEZE_SECONDS)
        yield
    finally:
        freezer.set(frozen=False)  # what is killed dies only when it is thawed


def _kill_each(pids: Callable[[], tuple[int, ...]]) -> None:
    """SIGKILL to each process, never to another that reuses its pid.

    A pid that is listed before and after its pidfd was opened is a process of this group, or one
    that is dead already.
    """
    with ExitStack() as opened:
        descriptors: dict[int, int] = {}
        for pid in pids():
            with suppress(ProcessLookupError):
                descriptors[pid] = os.pidfd_open(pid)
                opened.callback(os.close, descriptors[pid])
        for pid in pids():
            if pid in descriptors:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptors[pid], signal.SIGKILL)
