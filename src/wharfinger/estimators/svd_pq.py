"""``svd-pq``: the procedure that the papers publish, as reference and baseline.

Quasar, section 3.2 (and Paragon, section 2.2): A is the matrix without its mean μ and each
row's bias b_u, missing entries at 0; A = U Σ Vᵀ starts Q = U and Pᵀ = Σ Vᵀ; then stochastic
gradient descent over the known entries,

    ε_ui = r_ui − μ − b_u − q_u · p_iᵀ
    q_u ← q_u + η (ε_ui p_i − λ q_u)
    p_i ← p_i + η (ε_ui q_u − λ p_i)

until Σ ε² changes by less than 1e-4 of itself. η and λ are chosen by leaving out a tenth of the
entries. Two deviations, for speed: a step takes all known entries of one row at once, and a new
row (which the papers append to A, to run the whole again) gets its q_u while P stays. The
uncertainty is that of the residuals.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from wharfinger.estimators.conditional import MIN_VARIANCE, Gaussian
from wharfinger.estimators.effects import fit_levels
from wharfinger.estimators.levels import levels_of
from wharfinger.estimators.matrix import RowScale
from wharfinger.estimators.tasks import Indices, sample_rows
from wharfinger.model.arrays import Array

RATES = (0.02, 0.1)
REGULARISATIONS = (0.02, 0.1, 0.4)
MAX_EPOCHS = 100
MAX_ROW_STEPS = 200_000
"""Epochs times rows: bounds the time that a matrix of many rows takes."""
CHOOSING_EPOCHS = 20
TOLERANCE = 1e-4
LEFT_OUT = 0.1
MAX_CHOOSING_ROWS = 200


@dataclass(frozen=True, slots=True)
class SvdPqSettings:
    """η, λ, and whether a bias is free; else it is shrunk towards 0."""

    rate: float
    regularisation: float
    free_level: bool


@dataclass(frozen=True, slots=True, eq=False)
class SvdPqLearned:
    """Factors and biases.

    Attributes:
        mean: μ.
        start: (columns, rank) V Σ⁻¹: a row's residuals times it are its row of U.
        shrinkage: σ²/τ²: entries' worth of evidence that a bias is 0.
        level_variance: τ².
        residual_variance: Of the residuals of the factors.
    """

    mean: float
    p: Array
    start: Array
    shrinkage: float
    level_variance: float
    residual_variance: float
    settings: SvdPqSettings

    def condition(self, row: Array) -> Gaussian:
        """Gradient steps for q_u over the row's known entries; P stays."""
        seen = np.flatnonzero(~np.isnan(row))
        size = len(row)
        covariance = self.residual_variance * np.eye(size)
        if not seen.size:
            return Gaussian(np.full(size, self.mean), covariance + self.level_variance)
        bias = (row[seen] - self.mean).sum() / (seen.size + self.shrinkage)
        q = self._fold(row[seen] - self.mean - bias, seen)
        mean = self.mean + bias + self.p @ q
        covariance += self.residual_variance / seen.size
        return Gaussian.pinned(mean, covariance, row)

    def _fold(self, target: Array, seen: Indices) -> Array:
        p = self.p[seen]
        q = target @ self.start[seen]
        rate = _stable(self.settings.rate, p)
        before = np.inf
        for _ in range(MAX_EPOCHS):
            error = target - p @ q
            q = q + rate * (error @ p - self.settings.regularisation * q)
            squares = float(error @ error)
            if abs(before - squares) <= TOLERANCE * squares or squares == 0:
                break
            before = squares
        return q

    def relearn(self, values: Array, groups: Indices) -> "SvdPqLearned":
        """The same η and λ on other rows."""
        return _train(values, self.settings, MAX_EPOCHS)

    def arrays(self) -> dict[str, Array]:
        """Factors and numbers."""
        numbers = [self.mean, self.shrinkage, self.level_variance, self.residual_variance]
        settings = np.array(astuple(self.settings), dtype=np.float64)
        own = {"numbers": np.array(numbers), "settings": settings}
        return {"p": self.p, "start": self.start} | own


def _stable(rate: float, factors: Array) -> float:
    """A step no longer than the curvature allows; a longer one would diverge."""
    curvature = float((factors**2).sum())
    return min(rate, 1.0 / curvature) if curvature > 0 else rate


