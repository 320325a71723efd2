"""Paragon's figures of decisions and over time, its short jobs and the account, as small runs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.pictures import shows_data
from tests.support.simulated_runs import fate, series, simulate
from wharfinger.experiments import paragon_figure12
from wharfinger.experiments.base import Arguments, Context, ExperimentResult
from wharfinger.experiments.comparison import RunGroup, compare
from wharfinger.experiments.paragon_accounting import LADDER, PARAGON_ACCOUNTING
from wharfinger.experiments.paragon_decisions import PARAGON_FIGURE9, PARAGON_FIGURE14, band
from wharfinger.experiments.paragon_over_time import (
    PARAGON_FIGURE10,
    PARAGON_FIGURE11,
    PARAGON_FIGURE15,
    PHASES,
    allocated_off,
    around_change,
)
from wharfinger.experiments.paragon_plots import stacked
from wharfinger.experiments.paragon_short_jobs import PARAGON_SHORT_JOBS
from wharfinger.experiments.runs import RunExperiment
from wharfinger.experiments.workspace import Workspace
from wharfinger.simulator.results.outcome import Outcome
from wharfinger.simulator.run import RunSpec, run_in_turn
from wharfinger.simulator.truth.physics.regimes import REGIMES

OF_RUNS = (
    PARAGON_FIGURE9,
    PARAGON_FIGURE10,
    PARAGON_FIGURE11,
    PARAGON_FIGURE14,
    PARAGON_FIGURE15,
    PARAGON_SHORT_JOBS,
    PARAGON_ACCOUNTING,
)


def small(experiment: RunExperiment, tmp_path: Path) -> ExperimentResult:
    arguments = Arguments(repeats=1, servers=8, workloads=4, regime="moderate")
    return experiment.run(Context(run_in_turn, arguments, Workspace(tmp_path), processes=1))


@pytest.mark.slow
@pytest.mark.parametrize("experiment", OF_RUNS, ids=lambda each: each.name)
def test_a_small_run_has_every_measure_and_picture(experiment: RunExperiment, tmp_path: Path):
    one = (PHASES,) if PHASES in experiment.scenarios else experiment.scenarios[:1]
    compared = {each.over[1] for each in experiment.measures if each.over}
    policies = tuple(each for each in experiment.policies if each in {"oracle", *compared})
    result = small(replace(experiment, scenarios=one, policies=policies), tmp_path)
    assert len(result.rows) == len(policies) * len(experiment.measures)
    missing = {row.name.split("/", 3)[3] for row in result.rows if row.measured is None}
    rare = {each.key for each in experiment.measures if each.over or "phases/" in each.key}
    assert missing <= rare
    for draw in result.pictures.values():
        assert shows_data(draw())


def outcome(**of_series: object) -> Outcome:
    fates = tuple(
        replace(fate(f"job-{at}", 0.9), platform_loss=loss)
        for at, loss in enumerate((0.0, 0.005, 0.05, 0.3))
    )
    kept = replace(series(), **of_series)  # type: ignore[arg-type]
    return Outcome("scenario", "policy", "fifo", 0, {}, fates, kept)


def test_losses_are_counted_in_bands():
    assert band("platform", "unharmed", outcome()) == 0.5
    assert band("platform", "under-10pct", outcome()) == 0.25
    assert band("platform", "over-20pct", outcome()) == 0.25


def test_allocated_is_held_against_required_while_there_is_enough():
    run_ = outcome(
        total_cpus=10.0,
        ideal_cpus=np.array([4.0, 6.0, 20.0]),
        allocated_cpus=np.array([5.0, 5.0, 10.0]),
    )
    assert allocated_off(run_) == pytest.approx(0.2)


def test_performance_around_a_phases_beginning():
    edges = np.array([-60.0, 0.0, 30.0, 60.0])
    run_ = outcome(after_edges=edges, after_change=np.array([0.9, 0.5, np.nan]))
    assert around_change("before", run_) == pytest.approx(0.9)
    assert around_change("after", run_) == pytest.approx(0.5)
    assert around_change("recovered", run_) is None


def test_a_ratio_is_to_the_same_seed_of_another_policy():
    specs = [RunSpec("scenario", policy) for policy in ("oracle", "random")]
    ratios = {"share": ("performance_mean", "oracle")}
    found = compare(simulate, [RunGroup("case", specs, ratios=ratios)], 2, processes=1)[0]
    assert found["oracle"].metrics["share"].mean == pytest.approx(1.0)  # type: ignore[union-attr]
    expected = [
        own.summary["performance_mean"] / best.summary["performance_mean"]  # type: ignore[operator]
        for own, best in zip(found["random"].runs, found["oracle"].runs, strict=True)
    ]
    assert [each.summary["share"] for each in found["random"].runs] == pytest.approx(expected)


@pytest.mark.long
def test_overheads_of_a_small_run_have_every_published_row():
    of_all = paragon_figure12.watch(REGIMES["moderate"], 1, workloads=5)
    assert of_all
    findings = paragon_figure12.found(of_all)
    assert set(findings.numbers) >= set(paragon_figure12.PARAGON_FIGURE12.published)
    assert 0 < findings.numbers["training"] < 1
    assert all(findings.numbers[part] > 0 for part in ("classification", "search"))
    assert shows_data(stacked(findings.drawn["overheads"], "Overheads", "share"))


def test_the_account_adds_a_piece_at_a_time():
    assert LADDER[0] == "paragon"
    assert LADDER[-1] == "true-scores+true-platforms+no-profiling+true-contention+paragon"
