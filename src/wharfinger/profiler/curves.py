"""From repeated ramps to a sensitivity curve, a score and a verdict, each with its uncertainty.

Pure. Source: dissertation 5.3 (the score is where performance has dropped by the tolerance). Rounds
of all sources alternate, so that what differs between rounds is the machine's drift: it is part of
each error.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev

from wharfinger.ibench.ramp import CurvePoint, Tolerance
from wharfinger.model.profile import Entry
from wharfinger.profiling.scores import tolerated

CONFIDENCE_Z = 1.96
"""Of two-sided intervals of 95 %."""
SURE_Z = 1.645
"""One-sided, 95 %: that performance is below, or above, what is tolerated."""
SURE_POINTS = 3.0
"""Standard error of a score, without the step of the ramp, with which a source is done."""
MIN_ROUNDS = 2
_MIN_ERROR = 0.001


class Verdict(StrEnum):
    """What a source's rounds say."""

    SLOWED = "slowed"
    KEPT = "kept"
    NO_SIGNAL = "no signal"


@dataclass(frozen=True, slots=True)
class Found:
    """One round of one source: score, the step that it lies in, its noise, and its points."""

    score: float
    step: float
    noise: float
    censored: bool
    points: tuple[CurvePoint, ...]

    @classmethod
    def of_ramp(cls, ramp: Tolerance) -> "Found":
        """A ramp's result."""
        if ramp.censored:
            return cls(ramp.low, 0.0, 0.0, True, ramp.curve)
        step = ramp.high - ramp.low
        noise = math.sqrt(max(0.0, tolerated(ramp).error ** 2 - step**2 / 12))
        return cls(ramp.score, step, noise, False, ramp.curve)

    @classmethod
    def of_looks(cls, entry: Entry, points: Sequence[CurvePoint]) -> "Found":
        """One look at each intensity; ``Entry`` has the step that the score lies in."""
        return cls(entry.value, entry.error * math.sqrt(12), 0.0, entry.censored, tuple(points))


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What is known of one source after all rounds.

    Attributes:
        tolerated: Score with its standard error in points; ``None`` = no signal.
        noise: Part of that error that more rounds make smaller.
        points: The curve, pooled over rounds.
        fitted: The same, never rising with the intensity.
    """

    verdict: Verdict
    reason: str
    tolerated: Entry | None
    noise: float
    points: tuple[CurvePoint, ...]
    fitted: tuple[float, ...]
    rounds: int

    @property
    def is_sure(self) -> bool:
        """Whether nothing is to be gained by a further round."""
        enough = self.rounds >= MIN_ROUNDS and self.noise <= SURE_POINTS
        return enough and self.verdict is not Verdict.NO_SIGNAL


def sensitivity(rounds: Sequence[Found], tolerance: float) -> Sensitivity:
    """The verdict of at least one round."""
    points = pooled([found.points for found in rounds])
    entry, noise = combined(rounds)
    verdict, reason = _verdict(points, tolerance, broke=not entry.censored)
    told = None if verdict is Verdict.NO_SIGNAL else entry
    if verdict is Verdict.KEPT:
        told = Entry(100.0, 0.0, censored=True)
    return Sensitivity(verdict, reason, told, noise, points, monotone(points), len(rounds))


def combined(rounds: Sequence[Found]) -> tuple[Entry, float]:
    """The score of all rounds, and the part of its error that is noise.

    The step of the ramp is the same in each round, so that repeating makes only the noise smaller.

    >>> same = Found(25.0, 10.0, 2.0, False, ())
    >>> entry, noise = combined([same] * 4)
    >>> entry.value, round(entry.error, 3), noise
    (25.0, 3.055, 1.0)
    """
    scores, count = [found.score for found in rounds], len(rounds)
    if all(found.censored for found in rounds):
        return Entry(max(scores), 0.0, censored=True), 0.0
    within = math.sqrt(fmean(found.noise**2 for found in rounds))
    between = stdev(scores) if count > 1 else 0.0
    noise = max(within, between) / math.sqrt(count)
    step = fmean(found.step for found in rounds if not found.censored) / math.sqrt(12)
    return Entry(fmean(scores), math.hypot(step, noise)), noise


def pooled(rounds: Sequence[Sequence[CurvePoint]]) -> tuple[CurvePoint, ...]:
    """One point for each intensity, weighted by samples; its error holds what rounds differ by."""
    by_intensity: defaultdict[float, list[CurvePoint]] = defaultdict(list)
    for points in rounds:
        for point in points:
            by_intensity[point.intensity].append(point)
    return tuple(_pooled_point(at, by_intensity[at]) for at in sorted(by_intensity))


def _pooled_point(intensity: float, points: Sequence[CurvePoint]) -> CurvePoint:
    samples = sum(point.samples for point in points)
    ratios = [point.relative_performance for point in points]
    ratio = fmean(ratios, weights=[point.samples for point in points])
    within = math.hypot(*(point.samples * point.standard_error for point in points)) / samples
    between = stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else 0.0
    return CurvePoint(intensity, ratio, max(within, between), samples)


def monotone(points: Sequence[CurvePoint]) -> tuple[float, ...]:
    """The closest curve that never rises (pool adjacent violators), weighted by precision.

    >>> fitted = monotone([CurvePoint(10, 0.98, 0.01, 3), CurvePoint(20, 1.0, 0.01, 3)])
    >>> [round(value, 6) for value in fitted]
    [0.99, 0.99]
    """
    blocks: list[tuple[float, float, int]] = []
    for point in points:
        weight = 1 / max(point.standard_error, _MIN_ERROR) ** 2
        block = (point.relative_performance, weight, 1)
        while blocks and blocks[-1][0] < block[0]:
            ratio, other, count = blocks.pop()
            total = weight_sum = other + block[1]
            block = ((ratio * other + block[0] * block[1]) / weight_sum, total, count + block[2])
        blocks.append(block)
    return tuple(ratio for ratio, _, count in blocks for _ in range(count))


def interval(value: float, error: float, low: float, high: float) -> tuple[float, float]:
    """Of 95 %, within the values that are possible.

    >>> interval(98.0, 2.0, 0.0, 100.0)
    (94.08, 100.0)
    """
    half = CONFIDENCE_Z * error
    return max(low, value - half), min(high, value + half)


def _verdict(points: Sequence[CurvePoint], tolerance: float, *, broke: bool) -> tuple[Verdict, str]:
    if not points:
        return Verdict.NO_SIGNAL, "time was over before a reading beside it; try --time-limit"
    highest = points[-1]
    error = max(highest.standard_error, _MIN_ERROR)
    distance = (1 - tolerance - highest.relative_performance) / error
    if broke and distance >= SURE_Z:
        return Verdict.SLOWED, ""
    if not broke and highest.intensity >= 100 and -distance >= SURE_Z:
        return Verdict.KEPT, ""
    kept = f"{highest.relative_performance:.1%} ± {CONFIDENCE_Z * error:.1%}"
    where = f"at intensity {highest.intensity:g} it keeps {kept} of its performance"
    if not broke and highest.intensity < 100:
        return Verdict.NO_SIGNAL, f"time was over: {where}; try a longer --time-limit"
    mend = "try a longer --time-limit, or a quieter machine"
    return Verdict.NO_SIGNAL, f"its own noise hides the effect: {where}; {mend}"