def _train(values: Array, settings: SvdPqSettings, epochs: int) -> SvdPqLearned:
    observed = ~np.isnan(values)
    mean, levels, shrinkage, level_variance = fit_levels(values, free=settings.free_level)
    residuals = np.where(observed, values - mean - levels[:, None], 0.0)
    u, singular, right = np.linalg.svd(residuals, full_matrices=False)
    rank = max(1, int((singular > 1e-10 * max(singular[0], MIN_VARIANCE)).sum()))
    q, p = u[:, :rank].copy(), right[:rank].T * singular[:rank]
    start = right[:rank].T / np.maximum(singular[:rank], MIN_VARIANCE)
    p = _descend(np.where(observed, residuals, np.nan), q, p.copy(), settings, epochs)
    error = residuals - q @ p.T
    # What the factors can't explain of rows that they never saw: the spread of the rows
    # about μ and b_u is the honest guess before calibration, the fit's own residual is not.
    variance = max(float((residuals[observed] ** 2).mean()), float((error[observed] ** 2).mean()))
    variance = max(variance, MIN_VARIANCE)
    return SvdPqLearned(mean, p, start, shrinkage, level_variance, variance, settings)


def _descend(values: Array, q: Array, p: Array, settings: SvdPqSettings, epochs: int) -> Array:
    """Stochastic gradient descent, row by row; changes ``q`` and ``p``, and returns ``p``."""
    entries = [np.flatnonzero(~np.isnan(row)) for row in values]
    before = np.inf
    for _ in range(min(epochs, max(2, MAX_ROW_STEPS // len(entries)))):
        squares = 0.0
        for u, seen in enumerate(entries):
            part = p[seen]
            error = values[u, seen] - part @ q[u]
            rate = _stable(settings.rate, part)
            p[seen] = part + _stable(settings.rate, q[u]) * (
                np.outer(error, q[u]) - settings.regularisation * part
            )
            q[u] += rate * (error @ part - settings.regularisation * q[u])
            squares += float(error @ error)
        if abs(before - squares) <= TOLERANCE * squares or squares == 0:
            break
        before = squares
    return p


def _choose(values: Array, levels: tuple[bool, ...], rng: np.random.Generator) -> SvdPqSettings:
    """The settings that best predict a tenth of the entries, held out."""
    values, _ = sample_rows(values, np.arange(len(values)), MAX_CHOOSING_ROWS, rng)
    left_out = ~np.isnan(values) & (rng.random(values.shape) < LEFT_OUT)
    left_out[np.isnan(np.where(left_out, np.nan, values)).all(axis=1)] = False
    kept = np.where(left_out, np.nan, values)
    scores = {}
    rows = np.flatnonzero(left_out.any(axis=1))
    for free_level, rate, regularisation in product(levels, RATES, REGULARISATIONS):
        settings = SvdPqSettings(rate, regularisation, free_level)
        learned = _train(kept, settings, CHOOSING_EPOCHS)
        errors = [
            np.nansum((learned.condition(kept[i]).mean - values[i])[left_out[i]] ** 2) for i in rows
        ]
        scores[settings] = float(np.sum(errors))
    return min(scores, key=lambda settings: scores[settings])


@dataclass(frozen=True, slots=True)
class SvdPq:
    """Singular value decomposition, then PQ-reconstruction."""

    name: ClassVar[str] = "svd-pq"
    version: ClassVar[int] = 1

    def learn(
        self, values: Array, groups: Indices, scale: RowScale, rng: np.random.Generator
    ) -> SvdPqLearned:
        """Choose η and λ (and whether biases are free), then descend on all entries."""
        levels = levels_of(scale) if scale is RowScale.AUTO else (scale is RowScale.ARBITRARY,)
        settings = _choose(values, levels, rng)
        return _train(values, settings, MAX_EPOCHS)

    def restore(self, arrays: Mapping[str, Array]) -> SvdPqLearned:
        """The inverse of ``SvdPqLearned.arrays``."""
        mean, shrinkage, level, residual = map(float, arrays["numbers"])
        rate, regularisation, free = map(float, arrays["settings"])
        settings = SvdPqSettings(rate, regularisation, bool(free))
        p, start = arrays["p"], arrays["start"]
        return SvdPqLearned(mean, p, start, shrinkage, level, residual, settings)
