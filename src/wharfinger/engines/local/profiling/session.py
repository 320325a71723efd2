"""One plan's runs on this machine, one at a time: the port of its interpreter.

The worker calls ``measure``. A source of interference stands for neighbors, so it runs on the
copy's CPUs and gets what the copy leaves of them; its I/O goes to a nameless file on the storage of
the copy's writes.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from math import inf
from pathlib import Path

from wharfinger.engines.local.profiling.cleanup import clear_run
from wharfinger.engines.local.profiling.job import Lifeline, ProfilingJob
from wharfinger.engines.local.profiling.readings import Readings
from wharfinger.engines.local.profiling.runs import (
    SandboxedRun,
    holds_load,
    start_copy,
    wait_until_begun,
)
from wharfinger.errors import EngineFault, InvalidInput, OutOfSpace, Unavailable
from wharfinger.host.processes import marker_of
from wharfinger.host.topology import format_cpus
from wharfinger.ibench.driver import RunningSource, begin_maximum, start_supervised
from wharfinger.ibench.sources import SourceSetting, signal_here, source_named
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Entry, Measurements
from wharfinger.model.workload import Workload
from wharfinger.monitor.spec import WatchSpec, main_quantity, spec_of, wanted_quantities
from wharfinger.profiling.injectable import BEYOND_CPUS
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

_REPORT_SECONDS = 0.1
_SOURCE_MEMORY_BYTES = 256 << 20
_READY_LOOK_SECONDS = 0.02

KEPT_BACK = 0.05
"""Share of a server's CPU for the kernel, the manager and the profiler: without it they slow the
copy, which would be taken for interference."""
_MIN_LEFT_MILLICPUS = 100
_STREAMED_BYTES = 128 << 20
"""Of memory, what its bandwidth's source streams through: more than caches hold. The limit on it is
higher by what sources of memory keep back of any limit."""
_STREAMING_BYTES = _STREAMED_BYTES + (3 << 29)


def measure(job: ProfilingJob, upper_base: Path, lifeline: Lifeline) -> Measurements:
    """Carry the plan out; raises ``RunFailed`` if nothing was measured, and ``ManagerGone``."""
    began, plan = time.monotonic(), job.plan
    observations = Observations(
        plan,
        wanted=wanted_of(job.workload),
        cpus=len(job.server.cpus),
        seen_at_source=frozenset(plan.sources) - {SharedResource.INTEGER},
        total=job.workload.measure.progress_total,
    )
    session = ProfilingSession(job, upper_base, lifeline)
    procedure = Procedure.whole(plan.limit_seconds)
    if session.by_rate:
        allocations, sources = len(plan.cpu_millicpus), len(plan.sources)
        procedure = Procedure.timed(plan.seconds, allocations=allocations, sources=sources)
    try:
        Interpreter(plan, procedure, observations, session).complete(session.read)
    finally:
        session.close()
    measured = observations.measurements(runs=session.started, seconds=time.monotonic() - began)
    return replace(measured, memory_peak_bytes=session.memory_peak_bytes)


class ProfilingSession:
    """The port: one run at a time, and a source beside it; ``started`` counts the runs.

    ``by_rate``: the program reports its performance while it runs. ``memory_peak_bytes``: the most
    memory that it was seen to use; ``None`` = unknown.
    """

    def __init__(self, job: ProfilingJob, upper_base: Path, lifeline: Lifeline) -> None:
        self.by_rate = spec_of(WatchSpec("", "", load_runs="any"), job.workload).measured
        self.started = 0
        self.memory_peak_bytes: int | None = None
        self._memory_seen_at = 0.0
        self._job = job
        self._plan = job.plan
        self._upper_base = upper_base
        self._lifeline = lifeline
        self._run: SandboxedRun | None = None
        self._readings: Readings | None = None
        self._cpu_millicpus = 0
        self._since = 0.0
        self._io_bytes_per_second: float | None = None
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
        changes = self._run is not None and not self._run.over
        if changes:
            self._present.set_cpu(step.cpu_millicpus)
        elif self._run is None and self.by_rate:
            self._begin(0)
            self._warm_up(step.warm_up_seconds)
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
        gap = self._primary and self._heard.usual_gap(self._primary)
        return gap or 0.0

    def withdraw(self, step: Withdraw) -> Entry | str | None:
        """Where a rate is shared by what the source got of it; on storage by its I/O, too."""
        source, self._source = self._source, None
        assert source is not None
        with suppress(Unavailable):
            source.withdraw()
        asked, achieved, cpu_share = _reports_at_most(source)
        self._source_ends.close()
        self._mark()
        if step.resource is SharedResource.INTEGER:
            return None
        if not source.setting.source.measures_maximum:
            return "the source's own time does not show what presses on it"
        if step.resource is SharedResource.MEMORY_BANDWIDTH:
            # It may be short of CPU time, which is no pressure on memory.
            asked = min(asked, 100 * cpu_share / len(self._job.server.cpus))
            return caused_by_sharing(asked, achieved) or "the source had all that it asked for"
        shared = caused_by_sharing(asked, achieved) if step.slowed else None
        maximum = source.setting.maximum_per_second
        caused = caused_on_device(maximum, self._io_bytes_per_second, shared)
        return caused or "the kernel does not say its I/O, and the device was not congested"

    def now(self) -> float:
        """See ``time.monotonic``."""
        return time.monotonic()

    def why_silent(self) -> str:
        """Why the first wanted quantity is unknown."""
        return self._heard.why_silent(wanted_of(self._job.workload)[0])

    def read(self, wanted: ReadFor) -> Stretch | None:
        """Performance over the next stretch; ``None`` = time is over, or no start is left.

        Raises each ``Interruption`` but ``SourceSilent`` and ``DoesNotFit``.
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
                self._work = self._heard.work() or 1.0
                if (whole := self._whole()).seconds <= 0:
                    raise RunFailed("it ended before its time could be taken")
                raise ProgramEnded(whole, self._work)
            if time.monotonic() >= wanted.until:
                return None
            if over:
                self._present.end()
                self._begin(wanted.reserved_starts or 0)
            else:
                self._look_at_memory()
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
        told = self._readings.told()
        wanted = [quantity for quantity in wanted_of(self._job.workload) if quantity in told]
        return next(iter((*wanted, *told)), None)

    def _next_stretch(self, seconds: float, began: float, *, over: bool) -> Stretch | None:
        """The stretch that was heard, if it is long enough.

        Beside a source a silent counter is a performance of 0; else its next number covers that
        time, too.
        """
        primary = self._primary
        if primary is None:
            return None
        heard = self._heard.stretch(primary, self._since, seconds)
        if heard is not None:
            self._since, stretch = heard
            if self._source is None and self._cpu_millicpus == self._plan.cpu_millicpus[0]:
                self._look_at_io()
            return replace(stretch, used_cpus=self._present.used_cpus())
        may_stall = self._source is not None and self._source.intensity > 0
        now = time.monotonic()
        if may_stall and not over and self._heard.stands_still(primary, began, now):
            return Stretch(now - began, {primary: 0.0})
        return None

    def _warm_up(self, seconds: float) -> None:
        patience = max(FIRST_NUMBER_SECONDS, self._plan.limit_seconds)
        if self.read(ReadFor(SOON_SECONDS, time.monotonic() + patience, None)) is None:
            raise RunFailed(f"nothing was heard in {patience:.0f} s: {self.why_silent()}")
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.read(ReadFor(left, until, None))

    def _look_at_io(self) -> None:
        moved = self._present.io_bytes_per_second()
        if moved is not None:
            self._io_bytes_per_second = moved

    def _look_at_memory(self) -> None:
        now = time.monotonic()
        if now - self._memory_seen_at < LOOK_SECONDS:
            return
        self._memory_seen_at, in_use = now, self._present.group.memory_in_use()
        if in_use is not None:
            self.memory_peak_bytes = max(in_use, self.memory_peak_bytes or 0)

    def _mark(self) -> None:
        self._since = time.monotonic()
        if self._run is not None:
            self._run.mark()

    # --- runs ------------------------------------------------------------------------------------

    def _begin(self, reserved_starts: int) -> None:
        if self._max_starts - self.started <= reserved_starts:
            raise StartsUsedUp(f"it ended, and was started {self.started} times, the most")
        self._clear()
        self.started += 1
        name = f"{self._job.key}.p{self.started}"
        self._run = run = start_copy(self._job, self._upper_base, name, self._cpu_millicpus)
        init = wait_until_begun(run, self._lifeline)
        if not init:
            run.end()
        self._readings = Readings(self._job, run, init)
        self._await_ready()
        self._mark()

    def _await_ready(self) -> None:
        patience_seconds = max(FIRST_NUMBER_SECONDS, self._plan.limit_seconds)
        until = time.monotonic() + patience_seconds
        held = holds_load(self._job.workload)
        while not self._present.over:
            self._heard.look()
            why = self._heard.why_not_ready
            if not why and (not held or self._present.release_load()):
                return
            if time.monotonic() >= until:
                why = why or "its load generator did not begin"
                raise RunFailed(f"the copy was not ready within {patience_seconds:.0f} s: {why}")
            self._lifeline.wait(POLL_SECONDS)

    def _whole_run(self, until: float) -> Stretch | None:
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
                return Stretch(time.monotonic() - began, {}, self._present.used_cpus())
            self._look_at_memory()
            self._lifeline.wait(min(left, LOOK_SECONDS), self._present.pidfd)
            if self._source is None and self.started == 1:
                self._look_at_io()
        return self._whole()

    def _whole(self) -> Stretch:
        seconds, cpu_seconds = self._present.end()
        if seconds <= 0:
            return Stretch(0.0)
        return Stretch(seconds, {Quantity.RATE: self._work / seconds}, cpu_seconds / seconds)

    def _clear(self) -> None:
        readings, self._readings = self._readings, None
        run, self._run = self._run, None
        if readings is not None:
            readings.close()
        if run is not None:
            run.clear()


