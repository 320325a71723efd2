"""A copy's performance, unsmoothed: increments over stretches of time.

Called by ``session``. The readers are the meter's; those of an endpoint or a command run inside the
sandbox, by ``monitor.inside``. Smoothing would carry values across a change, so only what lies
within a stretch counts.
"""

import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from wharfinger.engines.local.profiling.job import ProfilingJob
from wharfinger.engines.local.profiling.runs import SandboxedRun, load_output
from wharfinger.engines.supervised.measuring import with_commands
from wharfinger.model.performance import Quantity
from wharfinger.monitor.inside import Inside
from wharfinger.monitor.source import COMMAND, HTTP, LINES
from wharfinger.monitor.spec import LOAD, WatchSpec, spec_of
from wharfinger.monitor.watch import Watch
from wharfinger.profiling.scores import PERFORMANCES
from wharfinger.profiling.steps import Stretch

STALL_GAPS, STALL_SECONDS = 4.0, 0.5
"""A counter that is silent for so many of its usual gaps, and so long, stands still."""

_PREFERRED = (LOAD, HTTP, LINES, COMMAND)
"""What users see comes first, as in the meter."""

Point = tuple[float, float, bool]
"""Time, number, and whether it counts work done."""


class Heard:
    """All numbers that were read of one start.

    >>> heard = Heard()
    >>> for second in range(4):
    ...     heard.add("progress lines", Quantity.RATE, float(second), 10.0 * second, True)
    >>> heard.stretch(Quantity.RATE, 1.0, 1.5)[1].values
    {<Quantity.RATE: 'rate_per_second'>: 10.0}
    >>> heard.stretch(Quantity.RATE, 1.0, 3.0) is None
    True
    """

    def __init__(self) -> None:
        self._points: defaultdict[tuple[str, Quantity], list[Point]] = defaultdict(list)

    def add(self, source: str, quantity: Quantity, at: float, value: float, counts: bool) -> None:
        """Take in a number, unless there is one of that time."""
        points = self._points[source, quantity]
        if not points or at > points[-1][0]:
            points.append((at, value, counts))

    def told(self) -> tuple[Quantity, ...]:
        """The quantities of which there is any number."""
        return tuple(q for q in PERFORMANCES if self._of(q))

    def _of(self, quantity: Quantity) -> list[Point]:
        lists = (self._points.get((source, quantity)) for source in _PREFERRED)
        return next(filter(None, lists), [])

    def times(self, quantity: Quantity, since: float) -> list[float]:
        """The times of its numbers, from a time on."""
        points = self._of(quantity)
        return [at for at, _, _ in points[bisect_left(points, (since,)) :]]

    def usual_gap(self, quantity: Quantity) -> float | None:
        """The 95th percentile of the seconds between two numbers; ``None`` without two.

        Longer gaps are not the program's: no line was read while a source was set up.
        """
        times = self.times(quantity, 0.0)
        gaps = [after - before for before, after in itertools.pairwise(times)]
        return sorted(gaps)[(len(gaps) - 1) * 19 // 20] if gaps else None

    def stands_still(self, quantity: Quantity, since: float, now: float) -> bool:
        """Whether it counts work done, and was silent for so long that none was."""
        points, gap = self._of(quantity), self.usual_gap(quantity)
        if gap is None or not points[-1][2]:
            return False
        return now - max(since, points[-1][0]) > max(STALL_SECONDS, STALL_GAPS * gap)

    def work(self) -> float:
        """Work done at the end, as far as it was counted."""
        points = self._of(Quantity.RATE)
        return points[-1][1] if points and points[-1][2] else 0.0

    def stretch(
        self, primary: Quantity, since: float, seconds: float
    ) -> tuple[float, Stretch] | None:
        """End and values of the first stretch that long between two numbers, from a time on.

        ``None`` while it is not over.
        """
        times = self.times(primary, since)
        end = bisect_left(times, times[0] + seconds) if times else 0
        if end == 0 or end >= len(times):
            return None
        return times[end], self.between(times[0], times[end])

    def between(self, begin: float, end: float) -> Stretch:
        """The values between two times: each number stands for the time before it."""
        values = {q: self._mean(self._of(q), begin, end) for q in PERFORMANCES}
        return Stretch(end - begin, {q: value for q, value in values.items() if value is not None})

    @staticmethod
    def _mean(points: list[Point], begin: float, end: float) -> float | None:
        first, last = bisect_left(points, (begin,)), bisect_right(points, (end, float("inf")))
        within = points[first:last]
        if len(within) < 2:
            return None
        pairs = list(itertools.pairwise(within))
        seconds = within[-1][0] - within[0][0]
        if within[-1][2]:  # A count that falls was restarted.
            return sum(max(0.0, after[1] - before[1]) for before, after in pairs) / seconds
        return sum(after[1] * (after[0] - before[0]) for before, after in pairs) / seconds


class Readings(Heard):
    """Reads one copy that has begun; ``init_pid`` is process 1 of its namespaces."""

    def __init__(self, job: ProfilingJob, copy: SandboxedRun, init_pid: int) -> None:
        super().__init__()
        spec = _spec(job, copy, init_pid)
        # Its output is outside; ports, files and programs are its own.
        said = spec.ready if spec.ready and spec.ready.line is not None else None
        probed = None if said else spec.ready
        outside = replace(spec, url="", command=(), ready=said, reach="")
        within = replace(spec, regex="", load_regex="", file="", run_dir="", ready=probed)
        self._watch = Watch(outside, hear=self._hear)
        reads_inside = within.url or within.command or within.ready
        self._inside = Inside(within, init_pid) if reads_inside else None

    @property
    def why_not_ready(self) -> str:
        """Empty once it is ready; what it says before is no performance."""
        inside = self._inside.why_not_ready if self._inside is not None else ""
        return self._watch.health.why_not_ready or inside

    def look(self) -> None:
        """Take in what there is."""
        self._watch.look_at_health()
        self._watch.read()
        if self._inside is not None:
            for number in self._inside.read():
                self._hear(*number)

    def _hear(self, source: str, quantity: Quantity, at: float, value: float, counts: bool) -> None:
        if not self.why_not_ready:
            self.add(source, quantity, at, value, counts)

    def why_silent(self, quantity: Quantity) -> str:
        """Why there is no number of a quantity."""
        if self._inside is not None and self._inside.trouble:
            return self._inside.trouble
        return self._watch.why_silent(quantity)

    def close(self) -> None:
        """Read no more."""
        self._watch.close()
        if self._inside is not None:
            self._inside.close()


def _spec(job: ProfilingJob, copy: SandboxedRun, init_pid: int) -> WatchSpec:
    workload = job.workload
    name = copy.run_dir.name
    has_load = workload.measure.load_command is not None
    load_runs = "its file" if has_load else ""
    where = WatchSpec(name, str(copy.run_dir), load_runs=load_runs)
    spec = with_commands(replace(spec_of(where, workload), alive=None), workload)
    file = Path(workload.run.working_directory, spec.file)
    return replace(
        spec,
        load_runs="",
        load_file=str(load_output(copy.run_dir)) if spec.load_regex else "",
        file=f"/proc/{init_pid}/root{file}" if spec.file else "",
    )
