"""Probabilistic PCA of rows with gaps, by expectation maximisation.

    x = W z + e,  z ~ N(0, I),  e ~ N(0, σ² I)

(Tipping and Bishop, "Probabilistic principal component analysis", 1999, section 3.2; with
entries missing, each row's likelihood is that of what is known.) The rank is chosen by
evidence: a column of W has the prior N(0, 1/α_k), α_k = columns / |w_k|², and vanishes when
the data do not speak for it (Bishop, "Bayesian PCA", 1999).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wharfinger.estimators.conditional import MIN_VARIANCE
from wharfinger.model.arrays import Array

MAX_RANK = 8
ITERATIONS = 25
TOLERANCE = 1e-3
CHUNK_ENTRIES = 2_000_000
"""Of the largest temporary array."""


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """W, (columns, rank), and σ²."""

    w: Array
    noise_variance: float


def complete(residuals: Array, weights: Array) -> tuple[Array, Array]:
    """(rows, columns) with expected values in their gaps, and Σ weight · E[x xᵀ].

    Rows have mean zero, and NaN in their gaps. The second moment, (columns, columns), includes the
    uncertainty of the gaps.
    """
    observed = ~np.isnan(residuals)
    filled = np.where(observed, residuals, 0.0)
    if observed.all() or min(residuals.shape) < 2:
        return filled, (filled * weights[:, None]).T @ filled
    components = _fit(filled, observed.astype(np.float64))
    z, covariance = _latent(filled, observed.astype(np.float64), components)
    filled = np.where(observed, filled, z @ components.w.T)
    moment = (filled * weights[:, None]).T @ filled
    return filled, moment + _uncertainty(observed, covariance, components, weights)


def _fit(filled: Array, observed: Array) -> Components:
    components = _start(filled, observed)
    for _ in range(ITERATIONS):
        before = components.noise_variance
        components = _step(filled, observed, components)
        if abs(components.noise_variance - before) <= TOLERANCE * before:
            break
    return components


def _start(filled: Array, observed: Array) -> Components:
    rank = max(1, min(MAX_RANK, min(filled.shape) - 1))
    _, singular, right = np.linalg.svd(filled, full_matrices=False)
    w = right[:rank].T * (singular[:rank] / np.sqrt(len(filled)))
    variance = float((filled**2).sum() / observed.sum())
    return Components(w, max(variance / 2, MIN_VARIANCE))


def _latent(filled: Array, observed: Array, components: Components) -> tuple[Array, Array]:
    """(rows, rank) E[z] and (rows, rank, rank) Cov[z], each row by what it knows."""
    w, noise = components.w, components.noise_variance
    rank = w.shape[1]
    outer = np.einsum("jk,jl->jkl", w, w).reshape(len(w), -1)
    information = (observed @ outer).reshape(-1, rank, rank) + noise * np.eye(rank)
    inverse = np.linalg.inv(information)
    z = np.einsum("ikl,il->ik", inverse, filled @ w)
    return z, noise * inverse


def _step(filled: Array, observed: Array, components: Components) -> Components:
    """One round: E the latent rows, M the W and σ² that make them likeliest."""
    w, noise = components.w, components.noise_variance
    rank = w.shape[1]
    z, covariance = _latent(filled, observed, components)
    second = np.einsum("ik,il->ikl", z, z) + covariance
    alpha = len(w) / np.maximum((w**2).sum(axis=0), MIN_VARIANCE)
    gram = (observed.T @ second.reshape(len(z), -1)).reshape(-1, rank, rank)
    gram += np.diag(noise * alpha)
    w = np.linalg.solve(gram, (filled.T @ z)[:, :, None])[:, :, 0]
    error = float((observed * (filled - z @ w.T) ** 2).sum())
    spread = np.einsum(
        "jk,jkl,jl->", w, (observed.T @ covariance.reshape(len(z), -1)).reshape(-1, rank, rank), w
    )
    return Components(w, max((error + float(spread)) / float(observed.sum()), MIN_VARIANCE))


def _uncertainty(
    observed: NDArray[np.bool_], covariance: Array, components: Components, weights: Array
) -> Array:
    """Σ weight · Cov[gaps], zero where either entry is known."""
    size = len(components.w)
    total = np.diag(components.noise_variance * (weights @ ~observed))
    step = max(1, CHUNK_ENTRIES // size**2)
    for start in range(0, len(observed), step):
        part = slice(start, start + step)
        gaps = (~observed[part]) * np.sqrt(weights[part])[:, None]
        spread = components.w @ covariance[part] @ components.w.T
        total += np.einsum("ij,ijk,ik->jk", gaps, spread, gaps)
    return total
