"""Ends everything in a group, by the strongest means that the kernel has for it.

Called by ``Group.kill_all``. In order: ``cgroup.kill``, which no fork outruns; else killing each
until none is left, with ``pids.max`` at 0 and frozen meanwhile, as far as the kernel has these,
so that no process forks faster than we kill.
"""

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from wharfinger.host.cgroups.files import (
    fault,
    read_field,
    read_text,
    subdirectories,
    wait_until,
    write_raw,
    write_value,
)

_FREEZE_SECONDS = 0.5


def pids_beneath(group: Path) -> tuple[int, ...]:
    """The processes in a group and in the groups that it made beneath itself."""
    pids: set[int] = set()
    groups = [group]
    for part in groups:
        groups.extend(subdirectories(part))
        pids.update(map(int, (read_text(part / "cgroup.procs") or "").split()))
    return tuple(sorted(pids))


@dataclass(frozen=True, slots=True)
class Freezer:
    """What suspends a group: its directory in a hierarchy that can, and that one's version."""

    group: Path
    version: int

    def set(self, *, frozen: bool) -> None:
        """Ask the kernel to freeze or thaw the group; it takes effect a little later."""
        if self.version == 2:
            write_value(self.group / "cgroup.freeze", "1" if frozen else "0")
        else:
            write_value(self.group / "freezer.state", "FROZEN" if frozen else "THAWED")

    def is_frozen(self) -> bool:
        """Whether no process of the group runs any more."""
        if self.version == 2:
            return read_field(self.group / "cgroup.events", "frozen") == 1
        return read_text(self.group / "freezer.state") == "FROZEN"


def kill_until_empty(
    pids: Callable[[], tuple[int, ...]],
    *,
    kill_file: Path | None,
    freezer: Freezer | None,
    pids_max: Path | None,
    timeout_seconds: float,
) -> bool:
    """Kill all, repeatedly and at least once, until the time is over; whether none is left.

    Args:
        pids: The processes now.
        kill_file: The group's ``cgroup.kill``, where the kernel has it.
        freezer: The group's, where it has one.
        pids_max: The group's ``pids.max``, where there is one.
        timeout_seconds: From the first kill.
    """
    struck = kill_file is not None and _strike(kill_file)
    if not struck and pids_max is not None:
        with suppress(OSError):  # the group is gone, or the kills below report it
            write_raw(pids_max, "0")

    def none_left() -> bool:
        if not pids():
            return True
        # After cgroup.kill no process forks any more, and what is dying would not freeze.
        with nullcontext() if struck else _frozen(freezer):
            _kill_each(pids)
        return not pids()

    return wait_until(none_left, timeout_seconds)


def _strike(kill_file: Path) -> bool:
    """Whether the kernel accepted it."""
    try:
        write_raw(kill_file, "1")
    except OSError as error:
        # No such file: an older kernel, or the group is gone. EOPNOTSUPP: it is threaded.
        if error.errno in {errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP}:
            return False
        raise fault(f"write '1' to {kill_file}", error) from error
    return True


@contextmanager
def _frozen(freezer: Freezer | None) -> Iterator[None]:
    if freezer is None or not freezer.group.is_dir():
        yield
        return
    freezer.set(frozen=True)
    try:
        # A process in uninterruptible sleep may not freeze in time, but can't fork either.
        wait_until(freezer.is_frozen, _FREEZE_SECONDS)
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
