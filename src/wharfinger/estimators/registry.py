"""Every estimator by name. A new one is a file beside this one and a line here."""

from wharfinger.errors import InvalidInput
from wharfinger.estimators.baselines import COLUMN_MEANS, NEAREST_NEIGHBOURS, ROW_COLUMN_MEANS
from wharfinger.estimators.estimator import Estimator
from wharfinger.estimators.gaussian import GaussianEstimator
from wharfinger.estimators.stack import StackEstimator
from wharfinger.estimators.svd_pq import SvdPq

_ALL: tuple[Estimator, ...] = (
    COLUMN_MEANS,
    ROW_COLUMN_MEANS,
    NEAREST_NEIGHBOURS,
    SvdPq(),
    GaussianEstimator(),
    StackEstimator(),
)
ESTIMATORS = {each.name: each for each in _ALL}
DEFAULT_ESTIMATOR = StackEstimator.name


def make_estimator(name: str) -> Estimator:
    """The estimator of that name.

    Raises:
        InvalidInput: No estimator has it.
    """
    if name not in ESTIMATORS:
        raise InvalidInput(
            f"--estimator: {name!r} is not an estimator; there are {', '.join(ESTIMATORS)}"
        )
    return ESTIMATORS[name]
