"""The harness: what it hides, what all estimators share, and its metrics."""

import numpy as np
import pytest

from tests.support.matrices import pairs, performance
from wharfinger.errors import InvalidInput
from wharfinger.estimators import Matrix, RowScale, Transform
from wharfinger.estimators.conditional import Gaussian
from wharfinger.estimators.estimator import RowPrediction
from wharfinger.estimators.evaluation import (
    EvaluationPlan,
    Strategy,
    evaluate,
    outcome,
    regret,
    revealed,
    splits,
    summary,
)

NAN = float("nan")


def test_whole_programs_are_held_out_and_each_row_once():
    matrix = performance(1)
    for repeat in (0, 1):
        parts = list(splits(matrix, EvaluationPlan(repeats=2)))[repeat * 5 : repeat * 5 + 5]
        held = [set(matrix.rows) - set(part.training.rows) for part in parts]
        assert sorted(name for names in held for name in names) == sorted(matrix.rows)
        for part in parts:
            known = set(part.training.groups)
            gone = [
                g for r, g in zip(matrix.rows, matrix.groups, strict=True)
                if r not in part.training.rows
            ]  # fmt: skip
            assert not known & set(gone)


@pytest.mark.parametrize("rows", [1, 4, 8])
def test_known_rows_are_limited_by_whole_programs(rows):
    matrix = performance(1)
    whole = list(splits(matrix, EvaluationPlan(repeats=1)))
    few = list(splits(matrix, EvaluationPlan(repeats=1, rows=rows)))
    sizes = {group: matrix.groups.count(group) for group in matrix.groups}
    for one, other in zip(whole, few, strict=True):
        assert one.seed == other.seed
        assert np.array_equal(one.held, other.held)
        assert set(other.training.rows) <= set(one.training.rows)
        found = other.training.groups
        assert all(found.count(group) == sizes[group] for group in found)
        assert len(found) <= max(rows, *sizes.values())


@pytest.mark.long
def test_as_many_entries_are_revealed_as_asked_for():
    split = next(splits(performance(1, missing=0.3), EvaluationPlan()))
    for strategy in Strategy:
        for truth, known in revealed(split, EvaluationPlan(reveal=3, strategy=strategy)):
            seen = ~np.isnan(known)
            assert seen.sum() == 3
            assert np.array_equal(truth[seen], known[seen])


def test_in_pairs_a_new_rows_column_is_hidden():
    matrix = pairs(1)
    for split in splits(matrix, EvaluationPlan(pairs=True, repeats=1)):
        gone = set(matrix.rows) - set(split.training.rows)
        assert gone
        assert not gone & set(split.training.columns)
        assert split.held.shape == (len(gone), len(split.training.columns))


@pytest.mark.slow
def test_estimators_do_not_hang_on_their_company():
    matrix, plan = (
        performance(2, rows=12, columns=6),
        EvaluationPlan(repeats=1, scale=RowScale.COMMON),
    )
    alone = evaluate(matrix, ["gaussian"], plan).estimators["gaussian"]
    beside = evaluate(matrix, ["column-means", "gaussian"], plan).estimators["gaussian"]
    times = {"fit_seconds", "fold_in_seconds_median"}
    assert {k: v for k, v in alone.items() if k not in times} == {
        k: v for k, v in beside.items() if k not in times
    }


def test_intervals_hold_on_programs_that_were_not_seen():
    found = evaluate(performance(3, rows=40), ["gaussian"], EvaluationPlan(repeats=1)).estimators
    assert 0.82 < found["gaussian"]["coverage_90"] < 0.97


@pytest.mark.long
def test_designed_entries_are_worth_more_than_random_ones():
    matrix = performance(4)
    error = {
        strategy: evaluate(matrix, ["gaussian"], EvaluationPlan(repeats=1, strategy=strategy))
        .estimators["gaussian"]["mean_absolute_log_error"]
        for strategy in (Strategy.RANDOM, Strategy.VARIANCE)
    }  # fmt: skip
    assert error[Strategy.VARIANCE] < error[Strategy.RANDOM]


@pytest.mark.long
@pytest.mark.parametrize("higher", [False, True])
def test_expected_improvement_finds_better_configurations(higher: bool):
    matrix = performance(5, rows=20, columns=8, noise=0.2)
    found = {
        strategy: evaluate(
            matrix,
            ["gaussian"],
            EvaluationPlan(reveal=3, repeats=2, strategy=strategy, higher=higher),
        ).estimators["gaussian"]["mean_regret"]
        for strategy in (Strategy.RANDOM, Strategy.IMPROVEMENT)
    }
    assert found[Strategy.IMPROVEMENT] < found[Strategy.RANDOM]


def test_the_metrics_of_one_row_by_hand():
    log_mean = np.log([1.0, 2.2, 5.0, 2.0])
    gaussian = Gaussian(log_mean, np.diag([0.0, 0.01, 0.01, 1.0]))
    prediction = RowPrediction(("a", "b", "c", "d"), gaussian, Transform.LOG)
    truth, known = np.array([1.0, 2.0, 4.0, NAN]), np.array([1.0, NAN, NAN, NAN])
    found = summary([outcome(prediction, truth, known, higher=False, seconds=0.5)], 2.0)
    assert found["mean_relative_error"] == pytest.approx((0.1 + 0.25) / 2)
    assert found["mean_absolute_log_error"] == pytest.approx((np.log(1.1) + np.log(1.25)) / 2)
    assert found["coverage_90"] == 0.5
    assert (found["best_within_5pct"], found["mean_regret"]) == (1.0, 0.0)
    assert (found["fit_seconds"], found["fold_in_seconds_median"]) == (2.0, 0.5)


def test_regret_goes_by_what_is_better():
    predicted, truth = np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 4.0])
    assert regret(predicted, truth, higher=False) == pytest.approx(1.0)
    assert regret(predicted, truth, higher=True) == 0.0
    assert regret(-predicted, truth, higher=True) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("matrix", "plan", "words"),
    [
        (performance(1), EvaluationPlan(reveal=12), "--reveal: no row has more than 12 entries"),
        (performance(1, rows=2), EvaluationPlan(), "1 program in its column 'group'"),
        (performance(1), EvaluationPlan(pairs=True), "--pairs: no column has a row's name"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(matrix: Matrix, plan: EvaluationPlan, words: str):
    with pytest.raises(InvalidInput, match=words):
        evaluate(matrix, ["column-means"], plan)
