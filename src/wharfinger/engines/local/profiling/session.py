"""One plan's runs on this machine, one at a time: the port of its interpreter.

A run is started, started again when its program has ended, resized and listened to; a source of
interference comes beside it. The worker calls ``measure``.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from math import inf
from pathlib import Path

from wharfinger.engines.local.profiling.injection import EVERYWHERE, begin_source, reports_at_most
from wharfinger.engines.local.profiling.job import Lifeline, ProfilingJob
from wharfinger.engines.local.profiling.readings import STALL_GAPS, STALL_SECONDS, Readings
from wharfinger.engines.local.profiling.runs import (
    RunEnd,
    SandboxedRun,
    SandboxedRuns,
    wait_until_begun,
)
from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.ibench.driver import RunningSource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Measurements
from wharfinger.model.workload import Workload
from wharfinger.monitor.spec import main_quantity, spec_of, wanted_quantities
from wharfinger.profiling.interpreter import Interpreter
from wharfinger.profiling.observations import Observations
from wharfinger.profiling.procedure import Procedure
from wharfinger.profiling.scores import caused_by_sharing, caused_on_device
from wharfinger.profiling.steps import (
    Inject,
    ProgramEnded,
    ReadFor,
    RunAt,
    RunFailed,
    SourceSilent,
    StartsUsedUp,
    Stretch,
    Withdraw,
)

POLL_SECONDS = 0.01
LOOK_SECONDS = 0.1
"""Between two looks at the I/O of a run whose end is awaited."""
MIN_STARTS = 4
"""Of a plan: Quasar's has at most four runs; one with more to measure has as many."""
FIRST_NUMBER_SECONDS, SOON_SECONDS = 30.0, 1e-6
"""For a program to get ready until it says its first number; and between that and the next."""


def measure(
    job: ProfilingJob, runs: SandboxedRuns, upper_base: Path, lifeline: Lifeline
) -> Measurements:
    """Carry the plan out.

    Raises:
        RunFailed: Nothing could be measured; the message says why.
        ManagerGone: The manager has died.
    """
    began, plan = time.monotonic(), job.plan
    observations = Observations(
        plan,
        wanted=wanted_of(job.workload),
        cpus=len(job.server.cpus),
        seen_at_source=EVERYWHERE,
        total=job.workload.measure.progress_total,
    )
    session = ProfilingSession(job, runs, upper_base, lifeline)
    procedure = Procedure.whole(plan.seconds)
    if session.by_rate:
        allocations, sources = len(plan.cpu_millicpus), len(plan.sources)
        procedure = Procedure.timed(plan.seconds, allocations=allocations, sources=sources)
    try:
        Interpreter(plan, procedure, observations, session).complete(session.read)
    finally:
        session.close()
    return observations.measurements(runs=runs.started, seconds=time.monotonic() - began)


