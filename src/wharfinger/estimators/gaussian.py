"""``gaussian``: rows are draws from one normal distribution, in logarithms.

    x ~ N(μ, Σ),   Σ = (1 − α) S + α T

S is the rows' sample covariance, its gaps completed by probabilistic PCA (``ppca.py``); T a
simple covariance that few rows suffice for: one variance per column or one for all, and one
correlation between all columns. A new row is the closed-form conditional (``conditional.py``).
From Ledoit and Wolf, "Honey, I shrunk the sample covariance matrix" (2004). Here α, the kind of
T, the weight of rows of one program and whether a row's level is free are chosen by how well they
predict programs that were held out: what matters is rows from two entries, not Σ itself.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np

from wharfinger.estimators.conditional import MIN_VARIANCE, RIDGE, Gaussian, Prior, predict_means
from wharfinger.estimators.effects import Effects, row_weights, shrunk_columns, two_way
from wharfinger.estimators.estimator import Finish, FoldIn
from wharfinger.estimators.levels import levels_of
from wharfinger.estimators.matrix import RowScale
from wharfinger.estimators.ppca import complete
from wharfinger.estimators.tasks import Indices, draw_seen, leave_out, sample_rows
from wharfinger.model.arrays import Array
from wharfinger.native import Conditional

SHRINKAGES = (0.05, 0.15, 0.3, 0.5, 0.7, 0.9, 1.0)
EXPONENTS = (0.0, 0.5)
FOLDS = 10
MAX_ROWS = 500
"""Rows that settings are chosen on; more hardly change the choice."""
TIED = 1e-9
"""Of an error: settings that differ by less tie, and the first is taken, on every machine."""
REVEALED = (1, 2, 4)
DRAWS = 2


@dataclass(frozen=True, slots=True)
class GaussianSettings:
    """What validation chooses.

    Attributes:
        shrinkage: α.
        own_variances: T has one variance per column, not one for all.
        exponent: Of ``row_weights``: how much less each of a program's rows counts.
        free_level: A row's level is estimated from its own entries alone.
    """

    shrinkage: float
    own_variances: bool
    exponent: float
    free_level: bool


DEFAULT = GaussianSettings(0.5, own_variances=False, exponent=0.5, free_level=False)
"""Used with fewer than two programs."""


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """The two-way fit, S, and the effective number of rows."""

    effects: Effects
    covariance: Array
    rows: float
    free_level: bool


def moments(values: Array, groups: Indices, exponent: float, free_level: bool) -> Moments:
    """Mean and sample covariance of rows with gaps; about each row's level where it is free."""
    weights = row_weights(groups, exponent)
    return moments_about(values, weights, two_way(values, weights), free_level)[0]


def moments_about(
    values: Array, weights: Array, effects: Effects, free_level: bool
) -> tuple[Moments, Array]:
    """The same with given weights and mean; and the rows about the mean, gaps completed."""
    rows = float(weights.sum() ** 2 / (weights**2).sum())
    freedom = weights.sum() * (1 - 1 / rows) if rows > 1 else weights.sum()
    completed, moment = complete(about_mean(values, effects, free_level), weights)
    covariance = moment / max(freedom, MIN_VARIANCE)
    return Moments(effects, covariance, rows, free_level), completed


def about_mean(values: Array, effects: Effects, free_level: bool) -> Array:
    """(rows, columns) about the mean row, and where levels are free about each row's level."""
    residuals = values - effects.columns
    return residuals - effects.levels[:, None] if free_level else residuals


def prior_of(sample: Moments, settings: GaussianSettings) -> Prior:
    """Shrink S towards T; the mean's own uncertainty makes it (1 + 1/rows) wider."""
    covariance = _shrunk(sample, settings.own_variances, settings.shrinkage)
    return _with_covariance(sample, covariance)


def _with_covariance(sample: Moments, covariance: Array) -> Prior:
    return Prior(
        shrunk_columns(sample.effects, sample.rows),
        covariance * (1 + 1 / sample.rows),
        sample.free_level,
        sample.effects.level_variance,
    )


def _shrunk(sample: Moments, own_variances: bool, shrinkage: float | Array) -> Array:
    """Σ; a stack of them for shrinkages of shape (..., 1, 1)."""
    target = _target(sample, own_variances)
    regular = MIN_VARIANCE * np.eye(len(target))
    return np.asarray((1 - shrinkage) * sample.covariance + shrinkage * target + regular)


def _target(sample: Moments, own_variances: bool) -> Array:
    """T: variances on the diagonal, one correlation elsewhere."""
    size = len(sample.covariance)
    variances = sample.covariance.diagonal()
    floor = max(sample.effects.residual_variance, MIN_VARIANCE) if sample.rows <= 1 else 0.0
    common = max(float(variances.mean()), floor, MIN_VARIANCE)
    if sample.rows <= 1 and not sample.free_level:
        common += sample.effects.level_variance
    spread = np.full(size, common)
    if own_variances:
        spread = np.maximum(variances, 1e-3 * common)
    correlation = _mean_correlation(sample, common)
    target = correlation * np.sqrt(np.outer(spread, spread))
    np.fill_diagonal(target, spread)
    return target


