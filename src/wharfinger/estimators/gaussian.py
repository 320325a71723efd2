"""``gaussian``: rows are draws from one normal distribution, in logarithms.

    x ~ N(μ, Σ),   Σ = (1 − α) S + α T

S is the rows' sample covariance, its gaps completed by probabilistic PCA (``ppca.py``); T a
plain covariance that few rows suffice for: one variance per column or one for all, and one
correlation between all columns. A new row is the closed-form conditional
(``conditional.py``). From Ledoit and Wolf, "Honey, I shrunk the sample covariance matrix"
(2004), with the difference that α, the kind of T, the weight of rows of one program and
whether a row's level is told by the others are chosen by how well they predict programs that
were left out: what matters is rows from two entries, not Σ itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from wharfinger.estimators.conditional import (
    MIN_VARIANCE,
    RIDGE,
    Gaussian,
    Prior,
    predict_means,
)
from wharfinger.estimators.effects import Effects, row_weights, shrunk_columns, two_way
from wharfinger.estimators.estimator import Finish, FoldIn
from wharfinger.estimators.matrix import RowScale
from wharfinger.estimators.means import pack_prior, unpack_prior
from wharfinger.estimators.ppca import complete
from wharfinger.estimators.tasks import Indices, draw_seen, group_folds
from wharfinger.model.arrays import Array
from wharfinger.native import Conditional

SHRINKAGES = (0.05, 0.15, 0.3, 0.5, 0.7, 0.9, 1.0)
EXPONENTS = (0.0, 0.5)
FOLDS = 10
MAX_ROWS = 500
"""Rows that settings are chosen on; more change the choice no longer."""
REVEALED = (1, 2, 4)
DRAWS = 2


@dataclass(frozen=True, slots=True)
class GaussianSettings:
    """What validation chooses.

    Attributes:
        shrinkage: α.
        own_variances: T has one variance per column, not one for all.
        exponent: How much less each of a program's rows counts; 0 not, 1 wholly.
        free_level: A row's level is told by its own entries alone.
    """

    shrinkage: float
    own_variances: bool
    exponent: float
    free_level: bool


DEFAULT = GaussianSettings(0.5, own_variances=False, exponent=0.5, free_level=False)
"""With fewer than two programs there is nothing to choose by."""


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """What a covariance is made of: the two-way fit, S, and how many rows count."""

    effects: Effects
    sample: Array
    rows: float
    free_level: bool


def moments(values: Array, groups: Indices, exponent: float, free_level: bool) -> Moments:
    """Mean and sample covariance of rows with gaps; about each row's level where it is free."""
    weights = row_weights(groups, exponent)
    return moments_about(values, weights, two_way(values, weights), free_level)[0]


def moments_about(
    values: Array, weights: Array, effects: Effects, free_level: bool
) -> tuple[Moments, Array]:
    """The same with any weights and mean, and the rows about it with their gaps completed."""
    rows = float(weights.sum() ** 2 / (weights**2).sum())
    freedom = weights.sum() * (1 - 1 / rows) if rows > 1 else weights.sum()
    completed = complete(about_mean(values, effects, free_level), weights)
    sample = completed.moment / max(freedom, MIN_VARIANCE)
    return Moments(effects, sample, rows, free_level), completed.rows


def about_mean(values: Array, effects: Effects, free_level: bool) -> Array:
    """(rows, columns) about the mean row, and where levels are free about each row's own."""
    residuals = values - effects.columns
    return residuals - effects.levels[:, None] if free_level else residuals


def prior_of(found: Moments, settings: GaussianSettings) -> Prior:
    """Shrink S towards T; the mean's own uncertainty makes it (1 + 1/rows) wider."""
    target = _target(found, settings.own_variances)
    covariance = (1 - settings.shrinkage) * found.sample + settings.shrinkage * target
    np.fill_diagonal(covariance, covariance.diagonal() + MIN_VARIANCE)
    return Prior(
        shrunk_columns(found.effects, found.rows),
        covariance * (1 + 1 / found.rows),
        settings.free_level,
        found.effects.level_variance,
    )


def _target(found: Moments, own_variances: bool) -> Array:
    """T: variances on the diagonal, one correlation elsewhere."""
    size = len(found.sample)
    variances = found.sample.diagonal()
    floor = max(found.effects.residual_variance, MIN_VARIANCE) if found.rows <= 1 else 0.0
    common = max(float(variances.mean()), floor, MIN_VARIANCE)
    if found.rows <= 1 and not found.free_level:
        common += found.effects.level_variance
    spread = np.full(size, common)
    if own_variances:
        spread = np.maximum(variances, 1e-3 * common)
    correlation = _mean_correlation(found, common)
    target = correlation * np.sqrt(np.outer(spread, spread))
    np.fill_diagonal(target, spread)
    return target


def _mean_correlation(found: Moments, common: float) -> float:
    """Between columns; 0 where the level, which makes them alike, is taken out."""
    size = len(found.sample)
    if found.free_level or size < 2:
        return 0.0
    if found.rows <= 1:
        return found.effects.level_variance / common
    off_diagonal = (found.sample.sum() - found.sample.trace()) / (size * (size - 1))
    return float(np.clip(off_diagonal / common, 0.0, 0.999))


