"""Every estimator in the registry keeps what its users rely on."""

import numpy as np
import pytest

from wharfinger.estimators.baselines import Baseline, RowColumnLearned
from wharfinger.estimators.conditional import Gaussian
from wharfinger.estimators.registry import DEFAULT_ESTIMATOR, ESTIMATORS, make_estimator
from wharfinger.testing import check_recommender

# The first learns by entry, in Python, the others rehearse; ``stack`` what the others do.
MARKS = {"gaussian": pytest.mark.slow, "svd-pq": pytest.mark.long, "stack": pytest.mark.long}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=MARKS[n]) if n in MARKS else n for n in ESTIMATORS]
)
def test_estimator(name: str) -> None:
    check_recommender(make_estimator(name))


def test_the_default_is_one_of_them() -> None:
    assert DEFAULT_ESTIMATOR in ESTIMATORS


class Remembering(RowColumnLearned):
    """Predicting inserts."""

    def condition(self, row):
        self.prior.mean[0] += 0.1
        return super().condition(row)


class Certain(RowColumnLearned):
    """Never in doubt."""

    def condition(self, row):
        found = super().condition(row)
        return Gaussian(found.mean, 0 * found.covariance)


class Deaf(RowColumnLearned):
    """Does not look at the row."""

    def condition(self, row):
        return super().condition(np.full_like(row, np.nan))


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [(Remembering, "in a batch"), (Certain, "not 0%"), (Deaf, "a known entry")],
)
def test_what_breaks_a_promise_is_found(kind, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_recommender(Baseline("broken", 1, kind))
