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
    known = ~np.isnan(residuals)
    filled = np.where(known, residuals, 0.0)
    if known.all() or min(residuals.shape) < 2:
        return filled, (filled * weights[:, None]).T @ filled
    components = _fit(filled, known.astype(np.float64))
    z, covariance = _latent(filled, known.astype(np.float64), components)
    filled = np.where(known, filled, z @ components.w.T)
    moment = (filled * weights[:, None]).T @ filled
    return filled, moment + _uncertainty(known, covariance, components, weights)


def _fit(filled: Array, known: Array) -> Components:
    components = _start(filled, known)
    for _ in range(ITERATIONS):
        before = components.noise_variance
        components = _step(filled, known, components)
        if abs(components.noise_variance - before) <= TOLERANCE * before:
            break
    return components


def _start(filled: Array, known: Array) -> Components:
    """Principal components of the rows with gaps at their mean."""
    rank = max(1, min(MAX_RANK, min(filled.shape) - 1))
    _, singular, right = np.linalg.svd(filled, full_matrices=False)
    w = right[:rank].T * (singular[:rank] / np.sqrt(len(filled)))
    variance = float((filled**2).sum() / known.sum())
    return Components(w, max(variance / 2, MIN_VARIANCE))


def _latent(filled: Array, known: Array, components: Components) -> tuple[Array, Array]:
    """(rows, rank) E[z] and (rows, rank, rank) Cov[z], each row by what it knows."""
    w, noise = components.w, components.noise_variance
    rank = w.shape[1]
    outer = np.einsum("jk,jl->jkl", w, w).reshape(len(w), -1)
    information = (known @ outer).reshape(-1, rank, rank) + noise * np.eye(rank)
    inverse = np.linalg.inv(information)
    z = np.einsum("ikl,il->ik", inverse, filled @ w)
    return z, noise * inverse


def _step(filled: Array, known: Array, components: Components) -> Components:
    """One round: E the latent rows, M the W and σ² that make them likeliest."""
    w, noise = components.w, components.noise_variance
    rank = w.shape[1]
    z, covariance = _latent(filled, known, components)
    second = np.einsum("ik,il->ikl", z, z) + covariance
    alpha = len(w) / np.maximum((w**2).sum(axis=0), MIN_VARIANCE)
    gram = (known.T @ second.reshape(len(z), -1)).reshape(-1, rank, rank)
    gram += np.diag(noise * alpha)
    w = np.linalg.solve(gram, (filled.T @ z)[:, :, None])[:, :, 0]
    error = float((known * (filled - z @ w.T) ** 2).sum())
    spread = np.einsum(
        "jk,jkl,jl->", w, (known.T @ covariance.reshape(len(z), -1)).reshape(-1, rank, rank), w
    )
    return Components(w, max((error + float(spread)) / float(known.sum()), MIN_VARIANCE))


def _uncertainty(
    known: NDArray[np.bool_], covariance: Array, components: Components, weights: Array
) -> Array:
    """Σ weight · Cov[gaps], zero where either entry is known."""
    size = len(components.w)
    total = np.diag(components.noise_variance * (weights @ ~known))
    step = max(1, CHUNK_ENTRIES // size**2)
    for start in range(0, len(known), step):
        part = slice(start, start + step)
        gaps = (~known[part]) * np.sqrt(weights[part])[:, None]
        spread = components.w @ covariance[part] @ components.w.T
        total += np.einsum("ij,ijk,ik->jk", gaps, spread, gaps)
    return total
