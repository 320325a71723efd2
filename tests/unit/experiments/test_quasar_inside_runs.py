"""Quasar's account, overheads and phases, as small runs: what is added, split and counted."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.pictures import shows_data
from tests.support.simulated_runs import fate
from wharfinger.experiments.base import Arguments, Context
from wharfinger.experiments.ground_truth import GroundTruthStudy, StudyFindings
from wharfinger.experiments.paragon_figure12 import Timed
from wharfinger.experiments.paragon_plots import stacked
from wharfinger.experiments.quasar_accounting import (
    BY_THEMSELVES,
    LADDER,
    QUASAR_ACCOUNTING,
    of_jobs,
    of_services,
)
from wharfinger.experiments.quasar_overheads import (
    LONG,
    OVERHEAD,
    PARTS,
    QUASAR_OVERHEADS,
    SHORT,
    look,
    shares_of,
)
from wharfinger.experiments.quasar_phases import QUASAR_MODES, QUASAR_PHASES
from wharfinger.experiments.workspace import Workspace
from wharfinger.simulator.policies import ORACLE
from wharfinger.simulator.results.outcome import Outcome
from wharfinger.simulator.run import run_in_turn
from wharfinger.simulator.truth.physics.regimes import REGIMES, Regime


@pytest.mark.long
def test_the_account_adds_a_piece_at_a_time(tmp_path: Path):
    assert LADDER[0] == "quasar"
    last = "true-sizes+true-platforms+true-servers+true-contention+no-profiling+quasar"
    assert LADDER[-1] == last
    shown = (ORACLE, LADDER[-1], BY_THEMSELVES[0], "no-reaction+quasar", "no-reaction+oracle")
    smaller = replace(QUASAR_ACCOUNTING, policies=shown)
    arguments = Arguments(repeats=1, servers=6, workloads=12, regime="moderate")
    result = smaller.run(Context(run_in_turn, arguments, Workspace(tmp_path), processes=1))
    assert len(result.rows) == len(shown) * len(QUASAR_ACCOUNTING.measures)
    assert all(row.measured is not None for row in result.rows)
    for picture in result.pictures.values():
        assert shows_data(picture())


def test_services_and_jobs_stand_apart():
    fates = (
        replace(fate("job", 0.9), target_performance=0.5),
        replace(fate("web", 0.9), type="latency-critical", target_performance=1.0),
    )
    outcome = Outcome("scenario", "policy", "fifo", 0, {}, fates)
    assert (of_jobs(outcome), of_services(outcome)) == (0.5, 1.0)


def _timed(copied: Mapping[str, float], searched: Mapping[str, float] | None = None) -> Timed:
    made = Timed.__new__(Timed)
    job = SimpleNamespace(is_service=False)
    made.cluster = cast("Any", SimpleNamespace(jobs={"job": job}))
    made.loop = cast("Any", SimpleNamespace(now=1000.0))
    made.setup = cast("Any", SimpleNamespace(costs=SimpleNamespace(start_seconds=2.0)))
    made.copied, made.classified = dict(copied), {"job": 1.0}
    made.__dict__["searched"] = searched or {}
    return made


def test_a_wait_is_profiling_a_start_and_waiting_and_the_rest_is_moves():
    one = replace(
        fate("job", 0.5),
        platform="a",
        submitted_at=0.0,
        ended_at=1000.0,
        wait_seconds=40.0,
        overhead=0.05,
    )
    shares = shares_of(one, _timed({"job": 8.0}, {"job": 0.5}))
    assert shares is not None
    assert shares.group == LONG
    assert shares.of["profiling"] == pytest.approx(0.008)
    assert shares.of["waiting"] == pytest.approx(0.030)
    assert shares.of["moves"] == pytest.approx(0.002 + 0.010)
    assert shares.overhead == pytest.approx(0.008 + 0.001 + 0.0005 + 0.012)
    brief = shares_of(replace(one, performance=0.1), _timed({"job": 900.0}))
    assert brief is not None
    assert brief.group == SHORT
    assert brief.of["profiling"] == pytest.approx(0.040)
    assert brief.of["waiting"] == 0.0
    assert shares_of(replace(one, performance=0.0), _timed({})) is None


@pytest.mark.long
def test_overheads_of_a_small_run_have_every_part():
    findings = look(REGIMES["moderate"], 1, workloads=8, scale=1.0)
    assert all(findings.numbers[part] > 0 for part in OVERHEAD)
    assert set(PARTS) <= set(findings.numbers)
    assert 0 < findings.numbers["overhead"] < 0.5
    assert shows_data(stacked(findings.drawn["overheads"], "Overheads", "share"))


@pytest.mark.long
def test_phases_are_looked_for_as_published():
    assert "phases.share=0.2,phases.period_seconds=600" in QUASAR_MODES["pre-emptive"]
    numbers = QUASAR_PHASES.measure(REGIMES["moderate"], 1, workloads=4, scale=1.0).numbers
    assert numbers["reactive/phases"] > 0
    assert numbers["reactive/found"] > 0
    assert not {name for name in numbers if name.partition("/")[0] not in QUASAR_MODES}


def _sized(regime: Regime, seed: int, workloads: int | None, scale: float) -> StudyFindings:
    return StudyFindings({"workloads": float(workloads or 0), "scale": scale})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [({}, (0, 0.1)), ({"scale": 0.5}, (0, 0.5)), ({"workloads": 7}, (7, 1.0))],
)
def test_a_study_that_simulates_takes_its_size(
    arguments: dict[str, float], expected: tuple[float, float], tmp_path: Path
):
    study = GroundTruthStudy("study", "", "", _sized, (), scale=0.1)
    assert {"scale", "workloads"} <= study.takes
    told = Arguments(repeats=1, **arguments)  # type: ignore[arg-type]
    result = study.run(Context(run_in_turn, told, Workspace(tmp_path), processes=1))
    assert tuple(row.measured for row in result.rows) == expected
    assert {"scale", "workloads"} <= QUASAR_OVERHEADS.takes
    assert "scale" not in replace(study, scale=None).takes
