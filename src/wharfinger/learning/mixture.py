"""Mixtures centred on known rows: between the Gaussian and the nearest neighbour.

    x | i  ~  N( m + a r_i + β, (1 − a²) Σ ),   i = 1 … rows, with weight w_i

r_i is known row i about the mean row m (and about its own level where levels are free), Σ the
shrunk covariance of ``gaussian.py``. At a = 0 that is the Gaussian; the nearer a comes to 1, the
more a new row has to be one of the known ones, level aside. Over all components the covariance
stays about Σ (a kernel density with shrunk centres: Silverman, Density Estimation, 1986, section
6.4.1). Given some entries x_o all components have the same gain, so that

    π_i ∝ w_i L(q_i),   q_i = d_iᵀ Q d_i,   d_i = x_o − m_o − a r_io
    E[x | x_o]  =  that of N(m + a Σ π_i r_i, Σ)

with Q = K_oo⁻¹ / (1 − a²), less its part along the level where that is free. L is normal's or
Student's: a program may vary more than the known ones do, and then no neighbour is to be
believed too soon.
"""

from dataclasses import dataclass

import numpy as np

from wharfinger.learning.conditional import LEAST_VARIANCE, RIDGE, Gaussian
from wharfinger.learning.effects import row_weights, shrunk_columns, two_way
from wharfinger.learning.gaussian import Moments, Settings, prior_of
from wharfinger.learning.matrix import Array
from wharfinger.learning.ppca import complete
from wharfinger.learning.tasks import Indices

ROBUST_FREEDOM = 4.0
"""Of the Student's t by which rows that lie far off count less."""
ROBUST_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class FamilySettings:
    """How known rows are taken.

    Attributes:
        free_level: A row's level is told by its own entries alone.
        exponent: How much less each of a program's rows counts; 0 not, 1 wholly.
        robust: Rows that lie far off count less.
    """

    free_level: bool
    exponent: float
    robust: bool


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Known rows, taken one way.

    Attributes:
        residuals: (rows, columns) about the mean; gaps as PCA completes them.
        log_weights: (rows,) of the components.
        level_variance: Of the rows' levels; used only where levels are free and no entry is known.
        moments: Mean and covariance, for making members; ``None`` in what was saved.
    """

    residuals: Array
    log_weights: Array
    level_variance: float
    moments: Moments | None = None


def family(values: Array, groups: Indices, settings: FamilySettings) -> Family:
    """Mean, covariance and residuals of rows with gaps."""
    base = row_weights(groups, settings.exponent)
    weights = base
    for round_ in range(ROBUST_ROUNDS + 1):
        effects = two_way(values, weights)
        residuals = values - effects.columns
        if settings.free_level:
            residuals = residuals - effects.levels[:, None]
        if not settings.robust or round_ == ROBUST_ROUNDS:
            break
        squares = np.nanmean(residuals**2, axis=1)
        typical = max(float(np.median(squares)), LEAST_VARIANCE)
        weights = base * (ROBUST_FREEDOM + 1) / (ROBUST_FREEDOM + squares / typical)
    rows = float(weights.sum() ** 2 / (weights**2).sum())
    freedom = weights.sum() * (1 - 1 / rows) if rows > 1 else weights.sum()
    completed = complete(residuals, weights)
    sample = completed.moment / max(freedom, LEAST_VARIANCE)
    found = Moments(effects, sample, rows, settings.free_level)
    return Family(completed.rows, np.log(weights), effects.level_variance, found)


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """One mixture.

    Attributes:
        family: How known rows are taken.
        drawn: How far column effects are drawn towards none: 0 not, 1 as far as their noise
            says, 2 halfway whatever it says.
        closeness: a.
        freedom: Of Student's t in the likelihood of components; infinite = normal.
        shrinkage: α of the covariance.
        own_variances: T has one variance per column, not one for all.
    """

    family: FamilySettings
    drawn: int
    closeness: float
    freedom: float
    shrinkage: float
    own_variances: bool


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One mixture, learned.

    Attributes:
        settings: Which.
        mean: (columns,) m.
        kernel: (columns, columns) Σ.
        family: Its components.
    """

    settings: MemberSettings
    mean: Array
    kernel: Array
    family: Family


def member(found: Family, settings: MemberSettings) -> Member:
    """Mean and covariance of one mixture."""
    assert found.moments is not None, "a family that was saved makes no new members"
    kept = Settings(settings.shrinkage, settings.own_variances, 0.0, settings.family.free_level)
    prior = prior_of(found.moments, kept)
    return Member(settings, drawn_columns(found.moments, settings.drawn), prior.covariance, found)


