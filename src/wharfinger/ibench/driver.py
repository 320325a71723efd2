"""Starts a source, sets its intensity, reads what it achieves, withdraws it.

Called by the profiler and ``wharfinger ibench``; the C side is ``native/ibench``. A source's input
is a pipe whose only writing end is its driver's, so it ends with its driver.
"""

import contextlib
import os
import select
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.host.cgroups import Group
from wharfinger.host.run_dir import read_output, read_run
from wharfinger.host.supervisor import LaunchSpec, Supervisor, launch, request_stop
from wharfinger.ibench.sources import SourceSetting, failure

ANSWER_SECONDS = 30.0
"""For an answer that takes microseconds, or one request to a device; a stuck device ends it."""
END_SECONDS = 5.0
"""From the end of its input until it is killed: long enough for a slow device's last request."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a source achieved in a period of one intensity, which ended at ``time_seconds``.

    ``time_seconds`` is of ``time.monotonic``. ``achieved`` is on the scale of the ``intensity``
    asked for; above 100 where a device gave more than was measured. ``rate_per_second`` is in
    ``unit``; ``count`` (of work), ``bytes`` (moved) and ``cpu_seconds`` are since the source's
    start; ``footprint_bytes`` is what it holds at the period's end.
    """

    time_seconds: float
    period_seconds: float
    intensity: float
    achieved: float
    rate_per_second: float
    unit: str
    count: int
    cpu_seconds: float
    bytes: int = 0
    footprint_bytes: int = 0


class SourceProcess(ABC):
    """A source's process, its input and its output (duplicated); ``pidfd`` tells its end."""

    def __init__(self, control_fd: int, report_fd: int, pidfd: int) -> None:
        self._control_fd, self.report_fd = os.dup(control_fd), os.dup(report_fd)
        self._pidfd = pidfd
        self._stopped = False

    @property
    def pid(self) -> int:
        """Of the process whose end is told."""
        lines = Path(f"/proc/self/fdinfo/{self._pidfd}").read_text().splitlines()
        return int(dict(line.split(":\t") for line in lines)["Pid"])

    def tell(self, line: str) -> None:
        """Give it a line of input; that it has ended is seen at its output."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._control_fd, line.encode())

    def wait_for_output(self, timeout_seconds: float) -> bool:
        """Whether there is output, or its end, within the time; reading then never waits."""
        return bool(_poll([self.report_fd, self._pidfd], timeout_seconds))

    def stop(self) -> None:
        """End its input, kill it if that does not end it, and release everything; idempotent."""
        if self._stopped:
            return
        self._stopped = True
        os.close(self._control_fd)
        if not _poll([self._pidfd], END_SECONDS):
            self._kill()
            _poll([self._pidfd], END_SECONDS)
        self._release()
        os.close(self.report_fd)

    @abstractmethod
    def last_words(self) -> tuple[int, str]:
        """Exit status and error output of one whose output has ended."""

    @abstractmethod
    def _kill(self) -> None: ...

    @abstractmethod
    def _release(self) -> None: ...


class PlainProcess(SourceProcess):
    """A child of this process."""

    def __init__(self, command: Sequence[str]) -> None:
        self._stderr_fd = os.memfd_create("wharfinger-ibench", os.MFD_CLOEXEC)
        try:
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr_fd
            )
            assert self._child.stdin is not None and self._child.stdout is not None
            with self._child.stdin as control, self._child.stdout as report:
                super().__init__(control.fileno(), report.fileno(), os.pidfd_open(self._child.pid))
        except OSError as error:
            os.close(self._stderr_fd)
            raise Unavailable(f"cannot start {command[0]}: {error.strerror}") from error

    def last_words(self) -> tuple[int, str]:
        """Exit status and standard error."""
        status = self._child.wait(END_SECONDS)
        return status, os.pread(self._stderr_fd, 4096, 0).decode(errors="replace")

    def _kill(self) -> None:
        self._child.kill()

    def _release(self) -> None:
        self._child.wait()
        os.close(self._pidfd)
        os.close(self._stderr_fd)


class SupervisedProcess(SourceProcess):
    """A source whose parent is a supervisor."""

    def __init__(
        self, run_dir: Path, supervisor: Supervisor, control_fd: int, report_fd: int
    ) -> None:
        super().__init__(control_fd, report_fd, supervisor.pidfd)
        self._run_dir = run_dir
        self._supervisor = supervisor

    def last_words(self) -> tuple[int, str]:
        """Exit status and output, from the supervisor's records."""
        _poll([self._pidfd], END_SECONDS)
        exit_record = read_run(self._run_dir).exit
        status = exit_record.exit_code if exit_record is not None else None
        output = read_output(self._run_dir, 0, 4096)[0].decode(errors="replace")
        return (-1 if status is None else status), output or self._supervisor.fault()

    def _kill(self) -> None:
        request_stop(self._run_dir, self._pidfd, 0)

    def _release(self) -> None:
        self._supervisor.poll()
        self._supervisor.close()


