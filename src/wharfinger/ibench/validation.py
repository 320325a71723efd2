"""Whether the sources do here what they say: each for itself, beside its like, and in pairs.

Called by ``wharfinger ibench validate``. Source: iBench, dissertation section 5.4: the pressure
rises linearly with the intensity (Figure 5.2) and sources of different resources hardly disturb
one another (Figure 5.4). The margins are wide, for machines that others use too.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from statistics import correlation, fmean, linear_regression, median

from wharfinger.errors import Unavailable
from wharfinger.ibench.driver import RunningSource, start
from wharfinger.ibench.sampling import (
    NEVER_SECONDS,
    KernelCounter,
    SourceSample,
    counter_of,
    sample,
    takes_cpu_time,
)
from wharfinger.ibench.sources import Source, SourceSetting, signal_here

INTENSITIES = tuple(float(intensity) for intensity in range(0, 101, 10))
EXCESS_POINTS = 10.0
"""More than this above what was asked for is too much. At 100 a source takes all that it can get;
more than this above says that the maximum was measured too low, and with it every intensity."""
SHORTFALL_POINTS = 25.0
"""More than this below is too little, where others did not have the CPU meanwhile."""
RESTING_CPU_SHARE = 0.02
"""Of a CPU, that a source may use at intensity 0, reports included."""
LEAST_R_SQUARED = 0.95
CROWDED_SHARE = 0.2
"""Of the CPUs' time, that others had."""
SMALL_POINTS = 3.0
"""A shortfall that needs no explanation."""
EXPLAINED = 0.8
"""Part of a shortfall that waiting for the CPU must make up to explain it."""
LEAST_SECONDS, SLOWER = 0.03, 1.5
"""Of a pair; and how much longer than that it takes to set it up, at most."""
LEAST_POINTS = 3
"""That a line is drawn through."""
RETRIES = 2
"""Of a point at which others had the CPU, and of a maximum that was too low."""
MILD = 0.9
"""Of its own rate alone: who keeps that is hardly disturbed."""

Progress = Callable[[str], None]
Square = Mapping[str, Mapping[str, float]]
"""What the source of a row keeps beside that of a column, of its own rate alone."""


@dataclass(frozen=True, slots=True)
class ValidationEffort:
    """How long is measured. ``seconds`` bound the whole; what does not fit is left out."""

    seconds: float
    point_seconds: float
    rounds: int
    pair_seconds: float
    passes: int
    across: bool
    held_bytes: int
    traced_events: int
    victim_rounds: int
    victim_seconds: float


WHOLE = ValidationEffort(290.0, 0.3, 5, 0.2, 2, True, 256 << 20, 400_000, 6, 0.4)
QUICK = ValidationEffort(57.0, 0.06, 3, 0.05, 1, False, 64 << 20, 100_000, 3, 0.15)


@dataclass(frozen=True, slots=True)
class Point:
    """What a source achieved at one intensity, and used and lacked of its CPUs' time.

    ``counted`` is the kernel's counter on the same scale; ``None`` = there is none.
    """

    intensity: float
    achieved: float
    counted: float | None
    rate_per_second: float
    footprint_bytes: int
    cpu_share: float
    waited_share: float

    @property
    def tells(self) -> bool:
        """Whether it says something of the source: others did not have what it lacks.

        >>> Point(80, 40, None, 1.0, 0, 0.4, 0.5).tells, Point(80, 40, None, 1.0, 0, 0.4, 0.1).tells
        (False, True)
        """
        lacks = self.intensity - self.achieved
        return lacks <= SMALL_POINTS or 100 * self.waited_share < EXPLAINED * lacks

    @property
    def problem(self) -> str:
        """Why this is not what the source says; empty if it is, or if nothing can be told."""
        where = f"intensity {self.intensity:g}: achieved {self.achieved:.1f}"
        if self.achieved > self.intensity + EXCESS_POINTS:
            if self.intensity == 100:
                return f"{where}, so the maximum was measured too low; try it again later"
            # In a crowd a short point may hold what it makes up for of the time before.
            return f"{where}, which is too much" if self.waited_share < CROWDED_SHARE else ""
        if self.tells and self.intensity - self.achieved > SHORTFALL_POINTS:
            return f"{where}, and more was to be had"
        if self.intensity == 0 and self.cpu_share > RESTING_CPU_SHARE:
            return f"{where}, and uses {self.cpu_share:.1%} of a CPU"
        return ""


