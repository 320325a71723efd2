"""The port of the interpreter of profiling plans for a command, or a process that runs.

A source of interference is a child of this process, on the program's CPUs; it has the kernel's
weight of any other program. Readings are stretches between numbers that the program told, whole
runs, or its use of CPU time.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from statistics import fmean

from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.ibench.driver import RunningSource, measure_maximum, start
from wharfinger.ibench.sources import Source, SourceSetting, signal_here
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry
from wharfinger.model.workload import Workload
from wharfinger.profiler.measuring import (
    CommandReadings,
    has_measure,
    quantities_of,
    start_load,
)
from wharfinger.profiler.program import OwnProcess, RunningProcess
from wharfinger.profiling.probing import ProbeCalibration, ProbeReading
from wharfinger.profiling.procedure import PROBE_INTENSITY
from wharfinger.profiling.rounds import CALIBRATION_SECONDS, SeenStretch, Way
from wharfinger.profiling.scores import caused_on_device
from wharfinger.profiling.steps import (
    Inject,
    ReadFor,
    RunAt,
    RunFailed,
    SourceSilent,
    Stretch,
    Withdraw,
)

POLL_SECONDS = 0.02
MIN_STRETCH_SECONDS = 0.2
"""Shorter ones show the phase of a scheduler's turns, not the share."""
CPU_STRETCH_SECONDS = 1.0
"""CPU time is told in hundredths of a second."""
MIN_RUN_SECONDS = 0.01
"""A shorter run shows little but a program's start."""
START_CPU_SECONDS = 0.002
"""A short run that uses less CPU time is little but a start that had to wait."""
SHORT_TRIALS = 3
"""Of a program that ends soon: one start alone may have had to wait."""
TRIAL_SECONDS = 1.0
"""In which a program that tells its performance shows how often."""
READY_SECONDS, GUESS_SECONDS = 30.0, 10.0
"""For a service to get ready for its load generator."""
RUN_FACTOR = 20.0
"""A run beside a source that takes so many times its usual time counts as no performance."""
REPORT_SECONDS = 0.1


Settings = dict[SharedResource, SourceSetting]


def settings_here(
    sources: Sequence[Source], base: SourceSetting, tell: Callable[[str], None]
) -> tuple[Settings, dict[str, str]]:
    """The settings of the sources that have a signal, and why the others have none."""
    settings, silent = Settings(), dict[str, str]()
    for source in sources:
        setting = replace(base, source=source)
        signal = signal_here(setting)
        if not signal.there:
            silent[f"tolerated/{source.name}"] = signal.reason
            continue
        if source.measures_maximum:
            tell(f"{source.name}: measuring the maximum")
        try:
            settings[source.resource] = measure_maximum(setting)
        except Unavailable as error:
            silent[f"tolerated/{source.name}"] = str(error)
    return settings, silent


