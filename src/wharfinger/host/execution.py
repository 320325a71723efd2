"""Run a command beside a workload's program: ``native/execute``, and how to read and end it."""

import contextlib
import os
import signal
import threading
from pathlib import Path

from wharfinger.errors import EngineFault, NotFound
from wharfinger.files.atomic import closing_fd
from wharfinger.host.binaries import supervisor_path
from wharfinger.host.descriptors import high, sealed_memfd
from wharfinger.host.processes import has_ended, send_signal
from wharfinger.host.supervisor import LaunchSpec

_SPEC_FD = 3
_LIFELINE_FD = 4
_CLOSE_SECONDS = 3.0
"""For what it has started to be killed, of which the program gives up after 2 s."""


def execute_path() -> Path:
    """The program, ``native/execute``."""
    return supervisor_path().with_name("wharfinger-execute")


class CommandExecution:
    """A command under way.

    Attributes:
        stdout: A descriptor of its output, non-blocking; it ends with the command.
        stderr: The same of its errors; one line of ours where it could not be run.
        closed: Whether the descriptors are closed.
    """

    def __init__(
        self, pidfd: int, stdout: int, stderr: int, lifeline: int, stdin: int = -1
    ) -> None:
        self.stdout, self.stderr = stdout, stderr
        self.closed = False
        self._pidfd, self._lifeline, self._stdin = pidfd, lifeline, stdin
        self._status: int | None = None
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Readable once it has ended."""
        return self._pidfd

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Its exit status, or 128 and the signal that ended it; ``None`` = it still runs.

        Of one that could not be run 127 (no such program) or 126. Waits without end by default.
        """
        if self._status is None:
            limit = float("inf") if timeout_seconds is None else timeout_seconds
            # A pidfd's poll takes milliseconds in an int.
            if not has_ended(self._pidfd, min(limit, 1e6)):
                return None
            result = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
            assert result is not None
            exited = result.si_code == os.CLD_EXITED
            self._status = result.si_status if exited else 128 + result.si_status
        return self._status

    def take_input(self) -> int:
        """A non-blocking descriptor of its input; see ``Execution.take_input``."""
        with self._lock:
            stdin, self._stdin = self._stdin, -1
        if stdin < 0:
            raise NotFound("its input is empty, or another writes it")
        return stdin

    def kill(self) -> None:
        """End it and all that it has started; ``wait`` tells when that is done."""
        with self._lock:
            lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)

    def close(self) -> None:
        """End it, if it runs, and close the descriptors; any thread may do so."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
        self.kill()
        with contextlib.suppress(NotFound):
            os.close(self.take_input())
        if self.wait(_CLOSE_SECONDS) is None:
            send_signal(self._pidfd, signal.SIGKILL)
            self.wait()
        for descriptor in (self._pidfd, self.stdout, self.stderr):
            os.close(descriptor)


def execute(spec: LaunchSpec, *, stdin: bool = False) -> CommandExecution:
    """Begin the command of a spec in its cgroups, as its user, on its CPUs; returns at once.

    Its input is a pipe with ``stdin``, else empty. ``InvalidInput``: the spec is wrong.
    ``EngineFault``: no process.
    """
    encoded = spec.encode()
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as its:
        try:
            pipes = [_pipe(ours, its) for _ in range(2)]
            reading, writing = _input_pipe(ours, its, spec) if stdin else (-1, -1)
            lifeline, kept = os.pipe2(os.O_CLOEXEC)
            ours.callback(os.close, kept)
            lifeline = its.enter_context(closing_fd(high(lifeline)))
            spec_fd = its.enter_context(closing_fd(sealed_memfd(encoded)))
            pid = _spawn(reading, [stream for _, stream in pipes], spec_fd, lifeline)
            its.close()
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            raise EngineFault(
                f"cannot start {execute_path()}: {error.strerror}",
                retryable=not isinstance(error, FileNotFoundError),
            ) from error
        ours.pop_all()
    stdout, stderr = (stream for stream, _ in pipes)
    return CommandExecution(pidfd, stdout, stderr, kept, writing)


def _pipe(ours: contextlib.ExitStack, its: contextlib.ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    ours.callback(os.close, reading)
    os.set_blocking(reading, False)
    return reading, its.enter_context(closing_fd(high(writing)))


def _input_pipe(
    ours: contextlib.ExitStack, its: contextlib.ExitStack, spec: LaunchSpec
) -> tuple[int, int]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    ours.callback(os.close, writing)
    reading = its.enter_context(closing_fd(high(reading)))
    os.set_blocking(writing, False)
    if spec.account is not None:
        # Else it could not open /dev/stdin.
        os.fchown(reading, spec.account.uid, spec.account.gid)
    return reading, writing


def _spawn(stdin: int, streams: list[int], spec_fd: int, lifeline: int) -> int:
    program = os.fspath(execute_path())
    empty = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    return os.posix_spawn(
        program,
        [program],
        {},
        file_actions=[
            empty if stdin < 0 else (os.POSIX_SPAWN_DUP2, stdin, 0),
            (os.POSIX_SPAWN_DUP2, streams[0], 1),
            (os.POSIX_SPAWN_DUP2, streams[1], 2),
            (os.POSIX_SPAWN_DUP2, spec_fd, _SPEC_FD),
            (os.POSIX_SPAWN_DUP2, lifeline, _LIFELINE_FD),
        ],
    )
