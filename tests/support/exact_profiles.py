"""Exact profiles of programs whose pairs are all known, for the oracle and for tests."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import InvalidInput
from wharfinger.model.pairs import PairProfile


def exact_profiles(
    basis: str, names: Sequence[str], relative: NDArray[np.float64]
) -> dict[str, PairProfile]:
    """One profile per program, on one platform; each program is a factor of its own.

    Args:
        basis: Name of the factors, unique for the matrix.
        names: K programs.
        relative: (K, K) performance of row beside column, over performance of row alone; 0 in one
            of the two directions = they do not fit on one server.

    Raises:
        InvalidInput: The matrix has another shape, or an entry that is missing or below 0.

    >>> profiles = exact_profiles("both", ["a", "b"], np.array([[0.5, 0.8], [0.0, 1.0]]))
    >>> profiles["a"].beside(profiles["a"]).mean, profiles["a"].beside(profiles["b"]).unfit
    (0.5, 1.0)
    """
    if relative.shape != (len(names), len(names)):
        raise InvalidInput(f"{len(names)} programs and a matrix of shape {relative.shape}")
    if not (np.isfinite(relative) & (relative >= 0)).all():
        i, j = np.argwhere(~(np.isfinite(relative) & (relative >= 0)))[0]
        raise InvalidInput(
            f"{names[i]!r} beside {names[j]!r}: {relative[i, j]:g}; give each pair a number, "
            "0 where the two do not fit"
        )
    unfit = (relative == 0) | (relative == 0).T
    drops = -np.log(np.where(relative == 0, 1.0, relative)) + 0.0
    ones = np.eye(len(names))
    profiles = {}
    for row, name in enumerate(names):
        one = tuple(ones[row].tolist())
        excluded = tuple(unfit[row].astype(float).tolist()) if unfit.any() else ()
        profiles[name] = PairProfile(
            basis,
            suffers=tuple(drops[row].tolist()),
            presses=one,
            excluded=excluded,
            excludes=one if unfit.any() else (),
        )
    return profiles
