"""Mixtures centred on known rows: between the Gaussian and the nearest neighbor.

    x | i  ~  N( m + a r_i + β, (1 − a²) Σ ),   i = 1 … rows, with weight w_i

r_i is known row i about the mean row m (and about its own level where levels are free), Σ the
shrunk covariance of ``gaussian.py``. At a = 0 that is the Gaussian; near a = 1 a new row has to be
one of the known ones, level aside. Over all components the covariance stays about Σ (a kernel
density with shrunk centres: Silverman, Density Estimation, 1986, section 6.4.1). Given some entries
x_o all components have the same gain, so that

    π_i ∝ w_i L(q_i),   q_i = d_iᵀ Q d_i,   d_i = x_o − m_o − a r_io
    E[x | x_o]  =  that of N(m + a Σ π_i r_i, Σ)

with Q = K_oo⁻¹ / (1 − a²), less its part along the level where that is free. L is the normal's
or Student's likelihood: the latter stays cautious about a program that varies more than known ones.
"""

from dataclasses import dataclass

import numpy as np

from wharfinger.estimators import conditional
from wharfinger.estimators.conditional import MIN_VARIANCE, Gaussian, Prior
from wharfinger.estimators.effects import robust_two_way, row_weights, two_way
from wharfinger.estimators.gaussian import Moments, about_mean, moments_about
from wharfinger.estimators.tasks import Indices
from wharfinger.model.arrays import Array

ROBUST_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class FamilySettings:
    """How known rows are used; ``free_level`` and ``exponent`` as in ``GaussianSettings``.

    Attributes:
        row_freedom: Degrees of freedom of the Student's t by which outlying rows count less;
            infinite = all rows count.
        robust_columns: Outlying entries count less for the mean row.
    """

    free_level: bool
    exponent: float
    row_freedom: float
    robust_columns: bool


@dataclass(frozen=True, slots=True, eq=False)
class MixtureFamily:
    """Known rows, used one way.

    Attributes:
        residuals: (rows, columns) about the mean; gaps as PCA completes them.
        log_weights: (rows,) of the components.
        moments: Mean and covariance, for making members; ``None`` when restored from a file.
    """

    residuals: Array
    log_weights: Array
    moments: Moments | None = None


def family(values: Array, groups: Indices, settings: FamilySettings) -> MixtureFamily:
    """Mean, covariance and residuals of rows with gaps."""
    weights = _weights(values, row_weights(groups, settings.exponent), settings)
    effects = (robust_two_way if settings.robust_columns else two_way)(values, weights)
    moments, rows = moments_about(values, weights, effects, settings.free_level)
    return MixtureFamily(rows, np.log(weights), moments)


def _weights(values: Array, base: Array, settings: FamilySettings) -> Array:
    """(rows,) ``base``, less for outlying rows."""
    weights, freedom = base, settings.row_freedom
    for _ in range(ROBUST_ROUNDS if np.isfinite(freedom) else 0):
        residuals = about_mean(values, two_way(values, weights), settings.free_level)
        squares = np.nanmean(residuals**2, axis=1)
        typical = max(float(np.median(squares)), MIN_VARIANCE)
        weights = base * (freedom + 1) / (freedom + squares / typical)
    return weights


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """One mixture; ``shrinkage`` and ``own_variances`` as in ``GaussianSettings``.

    Attributes:
        drawn: Column effects are shrunk, as far as their noise says.
        closeness: a.
        freedom: Degrees of freedom of Student's t in the likelihood; infinite = normal.
    """

    family: FamilySettings
    drawn: bool
    closeness: float
    freedom: float
    shrinkage: float
    own_variances: bool


@dataclass(frozen=True, slots=True, eq=False)
class MixtureMember:
    """One mixture, learned: ``prior`` holds m and Σ, ``family`` the components."""

    settings: MemberSettings
    prior: Prior
    family: MixtureFamily


def predict_means(one: MixtureMember, rows: Array, seen: Indices) -> Array:
    """As ``conditional.predict_means``, with at least one known entry."""
    shift = np.zeros(rows.shape)
    if one.settings.closeness > 0:
        residual = np.take_along_axis(rows, seen, axis=1) - one.prior.mean[seen]
        shift = one.settings.closeness * (
            _responsibilities(one, residual, seen) @ one.family.residuals
        )
    return shift + conditional.predict_means(one.prior, rows - shift, seen)


def _responsibilities(one: MixtureMember, residual: Array, seen: Indices) -> Array:
    """(tasks, rows) posterior weight π of each component."""
    settings = one.settings
    a, free = settings.closeness, one.prior.free_level
    inverse = conditional.precisions(one.prior, seen)
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
    logs = one.family.log_weights + _log_likelihood(q, settings.freedom, seen.shape[1] - int(free))
    logs -= logs.max(axis=1, keepdims=True)
    weights = np.exp(logs)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _log_likelihood(q: Array, freedom: float, count: int) -> Array:
    """L(q) without its constant."""
    if np.isinf(freedom):
        return -q / 2
    return np.asarray(-(freedom + count) / 2 * np.log1p(np.maximum(q, 0.0) / freedom))


def condition(one: MixtureMember, row: Array) -> Gaussian:
    """One row given its known entries, if any.

    The reference for ``native/_mixture``, which computes only the diagonal of the covariance.
    """
    prior, components, a = one.prior, one.family, one.settings.closeness
    seen = np.flatnonzero(~np.isnan(row))
    if not seen.size:
        weights = np.exp(components.log_weights - components.log_weights.max())
        cold = prior.condition(row)
        shift = a * (weights @ components.residuals) / weights.sum()
        return Gaussian(cold.mean + shift, cold.covariance)
    gain, left, level_weights = prior.gain(seen)
    if prior.free_level:
        gain = gain + np.outer(1 - gain.sum(axis=1), level_weights)
    residual = (row[seen] - prior.mean[seen])[None]
    centres, weights = np.zeros((1, len(row))), np.ones(1)
    if a > 0:
        centres = a * components.residuals
        weights = _responsibilities(one, residual, seen[None])[0]
    # Each component's mean: its centre, moved by the known entries.
    means = prior.mean + centres + (residual - centres[:, seen]) @ gain.T
    mean = weights @ means
    spread = (means - mean) * np.sqrt(weights)[:, None]
    return Gaussian(mean, (1 - a * a) * left + spread.T @ spread)
