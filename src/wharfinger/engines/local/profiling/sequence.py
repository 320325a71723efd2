"""One plan from its first copy to its measurements.

Source: Quasar 3.2-3.4: one joint plan of few runs gives each classification its entries. The
worker calls ``measure``. First the copy alone, then each source beside it, then its further
allocations; a program whose own end is all that it tells is timed as a whole instead, run by run
(``whole_runs``).
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from wharfinger.engines.local.profiling.bench import Bench, ProgramEnded, StartsUsedUp
from wharfinger.engines.local.profiling.copies import Copies, CopyFailed
from wharfinger.engines.local.profiling.findings import Findings
from wharfinger.engines.local.profiling.injection import (
    EVERYWHERE,
    SourceSilent,
    beside,
    cut_short,
    looks_for,
    plan_for,
    ramp,
    reports_at_most,
)
from wharfinger.engines.local.profiling.job import Job
from wharfinger.engines.local.profiling.lifeline import Lifeline, NeighbourFell
from wharfinger.engines.local.profiling.scores import (
    Stretch,
    relative,
    tolerated_of_few,
)
from wharfinger.engines.local.profiling.whole_runs import WholeRuns
from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.ibench.driver import RunningSource
from wharfinger.ibench.ramp import RampPlan, Sample, Tolerance
from wharfinger.ibench.scores import tolerated
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Measurements
from wharfinger.monitor.spec import spec_of

SOURCE_SHARES = 3.0
"""Of the time, for each source, where an allocation has one."""
WARM_UP_SHARE, LEAST_WARM_UP_SECONDS, MOST_WARM_UP_SECONDS = 0.1, 0.2, 3.0
STRETCHES = 10
"""Of the time that an allocation has; not shorter than two of the kernel's quota periods."""
LEAST_STRETCH_SECONDS, MOST_STRETCH_SECONDS = 0.2, 1.0
LEAST_STRETCHES = 3
FIRST_NUMBER_SECONDS = 30.0
"""For a program to get ready until it says its first number."""


@dataclass(frozen=True, slots=True)
class Times:
    """How the plan's seconds are divided.

    >>> times = Times.of(8.0, allocations=2, sources=2)
    >>> round(times.share_seconds, 3), round(times.stretch_seconds, 3)
    (0.9, 0.2)
    """

    warm_up_seconds: float
    share_seconds: float

    @classmethod
    def of(cls, seconds: float, *, allocations: int, sources: int) -> "Times":
        """A share for each allocation, three for each source, and the warm-up."""
        warm_up = max(LEAST_WARM_UP_SECONDS, WARM_UP_SHARE * seconds)
        warm_up = min(warm_up, MOST_WARM_UP_SECONDS, seconds / 2)
        shares = allocations + SOURCE_SHARES * sources
        return cls(warm_up, (seconds - warm_up) / shares)

    @property
    def stretch_seconds(self) -> float:
        """The length of one sample."""
        wanted = self.share_seconds / STRETCHES
        return min(MOST_STRETCH_SECONDS, max(LEAST_STRETCH_SECONDS, wanted))


def measure(job: Job, copies: Copies, upper_base: Path, lifeline: Lifeline) -> Measurements:
    """Run the plan.

    Raises:
        CopyFailed: Nothing could be measured; the message says why.
        ManagerGone: Nobody wants to know any more.
    """
    began = time.monotonic()
    findings = Findings(job)
    bench = Bench(job, copies, lifeline)
    try:
        _measure(job, bench, findings, upper_base, lifeline)
    except (CopyFailed, StartsUsedUp) as over:
        findings.stopped = str(over)
    finally:
        bench.clear()
    return findings.measurements(runs=copies.started, seconds=time.monotonic() - began)


def _measure(
    job: Job, bench: Bench, findings: Findings, upper_base: Path, lifeline: Lifeline
) -> None:
    allocations = job.plan.cpu_millicpus
    has_measure = spec_of("", job.workload, run_dir="", load_runs="any").measured
    whole = WholeRuns(job, bench, findings, upper_base, lifeline, allocations)
    if not has_measure:
        whole.run()
        return
    try:
        _Increments(job, bench, findings, upper_base, lifeline, allocations).run()
    except ProgramEnded as ended:
        whole.run(ended)


