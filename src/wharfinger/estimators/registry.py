"""Every estimator by name. A new one is a file beside this one and a line here."""

from collections.abc import Callable

from wharfinger.errors import InvalidInput
from wharfinger.estimators.estimator import Estimator
from wharfinger.estimators.gaussian import GaussianEstimator
from wharfinger.estimators.means import ColumnMeans, RowColumnMeans
from wharfinger.estimators.neighbours import NearestNeighbours
from wharfinger.estimators.stack import StackEstimator
from wharfinger.estimators.svd_pq import SvdPq

ESTIMATORS: dict[str, Callable[[], Estimator]] = {
    ColumnMeans.name: ColumnMeans,
    RowColumnMeans.name: RowColumnMeans,
    NearestNeighbours.name: NearestNeighbours,
    SvdPq.name: SvdPq,
    GaussianEstimator.name: GaussianEstimator,
    StackEstimator.name: StackEstimator,
}

DEFAULT_ESTIMATOR = StackEstimator.name


def make_estimator(name: str) -> Estimator:
    """The estimator of that name.

    Raises:
        InvalidInput: There is none.
    """
    if name not in ESTIMATORS:
        raise InvalidInput(
            f"--estimator: {name!r} is not an estimator; there are {', '.join(ESTIMATORS)}"
        )
    return ESTIMATORS[name]()