def wanted_of(workload: Workload) -> tuple[Quantity, ...]:
    """The quantities to measure: those of its target, or what its ``measure`` tells."""
    stated = wanted_quantities(workload) or (main_quantity(workload),)
    # How long the rest takes follows from the rate and the total.
    rates = (Quantity.RATE if q is Quantity.REMAINING else q for q in stated)
    return tuple(dict.fromkeys(rates))


@contextmanager
def begin_source(
    job: ProfilingJob, resource: SharedResource, upper_base: Path, lifeline: Lifeline
) -> Iterator[RunningSource]:
    """A source of interference beside the job's workload; raises ``SourceSilent``."""
    name = f"{job.key}.{resource.value}"
    all_millicpus = MILLICPUS_PER_CPU * len(job.server.cpus)
    left_millicpus = round(all_millicpus * (1 - KEPT_BACK)) - job.plan.cpu_millicpus[0]
    if left_millicpus < _MIN_LEFT_MILLICPUS:
        raise SourceSilent("the copy has all of the server's CPUs, and leaves none to neighbors")
    streams = resource is SharedResource.MEMORY_BANDWIDTH
    memory_bytes = _STREAMING_BYTES if streams else _SOURCE_MEMORY_BYTES
    allocation = Allocation(left_millicpus, memory_bytes)
    try:
        setting = _setting(job, resource, upper_base, lifeline)
        placement = Placement(job.plan.server, allocation)
        group = job.machine.create_run(job.directory, name, placement)
        run_dir = job.directory / name
        source = start_supervised(setting, run_dir, env=marker_of(run_dir), group=group)
    except (InvalidInput, EngineFault, OutOfSpace, Unavailable) as error:
        clear_run(job.directory / name)
        raise SourceSilent(str(error)) from error
    try:
        with lifeline.injecting(everywhere=resource in BEYOND_CPUS):
            yield source
    finally:
        with suppress(Unavailable):
            source.withdraw()
        source.stop()
        clear_run(job.directory / name)


