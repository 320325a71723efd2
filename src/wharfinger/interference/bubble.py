"""Contention: what a service loses beside neighbors, in a unit in which neighbors can be summed.

Bubble-Up and Pythia measure it in bytes, as the bubble with the same effect (``SensitivityCurve``).
Where no bubble was measured it is the time that a piece of work takes longer (``ExcessTime``), and
where the measurements are contentions already, those (``Given``). Each translates between
contention and the *drop*, minus the logarithm of performance relative to alone.

Source: Pythia 2.1, 3.2; the generalised inverse of a monotone curve.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from wharfinger.model.arrays import Array

MAX_DROP = 7.0
"""Performance of a thousandth; what is less is taken as that."""
_CLEAR_DEVIATIONS, _CLEAR_RISE = 3.0, 0.03
"""A curve that rises by more than both is no noise."""


class ContentionScale(Protocol):
    """Translates between drops and contentions.

    Attributes:
        unit: Of contention: ``bytes``, ``excess time``, ``given``.
        floor: Contention below which a relative error says nothing.
        limit: The largest that can be told.
        tells_performance: Drops are logarithms of performance.
    """

    @property
    def unit(self) -> str: ...  # noqa: D102 - see above
    @property
    def floor(self) -> float: ...  # noqa: D102
    @property
    def limit(self) -> float: ...  # noqa: D102
    @property
    def tells_performance(self) -> bool: ...  # noqa: D102

    def contention(self, drops: Array) -> Array:
        """NaN = beyond what was measured (censored), or an unknown drop."""
        ...

    def drops(self, contentions: Array) -> Array:
        """The inverse; NaN = beyond what was measured."""
        ...

    def state(self) -> dict[str, object]:
        """What ``scale_of`` needs."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SensitivityCurve:
    """A service's performance beside bubbles.

    Attributes:
        sizes: (n,) growing, above 0, in bytes.
        levels: (n,) performance relative to alone, never rising.
        errors: (n,) standard errors of the levels.

    >>> curve = SensitivityCurve.of([1.0, 2.0, 3.0], [0.9, 0.8, 0.81])
    >>> curve.levels.round(3).tolist()
    [0.9, 0.805, 0.805]
    >>> curve.contention(-np.log([1.1, 0.95, 0.805, 0.7])).round(3).tolist()
    [0.0, 0.5, 2.0, nan]
    """

    sizes: Array
    levels: Array
    errors: Array

    @classmethod
    def of(
        cls, sizes: Sequence[float], levels: Sequence[float], errors: Sequence[float] = ()
    ) -> "SensitivityCurve":
        """The monotone curve nearest to these points, by weighted least squares."""
        order = np.argsort(np.asarray(sizes, dtype=np.float64), kind="stable")
        size = np.asarray(sizes, dtype=np.float64)[order]
        level = np.minimum(np.asarray(levels, dtype=np.float64)[order], 1.0)
        error = np.asarray(errors or np.zeros(len(size)), dtype=np.float64)[order]
        return cls(size, falling(level, 1 / np.maximum(error, 1e-4) ** 2), error)

    @property
    def unit(self) -> str:
        """Bytes of the bubble with the same effect."""
        return "bytes"

    @property
    def floor(self) -> float:
        """A fifth of a MiB, and no more than the smallest bubble."""
        return min(0.2 * 2**20, float(self.sizes[0]))

    @property
    def limit(self) -> float:
        """Of the largest bubble."""
        return float(self.sizes[-1])

    @property
    def tells_performance(self) -> bool:
        """Always."""
        return True

    def contention(self, drops: Array) -> Array:
        """Bytes of the smallest bubble with that effect, linear between those measured."""
        quality = np.exp(-np.asarray(drops, dtype=np.float64))
        sizes, levels = self._points()
        # The first level at or below; levels fall, so the negated ones are sorted.
        at = np.searchsorted(-levels, -quality, side="left")
        inside = np.clip(at, 1, len(levels) - 1)
        high, low = levels[inside - 1], levels[inside]
        part = (high - quality) / np.where(high > low, high - low, 1.0)
        read = sizes[inside - 1] + np.clip(part, 0, 1) * (sizes[inside] - sizes[inside - 1])
        read = np.where(quality >= 1, 0.0, read)
        return np.asarray(np.where((at < len(levels)) & ~np.isnan(quality), read, np.nan))

    def drops(self, contentions: Array) -> Array:
        """Drops beside bubbles of these bytes; NaN above the largest."""
        sizes, levels = self._points()
        return np.asarray(-np.log(np.interp(contentions, sizes, levels, right=np.nan)))

    def interval(self, drop: float, std: float) -> tuple[float, float]:
        """90% interval of the contention: over a flat part it is wide; the end may be NaN."""
        error = float(np.mean(self.errors**2)) * np.exp(2 * drop)
        half = 1.6448536 * float(np.sqrt(std**2 + error))
        low, high = self.contention(np.array([max(0.0, drop - half), drop + half])).tolist()
        sizes, levels = self._points()
        flat = np.flatnonzero(levels >= np.exp(-(drop + half)))
        return low, max(high, float(sizes[flat[-1]])) if high == high else high  # noqa: PLR0124

    def _points(self) -> tuple[Array, Array]:
        least = np.exp(-MAX_DROP)
        return np.r_[0.0, self.sizes], np.maximum(np.r_[1.0, self.levels], least)

    def state(self) -> dict[str, object]:
        """Sizes, levels and errors."""
        return {
            "unit": self.unit,
            "sizes": self.sizes.tolist(),
            "levels": self.levels.tolist(),
            "errors": self.errors.tolist(),
        }


