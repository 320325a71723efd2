"""Start a workload under its supervisor, stop it, or make sure that it never starts.

The supervisor (``native/supervisor``) is one small process per workload that outlives the
manager. All records of a run are in its *run directory*, so any process can take over the watch:
read them, open a pidfd of the supervisor, and wait. Without cgroups the supervisor (``pace.c``)
holds the tree to a share of CPU time or suspends it, as two files in the run directory say.
"""

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from wharfinger.errors import EngineFault, InvalidInput, OutOfSpace
from wharfinger.files.atomic import closing_fd
from wharfinger.host.accounts import UserAccount
from wharfinger.host.binaries import supervisor_path
from wharfinger.host.descriptors import high, high_memfd, sealed_memfd
from wharfinger.host.processes import send_signal
from wharfinger.host.run_control import (
    decimal_seconds,
    encode_pace,
    write_pace,
    write_stop,
    write_suspended,
)
from wharfinger.host.run_dir import CANCELLED, open_run_dir, read_text, write_synced

MIN_LOG_CAP_BYTES = 4096
_MAX_SPEC_BYTES = 16 << 20
_SPEC_FD = 3
_NOTICE_FD = 4


class SupervisorStatus(IntEnum):
    """How a supervisor process itself ended."""

    DONE = 0  # the exit record is written
    FAULT = 1  # without a claim: nothing was started; with one: the exit record is not written
    BAD_CALL = 2  # its arguments or the launch spec are wrong; nothing was started
    CLAIMED = 3  # another supervisor has the run, or it is cancelled; nothing was started
    LOST = -1  # it was killed, or another thread has reaped it


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """A supervisor's instructions, passed in a sealed memfd, or in a file closed to others.

    Attributes:
        command: Program and arguments; the program is looked up in the ``PATH`` of ``env``.
        env: The whole environment of the program, with ``processes.marker_of``.
        stop_grace_seconds: From ``stop_signal`` to SIGKILL, unless a stop gives another.
        log_cap_bytes: Of output kept, in two segments of half of it each.
        cgroup_procs: Files that the program writes itself into before exec.
        cgroup_kill: ``cgroup.kill`` of its cgroup (v2 or hybrid).
        freezer: Its v1 freezer cgroup's directory.
        cpus: Those it may run on; empty = the manager's.
        nice: Added to the manager's niceness; above 0 also the session's (``sched_autogroup``).
        cpu_millicpus: What the supervisor holds the tree to; ``None`` = no limit.
        rlimits: ``(resource, soft, hard)`` as for ``resource.setrlimit``.
        account: Whom the program runs as; ``None`` = the manager's user. Another one takes root.
        stop_signal: What asks its processes to stop.
        pass_status: The supervisor ends as the program did, for a batch scheduler's accounts;
            else by ``SupervisorStatus``.
        suspension_lease_seconds: After so long without a renewal a suspension ends by itself.
    """

    command: tuple[str, ...]
    env: Mapping[str, str]
    working_directory: Path
    stop_grace_seconds: float = 10.0
    log_cap_bytes: int = 8 << 20
    cgroup_procs: tuple[Path, ...] = ()
    cgroup_kill: Path | None = None
    freezer: Path | None = None
    cpus: tuple[int, ...] = ()
    nice: int = 0
    cpu_millicpus: int | None = None
    rlimits: tuple[tuple[int, int, int], ...] = ()
    account: UserAccount | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    pass_status: bool = False
    suspension_lease_seconds: float = 30.0

    def encode(self) -> bytes:
        """The format that ``native/supervisor/spec.c`` reads; else ``InvalidInput``."""
        _check_launch(self)
        encoded = b"".join(_encode_field(name, value) for name, value in self._fields())
        if len(encoded) > _MAX_SPEC_BYTES:
            raise InvalidInput(
                f"command and env: {len(encoded)} bytes; shorten them to {_MAX_SPEC_BYTES}"
            )
        return encoded

    def _fields(self) -> Iterator[tuple[str, str | os.PathLike[str] | int]]:
        yield "version", 1
        yield from (("arg", argument) for argument in self.command)
        yield from (("env", f"{name}={value}") for name, value in self.env.items())
        yield "working_directory", self.working_directory
        yield "stop_grace_seconds", decimal_seconds(self.stop_grace_seconds)
        yield "log_cap_bytes", self.log_cap_bytes
        yield from (("cgroup_procs", path) for path in self.cgroup_procs)
        if self.cgroup_kill is not None:
            yield "cgroup_kill", self.cgroup_kill
        if self.freezer is not None:
            yield "freezer", self.freezer
        yield from (("cpu", cpu) for cpu in self.cpus)
        yield "nice", self.nice
        yield "cpu_millicpus", encode_pace(self.cpu_millicpus)
        yield from (("rlimit", ":".join(map(str, limit))) for limit in self.rlimits)
        if self.account is not None:
            yield "uid", self.account.uid
            yield "gid", self.account.gid
            yield from (("group", group) for group in self.account.groups)
        yield "stop_signal", int(self.stop_signal)
        if self.pass_status:
            yield "pass_status", 1
        yield "suspension_lease_seconds", decimal_seconds(self.suspension_lease_seconds)
        yield "end", ""


