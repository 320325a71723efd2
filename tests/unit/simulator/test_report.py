"""What a run's numbers mean."""

import math
from dataclasses import replace

import pytest

from tests.support.simulations import Crowded, batch_job, servers, service_job
from wharfinger.simulator.results.steady import steady_window
from wharfinger.simulator.run import RunSpec, Simulation
from wharfinger.simulator.scenario.jobs import Load
from wharfinger.simulator.scenario.setup import Costs, Faults, Outage, Setup

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


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_comes_after_the_last_end_does_not_count() -> None:
    away = Faults((Outage("s0", 1000.0, 10.0),))
    calm, faulty = run(batch_job("a", work=10)), run(batch_job("a", work=10), faults=away)
    for key in ("makespan_seconds", "utilization_cpu_mean", "energy_relative"):
        assert faulty.summary[key] == calm.summary[key]


def test_a_late_beginning_does_not_count() -> None:
    late = run(batch_job("a", 5000.0, work=10))
    assert late.summary["utilization_cpu_mean"] == pytest.approx(10 / 48)
    assert late.summary["makespan_seconds"] == pytest.approx(12)


@pytest.mark.slow
def test_how_each_has_ended_is_known_when_its_record_is_forgotten() -> None:
    load = Load((0.0,), (50.0,))
    jobs = [service_job("never", 0.0, 5.0, load, cpu=64000)]
    jobs += [batch_job(f"w{at}", 10.0 + at, work=1) for at in range(5)]
    setup = Setup("made", servers(1), tuple(jobs), Crowded())
    for keep in (1, 100):
        spec = RunSpec("made", "least-loaded", keep_ended=keep)
        outcome = Simulation(setup, spec).run()
        assert outcome.fates[0].end == "revoked"
        assert outcome.summary["failed"] == 1


def test_a_service_whose_end_is_told_late_has_served() -> None:
    job = service_job("web", 0.0, 42.0, Load((0.0,), (50.0,)))
    lost = Faults(lost_answers=1.0, found_seconds=5.0)
    (fate,) = run(job, faults=lost).fates
    assert (fate.end, fate.kept) == ("completed", True)
    assert fate.performance == pytest.approx(40 / 42)


def test_a_run_that_is_cut_short_is_measured_as_far_as_it_went() -> None:
    jobs = [batch_job(f"w{at}", at * 100.0, work=1000) for at in range(4)]
    outcome = run(*jobs, until_seconds=150.0)
    assert [fate.end for fate in outcome.fates] == ["unfinished"] * 2
    assert outcome.summary["energy_relative"] == pytest.approx(
        (0.5 * 4 * 150 + 0.5 * (148 + 48)) / (4 * 150)
    )


def test_requests_are_counted_as_answered_and_in_the_bound() -> None:
    # One CPU answers 100 a second, 77 of them within 200 ms in 99 of 100 cases (M/M/1).
    held = 100 - math.log(100) / 0.2
    outcome = run(service_job("web", 0.0, 42.0, Load((0.0, 22.0), (50.0, 150.0))))
    (fate,) = outcome.fates
    assert (fate.requests, fate.requests_after_rises) == (22 * 50 + 20 * 150, 20 * 150)
    # It starts after two seconds.
    assert fate.answered == pytest.approx(20 * 50 + 20 * 100)
    assert fate.in_bound == pytest.approx(20 * 50 + 20 * held)
    summary = outcome.summary
    assert summary["requests_in_bound_fraction"] == pytest.approx(fate.in_bound / 4100)
    assert summary["requests_in_bound_after_rise_fraction"] == pytest.approx(held / 150)
    assert summary["throughput_kept_mean"] == pytest.approx(3000 / 4100)
    assert summary["throughput_kept_after_rise_mean"] == pytest.approx(100 / 150)


def test_throughput_is_a_mean_over_services_and_requests_are_added_up() -> None:
    jobs = [service_job("a", 0.0, 42.0, Load((0.0,), (50.0,)))]
    jobs += [service_job("b", 0.0, 42.0, Load((0.0,), (10.0,)), cpu=64000)]
    summary = run(*jobs).summary
    assert summary["requests_in_bound_fraction"] == pytest.approx(40 * 50 / (42 * 60))
    assert summary["throughput_kept_mean"] == pytest.approx((40 / 42 + 0) / 2)