@dataclass(frozen=True, slots=True)
class ExcessTime:
    """Time that a piece of work takes longer, over its time alone: 1/r − 1.

    >>> ExcessTime().contention(-np.log(np.array([0.5]))).tolist()
    [1.0]
    """

    unit = "excess time"
    floor = 0.01
    limit = float("inf")
    tells_performance = True

    def contention(self, drops: Array) -> Array:
        """0 where the work was not slowed."""
        return np.asarray(np.expm1(np.clip(drops, 0.0, MAX_DROP)))

    def drops(self, contentions: Array) -> Array:
        """The inverse."""
        return np.asarray(np.log1p(contentions))

    def state(self) -> dict[str, object]:
        """Only which it is."""
        return {"unit": self.unit}


@dataclass(frozen=True, slots=True)
class Given:
    """Contentions as they were measured; nothing is known of performance.

    Attributes:
        scale: Contention of a drop of 1.
    """

    scale: float

    unit = "given"
    limit = float("inf")
    tells_performance = False

    @property
    def floor(self) -> float:
        """A thousandth of the scale."""
        return self.scale / 1000

    def contention(self, drops: Array) -> Array:
        """In the unit of the measurements."""
        return np.asarray(np.maximum(drops, 0.0) * self.scale)

    def drops(self, contentions: Array) -> Array:
        """The inverse."""
        return np.asarray(np.asarray(contentions, dtype=np.float64) / self.scale)

    def state(self) -> dict[str, object]:
        """The scale."""
        return {"unit": self.unit, "scale": self.scale}


def scale_of(state: dict[str, object]) -> ContentionScale:
    """The inverse of ``ContentionScale.state``; ``ValueError`` and the like where it is damaged."""
    match state["unit"]:
        case "bytes":
            sizes, levels, errors = (
                np.asarray(state[key], dtype=np.float64) for key in ("sizes", "levels", "errors")
            )
            if not len(sizes) == len(levels) == len(errors) > 0:
                raise ValueError("a curve of no points, or of different numbers of them")
            return SensitivityCurve(sizes, levels, errors)
        case "excess time":
            return ExcessTime()
        case "given":
            return Given(float(str(state["scale"])))
        case other:
            raise ValueError(f"unknown unit {other!r}")


def falling(levels: Array, weights: Array) -> Array:
    """The never rising sequence nearest to these levels (pool adjacent violators).

    >>> falling(np.array([3.0, 1.0, 2.0]), np.ones(3)).tolist()
    [3.0, 1.5, 1.5]
    """
    blocks: list[tuple[float, float, int]] = []
    for level, weight in zip(levels.tolist(), weights.tolist(), strict=True):
        block = (level, weight, 1)
        while blocks and blocks[-1][0] < block[0]:
            mean, of_it, count = blocks.pop()
            total = of_it + block[1]
            block = ((mean * of_it + block[0] * block[1]) / total, total, count + block[2])
        blocks.append(block)
    return np.repeat([mean for mean, _, _ in blocks], [count for _, _, count in blocks])


def first_rise(levels: Array, errors: Array) -> tuple[int, int] | None:
    """A level and a later one that is higher beyond noise; ``None`` = there is none.

    >>> first_rise(np.array([0.9, 0.7, 0.8]), np.zeros(3))
    (1, 2)
    """
    for at in range(1, len(levels)):
        lowest = int(np.argmin(levels[:at]))
        noise = _CLEAR_DEVIATIONS * float(np.hypot(errors[at], errors[lowest]))
        if levels[at] - levels[lowest] > max(noise, _CLEAR_RISE):
            return lowest, at
    return None


def contention_of(qos: float, megabytes: Sequence[float], curve: Array) -> float:
    """Contention in megabytes of the smallest bubble with that effect (Pythia 2.1 and 3.2).

    It is linear between the bubbles that were tried; 0 means no slowdown, NaN that none slows as
    much. ``qos`` is a service's performance with the set of neighbors over that alone, ``curve``
    (n,) that with bubbles of (n,) ``megabytes``, growing and above 0.

    >>> contention_of(0.85, [1.0, 2.0], np.array([0.9, 0.8]))
    1.5
    """
    if qos >= 1:
        return 0.0
    sizes = np.r_[0.0, np.asarray(megabytes, dtype=np.float64)]
    levels = np.minimum.accumulate(np.r_[1.0, curve])
    reached = np.flatnonzero(levels <= qos)
    if not len(reached):
        return float("nan")
    at = int(reached[0])
    part = (levels[at - 1] - qos) / (levels[at - 1] - levels[at])
    return round(float(sizes[at - 1] + part * (sizes[at] - sizes[at - 1])), 9)
