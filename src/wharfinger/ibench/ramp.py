"""Raises a source's intensity until performance has dropped by the tolerance: what next. Pure.

Source: Paragon (TOCS) section 2.3, iBench (dissertation chapter 5): the sensitivity score is the
intensity at which a program falls below 95 % of its performance alone. Added here: a step is judged
with a stated confidence, since performance is noisy, and the one that breaks the tolerance is tried
again after a rest at intensity 0, so that a drift is not taken for interference.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from statistics import fmean

from wharfinger.errors import InvalidInput

LEVELS = tuple(float(level) for level in range(10, 101, 10))


@dataclass(frozen=True, slots=True)
class RampPlan:
    """How a ramp goes.

    Attributes:
        tolerance: How far performance may drop, as a share of performance alone.
        levels: Intensities, ascending.
        samples_per_visit: Of each step, before it is judged.
        max_samples_per_visit: After these a step is judged by what is more likely.
        discard_samples: At the beginning of each step, while the effect is not there yet.
        confidence: Above one half; a step that is less certain gets more samples.
        confirmations: How often the step that breaks the tolerance must do so again.
    """

    tolerance: float = 0.05
    levels: tuple[float, ...] = LEVELS
    samples_per_visit: int = 3
    max_samples_per_visit: int = 9
    discard_samples: int = 0
    confidence: float = 0.9
    confirmations: int = 1

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip((0.0, *self.levels), self.levels, strict=False))
        ascending = rising and bool(self.levels) and self.levels[-1] <= 100
        visits = 3 <= self.samples_per_visit <= self.max_samples_per_visit
        counts = self.discard_samples >= 0 and self.confirmations >= 0
        problems = {
            f"tolerance: {self.tolerance}; give a share between 0 and 1": 0 < self.tolerance < 1,
            f"levels: {self.levels}; give ascending intensities above 0, up to 100": ascending,
            f"samples_per_visit: {self.samples_per_visit}; give 3 to max_samples_per_visit": visits,
            "discard_samples, confirmations: give 0 or more": counts,
            f"confidence: {self.confidence}; give a probability between 0.5 and 1": (
                0.5 < self.confidence < 1
            ),
        }
        for problem, right in problems.items():
            if not right:
                raise InvalidInput(problem)


@dataclass(frozen=True, slots=True)
class RampSample:
    """Performance (more is better) beside a source at an intensity."""

    intensity: float
    performance: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.performance) and self.performance >= 0):
            raise InvalidInput(f"performance: {self.performance}; give a finite number, 0 or more")


@dataclass(frozen=True, slots=True)
class TakeSample:
    """Take one more sample at this intensity."""

    intensity: float


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The sensitivity curve at one intensity, relative to performance alone before each visit."""

    intensity: float
    relative_performance: float
    standard_error: float
    samples: int


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A ramp's result.

    Attributes:
        score: Tolerated interference, 0-100: where the curve crosses the tolerance, linear
            between ``low`` and ``high``.
        low: The highest intensity below the crossing at which the tolerance was kept.
        high: The intensity that broke it; 100 where none did.
        censored: It was never broken as far as was tried: ``score`` is a lower bound.
        confidence: Lowest probability of a visit that it was judged rightly.
        curve: Ascending.
    """

    score: float
    low: float
    high: float
    censored: bool
    confidence: float
    curve: tuple[CurvePoint, ...]


def next_step(plan: RampPlan, samples: Sequence[RampSample]) -> TakeSample | Tolerance:
    """What to do after these samples, which earlier answers asked for.

    Raises:
        InvalidInput: Performance alone is 0, so that no drop could be seen.

    >>> plan, samples = RampPlan(), []
    >>> while isinstance(step := next_step(plan, samples), TakeSample):
    ...     samples.append(RampSample(step.intensity, 100 - step.intensity / 5))
    >>> step.score, step.low, step.high, step.censored
    (25.0, 20.0, 30.0, False)
    """
    visits = _visits(plan, samples)
    if not visits:
        return TakeSample(0.0)
    last = visits[-1]
    if len(last.kept) < plan.samples_per_visit or last.verdict is _Verdict.OPEN:
        return TakeSample(last.intensity)
    if last.verdict is _Verdict.ALONE:  # Next the level whose break is to be confirmed, if any.
        return TakeSample(visits[-2].intensity if len(visits) > 1 else plan.levels[0])
    if last.verdict is _Verdict.BROKEN:
        broken = sum(visit.breaks(last.intensity) for visit in visits)
        return _broken(plan, visits) if broken > plan.confirmations else TakeSample(0.0)
    above = [level for level in plan.levels if level > last.intensity]
    return TakeSample(above[0]) if above else _unbroken(visits)


def conclude(plan: RampPlan, samples: Sequence[RampSample]) -> Tolerance:
    """What is known when the ramp has to stop at once: a lower bound, unless it was done."""
    step = next_step(plan, samples)
    return step if isinstance(step, Tolerance) else _unbroken(_visits(plan, samples))


class _Verdict(Enum):
    ALONE = "alone"
    OPEN = "open"
    KEPT = "kept"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class _Visit:
    """Consecutive samples at one intensity, judged by the visit to intensity 0 before them."""

    intensity: float
    kept: tuple[float, ...]
    verdict: _Verdict
    broken_probability: float = 0.0
    ratio: float = 1.0
    standard_error: float = 0.0

    def breaks(self, intensity: float) -> bool:
        return self.verdict is _Verdict.BROKEN and self.intensity == intensity


def _visits(plan: RampPlan, samples: Sequence[RampSample]) -> list[_Visit]:
    runs = [
        (intensity, tuple(sample.performance for sample in run)[plan.discard_samples :])
        for intensity, run in groupby(samples, key=lambda sample: sample.intensity)
    ]
    alone: tuple[float, ...] = ()
    visits = []
    squares, freedom = 0.0, 0
    for intensity, kept in runs:
        # By what was known then: a visit that was judged stays as it was judged.
        squares += _squares(kept)
        freedom += max(len(kept) - 1, 0)
        if intensity == 0:
            alone = kept
            visits.append(_Visit(0.0, kept, _Verdict.ALONE))
        else:
            visits.append(_judged(plan, intensity, kept, alone, _noise(squares, freedom)))
    return visits


def _squares(kept: tuple[float, ...]) -> float:
    """Sum of the squared deviations from the mean of a visit."""
    if len(kept) < 2:
        return 0.0
    mean = fmean(kept)
    return math.fsum((value - mean) ** 2 for value in kept)


def _noise(squares: float, freedom: int) -> float:
    """Variance within visits, pooled; scaled by Student's distribution over the normal one."""
    return squares / (freedom - 2) if freedom > 2 else 0.0