class ProfilingSession:
    """The port: one run at a time, and a source in ``upper_base`` beside it.

    Attributes:
        by_rate: The program reports its performance while it runs.
    """

    def __init__(
        self, job: ProfilingJob, runs: SandboxedRuns, upper_base: Path, lifeline: Lifeline
    ) -> None:
        self.by_rate = spec_of("", job.workload, run_dir="", load_runs="any").measured
        self._job = job
        self._plan = job.plan
        self._runs = runs
        self._upper_base = upper_base
        self._lifeline = lifeline
        self._run: SandboxedRun | None = None
        self._readings: Readings | None = None
        self._cpu_millicpus = 0
        self._since = 0.0
        self._use = _Use()
        self._work = 1.0
        self._source: RunningSource | None = None
        self._source_ends = ExitStack()
        self._max_starts = max(MIN_STARTS, len(job.plan.cpu_millicpus) + len(job.plan.sources))

    # --- what the interpreter asks for -----------------------------------------------------------

    def run(self, step: RunAt) -> bool:
        """Start the program, or resize it.

        A program whose whole runs are timed, or that has ended, is started by the next reading.
        """
        self._cpu_millicpus = step.cpu_millicpus
        changes = False
        if self._run is None and self.by_rate:
            self._begin(0)
            self._warm_up(step.warm_up_seconds)
        elif self._run is not None and not self._run.over:
            self._run.resize(step.cpu_millicpus)
            changes = True
        self._mark()
        return changes

    def inject(self, step: Inject) -> float:
        """Set the source's intensity; the first time there is none yet."""
        self._cpu_millicpus = self._plan.cpu_millicpus[0]
        if self._source is None:
            self._source = self._source_ends.enter_context(
                begin_source(self._job, step.resource, self._upper_base, self._lifeline)
            )
        if step.intensity != self._source.intensity:
            try:
                self._source.set_intensity(step.intensity)
            except (InvalidInput, Unavailable) as error:
                raise SourceSilent(str(error)) from error
        # What the set-up of the source took is not time of measuring.
        self._mark()
        gap = self._primary and self._heard.heard.usual_gap(self._primary)
        return gap or 0.0

    def withdraw(self, step: Withdraw) -> Entry | str | None:
        """On storage: by sharing with the source, and by the program's own I/O."""
        source, self._source = self._source, None
        assert source is not None
        with suppress(Unavailable):
            source.withdraw()
        asked, achieved = reports_at_most(source)
        self._source_ends.close()
        self._mark()
        if step.resource not in EVERYWHERE:
            return None
        shared = caused_by_sharing(asked, achieved) if step.slowed else None
        maximum = source.setting.maximum_per_second
        caused = caused_on_device(maximum, self._use.io_bytes_per_second, shared)
        return caused or "the kernel does not say its I/O, and the device was not congested"

    def now(self) -> float:
        """See ``time.monotonic``."""
        return time.monotonic()

    def why_silent(self) -> str:
        """Why the first wanted quantity is unknown."""
        return self._heard.why_silent(wanted_of(self._job.workload)[0])

    def read(self, wanted: ReadFor) -> Stretch | None:
        """Performance over the next stretch; ``None`` = time is over, or no start is left.

        Raises:
            RunFailed: The program ended otherwise than well, or can't be started again.
            StartsUsedUp: It may not.
            ProgramEnded: It ended well, and is not to be started again.
            NeighborFell: While a source is at work.
        """
        if wanted.seconds == inf:
            return self._whole_run(wanted.until)
        began = time.monotonic()
        while True:
            over = self._present.over  # Asked first: what it said last is then there.
            self._heard.look()
            if stretch := self._next_stretch(wanted.seconds, began, over=over):
                return stretch
            if over and wanted.reserved_starts is None:
                raise self._program_ended()
            if time.monotonic() >= wanted.until:
                return None
            if over:
                self._end_well()
                self._begin(wanted.reserved_starts or 0)
            else:
                self._lifeline.wait(POLL_SECONDS)

    def close(self) -> None:
        """Remove the run and the source."""
        self._source_ends.close()
        self._clear()

    # --- readings --------------------------------------------------------------------------------

    @property
    def _present(self) -> SandboxedRun:
        assert self._run is not None
        return self._run

    @property
    def _heard(self) -> Readings:
        assert self._readings is not None
        return self._readings

    @property
    def _primary(self) -> Quantity | None:
        """The quantity that times the stretches: of those that are wanted the first one told."""
        if self._readings is None:
            return None
        told = self._readings.heard.told()
        wanted = [quantity for quantity in wanted_of(self._job.workload) if quantity in told]
        return next(iter((*wanted, *told)), None)

    def _next_stretch(self, seconds: float, began: float, *, over: bool) -> Stretch | None:
        """The stretch that was heard, if it is long enough.

        Beside a source a silent counter is a performance of 0. Else it is waited for, since its
        next number covers that time, too.
        """
        primary = self._primary
        if primary is None:
            return None
        heard = self._heard.heard.stretch(primary, self._since, seconds)
        if heard is not None:
            self._since, stretch = heard
            if self._source is None and self._cpu_millicpus == self._plan.cpu_millicpus[0]:
                self._use.look_at_io(self._present)
            return replace(stretch, used_cpus=self._use.look(self._present))
        may_stall = self._source is not None and self._source.intensity > 0
        if may_stall and not over and self._stands_still(primary, began):
            return Stretch(time.monotonic() - began, {primary: 0.0})
        return None

    def _stands_still(self, primary: Quantity, began: float) -> bool:
        heard = self._heard.heard
        gap = heard.usual_gap(primary)
        if gap is None or not heard.counts(primary):
            return False
        newest = max((began, *heard.times(primary, began)[-1:]))
        return time.monotonic() - newest > max(STALL_SECONDS, STALL_GAPS * gap)

    def _warm_up(self, seconds: float) -> None:
        patience = max(FIRST_NUMBER_SECONDS, self._plan.seconds)
        if self.read(ReadFor(SOON_SECONDS, time.monotonic() + patience, None)) is None:
            raise RunFailed(f"nothing was heard in {patience:.0f} s: {self.why_silent()}")
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.read(ReadFor(left, until, None))

    def _mark(self) -> None:
        """Count only what is heard from now on."""
        self._since = time.monotonic()
        if self._run is not None:
            self._use.begin(self._run)

    # --- runs ------------------------------------------------------------------------------------

    def _begin(self, reserved_starts: int) -> None:
        """Start the program with the present allocation, and read it."""
        if self._max_starts - self._runs.started <= reserved_starts:
            raise StartsUsedUp(f"it ended, and was started {self._runs.started} times, the most")
        self._clear()
        self._run = run = self._runs.start(self._cpu_millicpus)
        init = wait_until_begun(run, self._lifeline)
        if not init and run.end().problem:
            raise RunFailed(run.end().problem)
        self._readings = Readings(self._job, run, init)
        self._mark()

    def _whole_run(self, until: float) -> Stretch | None:
        """One run from its start to its own end; again if the sandbox died before it saw that."""
        while time.monotonic() < until:
            try:
                self._begin(0)
            except StartsUsedUp:
                return None
            stretch = self._await_end(until)
            if stretch.seconds > 0:
                return stretch
        return None

    def _await_end(self, until: float) -> Stretch:
        began = time.monotonic()
        while not self._present.over:
            left = until - time.monotonic()
            if left <= 0:
                return Stretch(time.monotonic() - began, {}, self._use.look(self._present))
            self._lifeline.wait(min(left, LOOK_SECONDS), self._present.pidfd)
            if self._source is None and self._runs.started == 1:
                self._use.look_at_io(self._present)
        return self._whole()

    def _program_ended(self) -> ProgramEnded:
        self._work = self._heard.heard.work() or 1.0
        stretch = self._whole()
        if stretch.seconds <= 0:
            raise RunFailed("it ended before its time could be taken")
        return ProgramEnded(stretch, self._work)

    def _whole(self) -> Stretch:
        end = self._end_well()
        seconds = end.ran_seconds
        if seconds <= 0:
            return Stretch(0.0)
        return Stretch(seconds, {Quantity.RATE: self._work / seconds}, end.cpu_seconds / seconds)

    def _end_well(self) -> RunEnd:
        end = self._present.end()
        if end.problem:
            raise RunFailed(end.problem)
        return end

    def _clear(self) -> None:
        readings, self._readings = self._readings, None
        run, self._run = self._run, None
        if readings is not None:
            readings.close()
        if run is not None:
            run.clear()


