"""From readings of all rounds to a sensitivity curve, a score and a verdict. Pure.

Source: dissertation 5.3 (the score is where performance has dropped by the tolerance). Rounds of
all sources alternate, so that what differs between rounds is the machine's drift: it is part of
each error.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

import numpy as np

from wharfinger.ibench.ramp import CurvePoint
from wharfinger.profiling.crossing import CrossedLevel, CurveScore, crossing, falling

CONFIDENCE = 0.95
"""Of intervals."""
CONFIDENCE_Z = 1.96
"""The same of a normal distribution, two-sided."""
SURE = 0.95
"""Probability that performance is below, or above, what is tolerated."""
SURE_POINTS = 3.0
"""Standard error of a score with which a source is done."""
MIN_ROUNDS = 2
_MIN_ERROR = 0.001

Reading = tuple[float, float]
"""An intensity, 0 = alone, and a performance; more is better."""


class Verdict(StrEnum):
    """What a source's rounds say."""

    SLOWED = "slowed"
    KEPT = "kept"
    NO_SIGNAL = "no signal"


@dataclass(frozen=True, slots=True)
class MeasuredCurve:
    """Performance by intensity, over performance alone.

    Attributes:
        points: Each with its own standard error; ``reference_error`` is that of performance alone,
            which all have in common.
        noise: Standard deviation of one reading.
    """

    points: tuple[CurvePoint, ...]
    reference_error: float
    noise: float

    @property
    def fitted(self) -> tuple[float, ...]:
        """The same, never rising with the intensity."""
        values = np.array([[point.relative_performance for point in self.points]])
        errors = [max(point.standard_error, _MIN_ERROR) for point in self.points]
        return tuple(falling(values, np.array(errors) ** -2.0)[0].tolist())

    def total_error(self, point: CurvePoint) -> float:
        """Of a point's ratio to performance alone."""
        return math.hypot(point.standard_error, self.reference_error * point.relative_performance)

    def comes_down_to(self, level: CrossedLevel) -> CurveScore:
        """At which intensity."""
        return crossing(
            [point.intensity for point in self.points],
            [point.relative_performance for point in self.points],
            [point.standard_error for point in self.points],
            self.reference_error,
            level,
        )


def curve_of(rounds: Sequence[Sequence[Reading]]) -> MeasuredCurve:
    """The curve of all rounds; each has readings alone, which its others are compared with.

    What one reading varies by is taken from all intensities together; what rounds differ by beyond
    that is the machine's, and counts once a round.

    >>> curve = curve_of([[(0, 9.0), (0, 11.0), (50, 4.0), (50, 6.0)]])
    >>> [(point.intensity, point.relative_performance) for point in curve.points]
    [(50, 0.5)]
    """
    ratios = [_over_alone(readings) for readings in rounds]
    ratios = [told for told in ratios if told]
    groups = [values for told in ratios for values in told.values()]
    freedom = sum(len(values) - 1 for values in groups)
    squares = math.fsum((v - fmean(values)) ** 2 for values in groups for v in values)
    noise = math.sqrt(squares / freedom) if freedom > 0 else 0.0
    by_intensity: defaultdict[float, list[list[float]]] = defaultdict(list)
    for told in ratios:
        for intensity, values in told.items():
            by_intensity[intensity].append(values)
    alone = by_intensity.pop(0.0, [])
    drift = _between(list(by_intensity.values()), noise, [len(values) for values in alone])
    points = []
    for intensity, visits in sorted(by_intensity.items()):
        samples = sum(map(len, visits))
        ratio = fmean(value for values in visits for value in values)
        error = math.sqrt(noise**2 / samples + drift / len(visits))
        points.append(CurvePoint(intensity, ratio, error, samples))
    reference = math.sqrt(fmean(1 / len(v) for v in alone) / len(alone)) if alone else 0.0
    return MeasuredCurve(tuple(points), noise * reference, noise)


def _over_alone(readings: Sequence[Reading]) -> dict[float, list[float]]:
    alone = [value for intensity, value in readings if intensity == 0]
    reference = fmean(alone) if alone else 0.0
    if reference <= 0:
        return {}
    told: dict[float, list[float]] = {}
    for intensity, value in readings:
        told.setdefault(intensity, []).append(value / reference)
    return told


def _between(visits: Sequence[Sequence[Sequence[float]]], noise: float, alone: list[int]) -> float:
    """Variance of what rounds differ by beyond their readings' noise."""
    excess, freedom = 0.0, 0
    reference = fmean(1 / count for count in alone) if alone else 0.0
    for values in visits:
        means = [fmean(each) for each in values]
        center = fmean(means)
        excess += math.fsum((mean - center) ** 2 for mean in means)
        own = fmean(1 / len(each) for each in values) + center**2 * reference
        excess -= (len(means) - 1) * noise**2 * own
        freedom += len(means) - 1
    return max(0.0, excess / freedom) if freedom > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What is known of one source after all rounds; ``tolerated`` is ``None`` without a signal."""

    verdict: Verdict
    reason: str
    tolerated: CurveScore | None
    curve: MeasuredCurve
    rounds: int

    @property
    def is_sure(self) -> bool:
        """Whether nothing is to be gained by a further round."""
        score = self.tolerated
        return self.rounds >= MIN_ROUNDS and score is not None and score.error <= SURE_POINTS


def sensitivity(rounds: Sequence[Sequence[Reading]], tolerance: float) -> Sensitivity:
    """The verdict of at least one round."""
    curve = curve_of(rounds)
    counted = sum(any(intensity > 0 for intensity, _ in readings) for readings in rounds)
    if not curve.points:
        reason = "time was over before a reading beside it; try --time-limit"
        return Sensitivity(Verdict.NO_SIGNAL, reason, None, curve, counted)
    score = curve.comes_down_to(CrossedLevel(1 - tolerance, is_share=True))
    highest = curve.points[-1]
    if not score.at_least and score.reached >= SURE:
        return Sensitivity(Verdict.SLOWED, "", score, curve, counted)
    if score.at_least and highest.intensity >= 100 and 1 - score.reached >= SURE:
        return Sensitivity(Verdict.KEPT, "", CurveScore(100.0, at_least=True), curve, counted)
    half = CONFIDENCE_Z * curve.total_error(highest)
    kept = f"{highest.relative_performance:.1%} ± {half:.1%}"
    where = f"at intensity {highest.intensity:g} it keeps {kept} of its performance"
    reason = (
        f"its own noise hides the effect: {where}; try a longer --time-limit, or a quieter machine"
    )
    if score.at_least and highest.intensity < 100:
        reason = f"time was over: {where}; try a longer --time-limit"
    return Sensitivity(Verdict.NO_SIGNAL, reason, None, curve, counted)


def next_levels(found: Sensitivity) -> tuple[float, ...]:
    """Where to look again: around the score; empty = everywhere."""
    if found.tolerated is None or found.tolerated.at_least:
        return ()
    wide = max(4.0, min(15.0, 2 * found.tolerated.error))
    at = (found.tolerated.value + step * wide for step in (-2.0, -0.75, 0.75, 2.0, 4.0))
    return tuple(sorted({float(min(100, max(1, round(each)))) for each in at}))
