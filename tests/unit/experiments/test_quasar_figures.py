"""Quasar's comparisons with baselines, as small runs, and the pictures of services over time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support import first_and_long
from tests.support.pictures import shows_data
from tests.support.simulated_runs import fate, series
from wharfinger.experiments import service_plots
from wharfinger.experiments.base import Arguments, Context
from wharfinger.experiments.paragon_short_jobs import completion_seconds
from wharfinger.experiments.quasar_batch import (
    FRAMEWORKS,
    QUASAR_FIGURE6,
    QUASAR_FIGURE7,
)
from wharfinger.experiments.quasar_figures import (
    EC2,
    QUASAR,
    QUASAR_FIGURE8,
    QUASAR_FIGURE11,
    RESERVED_LEAST_LOADED,
    RESERVED_PARAGON,
)
from wharfinger.experiments.runs import RunExperiment
from wharfinger.experiments.workspace import Workspace
from wharfinger.simulator.policies import ORACLE
from wharfinger.simulator.results.outcome import Outcome
from wharfinger.simulator.run import RunSpec, prepare, run_in_turn

OF_RUNS = (QUASAR_FIGURE6, QUASAR_FIGURE7, QUASAR_FIGURE8, QUASAR_FIGURE11)


@pytest.mark.slow
@pytest.mark.parametrize("experiment", first_and_long(OF_RUNS), ids=lambda each: each.name)
def test_a_small_run_has_every_row_and_picture(experiment: RunExperiment, tmp_path: Path):
    shown = {ORACLE, "autoscale", RESERVED_LEAST_LOADED, FRAMEWORKS}
    policies = tuple(each for each in experiment.policies if each in shown)
    figures = tuple(replace(each, policies=()) for each in experiment.figures)
    smaller = replace(
        experiment, policies=policies, figures=figures, scenarios=experiment.scenarios[-1:]
    )
    arguments = Arguments(repeats=1, servers=8, workloads=12, regime="moderate")
    result = smaller.run(Context(run_in_turn, arguments, Workspace(tmp_path), processes=1))
    assert len(result.rows) == len(policies) * len(experiment.measures)
    of_one = {m.key for m in experiment.measures if m.over or "mean" not in m.key}
    missing = {row.name.rpartition("/")[2] for row in result.rows if row.measured is None}
    assert missing <= of_one
    assert result.pictures
    for draw in result.pictures.values():
        assert shows_data(draw())


@pytest.mark.slow
@pytest.mark.parametrize("policy", [RESERVED_LEAST_LOADED, RESERVED_PARAGON, "reservation"])
def test_baselines_are_given_what_users_state(policy: str):
    simulation = prepare(RunSpec(EC2, policy, seed=1, servers=8, workloads=6, regime="moderate"))
    simulation.run()
    stated = {job.name: job.stated for job in simulation.setup.jobs}
    assert any(
        each not in (None, job.workload.reservation)
        for job in simulation.setup.jobs
        for each in [job.stated]
    )
    records = simulation.manager.state.workloads
    assert {name: record.workload.reservation for name, record in records.items()} == stated


def test_of_what_is_asked_the_share_in_the_bound_is_shown():
    one = replace(
        series(),
        edges=np.array([0.0, 10.0, 20.0]),
        asked_per_second=np.array([100.0, 0.0]),
        answered_per_second=np.array([90.0, 0.0]),
        in_bound_per_second=np.array([75.0, 0.0]),
    )
    shares = service_plots.in_bound(one)
    assert shares[0] == pytest.approx(0.75)
    assert np.isnan(shares[1])
    assert len(service_plots.throughput({QUASAR: one}, "title").axes) == 2


def test_a_run_tells_what_its_services_were_asked_and_answered():
    spec = RunSpec("services", "least-loaded", seed=2, servers=5, workloads=12, series=True)
    outcome = run_in_turn(spec)
    kept, summed = outcome.series, [f for f in outcome.fates if f.requests > 0]
    assert kept is not None
    assert summed
    seconds = np.diff(kept.edges)
    for name, level in (
        ("requests", kept.asked_per_second),
        ("answered", kept.answered_per_second),
        ("in_bound", kept.in_bound_per_second),
    ):
        assert level @ seconds == pytest.approx(sum(getattr(f, name) for f in summed), rel=1e-6)


def test_execution_times_are_of_the_jobs_that_ended():
    job = replace(fate("a", 0.5), type="batch", submitted_at=10.0, ended_at=70.0)
    fates = (
        job,
        replace(job, name="b", ended_at=None),
        replace(job, name="c", performance=0.0),
        replace(job, name="d", type="best-effort", ended_at=500.0),
    )
    assert completion_seconds(Outcome("scenario", "policy", "fifo", 0, {}, fates)) == 60.0
    assert completion_seconds(Outcome("scenario", "policy", "fifo", 0, {}, ())) is None