class _Increments:
    """A program that tells how it performs while it runs."""

    def __init__(
        self,
        job: Job,
        bench: Bench,
        findings: Findings,
        upper_base: Path,
        lifeline: Lifeline,
        allocations: Sequence[int],
    ) -> None:
        self._job, self._plan = job, job.plan
        self._bench = bench
        self._findings = findings
        self._upper_base = upper_base
        self._lifeline = lifeline
        self._allocations = allocations
        self._times = Times.of(
            job.plan.seconds, allocations=len(allocations), sources=len(job.plan.sources)
        )
        self._alone: list[Stretch] = []
        self._io_bytes_per_second: float | None = None
        self._end = 0.0

    def run(self) -> None:
        """All of it."""
        first, *others = self._allocations
        self._bench.begin(first)
        if not self._bench.await_first(time.monotonic() + self._patience):
            raise CopyFailed(self._why_nothing())
        self._end = time.monotonic() + self._plan.seconds
        self._bench.kept_starts += self._bench.starts_left
        with suppress(StartsUsedUp):
            self._warm_up()
            self._run_alone()
        if self._bench.copy.over and len(self._alone) < LEAST_STRETCHES:
            raise self._bench.ended()
        if not self._alone:
            reason = self._bench.readings.why_silent(self._findings.wanted[0])
            self._findings.silence(f"performance/{first}", f"too few numbers in time: {reason}")
        self._bench.kept_starts = len(others)  # Each may need one, should the program end.
        self._inject_all()
        self._findings.add_performance(first, self._alone)
        for cpu_millicpus in others:
            self._bench.kept_starts -= 1
            self._run_at(cpu_millicpus)

    @property
    def _patience(self) -> float:
        return max(FIRST_NUMBER_SECONDS, self._plan.seconds)

    def _why_nothing(self) -> str:
        quantity = self._findings.wanted[0]
        return f"nothing was heard in {self._patience:.0f} s: " + self._bench.readings.why_silent(
            quantity
        )

    def _warm_up(self) -> None:
        until = time.monotonic() + self._times.warm_up_seconds
        while (left := until - time.monotonic()) > 0 and self._bench.next_stretch(left, until):
            pass
        self._bench.mark()

    # --- alone -------------------------------------------------------------------------------

    def _run_alone(self) -> None:
        """At the first allocation; with what the copy uses meanwhile."""
        copy, began = self._bench.copy, time.monotonic()
        until = self._end - self._times.share_seconds * (len(self._allocations) - 1)
        soon = began + self._times.share_seconds
        used, cpu_before, at = [], copy.cpu_seconds(), began
        io_before = io = copy.io_bytes()
        try:
            while stretch := self._bench.next_stretch(self._times.stretch_seconds, until):
                self._alone.append(stretch)
                now, cpu = time.monotonic(), copy.cpu_seconds()
                io = copy.io_bytes() or io
                if cpu is not None and cpu_before is not None:
                    used.append((cpu - cpu_before) / (now - at))
                cpu_before, at = cpu, now
                if len(self._alone) >= LEAST_STRETCHES and now >= soon:
                    break
        finally:
            use = fmean(used) if used else None
            self._findings.add_performance(self._allocations[0], self._alone, use)
            self._findings.add_cpu_use(used)
            self._io_bytes_per_second = _io_rate(io_before, io, at - began)

    def _run_at(self, cpu_millicpus: int) -> None:
        """At a further allocation, until its share of the time is over."""
        position = self._allocations.index(cpu_millicpus)
        left_after = len(self._allocations) - 1 - position
        until = self._end - left_after * self._times.share_seconds
        changes = not self._bench.copy.over
        try:
            self._bench.resize(cpu_millicpus)
        except CopyFailed as refused:
            self._findings.silence(f"performance/{cpu_millicpus}", str(refused))
            return
        found: list[Stretch] = []
        cpu_before, began = self._bench.copy.cpu_seconds(), time.monotonic()
        try:
            if changes:  # The stretch of the change itself.
                self._bench.next_stretch(self._times.stretch_seconds, until)
            while stretch := self._bench.next_stretch(self._times.stretch_seconds, until):
                found.append(stretch)
        except StartsUsedUp as used_up:
            self._findings.silence(f"performance/{cpu_millicpus}", str(used_up))
        finally:
            use = _cpu_rate(cpu_before, self._bench.copy.cpu_seconds(), time.monotonic() - began)
            self._findings.add_performance(cpu_millicpus, found, use)

    # --- beside sources ----------------------------------------------------------------------

    def _inject_all(self) -> None:
        if not self._alone:
            return
        for resource in self._plan.sources:
            try:
                self._inject(resource)
            except SourceSilent as silent:
                self._findings.silence(f"tolerated/{resource.value}", str(silent))
                self._findings.silence_storage(resource, str(silent))
            except StartsUsedUp as used_up:
                self._findings.silence_sources(str(used_up))
                return
            except NeighbourFell as fell:
                self._findings.neighbour_fell(resource, str(fell))
                return

    def _inject(self, resource: SharedResource) -> None:
        with beside(self._job, resource, self._upper_base, self._lifeline) as source:
            # What the set-up of the source took is not time of measuring.
            self._bench.mark()
            until = time.monotonic() + SOURCE_SHARES * self._times.share_seconds
            self._end = max(self._end, until + self._rest_seconds(resource))
            try:
                with self._lifeline.injecting(everywhere=resource in EVERYWHERE):
                    self._ramp(resource, source, until)
            finally:
                with suppress(Unavailable):
                    source.withdraw()
                self._bench.mark()
                self._see_what_it_causes(resource, source)

    def _rest_seconds(self, resource: SharedResource) -> float:
        """What comes after this source."""
        position = self._plan.sources.index(resource)
        sources = len(self._plan.sources) - 1 - position
        shares = len(self._allocations) - 1 + SOURCE_SHARES * sources
        return shares * self._times.share_seconds

    def _ramp(self, resource: SharedResource, source: RunningSource, until: float) -> None:
        primary = self._bench.primary
        gap = primary and self._bench.readings.heard.usual_gap(primary)
        seconds = max(self._times.stretch_seconds, gap or 0.0)
        room = (until - time.monotonic()) / seconds
        plan = plan_for(room, self._plan.tolerance)
        try:
            if plan is not None:
                self._ramp_by(plan, resource, source, until)
            else:
                self._look_at(looks_for(room - 1), resource, source, until)
        except (InvalidInput, Unavailable) as error:
            self._findings.silence(f"tolerated/{resource.value}", str(error))

    def _ramp_by(
        self, plan: RampPlan, resource: SharedResource, source: RunningSource, until: float
    ) -> None:
        reference = self._reference()
        recent = [relative(stretch.values, reference) for stretch in self._alone]
        alone = [value for value in recent if value is not None][-plan.max_samples_per_visit :]
        samples = [Sample(0.0, value) for value in alone]

        def set_intensity(intensity: float) -> None:
            source.set_intensity(intensity)
            self._bench.mark()

        def take() -> float | None:
            stretch = self._bench.next_stretch(
                self._times.stretch_seconds, until, may_stall=source.intensity > 0
            )
            if stretch is not None and source.intensity == 0:
                self._alone.append(stretch)
            return None if stretch is None else relative(stretch.values, reference)

        try:
            found, finished = ramp(plan, samples, set_intensity, take)
        except (NeighbourFell, CopyFailed, StartsUsedUp):
            self._keep(resource, cut_short(plan, samples))
            raise
        self._keep(resource, found)
        if not finished and found.censored:
            reason = f"time was over at intensity {source.intensity:g}"
            bound = ": a lower bound" if found.low > 0 else ""
            self._findings.silence(f"tolerated/{resource.value}", reason + bound)

    def _keep(self, resource: SharedResource, found: Tolerance) -> None:
        if found.low > 0 or not found.censored:
            self._findings.tolerated[resource] = tolerated(found)

    def _look_at(
        self,
        intensities: Sequence[float],
        resource: SharedResource,
        source: RunningSource,
        until: float,
    ) -> None:
        """With too few numbers to judge their noise: each intensity once."""
        reference, ratios = self._reference(), {}
        try:
            for intensity in intensities:
                source.set_intensity(intensity)
                self._bench.mark()
                stretch = self._bench.next_stretch(
                    self._times.stretch_seconds, until, may_stall=True
                )
                ratio = None if stretch is None else relative(stretch.values, reference)
                if ratio is None:
                    break
                ratios[intensity] = ratio
                if ratio < 1 - self._plan.tolerance:
                    break
        finally:
            if ratios:
                entry = tolerated_of_few(ratios, self._plan.tolerance)
                self._findings.tolerated[resource] = entry
            else:
                reason = "it says too seldom how it performs for the time that there is"
                self._findings.silence(f"tolerated/{resource.value}", reason)

    def _reference(self) -> dict[Quantity, float]:
        """Performance alone, of what its target is about; else of what is told."""
        alone = {q: entry.value for q, entry in self._findings.alone(self._alone).items()}
        wanted = {q: value for q, value in alone.items() if q in self._findings.wanted}
        return wanted or alone

    def _see_what_it_causes(self, resource: SharedResource, source: RunningSource) -> None:
        """On the storage: what the source was kept from, and what the copy itself moves."""
        if resource not in EVERYWHERE:
            return
        maximum = source.setting.maximum_per_second
        self._findings.add_storage_use(maximum, self._io_bytes_per_second, *reports_at_most(source))


def _cpu_rate(before: float | None, after: float | None, seconds: float) -> float | None:
    """CPU seconds per second; ``None`` where another copy took its place meanwhile."""
    if before is None or after is None or after <= before or seconds <= 0:
        return None
    return (after - before) / seconds


def _io_rate(
    before: dict[int, int] | None, after: dict[int, int] | None, seconds: float
) -> float | None:
    """Bytes per second of the processes that there are; ``None`` = not known."""
    if before is None or after is None or seconds <= 0:
        return None
    moved = sum(max(0, count - before.get(pid, 0)) for pid, count in after.items())
    return moved / seconds
