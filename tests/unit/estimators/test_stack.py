"""The default: its mixtures beside numbers worked by hand, its kernel beside NumPy."""

from functools import cache
from itertools import product
from math import inf

import numpy as np
import pytest

from wharfinger.estimators.conditional import Prior
from wharfinger.estimators.conditional import predict_means as gaussian_means
from wharfinger.estimators.effects import robust_two_way, two_way
from wharfinger.estimators.matrix import RowScale
from wharfinger.estimators.mixture import (
    FamilySettings,
    MemberSettings,
    MixtureFamily,
    MixtureMember,
    condition,
    family,
    predict_means,
)
from wharfinger.estimators.stack import (
    MAX_MEMBERS,
    ROBUSTNESS,
    Families,
    StackEstimator,
    StackLearned,
    select,
    select_few,
)
from wharfinger.estimators.tasks import masked

NAN = float("nan")


def rows_of(count: int = 30, columns: int = 8, seed: int = 0) -> np.ndarray:
    """Levels, column effects, and two ways to differ."""
    rng = np.random.default_rng(seed)
    ways = rng.normal(size=(count, 2)) @ rng.normal(0, 0.5, size=(2, columns))
    noise = 0.05 * rng.normal(size=(count, columns))
    return rng.normal(2, 1, (count, 1)) + rng.normal(0, 1, columns) + ways + noise


def settings(a: float, freedom: float = inf, *, free: bool = True) -> MemberSettings:
    return MemberSettings(FamilySettings(free, 0.0, inf, False), True, a, freedom, 0.3, False)


def by_hand(a: float, freedom: float = inf, *, free: bool = False) -> MixtureMember:
    """Two known rows, (1, 1) and (-1, -1) about a mean of 0, and a covariance of 1 and 0.5."""
    known = MixtureFamily(np.array([[1.0, 1.0], [-1.0, -1.0]]), np.zeros(2))
    kernel = np.array([[1.0, 0.5], [0.5, 1.0]])
    prior = Prior(np.zeros(2), kernel, free)
    return MixtureMember(settings(a, freedom, free=free), prior, known)


def test_a_row_like_a_known_one_is_drawn_to_it() -> None:
    """a = 0.6, x_1 = 1: d = 0.4 and 1.6, q = d² / 0.64 = 0.25 and 4, weights as e^(-q/2)."""
    first, second = np.exp(-0.125), np.exp(-2.0)
    centre = 0.6 * (first - second) / (first + second)
    expected = centre + 0.5 * (1 - centre)
    found = condition(by_hand(0.6), np.array([1.0, NAN]))
    assert found.mean == pytest.approx([1.0, expected])
    many = predict_means(by_hand(0.6), np.array([[1.0, NAN]]), np.array([[0]]))
    assert many[0] == pytest.approx([1.0, expected])


def test_students_likelihood_gives_a_far_row_up_later() -> None:
    """Freedom 4, one entry: weights as (1 + q / 4) ** -2.5."""
    first, second = (1 + 0.25 / 4) ** -2.5, (1 + 4 / 4) ** -2.5
    centre = 0.6 * (first - second) / (first + second)
    found = condition(by_hand(0.6, 4.0), np.array([1.0, NAN]))
    assert found.mean[1] == pytest.approx(centre + 0.5 * (1 - centre))


def test_one_entry_of_a_row_whose_level_is_free_says_nothing_of_its_neighbours() -> None:
    found = condition(by_hand(0.8, free=True), np.array([3.0, NAN]))
    assert found.mean == pytest.approx([3.0, 3.0])


@pytest.mark.parametrize("free", [True, False])
def test_without_closeness_it_is_the_gaussian(free: bool) -> None:
    values = rows_of()
    one = Families(values, np.arange(len(values))).member(settings(0.0, free=free))
    prior = one.prior
    seen = np.array([[0, 3], [2, 5]])
    rows = rows_of(2, seed=1)
    assert predict_means(one, rows, seen) == pytest.approx(gaussian_means(prior, rows, seen))
    row = masked(rows[0], seen[0])
    expected = prior.condition(row).covariance
    assert condition(one, row).covariance == pytest.approx(expected, abs=1e-7)


