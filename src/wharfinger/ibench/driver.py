"""Starts a source, sets its intensity, reads what it achieves, withdraws it.

Who calls: the profiler, for a workload's interference profile, and ``wharfinger ibench``. A
source ends with its driver, however that ends: its input is a pipe of which only the driver has
the other end. The C side is ``native/ibench``; what a ramp does next is ``ramp.py``'s.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.host.supervisor import LaunchSpec, launch
from wharfinger.ibench.processes import PlainProcess, SourceProcess, SupervisedProcess
from wharfinger.ibench.sources import SourceSetting, failure

ANSWER_SECONDS = 30.0
"""For an answer that takes microseconds, or one request to a device; a stuck device ends it."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a source achieved in a period of one intensity.

    Attributes:
        time_seconds: The period's end, on the clock of ``time.monotonic``.
        period_seconds: Its length.
        intensity: What was asked for.
        achieved: What was reached, on the same scale; above 100 where a device gave more than
            was measured.
        rate_per_second: Of its work, in ``unit``.
        unit: Such as ``operations/s``.
        count: Of its work since it was started.
        cpu_seconds: CPU time of the whole source since it was started.
    """

    time_seconds: float
    period_seconds: float
    intensity: float
    achieved: float
    rate_per_second: float
    unit: str
    count: int
    cpu_seconds: float


class RunningSource:
    """A source at work; leave the ``with`` block, or :meth:`stop`, to end it.

    Attributes:
        setting: As it was started; with the maximum that was measured.
        intensity: What it was asked for last.
        reports: All of them that were read, oldest first.
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def fileno(self) -> int:
        """Readable when there are reports, for ``selectors``; then call :meth:`read`."""
        return self._process.report_fd

    def set_intensity(self, intensity: float) -> float:
        """Change it; returns when the source has taken it up.

        Returns:
            Since when it holds, on the clock of ``time.monotonic``.

        Raises:
            InvalidInput: Not from 0 to 100.
            Unavailable: The source has ended, or does not answer.
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
        """Wait for a report that was not there yet; see ``SourceSetting.report_seconds``.

        Raises:
            Unavailable: None came, or the source has ended.
        """
        known = len(self.reports)
        self._wait_for(lambda: len(self.reports) > known, timeout_seconds)
        return self.reports[known]

    def reports_until(self, end_seconds: float) -> Iterator[Report]:
        """Reports as they come, until that time on the clock of ``time.monotonic``.

        Raises:
            Unavailable: The source has ended before.
        """
        known = len(self.reports)
        while (left := end_seconds - time.monotonic()) > 0:
            if self._process.wait_for_output(left):
                self._take_in_or_fail()
            yield from self.reports[known:]
            known = len(self.reports)

    def read(self) -> Sequence[Report]:
        """Take in what there is, without waiting; all reports so far."""
        while self._process.wait_for_output(0) and self._take_in():
            pass
        return self.reports

    def stop(self) -> None:
        """End it; nothing of it is left when this returns."""
        self._process.stop()

    def ready_within(self, timeout_seconds: float) -> bool:
        """Whether all is prepared and measured, within the time.

        Raises:
            Unavailable: It has ended.
        """
        if not self._ready and self._process.wait_for_output(timeout_seconds):
            self._take_in_or_fail()
        return self._ready

    def wait_until_ready(self) -> None:
        """Until all is prepared and measured; ``start`` has done so."""
        self._wait_for(lambda: self._ready)

    def _wait_for(
        self, condition: Callable[[], bool], timeout_seconds: float = ANSWER_SECONDS
    ) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            left = deadline - time.monotonic()
            name = self.setting.source.name
            if left <= 0:
                raise Unavailable(f"{name}: no answer within {timeout_seconds:g} s")
            if self._process.wait_for_output(left):
                self._take_in_or_fail()

    def _take_in_or_fail(self) -> None:
        if not self._take_in():
            raise failure(*self._process.last_words())

    def _take_in(self) -> bool:
        """What there is now; false at the end of it."""
        try:
            piece = os.read(self._process.report_fd, 65536)
        except BlockingIOError:
            return True
        *lines, self._pending = (self._pending + piece).split(b"\n")
        for line in lines:
            self._understand(json.loads(line))
        return bool(piece)

    def _understand(self, line: dict[str, Any]) -> None:
        if line["event"] == "report":
            self.reports.append(_report(line))
        elif line["event"] == "ready":
            self._ready = True
            maximum = line["maximum_per_second"]
            self.setting = replace(self.setting, maximum_per_second=maximum)
        else:
            self._acknowledged += 1
            self._since_seconds = float(line["time_seconds"])


def _report(line: dict[str, Any]) -> Report:
    return Report(
        time_seconds=line["time_seconds"],
        period_seconds=line["period_seconds"],
        intensity=line["intensity"],
        achieved=line["achieved"],
        rate_per_second=line["rate"],
        unit=line["unit"],
        count=line["count"],
        cpu_seconds=line["cpu_seconds"],
    )


def start(setting: SourceSetting) -> RunningSource:
    """Start a source as a child of this process, at intensity 0.

    Raises:
        InvalidInput: The setting is wrong.
        Unavailable: There is no signal here, or it could not be started; the message says why.
    """
    return _prepared(setting, PlainProcess(setting.command()))


def start_supervised(
    setting: SourceSetting,
    run_dir: Path,
    *,
    env: Mapping[str, str],
    cgroup_procs: tuple[Path, ...] = (),
    cgroup_kill: Path | None = None,
    freezer: Path | None = None,
) -> RunningSource:
    """Start a source under a supervisor, at intensity 0: in cgroups, like a workload.

    Args:
        setting: Which, and where.
        run_dir: The supervisor's, as for ``host.supervisor.launch``; the caller removes it.
        env: The source's whole environment; put ``KEY_VARIABLE`` in it.
        cgroup_procs: As in ``LaunchSpec``, as the next two.
        cgroup_kill: Its ``cgroup.kill``, where there is one.
        freezer: Its freezer, where there is one.

    Raises:
        InvalidInput: The setting is wrong.
        EngineFault: There could be no supervisor.
        Unavailable: There is no signal here, or it could not be started; the message says why.
    """
    with SupervisedProcess.channels(run_dir) as channels:
        spec = LaunchSpec(
            command=setting.command(*channels.options),
            env=env,
            working_directory=Path("/"),
            stop_grace_seconds=1.0,
            cgroup_procs=cgroup_procs,
            cgroup_kill=cgroup_kill,
            freezer=freezer,
        )
        return _prepared(setting, SupervisedProcess(run_dir, launch(run_dir, spec), channels))


def _prepared(setting: SourceSetting, process: SourceProcess) -> RunningSource:
    source = RunningSource(setting, process)
    with contextlib.ExitStack() as unless_ready:
        unless_ready.callback(source.stop)
        source.wait_until_ready()
        # The program says that it is at intensity 0 before it listens for another.
        source._wait_for(lambda: source._acknowledged > 0)
        unless_ready.pop_all()
    return source


def measure_maximum(setting: SourceSetting) -> SourceSetting:
    """The setting with the rate that intensity 100 stands for, measured under full pressure.

    Do it while the disk is idle, once for each file system, and start sources with the result:
    they then exert no pressure but what they are asked for.

    Raises:
        InvalidInput: The setting is wrong.
        Unavailable: There is no signal here, or it could not be measured.
    """
    if not setting.source.measures_maximum:
        return setting
    with begin_maximum(setting) as source:
        source.wait_until_ready()
        return source.setting


def begin_maximum(setting: SourceSetting) -> RunningSource:
    """Begin what ``measure_maximum`` does; whoever calls may stop it before it is ready.

    Raises:
        InvalidInput: The setting is wrong.
        Unavailable: It could not be started.
    """
    unmeasured = replace(setting, maximum_per_second=None)
    return RunningSource(unmeasured, PlainProcess(unmeasured.command("--measure-maximum")))
