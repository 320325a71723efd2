"""Estimators over sparse matrices: a new row from a few of its entries, and how sure that is.

Knows nothing of clusters. ``matrix`` holds what was measured, ``fit`` (in ``recommender``)
learns from it by one of the estimators of ``registry``, and what comes back folds in new rows
without learning again. ``classification`` maps workloads to rows; ``cli/classify.py`` offers
the same for any matrix in a CSV file.
"""

from wharfinger.estimators.estimator import RowPrediction
from wharfinger.estimators.matrix import Matrix, RowScale, Transform
from wharfinger.estimators.recommender import Recommender, fit
from wharfinger.estimators.registry import DEFAULT_ESTIMATOR, ESTIMATORS, make_estimator

__all__ = [
    "DEFAULT_ESTIMATOR",
    "ESTIMATORS",
    "Matrix",
    "Recommender",
    "RowPrediction",
    "RowScale",
    "Transform",
    "fit",
    "make_estimator",
]