@dataclass(frozen=True, slots=True, eq=False)
class GaussianLearned:
    """A prior over rows, and the settings that it was made with."""

    prior: Prior
    settings: GaussianSettings

    def condition(self, row: Array) -> Gaussian:
        """Closed form; see ``conditional.py``."""
        return self.prior.condition(row)

    def compiled(self, finish: Finish) -> FoldIn:
        """The same without the covariance."""
        prior = self.prior
        return Conditional(
            np.ascontiguousarray(prior.mean),
            np.ascontiguousarray(prior.covariance),
            prior.free_level,
            prior.level_variance,
            finish.factors,
            finish.unmeasured,
            finish.logarithms,
            RIDGE,
            MIN_VARIANCE,
        )

    def relearn(self, values: Array, groups: Indices) -> "GaussianLearned":
        """The same settings on other rows."""
        kept = self.settings
        found = moments(values, groups, kept.exponent, kept.free_level)
        return GaussianLearned(prior_of(found, kept), kept)

    def arrays(self) -> dict[str, Array]:
        """Prior and settings."""
        kept = self.settings
        numbers = [kept.shrinkage, kept.own_variances, kept.exponent, kept.free_level]
        return {**pack_prior(self.prior), "settings": np.array(numbers, dtype=np.float64)}


@dataclass(frozen=True, slots=True, eq=False)
class GaussianRehearsal:
    """Rows that were left out of ``training``, and which of their entries are revealed."""

    training: Indices
    rows: Array
    seen: list[tuple[Indices, Indices]]


def _rehearsals(
    values: Array, groups: Indices, rng: np.random.Generator
) -> Iterator[GaussianRehearsal]:
    for held in group_folds(groups, FOLDS, rng):
        rows = values[held]
        seen = [draw_seen(rows, known, rng) for known in REVEALED for _ in range(DRAWS)]
        training = np.setdiff1d(np.arange(len(values)), held)
        yield GaussianRehearsal(training, rows, [(r, s) for r, s in seen if len(r)])


def _errors(prior: Prior, rehearsal: GaussianRehearsal) -> tuple[float, int]:
    """Summed distance of the entries that were not revealed, and how many there are."""
    total, count = 0.0, 0
    for rows, seen in rehearsal.seen:
        truth = rehearsal.rows[rows]
        error = np.abs(predict_means(prior, truth, seen) - truth)
        np.put_along_axis(error, seen, np.nan, axis=1)
        total += float(np.nansum(error))
        count += int((~np.isnan(error)).sum())
    return total, count


def choose(
    values: Array, groups: Indices, levels: tuple[bool, ...], rng: np.random.Generator
) -> GaussianSettings:
    """The settings under which programs that were left out are predicted best."""
    values, groups = _sample(values, groups, rng)
    scores: dict[GaussianSettings, float] = {}
    if len(np.unique(groups)) > 1:
        exponents = EXPONENTS if len(np.unique(groups)) < len(groups) else EXPONENTS[:1]
        for rehearsal in _rehearsals(values, groups, rng):
            kept, of = values[rehearsal.training], groups[rehearsal.training]
            for free_level, exponent in product(levels, exponents):
                found = moments(kept, of, exponent, free_level)
                for own, shrinkage in product((False, True), SHRINKAGES):
                    settings = GaussianSettings(shrinkage, own, exponent, free_level)
                    error, _ = _errors(prior_of(found, settings), rehearsal)
                    scores[settings] = scores.get(settings, 0.0) + error
    if not scores or not any(scores.values()):
        return GaussianSettings(
            DEFAULT.shrinkage, DEFAULT.own_variances, DEFAULT.exponent, levels[0]
        )
    return min(scores, key=lambda settings: scores[settings])


def _sample(values: Array, groups: Indices, rng: np.random.Generator) -> tuple[Array, Indices]:
    if len(values) <= MAX_ROWS:
        return values, groups
    rows = np.sort(rng.choice(len(values), MAX_ROWS, replace=False))
    return values[rows], groups[rows]


@dataclass(frozen=True, slots=True)
class GaussianEstimator:
    """A normal distribution over rows with a shrunk covariance."""

    name: ClassVar[str] = "gaussian"
    version: ClassVar[int] = 1

    def learn(
        self, values: Array, groups: Indices, scale: RowScale, rng: np.random.Generator
    ) -> GaussianLearned:
        """Choose the settings, then use all rows."""
        levels = (True,) if scale is RowScale.ARBITRARY else (False, True)
        settings = choose(values, groups, levels, rng)
        found = moments(values, groups, settings.exponent, settings.free_level)
        return GaussianLearned(prior_of(found, settings), settings)

    def restore(self, arrays: Mapping[str, Array]) -> GaussianLearned:
        """As saved."""
        shrinkage, own, exponent, free = (float(x) for x in arrays["settings"])
        settings = GaussianSettings(shrinkage, bool(own), exponent, bool(free))
        return GaussianLearned(unpack_prior(arrays), settings)
