"""What is profiled: a command that this process runs, or a process that runs already.

A command's parent is ``wharfinger-reader``, which ends with this process and takes all of the
command's tree with it; its output goes to memory without a name. So nothing of it is left, however
this process ends.
"""

import contextlib
import os
import re
import resource
import shutil
import stat
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.host.processes import descendants, has_ended
from wharfinger.monitor.commands import READER
from wharfinger.monitor.counters import cpu_seconds, io_bytes
from wharfinger.profiling.steps import RunFailed

MAX_OUTPUT_BYTES = 1 << 20
"""Kept of a command's output: what is older is dropped once it has been read."""
MAX_WORDS = 200
_TERMINAL = re.compile(r"\b(tty|terminal)\b|inappropriate ioctl", re.IGNORECASE)
_LISTEN = "0A"
_MERGED = 'exec "$@" 2>&1'
"""The reader keeps standard error for itself; a program may tell its performance there."""


class Profiled(ABC):
    """A program whose use of CPUs and devices can be read."""

    pid = 0
    """Root of its processes; 0 = it does not run."""

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether it has ended."""

    @abstractmethod
    def _pids(self) -> Iterator[int]: ...

    @abstractmethod
    def cpu_seconds(self) -> float | None:
        """CPU time of its tree so far; ``None`` = it can't be read."""

    def io_bytes(self) -> dict[int, int]:
        """Moved to and from devices so far, by process."""
        return io_bytes(self._pids())

    def listens(self) -> bool:
        """Whether it accepts connections on any TCP port."""
        inodes = set(_listening())
        for pid in self._pids():
            with contextlib.suppress(OSError):
                for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                    if str(descriptor.readlink()) in inodes:
                        return True
        return False


@dataclass(frozen=True, slots=True)
class WholeRun:
    """What a run took, of time, CPU time and I/O with devices."""

    seconds: float
    cpu_seconds: float
    io_bytes: int


def _listening() -> Iterator[str]:
    """As links of descriptors name them."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN:
                    yield f"socket:[{fields[9]}]"


class OwnProcess(Profiled):
    """One start of a command, as a child; ``output`` names the file of what it has printed."""

    def __init__(self, command: Sequence[str], cpus: Sequence[int] = ()) -> None:
        self._output_fd = os.memfd_create("wharfinger-profile", os.MFD_CLOEXEC)
        self.output = Path(f"/proc/{os.getpid()}/fd/{self._output_fd}")
        self.began = time.monotonic()
        self._ended: float | None = None
        # Appended to, so that it goes on at the beginning when the file is cut.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        shown = os.open(self.output, flags)
        self._command = command[0]
        words = [READER, str(os.getpid()), "-", "/bin/sh", "-c", _MERGED, "sh"]
        try:
            with _bound_to(cpus):
                self._reader = subprocess.Popen(
                    [*words, *command],
                    stdin=subprocess.DEVNULL,
                    stdout=shown,
                    stderr=subprocess.DEVNULL,
                    process_group=0,
                )
        except OSError as error:
            os.close(self._output_fd)
            raise Unavailable(f"cannot run {command[0]}: {error.strerror}") from error
        finally:
            os.close(shown)
        self.pid = self._reader.pid
        self._pidfd = os.pidfd_open(self.pid)

    @property
    def over(self) -> bool:
        """Whether it has ended, and all of it."""
        return self.wait(0.0)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within the time."""
        ended = has_ended(self._pidfd, seconds)
        if ended and self._ended is None:
            self._ended = time.monotonic()
        return ended

    def end(self) -> WholeRun:
        """What it took, once it is over; raises ``RunFailed`` if it did not end well by itself."""
        # Of a child that has been waited for, both are ours.
        before, moved = _reaped_cpu_seconds(), _reaped_io_bytes()
        status = self._reader.wait()
        ended = self._ended or time.monotonic()
        if status == 0:
            used, moved = _reaped_cpu_seconds() - before, _reaped_io_bytes() - moved
            return WholeRun(ended - self.began, used, moved)
        how = f"was ended by signal {status - 128}" if status > 128 else f"ended with {status}"
        raise RunFailed(f"{self._command}: {how}{self._last_words()}")

    def _last_words(self) -> str:
        size = os.fstat(self._output_fd).st_size
        text = os.pread(self._output_fd, 4096, max(0, size - 4096)).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if not lines:
            return ""
        wants = _TERMINAL.search(lines[-1])
        mend = "; it gets no terminal here: give it options to run without one" if wants else ""
        return f": {lines[-1][:MAX_WORDS]}{mend}"

    def drop_old_output(self) -> None:
        """Free what has been read of its output, if that is much."""
        if os.fstat(self._output_fd).st_size > MAX_OUTPUT_BYTES:
            os.ftruncate(self._output_fd, 0)

    def clear(self) -> None:
        """End it and all of its tree; idempotent."""
        if self.pid == 0:
            return
        self._reader.terminate()
        self._reader.wait()
        self.pid = 0
        os.close(self._pidfd)
        os.close(self._output_fd)

    def _pids(self) -> Iterator[int]:
        return iter(descendants(self.pid))

    def cpu_seconds(self) -> float | None:
        """See ``Profiled``."""
        return cpu_seconds("", self.pid)


