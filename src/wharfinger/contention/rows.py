"""Rows of arrays that grow by doubling, and close up where one is removed."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Number = TypeVar("_Number", bound=np.generic)


def grown(array: NDArray[_Number], *shape: int, fill: float = 0) -> NDArray[_Number]:
    """The numbers in an array of another shape, no smaller; new ones are ``fill``."""
    if array.shape == shape:
        return array
    larger = np.full(shape, fill, dtype=array.dtype)
    larger[tuple(slice(size) for size in array.shape)] = array
    return larger


def doubled(rows: int, needed: int) -> int:
    """The number of rows to make."""
    return rows if needed <= rows else max(needed, 2 * rows, 16)


def close_up(array: NDArray[_Number], row: int, fill: float = 0) -> None:
    """Remove a row of the first axis; the last one becomes ``fill``."""
    array[row:-1] = array[row + 1 :]
    array[-1:] = fill