def _judged(
    plan: RampPlan,
    intensity: float,
    kept: tuple[float, ...],
    alone: tuple[float, ...],
    noise: float,
) -> _Visit:
    if len(kept) < plan.samples_per_visit:
        return _Visit(intensity, kept, _Verdict.OPEN)
    mean, reference = fmean(kept), fmean(alone) if alone else 0.0
    if reference <= 0:
        raise InvalidInput("performance alone is 0: no drop can be seen; measure another figure")
    floor = 1 - plan.tolerance
    error = math.sqrt(noise * (1 / len(kept) + floor**2 / len(alone)))
    probability = _probability_below(mean - floor * reference, error)
    verdict = _verdict(plan, probability, len(kept))
    ratio_error = math.sqrt(noise * (1 / len(kept) + (mean / reference) ** 2 / len(alone)))
    return _Visit(intensity, kept, verdict, probability, mean / reference, ratio_error / reference)


def _probability_below(difference: float, error: float) -> float:
    """That the true difference is negative, when it was measured with a normal error."""
    if error == 0:
        return float(difference < 0)
    return 0.5 * math.erfc(difference / error / math.sqrt(2))


def _verdict(plan: RampPlan, broken_probability: float, samples: int) -> _Verdict:
    certain = max(broken_probability, 1 - broken_probability) >= plan.confidence
    if not certain and samples < plan.max_samples_per_visit:
        return _Verdict.OPEN
    return _Verdict.BROKEN if broken_probability > 0.5 else _Verdict.KEPT


def _kept(visits: list[_Visit]) -> tuple[list[_Visit], float]:
    """The visits that kept the tolerance, and the highest intensity among them."""
    kept = [visit for visit in visits if visit.verdict is _Verdict.KEPT]
    return kept, max((visit.intensity for visit in kept), default=0.0)


def _unbroken(visits: list[_Visit]) -> Tolerance:
    kept, low = _kept(visits)
    certain = min((1 - visit.broken_probability for visit in kept), default=0.0)
    # 100 where all was tried, as the papers have it; else what was kept at least.
    return Tolerance(low, low, 100.0, True, certain, _curve(visits))


def _broken(plan: RampPlan, visits: list[_Visit]) -> Tolerance:
    high = visits[-1].intensity
    breaks = [visit for visit in visits if visit.breaks(high)]
    kept, low = _kept(visits)
    at_low = [visit.ratio for visit in kept if visit.intensity == low]
    ratio_low = fmean(at_low) if at_low else 1.0
    drop = ratio_low - fmean(visit.ratio for visit in breaks)
    share = (ratio_low - (1 - plan.tolerance)) / drop if drop > 0 else 0.0
    score = low + (high - low) * min(max(share, 0.0), 1.0)
    certain = min(visit.broken_probability for visit in breaks)
    return Tolerance(score, low, high, False, certain, _curve(visits))


def _curve(visits: list[_Visit]) -> tuple[CurvePoint, ...]:
    judged = [visit for visit in visits if visit.verdict in (_Verdict.KEPT, _Verdict.BROKEN)]
    judged.sort(key=lambda visit: visit.intensity)
    groups = groupby(judged, key=lambda visit: visit.intensity)
    return tuple(_point(intensity, list(group)) for intensity, group in groups)


def _point(intensity: float, visits: list[_Visit]) -> CurvePoint:
    samples = sum(len(visit.kept) for visit in visits)
    ratio = math.fsum(len(visit.kept) * visit.ratio for visit in visits) / samples
    error = math.hypot(*(len(visit.kept) * visit.standard_error for visit in visits)) / samples
    return CurvePoint(intensity, ratio, error, samples)
