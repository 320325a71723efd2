"""Other people's recommenders, as far as they are installed: one new row of two known entries."""

import importlib.util
from collections.abc import Callable

import numpy as np

from wharfinger.estimators import Matrix
from wharfinger.model.arrays import Array

PACKAGES = {"cmfrec": "cmfrec", "surprise": "scikit-surprise", "sklearn": "scikit-learn"}
RANK = 8
MOST_ENTRIES = 40_000
"""Beyond so many, fitting again or imputing takes seconds a row; they are left out then."""


def missing() -> list[str]:
    """Names of those that are not installed."""
    return [name for module, name in PACKAGES.items() if not importlib.util.find_spec(module)]


def fold_in_peers(matrix: Matrix, row: Array) -> dict[str, Callable[[], object]]:
    """What each does for a new row, already fitted to the matrix where it can be.

    Args:
        matrix: Known rows.
        row: (columns,) logarithms, NaN where not known.
    """
    values = matrix.transformed
    small = int((~np.isnan(values)).sum()) <= MOST_ENTRIES
    found: dict[str, Callable[[], object]] = {}
    absent = missing()
    if "cmfrec" not in absent:
        found["cmfrec, factors_warm"] = _cmfrec(values, row)
    if "scikit-surprise" not in absent and small:
        found["scikit-surprise, fitted again"] = _surprise(values, row)
    if "scikit-learn" not in absent and small:
        found |= _imputers(values, row)
    return found


def _cmfrec(values: Array, row: Array) -> Callable[[], object]:
    from cmfrec import CMF  # noqa: PLC0415

    model = CMF(k=RANK, method="als", verbose=False, use_float=False, nthreads=1)
    model.fit(values)
    items = model.B_

    def fold_in() -> object:
        return model.factors_warm(X=row) @ items.T

    return fold_in


def _surprise(values: Array, row: Array) -> Callable[[], object]:
    import pandas  # noqa: PLC0415
    from surprise import SVD, Dataset, Reader  # noqa: PLC0415

    together = np.vstack([values, row])
    users, items = np.nonzero(~np.isnan(together))
    ratings = together[users, items]
    frame = pandas.DataFrame({"user": users, "item": items, "rating": ratings})
    reader = Reader(rating_scale=(float(ratings.min()), float(ratings.max())))
    training = Dataset.load_from_df(frame, reader).build_full_trainset()

    def fold_in() -> object:
        model = SVD(n_factors=RANK, random_state=0).fit(training)
        return [model.estimate(len(values), item) for item in range(training.n_items)]

    return fold_in


def _imputers(values: Array, row: Array) -> dict[str, Callable[[], object]]:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401, PLC0415
    from sklearn.impute import IterativeImputer, KNNImputer  # noqa: PLC0415

    neighbours = KNNImputer().fit(values)
    iterative = IterativeImputer(random_state=0, n_nearest_features=RANK).fit(values)
    return {
        "scikit-learn, KNNImputer": lambda: neighbours.transform(row[None]),
        "scikit-learn, IterativeImputer": lambda: iterative.transform(row[None]),
    }