class CommandSession:
    """The port: one start at a time, and a source beside it.

    Attributes:
        way: How its performance is read; known after :meth:`begin`.
        reading_seconds: Of one reading, usually.
        looks: All readings, in their order.
        runs: How often the program was started.

    ``run_dirs``: of a process that a manager runs, its own and those of its load generator.
    """

    def __init__(
        self,
        command: Sequence[str],
        workload: Workload,
        settings: Mapping[SharedResource, SourceSetting],
        *,
        cpus: Sequence[int] = (),
        process: RunningProcess | None = None,
        run_dirs: tuple[str, str] = ("", ""),
    ) -> None:
        self.way = Way.NUMBERS
        self.reading_seconds = MIN_STRETCH_SECONDS
        self.looks: list[SeenStretch] = []
        self.runs = 0
        self._command, self._workload, self._settings = command, workload, settings
        self._cpus = tuple(cpus)
        self._running = process
        self._run_dirs = run_dirs
        self._program: OwnProcess | RunningProcess | None = process
        self._readings: CommandReadings | None = None
        self._load: OwnProcess | None = None
        self._load_due = 0.0
        self._source: RunningSource | None = None
        self._resource: SharedResource | None = None
        self._since = 0.0
        self._cpu_mark: tuple[float, float | None] = (0.0, None)
        self._io_mark: tuple[float, dict[int, int]] = (0.0, {})
        self._io_bytes_per_second: float | None = None
        self._warm = False
        self.tell: Callable[[str], None] = lambda _words: None

    @property
    def wanted(self) -> tuple[Quantity, ...]:
        """The quantities that count."""
        return (Quantity.CPU,) if self.way is Way.CPU else quantities_of(self._workload)

    # --- how it is measured ------------------------------------------------------------------

    def begin(self, patience_seconds: float) -> None:
        """Start the program, and find out how it can be measured; raises ``RunFailed``."""
        is_measured = has_measure(self._workload)
        if not is_measured and self._running is not None:
            self._use_cpu_time()
            return
        self._start()
        until = time.monotonic() + patience_seconds
        while not self._present.over:
            self._look()
            primary = self._primary
            if primary is not None and self._tells_regularly(primary):
                gap = self._heard.usual_gap(primary) or 0.0
                self.reading_seconds = max(MIN_STRETCH_SECONDS, 2 * gap)
                return
            if time.monotonic() >= until:
                if is_measured:
                    raise RunFailed(f"no number in {patience_seconds:.0f} s: {self.why_silent()}")
                self._use_cpu_time()
                return
            self._wait()
        self._look()
        self._found_over(is_measured=is_measured)

    def _tells_regularly(self, primary: Quantity) -> bool:
        times = self._heard.times(primary, 0.0)
        return len(times) >= 3 and times[-1] - times[0] >= TRIAL_SECONDS

    def _found_over(self, *, is_measured: bool) -> None:
        if self._running is not None:
            raise RunFailed(f"process {self._running.pid} has ended")
        run = self._own.end()
        seconds, cpu_seconds = run.seconds, run.cpu_seconds
        name = self._command[0]
        if is_measured and not self._heard.told():
            why = self.why_silent()
            raise RunFailed(f"{name} ended after {seconds:.2g} s and told no number: {why}")
        for _ in range(SHORT_TRIALS if seconds < TRIAL_SECONDS / 10 else 0):
            self._start()
            self._own.wait(TRIAL_SECONDS)
            run = self._own.end()
            seconds = min(seconds, run.seconds)
            cpu_seconds = min(cpu_seconds, run.cpu_seconds)
        is_idle = seconds < TRIAL_SECONDS / 10 and cpu_seconds < START_CPU_SECONDS
        if seconds < MIN_RUN_SECONDS or is_idle:
            mend = "give a command that works for longer"
            raise RunFailed(f"{name} ended after {seconds * 1000:.0f} ms, at once; {mend}")
        self.way = Way.RUNS
        self.reading_seconds = max(MIN_STRETCH_SECONDS, seconds)

    def _use_cpu_time(self) -> None:
        self.way, self.reading_seconds = Way.CPU, CPU_STRETCH_SECONDS

    # --- what the interpreter asks for -------------------------------------------------------

    def run(self, step: RunAt) -> bool:
        """Let it go on, or start it; the first time with a warm-up."""
        if self.way is not Way.RUNS and self._program is None:
            self._start()
        if self.way is not Way.RUNS and not self._warm:
            until = time.monotonic() + step.warm_up_seconds
            while time.monotonic() < until:
                self._look()
                self._wait()
        self._warm = True
        self._mark()
        return False

    def inject(self, step: Inject) -> float:
        """Set a source's intensity; the first time there is none yet."""
        try:
            if self._source is None:
                self._source = start(self._settings[step.resource])
                self._resource = step.resource
            if step.intensity != self._source.intensity:
                self._source.set_intensity(step.intensity)
        except (InvalidInput, Unavailable) as error:
            self._end_source()
            raise SourceSilent(str(error)) from error
        self.tell(f"{step.resource.value}: intensity {step.intensity:g}")
        self._mark()
        return self.reading_seconds if self.way is Way.RUNS else 0.0

    def withdraw(self, step: Withdraw) -> Entry | str | None:
        """The program's own share of a device, where the kernel tells it."""
        source = self._source
        assert source is not None
        with suppress(Unavailable):
            source.withdraw()
        setting = source.setting
        self._end_source()
        self._mark()
        if step.resource is SharedResource.STORAGE_BANDWIDTH:
            maximum = setting.maximum_per_second
            return caused_on_device(maximum, self._io_bytes_per_second, None)
        return None

    def set_aside(self) -> None:
        """See ``MeasuredSession``."""
        self._stop()

    def calibrate(self, resource: SharedResource, order: Sequence[float]) -> ProbeCalibration:
        """See ``MeasuredSession``."""
        setting, told = self._settings[resource], list[tuple[float, ProbeReading]]()
        try:
            # The second source is where the program will be.
            there = replace(setting, cpus=self._cpus or setting.cpus)
            with start(setting) as probe, start(there) as second:
                probe.set_intensity(PROBE_INTENSITY)
                for intensity in order:
                    second.set_intensity(intensity)
                    began = time.monotonic() + setting.report_seconds
                    for _ in probe.reports_until(began + CALIBRATION_SECONDS):
                        pass
                    reading = _rate_since(probe, began)
                    if reading is not None:
                        told.append((intensity, reading))
        except (InvalidInput, Unavailable) as error:
            raise SourceSilent(f"two of it at once: {error}") from error
        return ProbeCalibration(tuple(told))

    def now(self) -> float:
        """See ``time.monotonic``."""
        return time.monotonic()

    def why_silent(self) -> str:
        """Why the performance can't be read."""
        if self._readings is None or not has_measure(self._workload):
            return "it uses no CPU time; give --measure"
        return self._readings.why_silent(self.wanted[0])

    def read(self, wanted: ReadFor) -> Stretch | None:
        """Performance over the next stretch; ``None`` = time is over. Raises ``RunFailed``."""
        began = time.monotonic()
        if self.way is Way.RUNS:
            stretch = self._whole_runs(wanted.until)
        elif self.way is Way.CPU:
            stretch = self._use_of_cpu(wanted.seconds)
        else:
            stretch = self._numbers(wanted)
        if stretch is not None:
            intensity, probe = 0.0, None
            if self._source is not None:
                intensity, probe = self._source.intensity, _rate_since(self._source, began)
            self.looks.append(SeenStretch(self._resource, intensity, stretch, probe))
        return stretch

    def close(self) -> None:
        """End the source and everything that was started."""
        self._end_source()
        self._stop()
        if self._running is not None:
            self._running.clear()

    # --- readings ----------------------------------------------------------------------------

    def _numbers(self, wanted: ReadFor) -> Stretch | None:
        began = time.monotonic()
        while True:
            over = self._present.over
            self._look()
            primary = self._primary
            heard = primary and self._heard.stretch(primary, self._since, wanted.seconds)
            if heard:
                self._since, stretch = heard
                return self._with_use(stretch)
            now = time.monotonic()
            is_beside = self._source is not None and self._source.intensity > 0
            if is_beside and primary and self._heard.stands_still(primary, began, now):
                return Stretch(now - began, {primary: 0.0})
            if now >= wanted.until:
                return None
            if over:
                self._start_again()
            self._wait()

    def _whole_runs(self, until: float) -> Stretch | None:
        """Runs until they have taken long enough together."""
        seconds, cpus, moved, told = 0.0, 0.0, 0, dict[Quantity, list[float]]()
        while seconds < MIN_STRETCH_SECONDS:
            if time.monotonic() >= until:
                return None
            self._start()
            own = self._own
            limit = RUN_FACTOR * max(self.reading_seconds, MIN_STRETCH_SECONDS)
            while not own.over and time.monotonic() - own.began < limit:
                self._look()
                own.wait(POLL_SECONDS)
            if not own.over:
                took = time.monotonic() - own.began
                self._stop()
                return Stretch(took, {self.wanted[0]: 0.0})
            self._look()
            run = own.end()
            took, cpus, moved = run.seconds, cpus + run.cpu_seconds, moved + run.io_bytes
            seconds += took
            values = self._heard.newest() or {Quantity.RATE: (self._heard.work() or 1.0) / took}
            for quantity, value in values.items():
                told.setdefault(quantity, []).append(value)
        means = {quantity: fmean(values) for quantity, values in told.items()}
        if self._source is None:
            self._io_bytes_per_second = moved / seconds
        return Stretch(seconds, means, cpus / seconds)

    def _use_of_cpu(self, seconds: float) -> Stretch:
        self._mark_cpu()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._look_at_end()
            self._wait()
        self._look_at_end()
        used = self._used_cpus()
        if used is None:
            raise RunFailed("its CPU time can't be read")
        if self._source is None:
            self._look_at_io()
        return Stretch(seconds, {Quantity.CPU: used}, used)

    def _with_use(self, stretch: Stretch) -> Stretch:
        """With its use of CPUs; that of devices counts alone."""
        if self._source is None:
            self._look_at_io()
        used = self._used_cpus()
        self._mark_cpu()
        return Stretch(stretch.seconds, stretch.values, used)

    def _used_cpus(self) -> float | None:
        at, before = self._cpu_mark
        now, seconds = time.monotonic(), self._present.cpu_seconds()
        if before is None or seconds is None or now <= at:
            return None
        return (seconds - before) / (now - at)

    def _look_at_io(self) -> None:
        at, before = self._io_mark
        elapsed = time.monotonic() - at
        moved = self._present.io_bytes()
        if moved and elapsed > 0:
            total = sum(max(0, count - before.get(pid, 0)) for pid, count in moved.items())
            self._io_bytes_per_second = total / elapsed

    def _mark(self) -> None:
        self._since = time.monotonic()
        if self._program is not None and self.way is not Way.RUNS:
            self._mark_cpu()
            self._io_mark = time.monotonic(), self._program.io_bytes()

    def _mark_cpu(self) -> None:
        self._cpu_mark = time.monotonic(), self._present.cpu_seconds()

    # --- the program -------------------------------------------------------------------------

    @property
    def _present(self) -> OwnProcess | RunningProcess:
        assert self._program is not None
        return self._program

    @property
    def _own(self) -> OwnProcess:
        assert isinstance(self._program, OwnProcess)
        return self._program

    @property
    def _heard(self) -> CommandReadings:
        assert self._readings is not None
        return self._readings

    @property
    def _primary(self) -> Quantity | None:
        told = self._heard.told()
        return next((q for q in (*self.wanted, *told) if q in told), None)

    def _start(self) -> None:
        self._stop()
        output = None
        if self._running is None:
            self._program = OwnProcess(self._command, self._cpus)
            self.runs += 1
            output = self._program.output
        root = self._present.pid
        self._readings = CommandReadings(self._workload, output, None, root, *self._run_dirs)
        if self._workload.measure.load_command is not None and not self._run_dirs[0]:
            self._await_ready()
            self._readings.close()
            self._load = start_load(self._workload)
            self._readings = CommandReadings(self._workload, output, self._load.output, root)

    def _await_ready(self) -> None:
        """As ``run.ready`` and ``measure.http`` say; else until it listens, or for some seconds."""
        began = time.monotonic()
        guesses = self._workload.run.ready is None and self._workload.measure.http is None
        while not self._present.over:
            self._heard.look()
            waited = time.monotonic() - began
            if guesses and (waited >= GUESS_SECONDS or self._present.listens()):
                return
            why = self._heard.why_not_ready
            if not guesses and not why:
                return
            if waited >= READY_SECONDS:
                raise RunFailed(f"not ready within {READY_SECONDS:.0f} s: {why}")
            self._wait()

    def _start_again(self) -> None:
        self._look_at_end()
        self._own.end()
        self._start()
        self._since = time.monotonic()

    def _stop(self) -> None:
        if self._readings is not None:
            self._readings.close()
            self._readings = None
        if self._load is not None:
            self._load.clear()
            self._load = None
        if isinstance(self._program, OwnProcess):
            self._program.clear()
            self._program = None

    def _end_source(self) -> None:
        source, self._source, self._resource = self._source, None, None
        if source is not None:
            source.stop()

    def _look(self) -> None:
        if self._readings is None:
            return
        self._readings.look()
        if isinstance(self._program, OwnProcess):
            self._program.drop_old_output()
        if self._load is not None and self._load.over:
            self._load.end()

    def _look_at_end(self) -> None:
        if self._present.over:
            if self._running is not None:
                raise RunFailed(f"process {self._running.pid} has ended")
            if self.way is Way.CPU:
                self._own.end()
                raise RunFailed(f"{self._command[0]} has ended before it was measured")

    def _wait(self) -> None:
        time.sleep(POLL_SECONDS)


def _rate_since(source: RunningSource, began: float) -> ProbeReading | None:
    """What it achieved at its present intensity, by its reports that began since then.

    A report that began a little before is better than none.
    """
    reports = [r for r in source.read() if r.intensity == source.intensity and r.period_seconds > 0]
    since = [r for r in reports if r.time_seconds - r.period_seconds / 2 >= began]
    if not since:
        return None
    seconds = sum(report.period_seconds for report in since)
    work = sum(report.rate_per_second * report.period_seconds for report in since)
    place = source.reports.index(since[0])
    last, before = since[-1], source.reports[place - 1] if place else None
    used = last.cpu_seconds - (before.cpu_seconds if before else 0.0)
    done = last.count - (before.count if before else 0)
    return ProbeReading(work / seconds, done / used if used > 0 else None)