def _setting(
    job: ProfilingJob, resource: SharedResource, upper_base: Path, lifeline: Lifeline
) -> SourceSetting:
    setting = SourceSetting(
        source_named(resource.value),
        cpus=job.server.cpus,
        directory=upper_base,
        report_seconds=_REPORT_SECONDS,
        footprint=_STREAMED_BYTES if resource is SharedResource.MEMORY_BANDWIDTH else None,
    )
    signal = signal_here(setting)
    if not signal.there:
        raise SourceSilent(signal.reason)
    if not setting.source.measures_maximum:
        return setting
    where = upper_base.stat().st_dev if setting.source.uses_directory else format_cpus(setting.cpus)
    key = f"{resource} {where}"
    if maximum := job.maxima_per_second.get(key):
        return replace(setting, maximum_per_second=maximum)
    with lifeline.injecting(everywhere=True), begin_maximum(setting) as source:
        while not source.ready_within(_READY_LOOK_SECONDS):
            lifeline.wait(0.0)
    lifeline.tell({"maximum": [key, source.setting.maximum_per_second]})  # For later plans.
    return source.setting


def _reports_at_most(source: RunningSource) -> tuple[float, list[float], float]:
    """The highest intensity, what was achieved at it, and the CPUs that were used meanwhile."""
    reports = [r for r in source.read() if r.intensity > 0 and r.period_seconds > 0]
    highest = max((report.intensity for report in reports), default=0.0)
    there = [report for report in reports if report.intensity == highest]
    cpus = 0.0
    if len(there) > 1:
        seconds = there[-1].time_seconds - there[0].time_seconds
        cpus = (there[-1].cpu_seconds - there[0].cpu_seconds) / max(seconds, 1e-9)
    return highest, [report.achieved for report in there], cpus
