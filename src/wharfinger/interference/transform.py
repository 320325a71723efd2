"""The Box-Cox transform of a slow-down exp x: φ_k(x) = (exp(k x) − 1) / k."""

import numpy as np

from wharfinger.model.arrays import Array

_LEAST = 1e-9
"""Of 1 + k z: for k < 0 sums end at an infinite drop, for k > 0 at a speed-up beyond all."""


def phi(drops: Array, k: float) -> Array:
    """φ_k, the drop itself for k = 0.

    >>> phi(np.log([2.0]), 1.0).tolist()
    [1.0]
    """
    return np.asarray(drops if k == 0 else np.expm1(k * drops) / k)


def phi_slope(drops: Array, k: float) -> Array:
    """The derivative of φ_k."""
    return np.asarray(np.exp(k * drops))


def secant(rises: Array, runs: Array, drops: Array, k: float) -> Array:
    """The slope of φ_k over runs that end at drops; its derivative where they are no run.

    >>> secant(np.array([np.e - 1, 0.0]), np.array([1.0, 0.0]), np.ones(2), 1.0).round(4).tolist()
    [1.7183, 2.7183]
    """
    if k == 0:
        return np.ones(len(drops))
    short = np.flatnonzero(np.abs(runs) < 1e-6)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Where the inverse of a sum ends before the drop that was measured, the run goes back.
        slopes = np.abs(rises / runs)
    slopes[short] = phi_slope(drops[short], k)
    return slopes


def phi_inverse(values: Array, k: float) -> Array:
    """The drop with that φ_k."""
    return np.asarray(values if k == 0 else np.log(np.maximum(1 + k * values, _LEAST)) / k)