@dataclass(frozen=True, slots=True)
class Supervisor:
    """A supervisor that this process has launched and must reap by :meth:`poll`.

    ``pidfd`` is readable once it has ended, ``notice_fd`` when there is a claim; the latter is
    closed when the start has succeeded or failed.
    """

    pid: int
    pidfd: int
    notice_fd: int
    _fault_fd: int

    def fileno(self) -> int:
        """The pidfd, for ``selectors``."""
        return self.pidfd

    def poll(self) -> SupervisorStatus | None:
        """How it ended; ``None`` while it runs."""
        try:
            result = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            return SupervisorStatus.LOST
        if result is None:
            return None
        is_status = result.si_code == os.CLD_EXITED and result.si_status in set(SupervisorStatus)
        return SupervisorStatus(result.si_status) if is_status else SupervisorStatus.LOST

    def fault(self) -> str:
        """Why it started nothing, in one line; empty when nothing failed before the claim."""
        return os.pread(self._fault_fd, 512, 0).decode(errors="replace").strip()

    def close(self) -> None:
        """Close the descriptors; the supervisor keeps running."""
        for descriptor in (self.pidfd, self.notice_fd, self._fault_fd):
            os.close(descriptor)


def launch(run_dir: Path, spec: LaunchSpec) -> Supervisor:
    """Start a supervisor on a run directory, which must exist with mode 0700; returns at once.

    One directory never starts anything twice, however often it is launched.

    Raises:
        InvalidInput: The spec is wrong.
        EngineFault: No process could be made; retryable unless the supervisor is not installed.
    """
    encoded = spec.encode()
    with contextlib.ExitStack() as until_launched:
        try:
            fault_fd = high_memfd("wharfinger-fault")
            until_launched.callback(os.close, fault_fd)
            notice_fd, noticing_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            until_launched.callback(os.close, notice_fd)
            with (
                closing_fd(high(noticing_fd)) as noticing_fd,
                closing_fd(sealed_memfd(encoded)) as spec_fd,
            ):
                pid = _spawn(run_dir, fault_fd, spec_fd, noticing_fd)
            # Two descriptors have just been closed, which makes room for this one.
            pidfd = _open_pidfd_of_child(pid)
        except OSError as error:
            raise EngineFault(
                f"cannot start {supervisor_path()}: {error.strerror}",
                retryable=not isinstance(error, FileNotFoundError),
            ) from error
        until_launched.pop_all()
    return Supervisor(pid, pidfd, notice_fd, fault_fd)


def _spawn(run_dir: Path, fault_fd: int, spec_fd: int, notice_fd: int) -> int:
    program = os.fspath(supervisor_path())
    return os.posix_spawn(
        program,
        [program, os.path.abspath(run_dir)],  # noqa: PTH100 - resolve() would follow links
        {},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, fault_fd, 2),
            (os.POSIX_SPAWN_DUP2, spec_fd, _SPEC_FD),
            (os.POSIX_SPAWN_DUP2, notice_fd, _NOTICE_FD),
        ],
        setsid=True,
        # Blocked, not lost, until it is ready: a stop may follow at once.
        setsigmask=(signal.SIGTERM, signal.SIGUSR1),
    )