def _poll(descriptors: Sequence[int], timeout_seconds: float) -> list[tuple[int, int]]:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return poll.poll(timeout_seconds * 1000)


class RunningSource(contextlib.AbstractContextManager["RunningSource"]):
    """A source at work; leave the ``with`` block, or :meth:`stop`, to end it.

    ``setting`` gets the maximum that was measured; ``reports`` are all that were read.
    """

    def __init__(self, setting: SourceSetting, process: SourceProcess) -> None:
        self.setting = setting
        self.intensity = 0.0
        self.reports: list[Report] = []
        self._process = process
        self._pending = b""
        self._acknowledged = 0
        self._ready = False
        self._since_seconds = 0.0

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Of its process, or of its supervisor's where it has one."""
        return self._process.pid

    def fileno(self) -> int:
        """Readable when there are reports, for ``selectors``; then call :meth:`read`."""
        return self._process.report_fd

    def set_intensity(self, intensity: float) -> float:
        """Change it, and wait until it holds; since when, on the clock of ``time.monotonic``.

        Raises ``InvalidInput`` if not from 0 to 100, ``Unavailable`` without an answer.
        """
        if not 0 <= intensity <= 100:
            raise InvalidInput(f"intensity: {intensity}; give a number from 0 to 100")
        self.read()  # else an unread report could leave no room for the answer
        awaited = self._acknowledged + 1
        self._process.tell(f"intensity {intensity:.4f}\n")
        self._wait_for(lambda: self._acknowledged >= awaited)
        self.intensity = intensity
        return self._since_seconds

    def withdraw(self) -> float:
        """Take all pressure away; see :meth:`set_intensity`."""
        return self.set_intensity(0.0)

    def next_report(self, timeout_seconds: float = ANSWER_SECONDS) -> Report:
        """Wait for a new report; raises ``Unavailable`` if none comes, or the source has ended."""
        count = len(self.reports)
        self._wait_for(lambda: len(self.reports) > count, timeout_seconds)
        return self.reports[count]

    def reports_until(self, end_seconds: float) -> Iterator[Report]:
        """Reports as they come, until that time of ``time.monotonic``; raises ``Unavailable``."""
        count = len(self.reports)
        while (left := end_seconds - time.monotonic()) > 0:
            if self._process.wait_for_output(left):
                self._take_in_or_fail()
            yield from self.reports[count:]
            count = len(self.reports)

    def reports_to_end(self) -> Iterator[Report]:
        """All reports, until it ends by itself; raises ``Unavailable`` if by a fault."""
        count, goes_on = 0, True
        while goes_on:
            yield from self.reports[count:]
            count = len(self.reports)
            goes_on = not self._process.wait_for_output(ANSWER_SECONDS) or self._take_in()
        yield from self.reports[count:]
        status, said = self._process.last_words()
        if status != 0:
            raise failure(status, said)

    def read(self) -> Sequence[Report]:
        """All reports so far, without waiting."""
        while self._process.wait_for_output(0) and self._take_in():
            pass
        return self.reports

    def stop(self) -> None:
        """End it; nothing of it is left when this returns."""
        self._process.stop()

    def ready_within(self, timeout_seconds: float) -> bool:
        """Whether all is prepared and measured, within the time; raises ``Unavailable``."""
        if not self._ready and self._process.wait_for_output(timeout_seconds):
            self._take_in_or_fail()
        return self._ready

    def wait_until_ready(self, *, acknowledged: bool = False) -> None:
        """Wait until all is prepared and measured, and if so asked until it is at intensity 0."""
        self._wait_for(lambda: self._ready and (self._acknowledged > 0 or not acknowledged))

    def _wait_for(
        self, condition: Callable[[], bool], timeout_seconds: float = ANSWER_SECONDS
    ) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                name = self.setting.source.name
                raise Unavailable(f"{name}: no answer within {timeout_seconds:g} s")
            if self._process.wait_for_output(left):
                self._take_in_or_fail()

    def _take_in_or_fail(self) -> None:
        if not self._take_in():
            raise failure(*self._process.last_words())

    def _take_in(self) -> bool:
        """Take in the output so far; whether it goes on."""
        try:
            piece = os.read(self._process.report_fd, 65536)
        except BlockingIOError:
            return True
        *lines, self._pending = (self._pending + piece).split(b"\n")
        for line in lines:
            self._handle(msgspec.json.decode(line))
        return bool(piece)

    def _handle(self, line: dict[str, Any]) -> None:
        if line["event"] == "report":
            self.reports.append(msgspec.convert({**line, "rate_per_second": line["rate"]}, Report))
        elif line["event"] == "ready":
            self._ready = True
            self.setting = replace(self.setting, maximum_per_second=line["maximum_per_second"])
        else:
            self._acknowledged += 1
            self._since_seconds = float(line["time_seconds"])


