"""How two workloads slow one another, as a value."""

import math

import pytest

from wharfinger.model.pairs import ANY_PLATFORM, PairProfile, profile_on

GENTLE = PairProfile("two", suffers=(0.0, math.log(2)), presses=(1.0, 0.0))
HARSH = PairProfile("two", suffers=(math.log(1.25), 0.0), presses=(0.0, 1.0))


def test_beside_several_the_slow_downs_multiply():
    assert GENTLE.beside(HARSH).mean == pytest.approx(0.5)
    assert GENTLE.beside(HARSH, HARSH).mean == pytest.approx(0.25)
    assert HARSH.beside(GENTLE).mean == pytest.approx(0.8)
    assert GENTLE.beside().mean == 1.0


def test_what_both_are_unsure_of_is_in_the_deviation():
    unsure = PairProfile("two", (0.0, 0.5), (1.0, 0.0), suffers_variance=(0.0, 0.04))
    pressing = PairProfile("two", (0.0, 0.0), (0.0, 2.0), presses_variance=(0.0, 0.01))
    # Var(s p) of independent ones: s² Vp + p² Vs + Vs Vp.
    wanted = math.sqrt(0.25 * 0.01 + 4 * 0.04 + 0.04 * 0.01)
    assert unsure.beside(pressing).std == pytest.approx(wanted)
    assert GENTLE.beside(HARSH).std == 0.0


def test_not_to_fit_beside_one_of_several_is_no_less_likely_than_beside_each():
    large = PairProfile("two", (0.0, 0.0), (0.0, 0.0), excluded=(0.0, 0.3), excludes=(0.0, 1.0))
    assert large.beside(large).unfit == pytest.approx(0.3)
    assert large.beside(large, large).unfit == pytest.approx(0.6)
    assert large.beside(*[large] * 5).unfit == 1.0
    assert GENTLE.beside(large).unfit == 0.0


def test_a_platform_s_own_profile_goes_before_the_one_for_any():
    pairs = {ANY_PLATFORM: GENTLE, "fast": HARSH}
    assert profile_on(pairs, "fast") is HARSH
    assert profile_on(pairs, "slow") is GENTLE
    assert profile_on({"fast": HARSH}, "slow") is None