def test_the_nearer_to_one_the_more_it_is_a_known_row() -> None:
    values = rows_of()
    families = Families(values, np.arange(len(values)))
    again = values[7] + 3.0
    row = masked(again, np.array([0, 2, 4, 6]))
    errors = [
        float(np.abs(condition(families.member(settings(a)), row).mean - again).max())
        for a in (0.0, 0.9, 0.99)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.05


@cache
def stack(scale: RowScale) -> StackLearned:
    """Learnt from ``rows_of()``, once for all who ask."""
    values, rng = rows_of(), np.random.default_rng(0)
    return StackEstimator().learn(values, np.arange(len(values)), scale, rng)


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "known"), list(product(RowScale, (1, 2, 5, 8))))
def test_the_kernel_says_what_numpy_says(scale: RowScale, known: int) -> None:
    learned = stack(scale)
    rng = np.random.default_rng(known)
    for truth in rows_of(5, seed=2):
        row = masked(truth, np.sort(rng.choice(8, known, replace=False)))
        quick, whole = learned.condition(row), learned.reference(row)
        assert quick.mean == pytest.approx(whole.mean, abs=1e-5)
        assert quick.variances == pytest.approx(whole.covariance.diagonal(), abs=1e-5)
        assert quick.covariance == pytest.approx(whole.covariance, abs=1e-9)


def test_the_kernel_takes_all_kinds_of_members() -> None:
    values = rows_of()
    families = Families(values, np.arange(len(values)))
    members = [
        families.member(MemberSettings(FamilySettings(free, 0.0, *how), drawn, a, nu, 0.3, False))
        for free, how, drawn, a, nu in product(
            (True, False), ROBUSTNESS, (True, False), (0.0, 0.95), (inf, 4.0)
        )
    ]
    learned = StackLearned.of(members, np.full(len(members), 1 / len(members)))
    row = masked(rows_of(1, seed=3)[0], np.array([1, 6]))
    whole = learned.reference(row)
    assert learned.condition(row).mean == pytest.approx(whole.mean, abs=1e-5)
    assert learned.condition(row).variances == pytest.approx(whole.covariance.diagonal(), abs=1e-5)


def test_weights_are_few_and_sum_to_one() -> None:
    learned = stack(RowScale.ARBITRARY)
    assert 1 <= len(learned.members) <= MAX_MEMBERS
    assert learned.weights.sum() == pytest.approx(1)
    assert (learned.weights > 0).all()


def test_rows_that_lie_far_off_count_less() -> None:
    values = rows_of()
    values[3] += 5 * np.random.default_rng(1).normal(size=8)
    plain, robust = (
        family(values, np.arange(30), FamilySettings(True, 0.0, freedom, False))
        for freedom in (inf, 4.0)
    )
    others = np.delete(robust.log_weights, 3)
    assert robust.log_weights[3] < others.min()
    assert (plain.log_weights == 0).all()


def test_an_entry_that_lies_far_off_hardly_moves_the_mean_row() -> None:
    values = rows_of()
    without = robust_two_way(values, np.ones(30))
    values[3, 2] += 10.0
    plain, robust = (fit(values, np.ones(30)) for fit in (two_way, robust_two_way))
    moved = [abs(float((found.columns - without.columns)[2])) for found in (plain, robust)]
    assert moved[1] < 0.1 < moved[0]


def test_rows_without_noise_have_their_effects_exactly() -> None:
    columns, levels = np.array([1.0, 2.0, 4.0]), np.array([-1.0, 0.0, 1.0, 0.0])
    values = columns + levels[:, None]
    values[1, 2] = values[3, 0] = NAN
    found = robust_two_way(values, np.ones(4))
    assert found.columns == pytest.approx(columns)
    assert found.levels == pytest.approx(levels)


def test_members_are_taken_as_they_help() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(4, 2000)) * np.array([[0.1], [0.1], [3.0], [3.0]])
    weights = select(noise, np.array([1.0, 0.0, 0.0, 0.0]))
    assert weights.sum() == pytest.approx(1)
    assert weights[:2] == pytest.approx([0.5, 0.5], abs=0.1)
    assert weights[2:].max() < 0.1
    assert select(np.zeros((1, 4)), np.ones(1)).tolist() == [1.0]


def test_the_more_picks_there_are_to_begin_with_the_less_the_rehearsal_moves() -> None:
    noise = np.random.default_rng(0).normal(size=(4, 500))
    noise[:2] *= 1.5
    prior = np.array([1.0, 1.0, 0.0, 0.0])
    shares = []
    for picks in (10.0, 100.0, 1000.0):
        kept, weights = select_few(noise, prior, picks, 3)
        assert len(kept) <= 3
        assert weights.sum() == pytest.approx(1)
        shares.append(float(weights[kept < 2].sum()))
    assert shares == sorted(shares)
    assert shares[0] < 0.5
    assert shares[2] > 0.9


def test_a_row_that_is_changed_afterwards_changes_no_prediction() -> None:
    learned, row = stack(RowScale.ARBITRARY), masked(rows_of(1, seed=3)[0], np.array([1, 6]))
    found, before = learned.condition(row), learned.reference(row).covariance
    row[:] = np.nan
    assert found.covariance == pytest.approx(before)