def test_a_target_says_how_many_requests_count() -> None:
    job = service_job("web", 0.0, 42.0, Load((0.0, 22.0), (40.0, 150.0)))
    target = replace(job.workload.target, throughput_per_second=60.0)
    (fate,) = run(replace(job, workload=replace(job.workload, target=target))).fates
    assert (fate.requests, fate.requests_after_rises) == (22 * 40 + 20 * 60, 20 * 60)
    assert fate.answered == fate.in_bound == pytest.approx(20 * 40 + 20 * 60)


@pytest.mark.slow
def test_without_services_no_requests_are_told() -> None:
    summary = run(batch_job("a", work=10)).summary
    for key in ("requests_in_bound_fraction", "throughput_kept_mean"):
        assert summary[key] is None
    flat = run(service_job("web", 0.0, 42.0, Load((0.0,), (50.0,)))).summary
    assert flat["requests_in_bound_after_rise_fraction"] is None


def test_overhead_is_time_without_work_that_counts() -> None:
    jobs = [batch_job("a", work=10), service_job("web", 0.0, 40.0, Load((0.0,), (50.0,)))]
    outcome = run(*jobs, batch_job("huge", cpu=64000))
    shares = {fate.name: fate.overhead for fate in outcome.fates}
    # Two seconds to start; a neighbour slows the work, which is no overhead.
    (ended,) = [fate.ended_at for fate in outcome.fates if fate.name == "a"]
    assert shares == {"a": pytest.approx(2 / ended), "web": pytest.approx(2 / 40), "huge": 1.0}
    mean = outcome.summary["overhead_fraction_mean"]
    assert mean == pytest.approx(sum(shares.values()) / 3)


def test_the_steady_state_is_while_most_cpu_is_wanted() -> None:
    # Each is wanted for twice its work and ten seconds: 30 s of one CPU, 20 s of three.
    jobs = [batch_job("a", 0.0, 10.0), batch_job("b", 5.0, 15.0, 3000)]
    assert steady_window(jobs) == (5.0, 25.0)
    # Four fifths of the most are enough.
    jobs += [batch_job("c", 8.0, 1.0)]
    assert steady_window(jobs) == (5.0, 25.0)
    # Best-effort work wants nothing; a service is wanted for its life.
    jobs = [batch_job("f", best_effort=True), service_job("s", 3.0, 50.0, Load((0.0,), (1.0,)))]
    assert steady_window(jobs) == (3.0, 53.0)


def test_the_steady_state_is_summed_apart() -> None:
    # Wanted: a from 0 to 130, b from 20 to 54; so from 20 to 54 both.
    jobs = [batch_job("a", 0.0, 60.0), batch_job("b", 20.0, 12.0)]
    assert steady_window(jobs) == (20.0, 54.0)
    summary = run(*jobs).summary
    # Of four CPUs: a all the time, b from its start at 22 for 12 / .9 s.
    used = (34 + 12 / 0.9) / (34 * 4)
    assert summary["utilization_cpu_steady_mean"] == pytest.approx(used)
    assert summary["allocated_cpu_steady_mean"] == pytest.approx(used)
    assert summary["allocated_over_used_mean"] == pytest.approx(1.0)


def test_what_is_allocated_and_not_used_is_told() -> None:
    # Half of its CPU does something: it is asked for 50 of the 100 a second that it could answer.
    summary = run(service_job("web", 0.0, 40.0, Load((0.0,), (50.0,)))).summary
    assert summary["allocated_cpu_steady_mean"] == pytest.approx(38 / (40 * 4))
    assert summary["allocated_over_used_mean"] == pytest.approx(2.0)


def test_work_on_what_nobody_is_allocated_has_no_share_of_it() -> None:
    summary = run(batch_job("a"), batch_job("f", best_effort=True)).summary
    assert summary["allocated_over_used_mean"] is None
