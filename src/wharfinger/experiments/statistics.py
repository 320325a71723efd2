"""Means over seeds with their confidence intervals, by Student's t.

SciPy would take longer to import than a small comparison takes, and for whole degrees of freedom
the distribution is a short sum.
"""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

CONFIDENCE = 0.95
"""Of all intervals."""


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean and its 95% confidence interval; ``None`` where there was only one value."""

    mean: float
    low: float | None
    high: float | None

    @property
    def excludes_zero(self) -> bool | None:
        """Whether 0 lies outside; ``None`` = unknown.

        >>> MeanInterval(0.2, 0.1, 0.3).excludes_zero, MeanInterval(1.0, None, None).excludes_zero
        (True, None)
        """
        if self.low is None or self.high is None:
            return None
        return self.low > 0 or self.high < 0


def interval(values: Iterable[float | None]) -> MeanInterval | None:
    """Mean and t-interval of the finite values, n - 1 degrees of freedom; ``None`` without any.

    The order of the values does not matter, to the last bit.

    >>> interval([1.0, 2.0, 3.0])
    MeanInterval(mean=2.0, low=-0.484..., high=4.484...)
    >>> interval([4.0, None])
    MeanInterval(mean=4.0, low=None, high=None)
    """
    finite = [float(value) for value in values if value is not None and math.isfinite(value)]
    if not finite:
        return None
    mean = statistics.fmean(finite)
    if len(finite) == 1:
        return MeanInterval(mean, None, None)
    error = statistics.stdev(finite) / math.sqrt(len(finite))
    half = t_quantile(CONFIDENCE, len(finite) - 1) * error
    return MeanInterval(mean, mean - half, mean + half)


@cache
def t_quantile(probability: float, degrees: int) -> float:
    """The t such that a value lies between -t and t with that probability, between 0 and 1.

    >>> round(t_quantile(0.95, 6), 4)
    2.4469
    """
    low, high = 0.0, math.pi / 2
    # The angle is bounded where t is not, so bisection finds every digit.
    while low < (middle := (low + high) / 2) < high:
        if _within(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan(low)


def _within(angle: float, degrees: int) -> float:
    """Probability that the size of T is at most √ν tan θ: a finite sum of positive terms.

    Abramowitz and Stegun, 26.7.3 (odd ν) and 26.7.4 (even ν).
    """
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    terms = [term] if degrees > 1 else []
    for factor in range(2 + odd, degrees - 1, 2):
        term *= cosine * cosine * (factor - 1) / factor
        terms.append(term)
    total = sine * math.fsum(terms)
    return 2 / math.pi * (angle + total) if odd else total
