"""Any matrix of pairs, held exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wharfinger.contention.exact import exact_profiles
from wharfinger.errors import InvalidInput

MATRICES = st.integers(1, 6).flatmap(
    lambda k: arrays(np.float64, (k, k), elements=st.just(0.0) | st.floats(1e-3, 2.0))
)


@given(MATRICES)
def test_each_pair_comes_out_as_it_was(relative):
    names = [f"p{i}" for i in range(len(relative))]
    profiles = exact_profiles("b", names, relative)
    for i, u in enumerate(names):
        for j, v in enumerate(names):
            found = profiles[u].beside(profiles[v])
            if relative[i, j] == 0 or relative[j, i] == 0:
                assert found.unfit == 1.0
            else:
                assert found.unfit == 0.0
                assert found.mean == pytest.approx(relative[i, j])
            assert found.std == 0.0


@pytest.mark.parametrize("bad", [np.nan, -1.0, np.inf])
def test_a_pair_without_a_number_is_named(bad):
    with pytest.raises(InvalidInput, match="'a' beside 'b'"):
        exact_profiles("b", ["a", "b"], np.array([[1.0, bad], [1.0, 1.0]]))


def test_names_and_matrix_are_of_one_size():
    with pytest.raises(InvalidInput, match="2 programs"):
        exact_profiles("b", ["a", "b"], np.ones((3, 3)))
