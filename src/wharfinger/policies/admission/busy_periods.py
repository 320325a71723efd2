"""How long servers stay busy, and when the next one should be free.

Source: ARQ 3.3, free-server probability distributions: a distribution is fitted to busy periods,
and the probability that a server is free within some time is derived from it. Added: what is busy
has been so for a while, and that is known; and what has not ended yet counts, too: the first to end
are the short ones. No SciPy: a decision may ask, and a replay must answer
the same from the parameters alone.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from math import exp, lgamma, log, pi, sqrt

import numpy as np

from wharfinger.core.run_times import survival
from wharfinger.model.arrays import Array, normal_below
from wharfinger.model.queue_accounts import QueueAccount
from wharfinger.native import BusyCurve

LEAST_SECONDS = 1e-3
"""Shorter busy periods count as this long."""
FEW = 20
"""With fewer samples no closed form is trusted."""
QUANTILES = 33
"""So many describe an empirical distribution."""
POINTS = 129
"""Of a table of a cumulative distribution."""
KOLMOGOROV = 1.36
"""Times 1/√n: a distance that is exceeded by chance in one sample of twenty."""
NEWTON_STEPS = 30
LONGER = 0.5 / QUANTILES
"""Share of busy periods that are longer than the longest quantile."""
LEAST_LEFT = 1e-9
"""Share of busy periods; fewer are longer than the last time of a table."""


class BusyFamily(StrEnum):
    """Distributions of busy periods."""

    EXPONENTIAL = "exponential"
    NORMAL = "normal"
    """Cut off at 0."""
    LOGNORMAL = "lognormal"
    GAMMA = "gamma"
    EMPIRICAL = "empirical"
    """The samples' own quantiles."""


@dataclass(frozen=True)
class BusyPeriods:
    """A distribution of busy periods.

    Attributes:
        parameters: (mean), (mean, deviation), (both of the logarithm), (shape, scale), or the
            quantiles, ascending; seconds.
        samples: It was fitted to so many.
        distance: The largest between both cumulative distributions (Kolmogorov, Smirnov).
    """

    family: BusyFamily
    parameters: tuple[float, ...]
    samples: int
    distance: float

    @cached_property
    def curve(self) -> BusyCurve:
        """As decisions ask it. Beyond its last time the rate is that of its last step."""
        times, shares = _table(self.family, self.parameters)
        known = 1 - shares > LEAST_LEFT
        return BusyCurve(times[known], shares[known])

    def below(self, seconds: Array) -> Array:
        """Share of busy periods that are over after so long."""
        times, shares = _table(self.family, self.parameters)
        return np.asarray(np.interp(seconds, times, shares))

    def median(self) -> float:
        """Half of the busy periods are over after so many seconds."""
        times, shares = _table(self.family, self.parameters)
        return float(np.interp(0.5, shares, times))

    def mean(self) -> float:
        """In seconds, without what is longer than all but one of 10,000."""
        times, shares = _table(self.family, self.parameters)
        left = 1 - (shares[1:] + shares[:-1]) / 2
        return float((np.diff(times) * left).sum())


def lasting(accounts: Collection[QueueAccount], now: float) -> Array:
    """(N,) busy periods of some queues, as many as are kept, as if all were over that have begun.

    They are quantiles of Kaplan and Meier's estimate, in which what still holds resources counts as
    censored; beyond its last end the rate is that of all ends before (Brown, Hollander and Korwar,
    "Nonparametric tests of independence for censored data", 1974).
    """
    seconds, surviving, is_end = survival(accounts, now)
    ends = np.maximum(seconds[is_end], LEAST_SECONDS)
    if not ends.size:
        return ends
    over = 1 - surviving[is_end]
    # In the middle of each step: if nothing is censored they are the busy periods that are kept.
    over = (over + np.append(0.0, over[:-1])) / 2
    asked = (np.arange(len(ends)) + 0.5) / len(ends)
    longer = np.log((1 - over[-1]) / (1 - asked)) / (-np.log1p(-over[-1]) / ends[-1])
    return np.asarray(np.interp(asked, over, ends) + np.maximum(longer, 0.0))


def fitted(busy_seconds: Sequence[float] | Array) -> BusyPeriods:
    """The family with the highest likelihood, less its parameters (Akaike 1974).

    Where no closed form is near the samples, or there are few, it is the samples' own.

    Raises:
        ValueError: There are none.
    """
    seconds = np.maximum(np.sort(np.asarray(busy_seconds, dtype=np.float64)), LEAST_SECONDS)
    if not seconds.size:
        raise ValueError("there are no busy periods")
    count = len(seconds)
    quantiles = np.quantile(seconds, np.linspace(0, 1, QUANTILES))
    empirical = BusyPeriods(BusyFamily.EMPIRICAL, tuple(quantiles.tolist()), count, 0.0)
    spread = float(seconds[-1] - seconds[0])
    if count < FEW or spread <= 1e-6 * float(seconds[-1]):
        return empirical
    best = max(_closed_forms(seconds), key=lambda form: form[0])
    _, family, parameters = best
    distance = _distance(seconds, family, parameters)
    if distance > KOLMOGOROV / sqrt(count):
        return empirical
    return BusyPeriods(family, parameters, count, distance)


