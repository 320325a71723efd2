"""Distributions of busy periods, and when a server should be free."""

from itertools import product
from math import erf, exp, log, sqrt

import numpy as np
import pytest

from wharfinger.model.queue_accounts import QueueAccount
from wharfinger.policies.admission.busy_periods import (
    BusyFamily,
    BusyPeriods,
    fitted,
    lasting,
)

DRAWN = {
    BusyFamily.EXPONENTIAL: lambda made, count: made.exponential(300.0, count),
    BusyFamily.NORMAL: lambda made, count: made.normal(600.0, 60.0, count),
    BusyFamily.LOGNORMAL: lambda made, count: made.lognormal(5.0, 1.0, count),
    BusyFamily.GAMMA: lambda made, count: made.gamma(3.0, 100.0, count),
}
CUMULATIVE = {
    BusyFamily.EXPONENTIAL: lambda x: 1 - exp(-x / 300),
    BusyFamily.NORMAL: lambda x: 0.5 * (1 + erf((x - 600) / 60 / sqrt(2))),
    BusyFamily.LOGNORMAL: lambda x: 0.5 * (1 + erf((log(x) - 5) / sqrt(2))),
    # Of an Erlang distribution, in closed form.
    BusyFamily.GAMMA: lambda x: 1 - exp(-x / 100) * (1 + x / 100 + (x / 100) ** 2 / 2),
}


@pytest.mark.parametrize("family", DRAWN)
def test_the_family_that_was_drawn_from_is_found(family: BusyFamily) -> None:
    busy = fitted(DRAWN[family](np.random.default_rng(1), 2000).tolist())
    assert busy.family is family
    assert busy.distance < 0.03
    assert busy.samples == 2000


@pytest.mark.parametrize("family", DRAWN)
def test_shares_below_are_those_of_the_distribution(family: BusyFamily) -> None:
    parameters = {
        BusyFamily.EXPONENTIAL: (300.0,),
        BusyFamily.NORMAL: (600.0, 60.0),
        BusyFamily.LOGNORMAL: (5.0, 1.0),
        BusyFamily.GAMMA: (3.0, 100.0),
    }
    busy = BusyPeriods(family, parameters[family], 100, 0.0)
    at = np.array([20.0, 100.0, 300.0, 600.0, 900.0])
    right = [CUMULATIVE[family](x) for x in at]
    assert busy.below(at) == pytest.approx(right, abs=2e-3)
    assert CUMULATIVE[family](busy.median()) == pytest.approx(0.5, abs=2e-3)
    means = {"exponential": 300, "normal": 600, "lognormal": exp(5.5), "gamma": 300}
    assert busy.mean() == pytest.approx(means[family], rel=0.02)


def test_few_samples_or_a_shape_that_no_family_has_are_taken_as_they_are() -> None:
    assert fitted([3.0, 1.0, 2.0]).family is BusyFamily.EMPIRICAL
    two_humps = np.concatenate([np.full(100, 10.0), np.full(100, 1000.0)])
    two_humps += np.random.default_rng(1).normal(0, 1, 200)
    busy = fitted(two_humps.tolist())
    assert busy.family is BusyFamily.EMPIRICAL
    assert busy.below(np.array([5.0, 100.0, 2000.0])) == pytest.approx([0, 0.5, 1], abs=0.05)
    same = fitted([60.0] * 50)
    assert same.below(np.array([59.0, 60.0, 61.0])).tolist() == pytest.approx([0, 1, 1], abs=0.02)
    assert (same.median(), same.mean()) == pytest.approx((60.0, 60.0), rel=0.01)
    with pytest.raises(ValueError, match="no busy periods"):
        fitted([])


def test_what_is_busy_by_an_exponential_distribution_has_no_age() -> None:
    busy = BusyPeriods(BusyFamily.EXPONENTIAL, (100.0,), 100, 0.0)
    within = [0.0, 10.0, 50.0]
    young = busy.curve.releases([[90.0, 90.0]], 90.0, 2).within(within, 1)
    old = busy.curve.releases([[0.0, 0.0]], 90.0, 1).within(within, 1)
    assert young == pytest.approx([1 - exp(-2 * t / 100) for t in within], abs=0.01)
    assert old == pytest.approx(young, abs=0.02)


