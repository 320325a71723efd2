"""Paragon's Figure 2 and the papers' scenarios: which runs are made, what stands beside what."""

from dataclasses import replace
from pathlib import Path

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.experiments.base import Arguments, Context
from wharfinger.experiments.run_experiments import PAPERS_SCENARIOS, PARAGON_FIGURE2, PUBLISHED
from wharfinger.experiments.runs import Figure
from wharfinger.experiments.workspace import Workspace
from wharfinger.simulator.run import run_in_turn
from wharfinger.simulator.truth.physics.regimes import REGIMES

FEW = Arguments(repeats=2, servers=14, workloads=6, regime="contended")


def context(tmp_path: Path, arguments: Arguments = FEW) -> Context:
    return Context(run_in_turn, arguments, Workspace(tmp_path), processes=1)


def test_every_regime_is_run_unless_one_is_named():
    every = PARAGON_FIGURE2.cases(replace(FEW, regime=None))
    assert tuple(dict.fromkeys(case.regime for case in every)) == tuple(REGIMES)
    assert {case.regime for case in PARAGON_FIGURE2.cases(FEW)} == {"contended"}
    with pytest.raises(InvalidInput, match="'harsh' is no regime"):
        PARAGON_FIGURE2.check(replace(FEW, regime="harsh"))


def test_every_scenario_of_a_paper_is_run_with_the_oracle_first():
    cases = PAPERS_SCENARIOS.cases(FEW)
    assert len(cases) == 17
    policies_in = PAPERS_SCENARIOS.policies_in
    for case in cases:
        assert policies_in(case.scenario)[0] == "oracle"
        assert "least-loaded" in policies_in(case.scenario)
    assert policies_in("quasar-webserver-spike").count("autoscale") == 1
    assert "autoscale" not in policies_in("paragon-gce")


@pytest.mark.long
def test_policies_of_a_case_see_the_same_draws(tmp_path: Path):
    experiment = replace(
        PARAGON_FIGURE2,
        scenarios=("paragon-gce",),
        figures=(Figure("ranked", "arrivals", "Arrivals", of="submitted_at"),),
    )
    result = experiment.run(context(tmp_path))
    (comparison,) = result.comparisons.values()
    first, *others = comparison.policies
    for policy in others:
        assert policy.values("submitted_at").tolist() == first.values("submitted_at").tolist()
    assert result.notes[0].startswith("contended: ")


@pytest.mark.long
def test_figure_2_has_published_and_measured_side_by_side(tmp_path: Path):
    shown = {"oracle", *(each.policy for each in PUBLISHED)}
    in_order = tuple(name for name in PARAGON_FIGURE2.policies if name in shown)
    scenarios = ("paragon-ec2-high", "paragon-local-medium", "paragon-azure")
    smaller = replace(PARAGON_FIGURE2, policies=in_order, scenarios=scenarios)
    result = smaller.run(context(tmp_path))
    rows = {row.name: row for row in result.rows}
    slowed = rows["contended/paragon-ec2-high/least-loaded/performance_mean"]
    assert slowed.published == 0.52
    assert slowed.low <= slowed.measured <= slowed.high
    as_time = rows["contended/paragon-ec2-high/least-loaded/time_over_best_mean"]
    assert (as_time.published, as_time.unit) == (1.48, "ratio")
    for each in PUBLISHED:
        row = rows.get(f"contended/{each.scenario}/{each.policy}/{each.measure}")
        assert row.published == each.value if row else each.scenario not in scenarios
    names = list(rows)
    assert names[0].startswith("contended/paragon-ec2-high/oracle/")
    assert any(note.startswith("contended: ") for note in result.notes)
    assert set(result.pictures) == {"performance-contended", "utilization-contended"}


@pytest.mark.long
def test_all_scenarios_give_rows(tmp_path: Path):
    few = replace(FEW, repeats=1, workloads=3, servers=None)
    fewer = replace(PAPERS_SCENARIOS, policies=("oracle", "random"))
    result = fewer.run(context(tmp_path, few))
    cases = {"/".join(row.name.split("/")[:2]) for row in result.rows}
    assert cases == {each.name for each in PAPERS_SCENARIOS.cases(few)}