def drawn_columns(moments: Moments, drawn: int) -> Array:
    """The mean row, column effects drawn towards none."""
    columns = moments.effects.columns
    if drawn == 0:
        return columns
    if drawn == 1:
        return shrunk_columns(moments.effects, moments.rows)
    return np.asarray((columns + columns.mean()) / 2)


def precisions(kernel: Array, seen: Indices) -> Array:
    """(tasks, known, known) inverse covariances of what is known."""
    known = kernel[seen[:, :, None], seen[:, None, :]]
    size = seen.shape[1]
    ridge = RIDGE * np.trace(known, axis1=1, axis2=2) / size + LEAST_VARIANCE
    return np.linalg.inv(known + ridge[:, None, None] * np.eye(size))


def predict_means(one: Member, rows: Array, seen: Indices) -> Array:
    """Conditional means of many rows that each know the same number of entries.

    Args:
        one: By which mixture.
        rows: (tasks, columns) transformed values.
        seen: (tasks, known) columns that are known, at least one.

    Returns:
        (tasks, columns).
    """
    free = one.settings.family.free_level
    inverse = precisions(one.kernel, seen)
    residual = np.take_along_axis(rows, seen, axis=1) - one.mean[seen]
    totals = inverse.sum(axis=1)
    shift = np.zeros(rows.shape)
    if one.settings.closeness > 0:
        weights = _responsibilities(one, inverse, residual, seen)
        shift = one.settings.closeness * (weights @ one.family.residuals)
        residual = residual - np.take_along_axis(shift, seen, axis=1)
    level = np.zeros(len(rows))
    if free:
        level = (totals * residual).sum(axis=1) / totals.sum(axis=1)
    pulls = np.einsum("tij,tj->ti", inverse, residual - level[:, None])
    moved = np.einsum("tkm,tk->tm", one.kernel[seen], pulls)
    return np.asarray(one.mean + shift + level[:, None] + moved)


def _responsibilities(one: Member, inverse: Array, residual: Array, seen: Indices) -> Array:
    """(tasks, rows) how much each known row speaks for a new one."""
    settings = one.settings
    a, free = settings.closeness, settings.family.free_level
    if free:
        totals = inverse.sum(axis=1)
        along = totals[:, :, None] * totals[:, None, :]
        inverse = inverse - along / totals.sum(axis=1)[:, None, None]
    scaled = inverse / (1 - a * a)
    # d Q d, multiplied out: each part is a product of matrices.
    theirs = a * one.family.residuals[:, seen].transpose(1, 0, 2)
    pulled = np.einsum("tij,tj->ti", scaled, residual)
    q = (residual * pulled).sum(axis=1)[:, None] - 2 * np.einsum("tnk,tk->tn", theirs, pulled)
    q = q + np.einsum("tnk,tnk->tn", theirs @ scaled, theirs)
    logs = one.family.log_weights + log_likelihood(q, settings.freedom, seen.shape[1] - int(free))
    logs -= logs.max(axis=1, keepdims=True)
    weights = np.exp(logs)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def log_likelihood(q: Array, freedom: float, known: int) -> Array:
    """Of a squared distance, but for a constant."""
    if np.isinf(freedom):
        return -q / 2
    return np.asarray(-(freedom + known) / 2 * np.log1p(np.maximum(q, 0.0) / freedom))


def condition(one: Member, row: Array) -> Gaussian:
    """Mean and covariance of one row given its known entries; may be none.

    The reference for ``native/_mixture``, which leaves out all of the covariance but its diagonal.
    """
    settings, found = one.settings, one.family
    seen = np.flatnonzero(~np.isnan(row))
    a = settings.closeness
    if not seen.size:
        weights = np.exp(found.log_weights - found.log_weights.max())
        centre = a * (weights @ found.residuals) / weights.sum()
        level = found.level_variance if settings.family.free_level else 0.0
        return Gaussian(one.mean + centre, one.kernel + level)
    inverse = precisions(one.kernel, seen[None])[0]
    totals, precision = inverse.sum(axis=0), float(inverse.sum())
    gain = one.kernel[:, seen] @ inverse
    pull = gain
    left = one.kernel - gain @ one.kernel[seen]
    if settings.family.free_level:
        rest = 1 - gain.sum(axis=1)
        pull = gain + np.outer(rest, totals / precision)
        left = left + np.outer(rest, rest) / precision
    residual = (row[seen] - one.mean[seen])[None]
    centres = np.zeros((1, len(row)))
    weights = np.ones(1)
    if a > 0:
        weights = _responsibilities(one, inverse[None], residual, seen[None])[0]
        centres = a * found.residuals
    # Each component's mean: its centre, and what the known entries say beside it.
    means = one.mean + centres + (residual - centres[:, seen]) @ pull.T
    mean = weights @ means
    spread = (means - mean) * np.sqrt(weights)[:, None]
    return Gaussian(mean, (1 - a * a) * left + spread.T @ spread)