def _open_pidfd_of_child(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:  # one that can't be watched must not run
        os.kill(pid, signal.SIGKILL)  # not reaped yet, so the pid is still its own
        os.waitpid(pid, 0)
        raise


def cancel(run_dir: Path) -> bool:
    """Take the claim so that no launch of this run starts anything; false: a supervisor has it.

    ``OutOfSpace``: there is no room to write the claim; nothing is cancelled.
    """
    with open_run_dir(run_dir) as directory:
        own = f"claim.new.{os.getpid()}"
        try:
            write_synced(directory, own, CANCELLED)
            os.link(own, "claim", src_dir_fd=directory, dst_dir_fd=directory)
            os.fsync(directory)
        except FileExistsError:
            return read_text(directory, "claim") == CANCELLED
        except OSError as error:
            if (claim := read_text(directory, "claim")) is not None:
                return claim == CANCELLED
            raise OutOfSpace(f"{run_dir}: cannot write the claim: {error.strerror}") from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(own, dir_fd=directory)
    return True


def request_stop(run_dir: Path, pidfd: int, grace_seconds: float) -> None:
    """Ask a supervisor to end its workload: its stop signal now, SIGKILL after the grace.

    A later call may shorten the grace. Without room on disk to write it, the launch spec's applies.
    A supervisor that has ended is no error; a grace out of range is an ``InvalidInput``.
    """
    write_stop(run_dir, grace_seconds)
    send_signal(pidfd, signal.SIGTERM)


def request_pace(run_dir: Path, pidfd: int, cpu_millicpus: int | None) -> None:
    """Hold a run's processes to another share of CPU time; ``None`` = no limit.

    ``InvalidInput``: no such share. ``OutOfSpace``: no room to write it; the former share stays.
    A supervisor (``pidfd``) that has ended is no error.
    """
    write_pace(run_dir, cpu_millicpus)
    send_signal(pidfd, signal.SIGUSR1)


def request_suspend(run_dir: Path, pidfd: int, *, frozen: bool = False) -> None:
    """Suspend a run until :func:`request_resume`, a stop, or the end of its lease.

    ``run_control.renew_suspended`` renews that. With ``frozen`` the caller freezes it, and the
    supervisor thaws it at the lease's end. ``OutOfSpace``: it keeps running.
    """
    write_suspended(run_dir, suspended=True, frozen=frozen)
    send_signal(pidfd, signal.SIGUSR1)


def request_resume(run_dir: Path, pidfd: int) -> None:
    """Resume a run's processes, at their share; it is no error when they run."""
    write_suspended(run_dir, suspended=False)
    send_signal(pidfd, signal.SIGUSR1)


def _check_launch(spec: LaunchSpec) -> None:
    if not spec.command or not spec.command[0]:
        raise InvalidInput("command: empty; name a program")
    for name in spec.env:
        if not name or "=" in name:
            raise InvalidInput(f"env: {name!r} is no variable's name; leave out '='")
    paths = (spec.working_directory, spec.cgroup_kill, spec.freezer, *spec.cgroup_procs)
    for path in paths:
        if path is not None and not path.is_absolute():
            raise InvalidInput(f"{path}: not an absolute path; begin it with '/'")
    if spec.log_cap_bytes < MIN_LOG_CAP_BYTES:
        raise InvalidInput(f"log_cap_bytes: {spec.log_cap_bytes}; give {MIN_LOG_CAP_BYTES} or more")


def signal_named(name: str) -> signal.Signals:
    """A signal by its name without SIG; ``InvalidInput``: there is none.

    >>> signal_named("INT")
    <Signals.SIGINT: 2>
    """
    try:
        return signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except KeyError:
        raise InvalidInput(
            f"spec.run.stopSignal: {name!r} is no signal; name one as 'kill -l' does, e.g. INT"
        ) from None


def _encode_field(name: str, value: str | os.PathLike[str] | int) -> bytes:
    encoded = str(value).encode() if isinstance(value, int) else os.fsencode(value)
    if b"\0" in encoded:
        # Without the value: it may be a secret of env.
        raise InvalidInput(f"{name}: holds a NUL character; no program can be given one")
    return name.encode() + b"=" + encoded + b"\0"
