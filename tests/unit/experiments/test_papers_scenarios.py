"""Paragon's Figure 2 and the papers' scenarios: which runs are made, what stands beside what."""

from dataclasses import replace
from pathlib import Path

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.experiments.base import Arguments, Context
from wharfinger.experiments.papers_scenarios import (
    Case,
    PapersScenarios,
    compare_cases,
    papers_scenarios,
    policies_for,
    regimes_of,
)
from wharfinger.experiments.paragon_figure2 import PUBLISHED, ParagonFigure2
from wharfinger.experiments.workspace import Workspace
from wharfinger.simulator.run import run
from wharfinger.simulator.truth.physics.regimes import REGIMES

FEW = Arguments(repeats=2, servers=14, workloads=6, regime="contended")


def context(tmp_path: Path, arguments: Arguments = FEW) -> Context:
    return Context(run, arguments, Workspace(tmp_path), processes=1)


def test_every_regime_is_run_unless_one_is_named():
    assert regimes_of(replace(FEW, regime=None)) == tuple(REGIMES)
    assert regimes_of(FEW) == ("contended",)
    with pytest.raises(InvalidInput, match="'harsh' is no regime"):
        ParagonFigure2().check(replace(FEW, regime="harsh"))


def test_every_scenario_of_a_paper_is_run_with_the_oracle_first():
    assert len(papers_scenarios()) == 16
    for scenario in papers_scenarios():
        assert policies_for(scenario)[0] == "oracle"
        assert "least-loaded" in policies_for(scenario)
    assert "autoscale" in policies_for("quasar-webserver-spike")
    assert "autoscale" not in policies_for("paragon-gce")


def test_policies_of_a_case_see_the_same_draws(tmp_path: Path):
    case = Case("paragon-gce", "contended", ("oracle", "least-loaded"))
    found = compare_cases(context(tmp_path), [case])["contended/paragon-gce"]
    oracle, baseline = found.policies
    arrived = [
        [(fate.name, fate.application, fate.submitted_at) for fate in policy.outcomes[0].fates]
        for policy in (oracle, baseline)
    ]
    assert arrived[0] == arrived[1]
    assert all("regime contended" in o.notes[0] for o in oracle.outcomes)


@pytest.mark.slow
def test_figure_2_has_published_and_measured_side_by_side(tmp_path: Path):
    result = ParagonFigure2().run(context(tmp_path))
    rows = {row.name: row for row in result.rows}
    slowed = rows["contended/paragon-ec2-high/least-loaded/performance_mean"]
    assert slowed.published == 0.52
    assert slowed.low <= slowed.measured <= slowed.high
    as_time = rows["contended/paragon-ec2-high/least-loaded/time_over_best_mean"]
    assert (as_time.published, as_time.unit) == (1.48, "ratio")
    for each in PUBLISHED:
        assert (
            rows[f"contended/{each.scenario}/{each.policy}/{each.metric}"].published == each.value
        )
    names = list(rows)
    assert names[0].startswith("contended/paragon-ec2-high/oracle/")
    assert any(note.startswith("contended: ") for note in result.notes)
    assert set(result.pictures) == {"performance-contended", "utilization-contended"}


@pytest.mark.slow
def test_all_scenarios_give_rows(tmp_path: Path):
    few = replace(FEW, repeats=1, workloads=3, servers=None)
    result = PapersScenarios().run(context(tmp_path, few))
    cases = {"/".join(row.name.split("/")[:2]) for row in result.rows}
    assert cases == {f"contended/{name}" for name in papers_scenarios()}
