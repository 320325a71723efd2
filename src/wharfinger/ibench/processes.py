"""A source's process: its input, its output, its end. Plain, or under a supervisor.

Who calls: ``driver.py``. In both forms the source's input is a pipe whose writing end is this
process's alone, so that the source ends when this process does.
"""

import contextlib
import os
import select
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from wharfinger.errors import Unavailable
from wharfinger.host.run_dir import read_output, read_run
from wharfinger.host.supervisor import Supervisor, request_stop

END_SECONDS = 5.0
"""From the end of its input until it is killed: long enough for a slow device's last request."""


class SourceProcess(Protocol):
    """What the driver needs of a process."""

    @property
    def report_fd(self) -> int:
        """Where its lines come out; reading never waits after :meth:`wait_for_output`."""

    def tell(self, line: str) -> None:
        """Give it a line of input."""

    def wait_for_output(self, timeout_seconds: float) -> bool:
        """Whether there is output, or its end, within the time."""

    def last_words(self) -> tuple[int, str]:
        """Exit status and complaints of one whose output has ended."""

    def stop(self) -> None:
        """End it and let go of everything; may be called again."""


class PlainProcess:
    """A child of this process."""

    def __init__(self, command: Sequence[str]) -> None:
        self._complaints_fd = os.memfd_create("wharfinger-ibench", os.MFD_CLOEXEC)
        try:
            self._child = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints_fd,
            )
        except OSError as error:
            os.close(self._complaints_fd)
            raise Unavailable(f"cannot start {command[0]}: {error.strerror}") from error
        assert self._child.stdin is not None and self._child.stdout is not None
        self._input, self._output = self._child.stdin, self._child.stdout

    @property
    def report_fd(self) -> int:
        """Its standard output."""
        return self._output.fileno()

    def tell(self, line: str) -> None:
        """Write to its standard input; that it has ended is seen at its output."""
        with contextlib.suppress(BrokenPipeError):
            self._input.write(line.encode())

    def wait_for_output(self, timeout_seconds: float) -> bool:
        """Whether there is output, or its end, within the time."""
        return bool(_poll([self.report_fd], timeout_seconds))

    def last_words(self) -> tuple[int, str]:
        """Exit status and standard error."""
        status = self._child.wait(END_SECONDS)
        return status, os.pread(self._complaints_fd, 4096, 0).decode(errors="replace")

    def stop(self) -> None:
        """End its input; kill it when that does not end it."""
        if self._input.closed:
            return
        self._input.close()
        try:
            self._child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._output.close()
        os.close(self._complaints_fd)


@dataclass(frozen=True, slots=True)
class Channels:
    """Named pipes to and from a supervised source, whose standard streams are not ours."""

    control_fd: int
    report_fd: int
    options: tuple[str, ...]


class SupervisedProcess:
    """A source whose parent is a supervisor."""

    def __init__(self, run_dir: Path, supervisor: Supervisor, channels: Channels) -> None:
        self._run_dir = run_dir
        self._supervisor = supervisor
        # Own ones: the caller's are closed, with the pipes' names, once the source has them.
        self._control_fd = os.dup(channels.control_fd)
        self.report_fd = os.dup(channels.report_fd)
        self._stopped = False

    @staticmethod
    @contextlib.contextmanager
    def channels(run_dir: Path) -> Iterator[Channels]:
        """The pipes; their names are gone afterwards, and the descriptors too."""
        control, report = run_dir / "ibench-control", run_dir / "ibench-report"
        with contextlib.ExitStack() as undo:
            for path in (control, report):
                os.mkfifo(path, 0o600)
                undo.callback(path.unlink, missing_ok=True)
            # Both ways, so that there is a writer from the beginning: until this process ends.
            control_fd = os.open(control, os.O_RDWR | os.O_CLOEXEC)
            undo.callback(os.close, control_fd)
            report_fd = os.open(report, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            undo.callback(os.close, report_fd)
            options = ("--control", str(control), "--report", str(report))
            yield Channels(control_fd, report_fd, options)

    def tell(self, line: str) -> None:
        """Write to its named pipe; that it has ended is seen at its output."""
        os.write(self._control_fd, line.encode())

    def wait_for_output(self, timeout_seconds: float) -> bool:
        """Whether there is output, or its end, within the time."""
        return bool(_poll([self.report_fd, self._supervisor.pidfd], timeout_seconds))

    def last_words(self) -> tuple[int, str]:
        """Exit status and output, from the supervisor's records."""
        _poll([self._supervisor.pidfd], END_SECONDS)
        exit_record = read_run(self._run_dir).exit
        status = exit_record.exit_code if exit_record is not None else None
        said = read_output(self._run_dir, 0, 4096)[0].decode(errors="replace")
        fault = self._supervisor.fault()
        return (-1 if status is None else status), said or fault

    def stop(self) -> None:
        """End its input; have it killed when that does not end it."""
        if self._stopped:
            return
        self._stopped = True
        os.close(self._control_fd)
        pidfd = self._supervisor.pidfd
        if not _poll([pidfd], END_SECONDS):
            request_stop(self._run_dir, pidfd, 0)
            _poll([pidfd], END_SECONDS)
        self._supervisor.poll()
        self._supervisor.close()
        os.close(self.report_fd)


def _poll(descriptors: Sequence[int], timeout_seconds: float) -> list[tuple[int, int]]:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return poll.poll(timeout_seconds * 1000)
