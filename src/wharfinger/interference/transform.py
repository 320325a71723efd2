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


def secant(drops: Array, others: Array, k: float) -> Array:
    """The slope of φ_k between two drops; its derivative where they are one.

    >>> secant(np.array([0.0, 1.0]), np.array([1.0, 1.0]), 1.0).round(4).tolist()
    [1.7183, 2.7183]
    """
    apart = drops - others
    near = np.abs(apart) < 1e-6
    rise = phi(drops, k) - phi(others, k)
    return np.where(near, phi_slope(drops, k), rise / np.where(near, 1.0, apart))


def phi_inverse(values: Array, k: float) -> Array:
    """The drop with that φ_k."""
    return np.asarray(values if k == 0 else np.log(np.maximum(1 + k * values, _LEAST)) / k)
