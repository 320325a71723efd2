"""A program of which only its end tells anything: whole runs are timed.

Its performance is runs per second, its total 1; where it told of work done before it ended, its
performance is work per second, its total that work. With at most a few starts there is one run for
each thing to learn: alone, at each further allocation, beside each source at full intensity.
Called by ``sequence``.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from wharfinger.engines.local.profiling.bench import Bench, ProgramEnded, StartsUsedUp
from wharfinger.engines.local.profiling.copies import CopyEnd, CopyFailed
from wharfinger.engines.local.profiling.findings import Findings
from wharfinger.engines.local.profiling.injection import (
    EVERYWHERE,
    SourceSilent,
    beside,
    reports_at_most,
)
from wharfinger.engines.local.profiling.job import Job
from wharfinger.engines.local.profiling.lifeline import Lifeline, NeighbourFell
from wharfinger.engines.local.profiling.scores import (
    Stretch,
    tolerated_of_few,
)
from wharfinger.errors import Unavailable
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity

INTENSITY = 100.0
TIME_OVER = "the plan's time was over before a whole run was"


class WholeRuns:
    """Times runs.

    Args:
        job: Of what.
        bench: Starts them.
        findings: Takes the entries.
        upper_base: Where a storage source works.
        lifeline: To wait at.
        allocations: That there are here, the first one that of the injections.
    """

    def __init__(
        self,
        job: Job,
        bench: Bench,
        findings: Findings,
        upper_base: Path,
        lifeline: Lifeline,
        allocations: Sequence[int],
    ) -> None:
        self._job = job
        self._bench = bench
        self._findings = findings
        self._upper_base = upper_base
        self._lifeline = lifeline
        self._allocations = allocations
        self._alone: list[Stretch] = []
        self._work = 1.0
        self._io_bytes_per_second: float | None = None
        self._end = 0.0

    def run(self, first_run: ProgramEnded | None = None) -> None:
        """All runs, as far as time and starts go.

        Args:
            first_run: One that has already been, at the first allocation; ``None`` = none.
        """
        self._bench.kept_starts = 0
        self._end = time.monotonic() + self._job.plan.seconds
        first, *others = self._allocations
        if first_run is not None:
            self._work = first_run.work or 1.0
            self._end -= first_run.end.ran_seconds
            self._take_alone(first_run.end)
        elif not self._run_first(first):
            return
        for cpu_millicpus in others:
            self._run_at(cpu_millicpus)
        for resource in self._job.plan.sources:
            if not self._run_beside(resource):
                break
        self._run_again()

    def _run_first(self, cpu_millicpus: int) -> bool:
        self._bench.begin(cpu_millicpus)
        began, before = time.monotonic(), self._bench.copy.cpu_seconds()
        end = self._bench.await_end(self._end)
        self._io_bytes_per_second = self._bench.io_bytes_per_second
        if end is not None and end.ran_seconds <= 0:
            end = self._timed(cpu_millicpus) or end
        if end is not None:
            self._take_alone(end)
            return True
        after, seconds = self._bench.copy.cpu_seconds(), time.monotonic() - began
        if before is not None and after is not None:
            self._findings.add_cpu_use([(after - before) / seconds])
        self._findings.stopped = (
            f"it did not end within {self._job.plan.seconds:g} s, and its manifest does not say "
            "how to measure it: write spec.measure"
        )
        return False

    def _take_alone(self, end: CopyEnd) -> None:
        if end.ran_seconds <= 0:
            raise CopyFailed("it ended before its time could be taken")
        self._findings.total = self._findings.total or self._work
        self._alone.append(self._stretch(end))
        self._findings.add_performance(self._allocations[0], self._alone)
        self._findings.add_cpu_use([end.cpu_seconds / end.ran_seconds])

    def _run_at(self, cpu_millicpus: int) -> None:
        end = self._timed(cpu_millicpus)
        if end is not None:
            self._findings.add_performance(cpu_millicpus, [self._stretch(end)])
        else:
            self._findings.silence(f"performance/{cpu_millicpus}", TIME_OVER)

    def _run_beside(self, resource: SharedResource) -> bool:
        """Whether another source may follow."""
        what = f"tolerated/{resource.value}"
        try:
            setting_up = time.monotonic()
            with beside(self._job, resource, self._upper_base, self._lifeline) as source:
                self._end += time.monotonic() - setting_up
                with self._lifeline.injecting(everywhere=resource in EVERYWHERE):
                    source.set_intensity(INTENSITY)
                    end = self._timed(self._allocations[0])
                reports, maximum = reports_at_most(source), source.setting.maximum_per_second
        except NeighbourFell as fell:
            self._findings.neighbour_fell(resource, str(fell))
            return False
        except (SourceSilent, Unavailable) as silent:
            self._findings.silence(what, str(silent))
            self._findings.silence_storage(resource, str(silent))
            return True
        if end is None:
            self._findings.silence(what, TIME_OVER)
            return True
        ratio = self._alone[0].seconds / end.ran_seconds
        tolerance = self._job.plan.tolerance
        self._findings.tolerated[resource] = tolerated_of_few({INTENSITY: ratio}, tolerance)
        if resource in EVERYWHERE:
            self._findings.add_storage_use(maximum, self._io_bytes_per_second, *reports)
        return True

    def _run_again(self) -> None:
        """What time and starts are left go to the first allocation: its noise shows."""
        while self._bench.starts_left > 0 and self._alone:
            end = self._timed(self._allocations[0])
            if end is None:
                return
            self._alone.append(self._stretch(end))
            self._findings.add_performance(self._allocations[0], self._alone)

    def _timed(self, cpu_millicpus: int) -> CopyEnd | None:
        """One run; ``None`` where there is no time or no start left for a whole one.

        A sandbox that is gone before it has seen its program's end tells no time: once more then.
        """
        while time.monotonic() < self._end:
            try:
                self._bench.begin(cpu_millicpus)
            except StartsUsedUp:
                return None
            end = self._bench.await_end(self._end)
            if end is None or end.ran_seconds > 0:
                return end
        return None

    def _stretch(self, end: CopyEnd) -> Stretch:
        return Stretch(end.ran_seconds, {Quantity.RATE: self._work / end.ran_seconds})
