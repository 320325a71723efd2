"""Saved and loaded: the same to the last bit; damage is one line."""

from pathlib import Path

import numpy as np
import pytest

from tests.support import slow
from tests.support.matrices import performance
from wharfinger.errors import InvalidInput
from wharfinger.estimators import ESTIMATORS, RowScale, fit
from wharfinger.files.recommenders import from_bytes, load, save, to_bytes

SLOW = {"svd-pq", "stack"}


@pytest.mark.long
@pytest.mark.parametrize("name", [*sorted(ESTIMATORS.keys() - SLOW), *slow(sorted(SLOW))])
def test_what_is_loaded_predicts_as_what_was_saved(tmp_path: Path, name: str):
    model = fit(name, performance(1, missing=0.2), scale=RowScale.COMMON, seed=4)
    save(model, tmp_path / "model")
    found = load(tmp_path / "model")
    row = {"config 1": 10.0, "config 3": 4.0}
    np.testing.assert_array_equal(found.predict(row).log_mean, model.predict(row).log_mean)
    np.testing.assert_array_equal(found.predict(row).covariance, model.predict(row).covariance)
    assert (found.scale, found.seed, found.matrix.rows) == (RowScale.COMMON, 4, model.matrix.rows)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_damage_is_found():
    data = to_bytes(fit("row-column-means", performance(1)))
    for bad in (b"", data[:100], data[:-40], b"x" * 50, b"{}" + data[2:]):
        with pytest.raises(InvalidInput, match="fit it again"):
            from_bytes(bad)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(InvalidInput, match="No such file"):
        load(tmp_path / "none")
