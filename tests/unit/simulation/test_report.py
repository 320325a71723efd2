"""What a run's numbers mean."""

import pytest

from tests.support.simulations import Crowded, Watch, batch_job, servers, service_job
from wharfinger.runtime.simulated import RunSpec, Simulation
from wharfinger.simulation.jobs import Load
from wharfinger.simulation.setup import Costs, Setup

START_SECONDS = 2.0


def run(*jobs, count: int = 1, policy: str = "least-loaded", **how):
    costs = Costs(start_seconds=START_SECONDS, start_spread=0.0)
    setup = Setup("made", servers(count), jobs, Crowded(), costs=costs, **how)
    simulation = Simulation(setup, RunSpec("made", policy, series=True))
    return simulation.run()


def test_a_job_alone_loses_only_its_start_and_its_platform() -> None:
    outcome = run(batch_job("a", work=10))
    (fate,) = outcome.fates
    assert fate.performance == pytest.approx(10 / 12)
    assert (fate.platform_loss, fate.waiting_loss) == (
        pytest.approx(0.0),
        pytest.approx(2 / 12),
    )
    assert (fate.end, fate.platform, fate.wait_seconds) == ("completed", "small", START_SECONDS)
    assert fate.kept
    assert outcome.summary["makespan_seconds"] == pytest.approx(12)
    # One of four CPUs is busy for ten of twelve seconds; all idle power, and that.
    assert outcome.summary["utilization_cpu_mean"] == pytest.approx(10 / 48)
    energy = (0.5 * 48 + 0.5 * 10) / (4 * 10)
    assert outcome.summary["energy_relative"] == pytest.approx(energy)


def test_losses_are_told_apart() -> None:
    jobs = [batch_job("a", work=30), batch_job("b", work=30)]
    small, large = run(*jobs).fates, run(batch_job("a", work=30), count=2).fates
    assert small[0].interference_loss == pytest.approx(30 / (30) - 30 / (30 / 0.9))
    # Least-loaded takes the larger server of two: half as fast again, and nobody there.
    assert large[0].platform == "large"
    assert large[0].interference_loss == pytest.approx(0.0)


def test_what_is_never_placed_is_unfinished_and_not_kept() -> None:
    outcome = run(batch_job("huge", cpu=64000), batch_job("a", work=5))
    huge, other = outcome.fates
    assert (huge.end, huge.kept, huge.performance) == ("unfinished", False, 0.0)
    assert other.kept
    assert outcome.summary["unfinished"] == 1
    assert outcome.summary["qos_kept_fraction"] == 0.5


def test_a_service_is_judged_over_its_whole_life() -> None:
    job = service_job("web", 0.0, 42.0, Load((0.0,), (50.0,)))
    outcome = run(job)
    (fate,) = outcome.fates
    assert fate.performance == pytest.approx(40 / 42)
    assert fate.waiting_loss == pytest.approx(2 / 42)
    assert outcome.series is not None
    assert outcome.series.bounds_seconds == {"web": 0.2}
    assert outcome.series.latency["web"].sum() == pytest.approx(1.0)


def test_series_add_up_to_the_summary() -> None:
    jobs = [batch_job(f"w{at}", at * 3.0, 20, 500 * (1 + at % 4)) for at in range(12)]
    outcome = run(*jobs, count=3)
    series = outcome.series
    assert series is not None
    assert series.used_cpus.mean() / 16 == pytest.approx(
        outcome.summary["utilization_cpu_mean"], rel=0.02
    )
    assert series.allocated_cpus.mean() / 16 == pytest.approx(
        outcome.summary["allocated_cpu_mean"], rel=0.02
    )
    assert (series.required_cpus >= series.used_cpus - 1e-9).all()
    assert series.utilization.shape == (3, len(series.edges) - 1)


def test_the_oracle_is_told_the_truth() -> None:
    jobs = [batch_job(f"w{at}", at * 2.0, 20, 1000) for at in range(6)]
    setup = Setup("made", servers(2), tuple(jobs), Crowded())
    watch = Watch(Simulation(setup, RunSpec("made", "oracle")))
    watch.run()
    for record in watch.simulation.manager.state.workloads.values():
        assert record.classification is not None
        assert record.classification.estimator == "truth"
        assert record.predicted is not None
        assert record.predicted.low == pytest.approx(record.predicted.high)
