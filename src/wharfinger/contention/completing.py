"""Pairs without measurements, filled in from those that were; for a ground truth with holes.

``simulation.scenario`` hands it to the measured ground truth. Where most are missing there is too
little for factors: then the effects of rows and columns are the better guess.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from wharfinger.contention.pairs import PairModel

Array = NDArray[np.float64]

LEAST_MEASURED = 0.25
"""Share of a platform's pairs below which factors say less than effects."""
LEAST_RATIO = 1e-6


def completed_pairs(ratios: Array, otherwise: Callable[[Array], Array]) -> Array:
    """Fill a stack of matrices of pairs.

    Args:
        ratios: (P, W, W) performance of row beside column over that of row alone, NaN = not
            measured.
        otherwise: Fills a stack where too little was measured.

    Returns:
        (P, W, W) of more than 0, at most 1 where it was filled in.

    >>> matrix = np.array([[[0.5, np.nan, 0.8], [0.4, 0.6, 0.7], [0.5, 0.7, 0.9]]])
    >>> found = completed_pairs(matrix, np.nan_to_num)
    >>> bool(0 < found[0, 0, 1] <= 1), float(found[0, 2, 2])
    (True, 0.9)
    """
    rough = otherwise(ratios)
    found = rough.copy()
    names = [str(place) for place in range(ratios.shape[1])]
    for platform, matrix in enumerate(ratios):
        holes = np.isnan(matrix)
        if not holes.any() or 1 - holes.mean() < LEAST_MEASURED:
            continue
        fine = PairModel.fit(names, {"": matrix}).completed("")
        found[platform] = np.where(holes, np.clip(fine, LEAST_RATIO, 1.0), matrix)
    return found