def _reaped_cpu_seconds() -> float:
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def _reaped_io_bytes() -> int:
    return io_bytes([os.getpid()]).get(os.getpid(), 0)


@contextlib.contextmanager
def _bound_to(cpus: Sequence[int]) -> Iterator[None]:
    """What is started within is bound to these CPUs; empty = as we are."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class RunningProcess(Profiled):
    """A process that runs already, with its descendants; it is neither bound nor ended."""

    def __init__(self, pid: int) -> None:
        check_pid(pid)
        self._pidfd = os.pidfd_open(pid)
        self.pid = self.number = pid
        self.began = time.monotonic()
        self.cpus = tuple(sorted(os.sched_getaffinity(pid)))

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return has_ended(self._pidfd)

    def clear(self) -> None:
        """Let go of it."""
        if self.pid:
            os.close(self._pidfd)
            self.pid = 0

    def _pids(self) -> Iterator[int]:
        return iter((self.pid, *descendants(self.pid)))

    def cpu_seconds(self) -> float | None:
        """See ``Profiled``; its own and that of all below it."""
        below = cpu_seconds("", self.pid)
        own = _own_cpu_seconds(self.pid)
        return None if below is None or own is None else below + own


def _own_cpu_seconds(pid: int) -> float | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None


def check_pid(pid: int) -> None:
    """Raise ``InvalidInput`` unless it is a process that we may profile."""
    place = f"--pid: {pid}"
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        owner = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        raise InvalidInput(f"{place} is no process that runs; give the id of one") from None
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    group = int(fields["Tgid"])
    if group != pid:
        raise InvalidInput(f"{place} is a thread of process {group}; give that id")
    if fields["State"].startswith(("Z", "X")):
        raise InvalidInput(f"{place} has ended; give the id of a process that runs")
    if pid == os.getpid():
        raise InvalidInput(f"{place} is this profiler itself; give the id of another process")
    if owner != os.geteuid() and os.geteuid() != 0:
        mend = "profile it as that user, or give a process of yours"
        raise InvalidInput(f"{place} belongs to another user (uid {owner}); {mend}")


def check_command(command: Sequence[str]) -> None:
    """Raise ``InvalidInput`` unless the program exists and may be run."""
    program = command[0]
    if shutil.which(program) is not None:
        return
    path = Path(program)
    if "/" in program and path.is_file() and not path.stat().st_mode & stat.S_IXUSR:
        raise InvalidInput(f"{program}: it is no program; make it executable (chmod +x)")
    mend = "check the path" if "/" in program else "check its name and PATH"
    raise InvalidInput(f"{program}: there is no such program; {mend}")
