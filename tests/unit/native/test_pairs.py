"""What pair profiles say of all rows at once, beside products of matrices, one for each term."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.native import pair_drops, pair_shortfalls

NONE = np.zeros((0, 0))


def picked(levels, factors, profile):
    products = (levels @ factors.T)[np.arange(len(levels)), np.maximum(profile, 0)]
    return np.where(profile >= 0, products, 0.0)


def reference_drops(levels, variances, cross, profile, factors, doubt):
    """With an independent error of each number: a product of matrices for each term."""
    drop = picked(levels, factors, profile)
    variance = picked(variances, factors**2, profile) + picked(cross, factors, profile)
    variance += picked(levels**2 + variances, doubt, profile)
    return drop, variance


def reference_shortfalls(kept, drop, variance, z):
    before, own, bound = kept[:, :3].T
    variance = np.maximum(variance, -own)
    low = before - z * np.sqrt(own) - bound
    lower = before - drop - z * np.sqrt(own + variance) - bound
    further = np.minimum(low, 0.0) - np.minimum(lower, 0.0)
    return -np.expm1(-np.maximum(further, 0.0))


@given(
    st.integers(0, 2**32),
    st.integers(0, 50),
    st.integers(0, 9),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
)
def test_drops_and_their_variances(seed, rows, width, platforms, exact, crossed):
    rng = np.random.default_rng(seed)
    levels = rng.normal(0, 0.3, (rows + 3, width))
    variances, cross = rng.random((2, rows + 3, width)) * (0 if exact else 0.1)
    cross -= 0.05 * (not exact)
    factors = rng.normal(0, 0.5, (platforms, width))
    doubt = rng.random((platforms, width)) * (0 if exact else 0.1)
    profile = rng.integers(-1, platforms, rows)
    found = pair_drops(levels, variances, cross if crossed else NONE, profile, factors, doubt)
    of_rows = levels[:rows], variances[:rows], (cross if crossed else 0 * cross)[:rows]
    wanted = reference_drops(*of_rows, profile, factors, doubt)
    for one, other in zip(found, wanted, strict=True):
        assert one == pytest.approx(other, rel=1e-12, abs=1e-15)


@given(st.integers(0, 2**32), st.sampled_from([-0.5, 0.0, 0.84, 3.0]))
def test_shares_below_what_must_be_kept(seed, z):
    rng = np.random.default_rng(seed)
    kept = rng.normal(0, 0.3, (60, 5))
    kept[:, 1] = rng.choice([0.0, 0.01, 0.2], 60)
    drop, variance = rng.normal(0.1, 0.2, 55), rng.normal(0.02, 0.05, 55)
    found = pair_shortfalls(kept, drop, variance, z)
    assert found == pytest.approx(reference_shortfalls(kept[:55], drop, variance, z), rel=1e-9)


def test_shapes_that_differ():
    one, two = np.zeros((1, 1)), np.zeros((2, 1))
    with pytest.raises(ValueError, match="not 2 x 1"):
        pair_drops(one, two, NONE, np.zeros(2, np.int64), one, one)
    with pytest.raises(ValueError, match="differ in shape"):
        pair_drops(two, two, NONE, np.zeros(2, np.int64), one, two)
    with pytest.raises(ValueError, match="not there"):
        pair_drops(two, two, NONE, np.ones(2, np.int64), one, one)
    with pytest.raises(ValueError, match="length"):
        pair_shortfalls(np.zeros((1, 5)), np.zeros(2), np.zeros(2), 0.8)