def _closed_forms(seconds: Array) -> list[tuple[float, BusyFamily, tuple[float, ...]]]:
    """Log-likelihood less the number of parameters, of each family at its maximum."""
    count, mean, std = len(seconds), float(seconds.mean()), float(seconds.std())
    logs = np.log(seconds)
    log_mean, log_std = float(logs.mean()), max(float(logs.std()), 1e-9)
    inside = max(float(normal_below(np.array([mean / std]))[0]), 1e-12)
    shape = _gamma_shape(log(mean) - log_mean)
    scale = mean / shape
    entropy = count * (0.5 + 0.5 * log(2 * pi))
    return [
        (-count * (log(mean) + 1) - 1, BusyFamily.EXPONENTIAL, (mean,)),
        (-count * (log(std) + log(inside)) - entropy - 2, BusyFamily.NORMAL, (mean, std)),
        (
            -count * (log(log_std) + log_mean) - entropy - 2,
            BusyFamily.LOGNORMAL,
            (log_mean, log_std),
        ),
        (
            (shape - 1) * count * log_mean
            - count * mean / scale
            - count * (lgamma(shape) + shape * log(scale))
            - 2,
            BusyFamily.GAMMA,
            (shape, scale),
        ),
    ]


def _gamma_shape(gap: float) -> float:
    """The shape at which ln k - ψ(k) is ln mean - mean ln: the most likely one (Minka 2002)."""
    gap = max(gap, 1e-9)
    shape = (3 - gap + sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(NEWTON_STEPS):
        step = (log(shape) - _digamma(shape) - gap) / (1 / shape - _trigamma(shape))
        shape = max(shape - step, shape / 2)
        if abs(step) < 1e-10 * shape:
            break
    return shape


def _digamma(x: float) -> float:
    """ψ(x), by its recurrence and asymptotic series (Abramowitz and Stegun 6.3.5, 6.3.18)."""
    result = 0.0
    while x < 8:
        result -= 1 / x
        x += 1
    inverse = 1 / (x * x)
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse / 240)))
    return result + log(x) - 0.5 / x - series


def _trigamma(x: float) -> float:
    """ψ'(x), in the same way (6.4.6, 6.4.12)."""
    result = 0.0
    while x < 8:
        result += 1 / (x * x)
        x += 1
    inverse = 1 / (x * x)
    series = 1 / 6 - inverse * (1 / 30 - inverse * (1 / 42 - inverse / 30))
    return result + 1 / x + inverse / 2 + inverse / x * series


def _distance(seconds: Array, family: BusyFamily, parameters: tuple[float, ...]) -> float:
    count = len(seconds)
    below = np.interp(seconds, *_table(family, parameters))
    steps = np.arange(count + 1) / count
    return float(max((steps[1:] - below).max(), (below - steps[:-1]).max()))


@lru_cache(maxsize=256)
def _table(family: BusyFamily, parameters: tuple[float, ...]) -> tuple[Array, Array]:
    """Times, ascending, and the share of busy periods below each."""
    if family is BusyFamily.EMPIRICAL:
        # Equal quantiles would give one time two shares: the last of them holds.
        times, shares = np.array(parameters), np.linspace(0, 1 - LONGER, len(parameters))
        last = np.append(np.diff(times) > 0, True)
        times, shares = times[last], shares[last]
        # Beyond the longest the rate is that of all before.
        ahead = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
        times = np.append(times, times[-1] * (1 - ahead / log(LONGER)))
        shares = np.append(shares, 1 - LONGER * np.exp(-ahead))
        # None is shorter than the least, though several are as short.
        nothing = [0.0] if shares[0] == 0 else [0.0, (1 - 1e-6) * times[0]]
        return np.concatenate([nothing, times]), np.concatenate([[0.0] * len(nothing), shares])
    if family is BusyFamily.EXPONENTIAL:
        times = parameters[0] * _spaced(10.0)
        return times, 1 - np.exp(-times / parameters[0])
    if family is BusyFamily.NORMAL:
        mean, std = parameters
        times = (mean + 5 * std) * np.linspace(0, 1, POINTS)
        least = float(normal_below(np.array([-mean / std]))[0])
        return times, (normal_below((times - mean) / std) - least) / (1 - least)
    if family is BusyFamily.LOGNORMAL:
        mean, std = parameters
        deviations = np.linspace(-5, 5, POINTS)
        times = np.exp(mean + std * deviations)
        return np.concatenate([[0.0], times]), np.concatenate([[0.0], normal_below(deviations)])
    shape, scale = parameters
    times = _spaced(shape + 10 * sqrt(shape) + 10)
    return scale * times, np.array([_gamma_below(shape, x) for x in times.tolist()])


def _spaced(most: float) -> Array:
    """Points from 0 to ``most``, denser near 0."""
    return most * np.linspace(0, 1, POINTS) ** 2


def _gamma_below(shape: float, x: float) -> float:
    """The regularized lower incomplete gamma function (Abramowitz and Stegun 6.5.29, 6.5.31)."""
    if x <= 0:
        return 0.0
    factor = exp(shape * log(x) - x - lgamma(shape))
    if x < shape + 1:
        term = total = 1 / shape
        at = shape
        while abs(term) > 1e-12 * abs(total):
            at += 1
            term *= x / at
            total += term
        return min(1.0, factor * total)
    tiny = 1e-300
    b = x + 1 - shape
    c, d = 1 / tiny, 1 / b
    fraction = d
    for step in range(1, 500):
        a = -step * (step - shape)
        b += 2
        d = 1 / (a * d + b or tiny)
        c = b + a / c or tiny
        fraction *= d * c
        if abs(d * c - 1) < 1e-12:
            break
    return max(0.0, 1 - factor * fraction)