@dataclass(frozen=True, slots=True)
class Line:
    """The line through points, achieved against asked: ``slope`` should be 1."""

    slope: float
    r_squared: float
    max_deviation_points: float


def line_through(points: Sequence[Point]) -> Line | None:
    """Of the points that tell something of the source; ``None``: too few do.

    >>> asked = [Point(x, 0.9 * x, None, 1.0, 0, 0.0, 0.0) for x in (0, 50, 80, 100)]
    >>> line_through(asked)
    Line(slope=0.9, r_squared=1.0, max_deviation_points=10.0)
    """
    told = [point for point in points if point.tells]
    if len(told) < LEAST_POINTS:
        return None
    asked, achieved = [point.intensity for point in told], [point.achieved for point in told]
    if len(set(achieved)) == 1:
        return Line(0.0, 0.0, max(map(_deviation, told)))
    slope = linear_regression(asked, achieved).slope
    return Line(slope, correlation(asked, achieved) ** 2, max(map(_deviation, told)))


def _deviation(point: Point) -> float:
    return abs(point.achieved - point.intensity)


@dataclass(frozen=True, slots=True)
class SourceValidation:
    """The result for one source, or the ``reason`` why it gives no signal here.

    Attributes:
        counter: The name of the kernel's counter.
        kept: By round, the rate of a like neighbor on the same CPU, of its rate alone. Empty for a
            source that holds what it takes: a like neighbor gets nothing, or had it before.
        kept_by_cpu_time: The same in one number, for each second of CPU time that it got.
        waited_share: Of a CPU, that others had while the neighbor was alone.
    """

    source: Source
    reason: str = ""
    maximum_per_second: float | None = None
    points: tuple[Point, ...] = ()
    counter: str = ""
    kept: tuple[float, ...] = ()
    kept_by_cpu_time: float | None = None
    waited_share: float = 0.0

    @property
    def line(self) -> Line | None:
        """Through its points."""
        return line_through(self.points)

    @property
    def untold(self) -> int:
        """Points at which others had the CPU that it wanted."""
        return sum(not point.tells for point in self.points)

    @property
    def problems(self) -> tuple[str, ...]:
        """Each way in which it does not do what it says."""
        found = [point.problem for point in self.points if point.problem]
        line = self.line
        if line is not None and line.r_squared < LEAST_R_SQUARED:
            found.append(f"achieved is not linear in the intensity: r² {line.r_squared:.3f}")
        return tuple(found)