def start(setting: SourceSetting, *options: str) -> RunningSource:
    """Start a source as a child of this process, at intensity 0 unless ``options`` say otherwise.

    Raises ``InvalidInput`` for a wrong setting, ``Unavailable`` if there is no signal here or it
    could not be started.
    """
    return _prepared(setting, PlainProcess(setting.command(*options)))


def started(setting: SourceSetting, prefix: Sequence[str]) -> RunningSource:
    """The same by way of another command, which becomes the source. Raises as :func:`start`."""
    return _prepared(setting, PlainProcess([*prefix, *setting.command()]))


def start_supervised(
    setting: SourceSetting, run_dir: Path, *, env: Mapping[str, str], group: Group | None = None
) -> RunningSource:
    """Start a source under a supervisor, at intensity 0: in cgroups, like a workload.

    The caller removes ``run_dir``, and puts its ``marker_of`` in the whole environment ``env``.
    Raises as :func:`start`, and ``EngineFault`` if there could be no supervisor.
    """
    group = group or Group({})
    with _named_pipes(run_dir) as (control_fd, report_fd, options):
        spec = LaunchSpec(
            command=setting.command(*options),
            env=env,
            working_directory=Path("/"),
            stop_grace_seconds=1.0,
            cgroup_procs=group.procs_files,
            cgroup_kill=group.kill_file,
            freezer=group.freezer,
        )
        supervisor = launch(run_dir, spec)
        process = SupervisedProcess(run_dir, supervisor, control_fd, report_fd)
        return _prepared(setting, process)


@contextlib.contextmanager
def _named_pipes(run_dir: Path) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """To and from a source whose standard streams are not ours; removed and closed afterwards."""
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
        yield control_fd, report_fd, ("--control", str(control), "--report", str(report))


def _prepared(setting: SourceSetting, process: SourceProcess) -> RunningSource:
    source = RunningSource(setting, process)
    with contextlib.ExitStack() as unless_ready:
        unless_ready.callback(source.stop)
        source.wait_until_ready(acknowledged=True)
        unless_ready.pop_all()
    return source


def measure_maximum(setting: SourceSetting) -> SourceSetting:
    """The setting with the rate that intensity 100 stands for, measured under full pressure.

    Do it while the disk is idle, once for each file system: sources that are started with the
    result exert no pressure but what they are asked for. Raises as :func:`start`.
    """
    if not setting.source.measures_maximum:
        return setting
    with begin_maximum(setting) as source:
        source.wait_until_ready()
        return source.setting


def begin_maximum(setting: SourceSetting) -> RunningSource:
    """Begin what ``measure_maximum`` does; may be stopped before it is ready. Raises likewise."""
    unmeasured = replace(setting, maximum_per_second=None)
    return RunningSource(unmeasured, PlainProcess(unmeasured.command("--measure-maximum")))
