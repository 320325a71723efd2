"""GramSums over sets without their matrix: each set touches only its own members."""

import numpy as np

from wharfinger.interference.measurements import Members
from wharfinger.model.arrays import Array


def gram(
    members: Members, scale: Array, targets: Array, weights: Array | None = None
) -> tuple[Array, Array]:
    """XᵀWX and XᵀWy of rows with ``scale[w]`` at each member w, twice where w is there twice.

    Args:
        members: (n, degree).
        scale: (m,).
        targets: (n,) y.
        weights: (n,) the diagonal of W; ``None`` = 1.

    >>> products, moments = gram(np.array([[0, 0], [0, 1]]), np.array([1.0, 2.0]), np.ones(2))
    >>> products.tolist(), moments.tolist()
    ([[5.0, 2.0], [2.0, 4.0]], [3.0, 2.0])
    """
    size, degree = len(scale), members.shape[1]
    of_row = np.ones(len(targets)) if weights is None else weights
    flat = np.zeros(size * size)
    for one in range(degree):
        for other in range(one, degree):
            at = members[:, one] * size + members[:, other]
            flat += np.bincount(at, of_row, size * size) * (0.5 if one == other else 1.0)
    square = flat.reshape(size, size)
    products = (square + square.T) * np.outer(scale, scale)
    return products, scale * column_sums(members, of_row * targets, size)


def column_sums(members: Members, values: Array, size: int) -> Array:
    """(size,) sum of the values of the sets in which each name is, as often as it is there."""
    total = np.zeros(size)
    for at in range(members.shape[1]):
        total += np.bincount(members[:, at], values, size)
    return total
