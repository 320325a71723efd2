"""Paragon's figures of four schedulers, and its tables of predictions: what is judged and held."""

from pathlib import Path

import numpy as np
import pytest

from wharfinger.experiments import paragon_figure5, paragon_table3
from wharfinger.experiments.base import Arguments, Context
from wharfinger.experiments.paragon_figures import (
    PARAGON_FIGURE8,
    PARAGON_FIGURE16,
    PUBLISHED_RULE,
)
from wharfinger.experiments.paragon_table1 import PARAGON_TABLE1, judge, look, misordered
from wharfinger.experiments.workspace import Workspace
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.run import run_in_turn
from wharfinger.simulator.truth.physics.regimes import REGIMES


def test_published_is_by_scheduler():
    kept = {
        each.policy: each.value
        for each in PARAGON_FIGURE16.published
        if (each.scenario, each.measure) == ("paragon-azure", "qos_kept_fraction")
    }
    assert kept == {
        "oracle": 0.61,
        "paragon": 0.61,
        PUBLISHED_RULE: 0.61,
        "heterogeneity-oblivious": 0.01,
        "interference-oblivious": 0.02,
        "least-loaded": 0.007,
    }


@pytest.mark.long
def test_a_small_run_has_every_measure(tmp_path: Path):
    arguments = Arguments(repeats=1, servers=10, workloads=6, regime="moderate")
    result = PARAGON_FIGURE8.run(Context(run_in_turn, arguments, Workspace(tmp_path), processes=1))
    assert len(result.rows) == len(PARAGON_FIGURE8.policies) * len(PARAGON_FIGURE8.measures)
    assert all(row.measured is not None for row in result.rows)


def test_pairs_out_of_order_are_counted():
    assert misordered(np.array([4.0, 3.0, 3.0, 1.0])) == 0
    assert misordered(np.array([4.0, 1.0, 3.0])) == 1
    assert misordered(np.array([1.0, 3.0, 4.0])) == 3


def test_a_program_is_judged_by_the_platform_predicted_best():
    truth = np.array([1.0, 2.0, 1.95])
    judged = judge(np.array([1.0, 1.9, 2.34]), truth, np.array([0]))
    assert judged == {
        "best": 0.0,
        "within-5pct": 1.0,
        "order": 0.0,
        "order-but-one": 1.0,
        "ran-on-best": 0.0,
        "deviation": pytest.approx((0.05 + 0.2) / 2),
    }


def test_the_table_of_a_small_population_has_every_published_row():
    numbers = look(REGIMES["moderate"], 1, most=8, estimator="column-means").numbers
    assert set(numbers) == set(PARAGON_TABLE1.published)
    assert numbers["best"] <= numbers["within-5pct"]
    assert numbers["order"] <= numbers["order-but-one"] <= 1


def test_errors_of_scores_are_absolute_and_by_the_true_score():
    true, predicted = np.array([0.1, 0.5, 0.9, 1.0]), np.array([0.2, 0.5, 0.9, 0.8])
    errors = paragon_table3.errors(true, predicted)
    assert errors["mean"] == pytest.approx(0.075)
    assert errors["below-30pct"] == pytest.approx(0.1)
    assert errors["below-60pct"] == pytest.approx(0.05)
    assert errors["above-60pct"] == pytest.approx(0.1)


def test_scores_of_a_small_population_have_every_published_row():
    look_at = paragon_table3.look
    numbers = look_at(REGIMES["moderate"], 1, most=5, estimator="column-means").numbers
    assert set(numbers) >= set(paragon_table3.PARAGON_TABLE3.published)
    assert 0 < numbers["mean"] <= numbers["p90"] <= numbers["p99"] <= 1


def test_the_best_of_more_servers_is_better_and_ranks_are_as_promised():
    random = np.random.default_rng(3)
    known = random.uniform(0, 100, (2, 30, len(SharedResource)))
    known[1] /= 4
    cluster = paragon_figure5.HashedCluster.draw(known, 200, 300, seed=1)
    drawn = paragon_figure5.draw(cluster, (1, 4, 16), by_name=True)
    means = [drawn.ranks[count].mean() for count in (1, 4, 16)]
    assert means == sorted(means)
    assert means[0] == pytest.approx(1 / 2, abs=0.08)
    assert means[1] == pytest.approx(4 / 5, abs=0.08)
    assert paragon_figure5.distance(drawn.ranks[4], 4) < 0.15
    assert all(0 <= value <= 1 for value in drawn.qualities[16])
    costs = dict(paragon_figure5.costs(cluster))
    assert costs["greedy/steps"] == 200
    assert costs["hash/steps"] >= 66


def test_a_distance_is_between_distributions():
    even = (np.arange(1000) + 0.5) / 1000
    assert paragon_figure5.distance(even, 1) < 0.001
    assert paragon_figure5.distance(even**0.25, 4) < 0.001
    assert paragon_figure5.distance(even, 4) > 0.4


def test_scores_stand_in_the_policys_order_and_simulated_runs_count_searches():
    known = paragon_figure5.known_scores(REGIMES["moderate"], 1, most=2)
    assert known.shape == (2, 4, len(SharedResource))
    assert np.nanmax(known) <= 100
    assert np.nanmin(known) >= 0
    published = set(paragon_figure5.PARAGON_FIGURE5.published)
    assert "simulated/greedy/search_satisfied_fraction" in published
