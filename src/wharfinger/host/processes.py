"""Processes, identified uniquely, watched and ended without races.

Called by the local engine, when it takes over what an earlier manager left, and by
``wharfinger.host.supervisor``. Everything uses pidfds, because a pid may be reused at any time.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KEY_VARIABLE = "WHARFINGER_KEY"
"""In a workload's environment, it holds the key by which :func:`kill_orphans` finds the tree."""

_MAX_ENVIRON_BYTES = 8 << 20
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process: pids are reused, these three together are not.

    Attributes:
        boot_id: Of the kernel that ran it, ``/proc/sys/kernel/random/boot_id``.
        start_ticks: When it started, in clock ticks since boot.
    """

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
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return ProcessIdentity(_BOOT_ID.read_text().strip(), pid, int(fields[19]))
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


def kill_orphans(*keys: str, timeout_seconds: float = 10.0) -> int:
    """Kill every process of ours whose environment has ``WHARFINGER_KEY=<one of the keys>``.

    The last resort, e.g. after a supervisor was killed where there is no cgroup. It misses
    processes that cleared their environment. Gives up after the timeout, e.g. on a fork bomb.

    Returns:
        How many were killed. None is left, unless the time was over.
    """
    deadline = time.monotonic() + timeout_seconds
    markers = frozenset(f"{KEY_VARIABLE}={key}".encode() for key in keys)
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


def _marked_processes(markers: frozenset[bytes]) -> Iterator[int]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - only names are needed
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            pidfd = os.pidfd_open(int(name))
        except OSError:
            continue
        # While the descriptor shows it alive, this is its environment.
        if _has_marker(name, markers) and not has_ended(pidfd):
            yield pidfd
        else:
            os.close(pidfd)


def _has_marker(pid: str, markers: frozenset[bytes]) -> bool:
    try:
        directory = Path("/proc", pid)
        if directory.stat().st_uid != os.geteuid():
            return False
        with (directory / "environ").open("rb") as environ:
            return not markers.isdisjoint(environ.read(_MAX_ENVIRON_BYTES).split(b"\0"))
    except OSError:
        return False


def has_ended(pidfd: int, timeout_seconds: float = 0.0) -> bool:
    """Whether the process has ended, reaped or not; waits for it up to the timeout."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(timeout_seconds * 1000))


def send_signal(pidfd: int, number: signal.Signals) -> None:
    """Signal it; a process that is gone, or not ours to signal, is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        signal.pidfd_send_signal(pidfd, number)
