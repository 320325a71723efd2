"""Arrays of numbers: the usual type, and operations of tables of columns."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Number = TypeVar("Number", bound=np.generic)


def frozen(array: NDArray[Number]) -> NDArray[Number]:
    """The same array, or view, made read-only."""
    array.flags.writeable = False
    return array


def grown(array: NDArray[Number], rows: int, width: int | None = None) -> NDArray[Number]:
    """The array with at least so many rows (doubled if that is not enough) and this width.

    >>> grown(np.ones((1, 1)), 2, width=2).shape
    (16, 2)
    """
    if rows > len(array):
        rows = max(rows, 2 * len(array), 16)
    tail = array.shape[1:] if width is None else (width,)
    larger = np.zeros((rows, *tail), dtype=array.dtype)
    larger[(slice(len(array)), *(slice(size) for size in array.shape[1:]))] = array
    return larger


def normal_below(deviations: Array) -> Array:
    """The probability that a standard normal variable is below each number.

    Page's approximation (Applied Statistics 26, 1977), off by less than 2e-4.

    >>> normal_below(np.array([-1.0, 0.0, 2.0])).round(3).tolist()
    [0.159, 0.5, 0.977]
    """
    return np.asarray(0.5 + 0.5 * np.tanh(deviations * (0.7978846 + 0.0356774 * deviations**2)))