class _Use:
    """A run's use of CPUs and devices; ``io_bytes_per_second`` is alone at the first allocation."""

    def __init__(self) -> None:
        self.io_bytes_per_second: float | None = None
        self._began = self._looked = 0.0
        self._cpu_seconds: float | None = None
        self._io_bytes: Mapping[int, int] | None = None

    def begin(self, run: SandboxedRun) -> None:
        self._began = self._looked = time.monotonic()
        self._cpu_seconds, self._io_bytes = run.cpu_seconds(), run.io_bytes()

    def look(self, run: SandboxedRun) -> float | None:
        """CPU seconds per second since the last look; ``None`` = unknown."""
        before, looked = self._cpu_seconds, self._looked
        self._cpu_seconds, self._looked = run.cpu_seconds(), time.monotonic()
        if before is None or self._cpu_seconds is None:
            return None
        return (self._cpu_seconds - before) / (self._looked - looked)

    def look_at_io(self, run: SandboxedRun) -> None:
        """Take in the I/O of all processes since the beginning."""
        if moved := run.io_bytes():
            before = self._io_bytes or {}
            total = sum(max(0, count - before.get(pid, 0)) for pid, count in moved.items())
            self.io_bytes_per_second = total / (time.monotonic() - self._began)


def wanted_of(workload: Workload) -> tuple[Quantity, ...]:
    """The quantities to measure: those of its target, or what its ``measure`` tells."""
    stated = wanted_quantities(workload) or (main_quantity(workload),)
    # How long the rest takes follows from the rate and the total.
    rates = (Quantity.RATE if q is Quantity.REMAINING else q for q in stated)
    return tuple(dict.fromkeys(rates))