@dataclass
class Bench:
    """The sources at work, at intensity 0 between measurements; ``beside``: on another CPU."""

    effort: ValidationEffort
    progress: Progress
    deadline: float = 0.0
    running: dict[str, RunningSource] = field(default_factory=dict)
    found: dict[str, SourceValidation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """From now on its time runs."""
        self.deadline = self.deadline or time.monotonic() + self.effort.seconds

    def has_time(self, share: float = 1.0) -> bool:
        """Whether less than that share of the time is over."""
        return self._left(share) > 0

    def _left(self, share: float) -> float:
        return self.deadline - time.monotonic() - self.effort.seconds * (1 - share)

    def validate(self, setting: SourceSetting, stack: ExitStack) -> SourceValidation:
        """Try one source, which stays at work until the stack's end.

        Raises ``InvalidInput`` for a wrong setting.
        """
        source = setting.source
        signal = signal_here(setting)
        if not signal.there:
            self.found[source.name] = SourceValidation(source, signal.reason)
            return self.found[source.name]
        try:
            self.found[source.name] = self._try(replace(setting, report_seconds=NEVER_SECONDS))
        except Unavailable as error:
            self.found[source.name] = SourceValidation(source, f"it ended: {error}")
        if source.name in self.running:
            stack.callback(self.running[source.name].stop)
        return self.found[source.name]

    # --- one source --------------------------------------------------------------------------

    def _try(self, setting: SourceSetting) -> SourceValidation:
        name = setting.source.name
        for attempt in range(1 + RETRIES):
            self.progress(f"{name}: starting")
            running = self._start(setting)
            counter = counter_of(running)
            points = [self._point(running, counter, x) for x in INTENSITIES]
            if not setting.source.measures_maximum or points[-1].achieved <= 100 + EXCESS_POINTS:
                break
            if attempt < RETRIES and self.has_time(0.3):
                # What it reached is the better maximum.
                setting = replace(setting, maximum_per_second=points[-1].rate_per_second)
                self.running.pop(name).stop()
        points = [self._again(running, counter, point) for point in points]
        kept: list[tuple[SourceSample, SourceSample]] = []
        if not setting.source.holds:
            self.progress(f"{name}: beside its like")
            with start(running.setting) as neighbor:
                kept = list(self._by_turns(running, neighbor))
        running.withdraw()
        by_cpu_time = takes_cpu_time(setting)
        return SourceValidation(
            setting.source,
            maximum_per_second=running.setting.maximum_per_second,
            points=tuple(_scaled(points, counter)),
            counter=counter.name,
            kept=tuple(ratios(kept, by_cpu_time=False)),
            kept_by_cpu_time=_middle(ratios(kept, by_cpu_time=by_cpu_time)),
            waited_share=fmean(alone.waited_share for alone, _ in kept) if kept else 0.0,
        )

    def _start(self, setting: SourceSetting) -> RunningSource:
        running = start(setting)
        self.running[setting.source.name] = running
        return running

    def _point(self, running: RunningSource, counter: KernelCounter, intensity: float) -> Point:
        self.progress(f"{running.setting.source.name}: intensity {intensity:g}")
        running.set_intensity(intensity)
        (got,) = sample([running], self.effort.point_seconds, [counter])
        return Point(
            intensity,
            got.achieved,
            got.counted,
            got.rate_per_second,
            got.footprint_bytes,
            got.cpu_share,
            got.waited_share,
        )

    def _again(self, running: RunningSource, counter: KernelCounter, point: Point) -> Point:
        """Where others had the CPU: the try at which they had the least of it."""
        for _ in range(RETRIES):
            if point.tells or not self.has_time(0.25):
                break
            other = self._point(running, counter, point.intensity)
            if other.tells or other.waited_share < point.waited_share:
                point = other
        return point

    def _by_turns(
        self, running: RunningSource, neighbor: RunningSource
    ) -> Iterator[tuple[SourceSample, SourceSample]]:
        """The neighbor alone and beside the source, so that drift falls on both."""
        neighbor.set_intensity(100)
        for _ in range(self.effort.rounds):
            running.withdraw()
            (alone,) = sample([neighbor], self.effort.pair_seconds)
            running.set_intensity(100)
            (beside,) = sample([neighbor], self.effort.pair_seconds)
            yield alone, beside

    # --- pairs -------------------------------------------------------------------------------

    def independence(self) -> Square:
        """What each keeps beside each on the same CPUs, as published: of its work per CPU time.

        The dissertation's measure is the instructions per cycle beside another, over those alone
        (5.4.3); what of a CPU's time the other has does not count. A source that does not take all
        of a CPU is told by its rate.
        """
        diagonal = {
            name: {name: each.kept_by_cpu_time}
            for name, each in self.found.items()
            if each.kept_by_cpu_time is not None
        }
        passes = [self._pass(self.running, self.running) for _ in self._passes(self.effort.passes)]
        return _merged([*passes, diagonal])

    def independence_across(self, cpus: Sequence[int]) -> Square:
        """The same with the other on these CPUs; sources of one CPU only, their own kind too."""
        with ExitStack() as stack:
            beside = {}
            for name, running in self.running.items():
                if running.setting.source.cpus > 1 or not self.has_time(0.8):
                    continue
                self.progress(f"{name}: starting on CPU {cpus[0]}")
                setting = replace(running.setting, cpus=tuple(cpus[:1]))
                with suppress(Unavailable):
                    beside[name] = stack.enter_context(start(setting))
            here = {name: self.running[name] for name in beside}
            return _merged([self._pass(here, beside) for _ in self._passes(1)])

    def _passes(self, count: int) -> Iterator[int]:
        for number in range(count):
            if number == 0 or self.has_time(0.7):
                yield number

    def _pass(
        self, ones: Mapping[str, RunningSource], others: Mapping[str, RunningSource]
    ) -> dict[str, dict[str, float]]:
        """All pairs once; of sources on one CPU each pair once, and none with itself.

        Alone each is measured before and after, so that a drift falls on both.
        """
        # As long as there is time for, so that none is left out.
        pairs = max(1.0, len(ones) * (len(ones) + 6) / 2)
        seconds = self._left(0.85) / pairs / SLOWER
        seconds = min(self.effort.pair_seconds, max(LEAST_SECONDS, seconds))
        each_once = {id(each): each for each in (*ones.values(), *others.values())}
        alone = {key: [self._alone(each, seconds)] for key, each in each_once.items()}
        both: list[tuple[str, str, list[float]]] = []
        names = list(ones)
        for at, one in enumerate(names):
            if not self.has_time(0.9):
                break
            self.progress(f"{one}: beside each other")
            alone[id(ones[one])].append(self._alone(ones[one], seconds, withdraw=False))
            for other in names[at if ones is not others else at + 1 :]:
                others[other].set_intensity(100)
                both.append((one, other, self._performances([ones[one], others[other]], seconds)))
                others[other].withdraw()
            ones[one].withdraw()
        for key, each in each_once.items():
            alone[key].append(self._alone(each, seconds))
        kept: dict[str, dict[str, float]] = {name: {} for name in ones}
        for one, other, (first, second) in both:
            kept[one][other] = first / fmean(alone[id(ones[one])])
            if one != other:
                kept[other][one] = second / fmean(alone[id(others[other])])
        return kept

    def _performances(self, running: Sequence[RunningSource], seconds: float) -> list[float]:
        samples = sample(running, seconds)
        return [
            each.performance(by_cpu_time=takes_cpu_time(source.setting))
            for each, source in zip(samples, running, strict=True)
        ]

    def _alone(self, running: RunningSource, seconds: float, *, withdraw: bool = True) -> float:
        running.set_intensity(100)
        (performance,) = self._performances([running], seconds)
        if withdraw:
            running.withdraw()
        return performance or 1.0


def _scaled(points: Sequence[Point], counter: KernelCounter) -> list[Point]:
    """With the kernel's count on the intensity's scale; by the last point where it has none."""
    full = counter.full or points[-1].counted
    return [
        replace(point, counted=100 * point.counted / full if point.counted is not None else None)
        if full
        else replace(point, counted=None)
        for point in points
    ]


def ratios(turns: Sequence[tuple[SourceSample, SourceSample]], *, by_cpu_time: bool) -> list[float]:
    """Performance beside over performance alone, by turn."""
    both = (
        (alone.performance(by_cpu_time=by_cpu_time), beside.performance(by_cpu_time=by_cpu_time))
        for alone, beside in turns
    )
    return [beside / alone for alone, beside in both if alone > 0]


def _middle(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _merged(squares: Sequence[Square]) -> Square:
    """The mean of each pair over the passes that it was measured in."""
    names = list(dict.fromkeys(name for square in squares for name in square))
    merged: dict[str, dict[str, float]] = {}
    for one in names:
        rows = [square[one] for square in squares if one in square]
        columns = [other for other in names if any(other in row for row in rows)]
        merged[one] = {
            other: fmean(row[other] for row in rows if other in row) for other in columns
        }
    return merged


def mild_share(square: Square) -> float | None:
    """Of the ordered pairs of different sources, the share in which the first keeps ``MILD``.

    >>> mild_share({"a": {"b": 0.95, "a": 0.5}, "b": {"a": 0.8}, "c": {}})
    0.5
    """
    values = [value for one, row in square.items() for other, value in row.items() if one != other]
    return sum(value >= MILD for value in values) / len(values) if values else None
