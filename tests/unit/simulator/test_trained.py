"""A simulated manager learns from what ran; its log is decided alike without that."""

from dataclasses import replace
from pathlib import Path

import pytest

from wharfinger.classification.utility import Aspect
from wharfinger.core.seams.estimation import ProfilingNeeds
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Measurements, SettingEntry
from wharfinger.policies.registry import make_policy
from wharfinger.simulator import policies
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.policies import REFIT_SECONDS, Trained
from wharfinger.simulator.run import RunSpec, draw, prepare, replay_recording
from wharfinger.simulator.scenario.setup import Setup

SPEC = RunSpec("paragon-local-low", policy="paragon", workloads=20, seed=3)


def ran(setup: Setup, values: tuple[float, ...]) -> Measurements:
    """One CPU on each of the first platforms."""
    names = list(dict.fromkeys(server.platform.name for server in setup.servers))
    further = tuple(
        SettingEntry(Setting(name, Configuration(1000)), Entry(value, 0.03))
        for name, value in zip(names[1:], values[1:], strict=False)
    )
    row = {Quantity.RATE: {1000: Entry(values[0], 0.03)}}
    return Measurements(row, platform=names[0], further={Quantity.RATE: further})


@pytest.mark.slow
def test_rows_of_programs_that_ended_are_learnt_from_after_a_while() -> None:
    setup = prepare(SPEC).setup
    trained = Trained(setup, Streams(3), ProfilingNeeds(stated=True))
    jobs = {job.application: job for job in setup.jobs if job.application not in setup.training}
    first = trained._classifier
    plans = trained.planner._made

    def rows() -> int:
        return len(trained._classifier.classifications._matrices[Aspect.HETEROGENEITY].rows)

    offline = rows()
    for at, job in enumerate(jobs.values()):
        trained.learn(float(at), job.workload, ran(setup, (1.0, 2.0, 3.0, 4.0)))
    assert trained._classifier is first, "not at once"
    job = next(iter(jobs.values()))
    trained.learn(REFIT_SECONDS, job.workload, ran(setup, (1.0, 2.0, 3.0, 4.0)))
    assert trained._classifier is not first
    assert rows() == offline + len(jobs)
    assert trained.planner._made is plans, "plans are made by the training set alone"
    program = replace(
        job.workload, run=replace(job.workload.run, command=("application", setup.training[0]))
    )
    before = dict(trained._learnt)
    trained.learn(2 * REFIT_SECONDS, program, ran(setup, (1.0, 2.0, 3.0, 4.0)))
    assert trained._learnt == before, "the training set is known"


@pytest.mark.long
def test_a_run_that_learns_is_decided_again_from_its_log_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "REFIT_SECONDS", 30.0)
    monkeypatch.setattr(policies, "REFIT_SHARE", 0.01)
    simulation = prepare(replace(SPEC, record=tmp_path / "log"))
    trained = simulation._estimates.classify.__self__  # type: ignore[attr-defined]
    simulation.run()
    assert trained._refitted_with > 0, "it has learnt as it ran"
    replayed = replay_recording(tmp_path / "log")
    assert replayed.difference is None
    assert replayed.workloads == len(simulation.setup.jobs)


@pytest.mark.long
def test_a_simulated_manager_learns_what_neighbors_take() -> None:
    simulation = prepare(replace(SPEC, workloads=80))
    trained = simulation._estimates.look.__self__
    assert trained.learns_colocation
    simulation.run()
    model = trained._colocations.model
    assert model.coefficients, "co-runs were seen and fitted"
    platforms = {server.platform.name for server in simulation.setup.servers}
    assert set(model.coefficients) <= platforms
    assert all(each >= 0 for each in model.coefficients.values())


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["quasar", "least-loaded"])
def test_what_is_sized_or_not_estimated_learns_nothing_of_neighbors(policy: str) -> None:
    assert prepare(replace(SPEC, policy=policy))._estimates.look is None


@pytest.mark.parametrize(
    ("scenario", "policy", "measured"),
    [
        ("paragon-local-phases", "paragon", True),
        ("paragon-local-phases", "paragon[measures=never]", False),
        ("paragon-local-low", "paragon", False),
        ("paragon-local-low", "paragon[measures=always]", True),
        ("paragon-local-phases", "interference-oblivious", False),
        ("paragon-local-low", "quasar", True),
    ],
)
def test_what_runs_is_measured_where_that_changes_something_or_is_asked_for(
    scenario: str, policy: str, measured: bool
) -> None:
    setup = draw(replace(SPEC, scenario=scenario))
    assert policies._is_measured(make_policy(policy), setup) is measured