def _mean_correlation(sample: Moments, common: float) -> float:
    """Between columns; 0 where the level, which correlates them, is taken out."""
    size = len(sample.covariance)
    if sample.free_level or size < 2:
        return 0.0
    if sample.rows <= 1:
        return sample.effects.level_variance / common
    off_diagonal = (sample.covariance.sum() - sample.covariance.trace()) / (size * (size - 1))
    return float(np.clip(off_diagonal / common, 0.0, 0.999))


@dataclass(frozen=True, slots=True, eq=False)
class GaussianLearned:
    """A prior over rows, and the settings that it was made with."""

    prior: Prior
    settings: GaussianSettings

    @classmethod
    def of(cls, values: Array, groups: Indices, settings: GaussianSettings) -> "GaussianLearned":
        """Learn with these settings."""
        sample = moments(values, groups, settings.exponent, settings.free_level)
        return cls(prior_of(sample, settings), settings)

    def condition(self, row: Array) -> Gaussian:
        """Closed form; see ``conditional.py``."""
        return self.prior.condition(row)

    def compiled(self, finish: Finish) -> FoldIn:
        """The same without the covariance."""
        free_level, level_variance = self.prior.free_level, self.prior.level_variance
        mean, covariance = map(np.ascontiguousarray, (self.prior.mean, self.prior.covariance))
        return Conditional(
            mean, covariance, free_level, level_variance, *finish, RIDGE, MIN_VARIANCE
        )

    def relearn(self, values: Array, groups: Indices) -> "GaussianLearned":
        """The same settings on other rows."""
        return self.of(values, groups, self.settings)

    def arrays(self) -> dict[str, Array]:
        """Prior and settings."""
        settings = np.array(astuple(self.settings), dtype=np.float64)
        return self.prior.arrays() | {"settings": settings}


def choose(
    values: Array, groups: Indices, levels: tuple[bool, ...], rng: np.random.Generator
) -> GaussianSettings:
    """The settings that best predict programs that are held out."""
    values, groups = sample_rows(values, groups, MAX_ROWS, rng)
    programs = len(np.unique(groups))
    exponents = EXPONENTS if programs < len(groups) else EXPONENTS[:1]
    scores: dict[GaussianSettings, float] = {}
    grid, shrinkages = list(product((False, True), SHRINKAGES)), np.array(SHRINKAGES)
    for training, held in leave_out(groups, FOLDS, rng) if programs > 1 else ():
        rows = values[held]
        tasks = [_drawn(rows, count, rng) for count in REVEALED]
        for free_level, exponent in product(levels, exponents):
            sample = moments(values[training], groups[training], exponent, free_level)
            stacks = [_shrunk(sample, own, shrinkages[:, None, None]) for own in (False, True)]
            errors = _errors(_with_covariance(sample, np.concatenate(stacks)), rows, tasks)
            for (own, shrinkage), error in zip(grid, errors.tolist(), strict=True):
                settings = GaussianSettings(shrinkage, own, exponent, free_level)
                scores[settings] = scores.get(settings, 0.0) + error
    if not any(scores.values()):
        return replace(DEFAULT, free_level=levels[0])
    enough = (1 + TIED) * min(scores.values())
    return next(settings for settings, score in scores.items() if score <= enough)


def _drawn(rows: Array, count: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """All draws of as many entries, one after the other."""
    drawn, seen = zip(*(draw_seen(rows, count, rng) for _ in range(DRAWS)), strict=True)
    return np.concatenate(drawn), np.concatenate(seen)


def _errors(prior: Prior, rows: Array, tasks: list[tuple[Indices, Indices]]) -> Array:
    """(priors,) absolute errors of hidden entries, summed, for a stack of covariances."""
    totals = np.zeros(len(prior.covariance))
    for drawn, seen in tasks:
        if len(drawn):
            truth = rows[drawn]
            hidden = ~np.isnan(truth)
            np.put_along_axis(hidden, seen, False, axis=1)
            errors = np.abs(predict_means(prior, truth, seen) - truth)
            totals += np.where(hidden, errors, 0.0).sum(axis=(1, 2))
    return totals


@dataclass(frozen=True, slots=True)
class GaussianEstimator:
    """A normal distribution over rows with a shrunk covariance."""

    name: ClassVar[str] = "gaussian"
    version: ClassVar[int] = 1

    def learn(
        self, values: Array, groups: Indices, scale: RowScale, rng: np.random.Generator
    ) -> GaussianLearned:
        """Choose the settings, then use all rows."""
        settings = choose(values, groups, levels_of(scale), rng)
        return GaussianLearned.of(values, groups, settings)

    def restore(self, arrays: Mapping[str, Array]) -> GaussianLearned:
        """The inverse of ``GaussianLearned.arrays``."""
        shrinkage, own, exponent, free = map(float, arrays["settings"])
        settings = GaussianSettings(shrinkage, bool(own), exponent, bool(free))
        return GaussianLearned(Prior.restore(arrays), settings)