def test_the_paper_s_two_figures_fit_together() -> None:
    """ARQ figure 2: 60% of busy periods end within 2,700 s; one of many servers within 56 s."""
    busy = BusyPeriods(BusyFamily.NORMAL, (2500.0, 800.0), 1000, 0.0)
    assert busy.below(np.array([2700.0]))[0] == pytest.approx(0.6, abs=0.01)
    began = np.linspace(0, 4000, 40).tolist()
    (within,) = busy.curve.releases([began], 4000.0, 40).within([56.0], 1)
    assert 0.5 < within < 0.95


def exactly(shares: list[float], position: int) -> float:
    """The probability that so many of independent events happen, by counting all cases."""
    total = 0.0
    for case in product((0, 1), repeat=len(shares)):
        if sum(case) >= position:
            each = [p if happens else 1 - p for p, happens in zip(shares, case, strict=True)]
            total += float(np.prod(each))
    return total


@pytest.mark.parametrize("position", range(1, 7))
def test_the_position_th_release_is_near_the_exact_one(position: int) -> None:
    busy = BusyPeriods(BusyFamily.GAMMA, (2.0, 100.0), 100, 0.0)
    ages, seconds = [0.0, 20.0, 60.0, 100.0, 200.0, 300.0, 350.0, 500.0], 120.0
    began = [500.0 - age for age in reversed(ages)]
    (got,) = busy.curve.releases([began], 500.0, 8).within([seconds], position)
    below = busy.below(np.array(ages))
    then = busy.below(np.array(ages) + seconds)
    shares = ((then - below) / (1 - below)).tolist()
    assert got == pytest.approx(exactly(shares, position), abs=0.03)


def account(busy_seconds: list[float], until: float, every: float = 10.0) -> QueueAccount:
    """Of placements one after the other; what has not ended by then still holds resources."""
    made = QueueAccount()
    for at in range(len(busy_seconds)):
        made.place(f"w{at}", every * at)
    for end, at in sorted((every * at + seconds, at) for at, seconds in enumerate(busy_seconds)):
        if end <= until:
            made.end(f"w{at}", end, has_run=True)
    return made


def test_what_has_all_ended_lasted_as_long_as_it_did() -> None:
    assert lasting([], 100.0).size == 0
    assert lasting([account([50.0, 20.0], until=0.0)], 10.0).size == 0, "none has ended"
    of_all = lasting([account([50.0, 20.0], 100.0), account([30.0], 100.0)], 100.0)
    assert of_all.tolist() == pytest.approx([20.0, 30.0, 50.0])


def test_what_still_runs_lasts_longer_than_what_has_ended() -> None:
    """The first to end are the short ones."""
    busy = np.random.default_rng(2).exponential(1000.0, 200).tolist()
    began = account(busy, until=2000.0)
    assert np.median(began.busy_seconds) < 500
    fit = fitted(lasting([began], 2000.0))
    assert fit.median() == pytest.approx(1000 * log(2), rel=0.2)
    # Half of them are services, which do not end.
    for at in range(200):
        began.place(f"s{at}", 10.0 * at)
    assert fitted(lasting([began], 2000.0)).median() > 1500


def test_what_is_older_than_all_that_is_known_may_last_longer() -> None:
    busy = fitted([60.0, 70.0, 90.0, 120.0])
    old = busy.curve.releases([[0.0]], 50_000.0, 1)
    oldest = busy.curve.releases([[0.0]], 120.0, 1)
    (soon,) = old.expected([60.0])
    assert oldest.expected([60.0]) == [pytest.approx(soon, abs=0.02)]
    assert 0.5 < soon < 0.95
    gamma = BusyPeriods(BusyFamily.GAMMA, (2.0, 100.0), 100, 0.0)
    older = gamma.curve.releases([[0.0]], 1e6, 1)
    assert older.expected([100.0]) == [pytest.approx(1 - exp(-1), abs=0.1)]
