"""Quasar's Table 2 and Figure 3 at tiny size: what is classified, held out and compared."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.support.pictures import shows_data
from wharfinger.classification.utility import Aspect
from wharfinger.estimators.matrix import Matrix
from wharfinger.experiments import quasar_figure3, quasar_table2
from wharfinger.experiments.base import Arguments, Context
from wharfinger.experiments.ground_truth import StudyFindings, together
from wharfinger.experiments.quasar_classifications import (
    AXES,
    EXHAUSTIVE,
    HADOOP,
    HETEROGENEITY,
    SCALE_OUT,
    SINGLE_NODE,
    Judged,
    Rates,
    TrueAxis,
    by_kind,
    draw_kinds,
    errors,
    judge,
)
from wharfinger.experiments.workspace import workspace
from wharfinger.simulator.run import run as simulate
from wharfinger.simulator.truth.physics.clusters import QUASAR
from wharfinger.simulator.truth.physics.regimes import REGIMES, Regime

MODERATE = REGIMES["moderate"]


@pytest.fixture(scope="module")
def rates() -> Rates:
    return Rates(MODERATE, draw_kinds(MODERATE, 1, most=2))


def test_kinds_have_so_many_each(rates: Rates):
    kinds = list(rates.kinds.values())
    assert kinds.count(HADOOP) == 2
    assert kinds.count(SINGLE_NODE) == 4 * 2
    assert len(set(rates.kinds)) == len(kinds)


def test_columns_are_what_is_varied(rates: Rates):
    ((_, platforms),) = rates.axis(HETEROGENEITY).matrices
    assert platforms.columns == tuple(each.name for each in QUASAR)
    ((_, servers),) = rates.axis(SCALE_OUT).matrices
    assert SINGLE_NODE not in {rates.kinds[name] for name in servers.rows}
    ((_, joint),) = rates.axis(EXHAUSTIVE).matrices
    assert len(joint.columns) > 20 * len(servers.columns)
    single = next(name for name, kind in rates.kinds.items() if kind == SINGLE_NODE)
    several = [n for n, c in enumerate(joint.columns) if "x4 beside" in c]
    assert np.isnan(joint.values[joint.rows.index(single), several]).all()


@pytest.mark.long
def test_rows_alike_are_told_from_two_entries():
    shape = np.array([1.0, 2.0, 4.0, 8.0])
    rows = {f"job-{n}": list((n + 1) * shape) for n in range(12)}
    matrix = Matrix.of(rows, ["a", "b", "c", "d"])
    axis = TrueAxis("axis", ((Aspect.SCALE_UP, matrix),), dict.fromkeys(rows, HADOOP))
    judged = judge(axis, 2, seed=1)
    assert len(judged) == len(rows)
    assert max(each.error for each in judged) < 0.02
    assert len(judge(axis, None, seed=1)) == len(rows)
    assert len(judge(axis, 2, seed=1, most=3)) == 3
    assert not judge(axis, 4, seed=1)


def test_errors_are_shares_of_performance_and_points_of_scores():
    predicted, truth = np.array([1.1, 1.8]), np.array([1.0, 2.0])
    assert errors(Aspect.SCALE_UP, predicted, truth) == pytest.approx(0.1)
    scores = np.array([120.0, 40.0]), np.array([90.0, 50.0])
    assert errors(Aspect.TOLERATED, *scores) == pytest.approx(0.1)
    found = by_kind([Judged("a", 0.1), Judged("b", 0.2), Judged("a", 0.3)])
    assert found["a"].tolist() == [0.1, 0.3]


def test_misses_are_told_apart():
    numbers = {
        "hadoop/scale-up/mean": 0.2,
        "hadoop/scale-up/all-but-one": 0.01,
        "hadoop/interference/mean": 0.2,
        "hadoop/interference/all-but-one": 0.2,
        "hadoop/scale-out/mean": 0.01,
        "hadoop/scale-out/all-but-one": 0.01,
    }
    physics, policy = quasar_table2.remarks(StudyFindings(numbers))
    assert "physics" in physics
    assert physics.endswith("hadoop/interference.")
    assert policy.endswith("hadoop/scale-up.")


@pytest.mark.slow
def test_the_table_of_a_small_population_has_every_published_row(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(quasar_table2, "MOST_EXHAUSTIVE", 1)
    findings = quasar_table2.look(MODERATE, 1, workloads=3, estimator="column-means")
    assert set(findings.numbers) >= set(quasar_table2.QUASAR_TABLE2.published)
    (picture,) = quasar_table2.QUASAR_TABLE2.pictures
    assert shows_data(picture.draw(findings.drawn["errors"], picture.title, **picture.options))


def test_progress_counts_the_classifications_of_each_population():
    def look(_regime: Regime, seed: int, *, part: str, **_size: object) -> StudyFindings:
        curve = [1, 2], np.full(2, float(seed))
        return StudyFindings(
            {f"hadoop/{part}/1": float(seed)}, {"entries": {part: {"hadoop": curve}}}
        )

    study, told = replace(quasar_figure3.QUASAR_FIGURE3, measure=look), list[tuple[int, int]]()
    with workspace(None) as space:
        context = Context(simulate, Arguments(2, seed=1), space, 1, lambda *each: told.append(each))
        result = study.run(context)
    assert told == [(done, 10) for done in range(11)], "four classifications and costs, twice"
    measured = {row.name: row.measured for row in result.rows}
    assert {measured[f"hadoop/{axis}/1"] for axis in AXES} == {1.5}, "of both populations"


@pytest.mark.long
def test_more_entries_and_the_exhaustive_classification_cost_more(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(quasar_figure3, "ENTRIES", (1, 4))
    small = partial(quasar_figure3.look, workloads=3, estimator="column-means")
    parts = quasar_figure3.QUASAR_FIGURE3.parts
    findings = together([small(MODERATE, 1, part=part) for part in parts])
    numbers = findings.numbers
    assert list(findings.drawn["entries"]) == list(AXES)
    assert "hadoop/scale-up/1" in numbers
    assert "hadoop/scale-up/4" in numbers
    assert numbers["overhead/profiling/8"] == 4 * numbers["overhead/profiling/2"]
    assert set(numbers) >= set(quasar_figure3.QUASAR_FIGURE3.published)
    (picture,) = quasar_figure3.QUASAR_FIGURE3.pictures
    assert shows_data(picture.draw(findings.drawn["entries"], picture.title, **picture.options))
