"""Whether a source does here what it says: reach its intensity, slow a neighbor, withdraw.

Called by ``wharfinger ibench validate``. Source: iBench, dissertation section 5.4: the pressure
rises linearly with the intensity and shows on co-runners that share the resource. The margins are
wide, for machines that others use too.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression

from wharfinger.catalog.quiet import CpuTimes
from wharfinger.ibench.driver import Report, RunningSource, measure_maximum, start
from wharfinger.ibench.sources import Source, SourceSetting, signal_here

INTENSITIES = (0.0, 20.0, 40.0, 60.0, 80.0, 100.0)
EXCESS_POINTS = 10.0
"""More than this above what was asked for is too much. At 100 a source takes all that it can get;
more than this above says that the maximum was measured too low, and with it every intensity."""
SHORTFALL_POINTS = 25.0
"""More than this below is too little, where the resource had that much left."""
RESTING_CPU_SHARE = 0.02
"""Of a CPU, that a source may use at intensity 0, reports included."""
SLOWED_SHARE = 0.85
"""Of its performance alone that a neighbor may keep at most beside a source at 100."""
EFFECT_ROUNDS = 3

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Point:
    """What a source achieved at one intensity, and used of one CPU.

    ``left`` was idle of the resource meanwhile, on the same scale, if known.
    """

    intensity: float
    achieved: float
    left: float | None
    rate_per_second: float
    cpu_share: float


@dataclass(frozen=True, slots=True)
class Effect:
    """Rates of a like neighbor alone and with the source at 100, and its slowest withdrawal."""

    alone_per_second: float
    beside_per_second: float
    withdrawal_seconds: float

    @property
    def kept_share(self) -> float:
        """Normalized performance of the neighbor."""
        return self.beside_per_second / self.alone_per_second if self.alone_per_second else 0.0


@dataclass(frozen=True, slots=True)
class Validation:
    """The result for one source, or the ``reason`` why it gives no signal here.

    ``maximum_per_second`` is what intensity 100 stands for. The ``slope`` of the line through
    ``points``, achieved against asked, should be 1. ``problems`` has a line for each. A source that
    holds what it takes has no ``effect``: a like neighbor gets nothing, or had it before.
    """

    source: Source
    reason: str = ""
    maximum_per_second: float | None = None
    points: tuple[Point, ...] = ()
    slope: float | None = None
    effect: Effect | None = None
    problems: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """It does what it says; a source without a signal promises nothing."""
        return not self.problems


def validate(setting: SourceSetting, seconds_per_point: float, progress: Progress) -> Validation:
    """Try one source; name one CPU, so that source and neighbor are certain to meet on it.

    ``seconds_per_point`` hold for each intensity, and for each measurement of the neighbor. Raises
    ``InvalidInput`` for a wrong setting, ``Unavailable`` if the source can't be started, or ends.
    """
    signal = signal_here(setting)
    if not signal.there:
        return Validation(setting.source, reason=signal.reason)
    name = setting.source.name
    if setting.source.measures_maximum:
        progress(f"{name}: measuring the maximum")
    setting = measure_maximum(setting)
    with start(setting) as source:
        points = []
        for intensity in INTENSITIES:
            progress(f"{name}: intensity {intensity:g}")
            points.append(_point(source, intensity, seconds_per_point))
        effect = None
        if not setting.source.holds:
            progress(f"{name}: effect on a neighbor")
            effect = _effect(source, seconds_per_point)
    problems = [problem for point in points if (problem := _problem_of(point))]
    if effect is not None and (kept := effect.kept_share) > SLOWED_SHARE:
        problems.append(f"a neighbor keeps {kept:.0%} of its performance beside intensity 100")
    return Validation(
        source=setting.source,
        maximum_per_second=setting.maximum_per_second,
        points=tuple(points),
        slope=linear_regression([p.intensity for p in points], [p.achieved for p in points]).slope,
        effect=effect,
        problems=tuple(problems),
    )


def _point(source: RunningSource, intensity: float, seconds: float) -> Point:
    source.set_intensity(intensity)
    before = source.read()[-1] if source.reports else None
    idle_before = _idle_ticks(source.setting)
    reports = _reports(source, seconds)
    elapsed = sum(report.period_seconds for report in reports)
    idle = _idle_ticks(source.setting)
    cpu_before = before.cpu_seconds if before else 0.0
    return Point(
        intensity=intensity,
        achieved=_mean(reports, lambda report: report.achieved),
        left=None if idle is None or idle_before is None else (idle - idle_before) / elapsed,
        rate_per_second=_mean(reports, lambda report: report.rate_per_second),
        cpu_share=(reports[-1].cpu_seconds - cpu_before) / elapsed,
    )


def _reports(source: RunningSource, seconds: float) -> list[Report]:
    reports = [source.next_report()]
    while sum(report.period_seconds for report in reports) < seconds:
        reports.append(source.next_report())
    return reports


def _mean(reports: Sequence[Report], of: Callable[[Report], float]) -> float:
    return fmean((of(r) for r in reports), weights=[r.period_seconds for r in reports])


def _idle_ticks(setting: SourceSetting) -> float | None:
    """Hundredths of a second that the CPU was idle, so in points of intensity per second."""
    if setting.source.uses_directory or len(setting.cpus) != 1:
        return None
    return CpuTimes.read(cpus=setting.cpus).idle


def _effect(source: RunningSource, seconds: float) -> Effect:
    """Alone and beside by turns, so that a drift of the machine falls on both."""
    alone, beside, withdrawals = [], [], []
    source.withdraw()
    with start(source.setting) as neighbor:
        for _ in range(EFFECT_ROUNDS):
            alone += _rates(neighbor, seconds)
            source.set_intensity(100)
            beside += _rates(neighbor, seconds)
            asked = time.monotonic()
            withdrawals.append(max(0.0, source.withdraw() - asked))
    return Effect(fmean(alone), fmean(beside), max(withdrawals))


def _rates(neighbor: RunningSource, seconds: float) -> list[float]:
    neighbor.set_intensity(100)
    return [report.rate_per_second for report in _reports(neighbor, seconds)]


def _problem_of(point: Point) -> str:
    where = f"intensity {point.intensity:g}: achieved {point.achieved:.1f}"
    if point.achieved > point.intensity + EXCESS_POINTS:
        if point.intensity == 100:
            return f"{where}, so the maximum was measured too low; try it again on a quiet machine"
        return f"{where}, which is too much"
    # What others used was not to be had: a source wants its share, it has no right to it.
    left = 100.0 if point.left is None else point.left
    if min(point.intensity - point.achieved, left) > SHORTFALL_POINTS:
        return f"{where}, and more was to be had"
    if point.intensity == 0 and point.cpu_share > RESTING_CPU_SHARE:
        return f"{where}, and uses {point.cpu_share:.1%} of a CPU"
    return ""
