"""The pure parts of profiling: stretches, scores, times, and where layers lie."""

import os
from pathlib import Path

import pytest

from wharfinger.engines.local.profiling.findings import Findings
from wharfinger.engines.local.profiling.injection import (
    COARSE,
    FINE,
    cut_short,
    looks_for,
    plan_for,
)
from wharfinger.engines.local.profiling.injection import ramp as run_ramp
from wharfinger.engines.local.profiling.job import Job
from wharfinger.engines.local.profiling.readings import Heard
from wharfinger.engines.local.profiling.scores import (
    CAPACITY_ERROR,
    SINGLE_ERROR,
    Stretch,
    caused_by_sharing,
    caused_on_cpu,
    performance,
    relative,
    tolerated_of_few,
)
from wharfinger.engines.local.profiling.sequence import Times
from wharfinger.engines.local.profiling.storage import cap, choose_upper
from wharfinger.host.cgroups import discover
from wharfinger.host.topology import discover_servers
from wharfinger.ibench.ramp import RampPlan, Sample, Tolerance
from wharfinger.ibench.scores import tolerated
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.workload import Run, Workload, WorkloadType

RATE, LATENCY = Quantity.RATE, Quantity.LATENCY


def heard(*numbers: tuple[float, float], counts: bool = True, quantity: Quantity = RATE) -> Heard:
    made = Heard()
    for at, value in numbers:
        made.add("progress lines", quantity, at, value, counts)
    return made


def test_a_counts_stretch_begins_and_ends_at_numbers_that_were_heard():
    found = heard((0.9, 5), (1.1, 10), (1.2, 20), (1.4, 50)).stretch(RATE, 1.0, 0.25)
    assert found is not None
    end, stretch = found
    assert (end, stretch.seconds) == (1.4, pytest.approx(0.3))
    assert stretch.values[RATE] == pytest.approx(40 / 0.3)


def test_a_count_that_began_anew_goes_on():
    found = heard((0, 90), (1, 100), (2, 5), (3, 15)).between(0, 3)
    assert found.values[RATE] == pytest.approx(20 / 3)


def test_a_gauge_stands_for_the_time_before_it():
    found = heard((1, 1000), (2, 10), (4, 40), counts=False, quantity=LATENCY).between(1, 4)
    assert found.values[LATENCY] == pytest.approx((10 + 2 * 40) / 3)


def test_what_users_see_is_believed_first():
    both = heard((0, 0), (1, 10))
    both.add("load generator's report", RATE, 0.0, 3.0, False)
    both.add("load generator's report", RATE, 1.0, 3.0, False)
    assert both.between(0, 1).values[RATE] == 3.0


def test_work_is_the_newest_count():
    assert heard((0, 3), (1, 7)).work() == 7
    assert heard((0, 3), (1, 7), counts=False).work() == 0


def test_a_time_when_nobody_listened_is_no_usual_gap():
    numbers = [(at / 10, at) for at in range(30)]
    assert heard(*numbers, (60.0, 31)).usual_gap(RATE) == pytest.approx(0.1)
    assert heard((0.0, 1)).usual_gap(RATE) is None


def test_one_stretch_says_nothing_of_its_noise():
    assert performance([Stretch(1.0, {RATE: 5.0})], RATE) is not None
    entry = performance([Stretch(1.0, {RATE: 5.0})], RATE)
    assert entry is not None and entry.error == SINGLE_ERROR
    assert performance([Stretch(1.0, {})], RATE) is None
    assert performance([Stretch(1.0, {RATE: 0.0})], RATE) is None


def test_the_quantity_that_falls_most_counts():
    alone = {Quantity.THROUGHPUT: 100.0, LATENCY: 0.01}
    assert relative({Quantity.THROUGHPUT: 90.0, LATENCY: 0.02}, alone) == 0.5
    assert relative({RATE: 1.0}, alone) is None


def test_a_ramps_error_is_at_least_its_step():
    found, finished = ramped(lambda intensity: 1.0 if intensity <= 50 else 0.8)
    entry = tolerated(found)
    assert finished
    assert 50 <= entry.value <= 75
    assert entry.error >= 25 / 12**0.5
    assert not entry.censored


def test_a_ramp_that_is_cut_short_is_a_lower_bound():
    samples = [Sample(0.0, 1.0)] * 3 + [Sample(25.0, 1.0)] * 3 + [Sample(50.0, 1.0)]
    entry = tolerated(cut_short(RampPlan(levels=COARSE), samples))
    assert (entry.value, entry.censored) == (25.0, True)


def test_a_break_that_could_not_be_confirmed_is_one():
    samples = [Sample(0.0, 1.0)] * 3 + [Sample(25.0, 0.5)] * 3
    entry = tolerated(cut_short(RampPlan(levels=COARSE), samples))
    assert not entry.censored
    assert entry.value < 25


def ramped(performance_at) -> tuple[Tolerance, bool]:
    now = [0.0]

    def set_intensity(intensity: float) -> None:
        now[0] = intensity

    plan = RampPlan(levels=COARSE)
    return run_ramp(plan, [Sample(0.0, 1.0)] * 3, set_intensity, lambda: performance_at(now[0]))


def test_few_looks_interpolate():
    entry = tolerated_of_few({50.0: 0.99, 100.0: 0.89}, 0.05)
    assert entry.value == pytest.approx(70.0)
    assert tolerated_of_few({50.0: 0.99}, 0.05).censored


def test_how_a_ramp_is_planned_hangs_on_the_time():
    assert plan_for(5, 0.05) is None
    assert looks_for(1) == (100.0,)
    coarse, fine = plan_for(20, 0.05), plan_for(60, 0.05)
    assert coarse is not None and coarse.levels == COARSE
    assert fine is not None and fine.levels == FINE


def test_caused_scores_are_from_0_to_100():
    assert caused_on_cpu([5.0], 2).value == 100
    shared = caused_by_sharing(100.0, [20.0])
    assert shared is not None and shared.value == 100
    assert caused_by_sharing(50.0, []) is None


@pytest.mark.parametrize(("seconds", "allocations", "sources"), [(2, 1, 0), (8, 2, 2), (60, 7, 2)])
def test_the_shares_make_up_the_whole(seconds: float, allocations: int, sources: int):
    times = Times.of(seconds, allocations=allocations, sources=sources)
    total = times.warm_up_seconds + times.share_seconds * (allocations + 3 * sources)
    assert total == pytest.approx(seconds)
    assert 0.2 <= times.stretch_seconds <= 1.0


def test_layers_lie_in_our_own_directory_on_the_same_storage(tmp_path: Path):
    assert choose_upper(tmp_path, tmp_path, "k") == tmp_path / "upper"


def test_layers_lie_with_the_workload_on_another_storage(tmp_path: Path):
    other = Path("/dev/shm")
    if other.stat().st_dev == tmp_path.stat().st_dev or not os.access(other, os.W_OK):
        pytest.skip("no other storage here")
    assert choose_upper(other, tmp_path, "k").parent == other


def test_the_cap_is_a_tenth_of_the_room_at_most(tmp_path: Path):
    status = os.statvfs(tmp_path)
    room = status.f_bavail * status.f_frsize
    assert cap(tmp_path, 1000) == 1000
    assert cap(tmp_path, 1 << 62) <= room // 9


def make_job(tmp_path: Path) -> Job:
    nothing = tmp_path / "nothing"
    nothing.touch()
    [server, *_] = discover_servers(None)
    workload = Workload("w", WorkloadType.BATCH, Run(("true",), {"A": "ü"}, "/"))
    plan = ProfilingPlan("a", (500, 1000), 1 << 20, (SharedResource.INTEGER,), 8.0)
    control = discover("test-job", cgroup_file=nothing, mountinfo_file=nothing)
    return Job("k", workload, plan, server, control, tmp_path, (1, 2), 3, {66305: 1e9})


def test_a_job_comes_through_as_it_was(tmp_path: Path):
    job = make_job(tmp_path)
    assert Job.decode(job.encode()) == job


def test_a_service_is_told_by_what_it_could_answer_not_by_what_it_was_asked(
    tmp_path: Path,
) -> None:
    throughput = Quantity.THROUGHPUT
    answered = [Stretch(1.0, {throughput: 40.0, LATENCY: 0.004})] * 9
    findings = Findings(make_job(tmp_path))
    findings.add_performance(1000, answered, 0.1)
    findings.add_performance(1000, answered)  # Again, with what was seen later.
    findings.add_performance(500, answered, 0.47)
    found = findings.measurements(runs=1, seconds=8.0).performance
    assert found[throughput][1000].value == pytest.approx(400)
    assert found[throughput][1000].error == CAPACITY_ERROR
    assert found[throughput][500].value == pytest.approx(40), "busy: it can do no more"
    assert [entry.value for entry in found[LATENCY].values()] == pytest.approx([0.004, 0.004])


def test_nobody_is_taken_to_use_more_than_one_cpu_who_was_not_seen_to(tmp_path: Path) -> None:
    findings = Findings(make_job(tmp_path))
    findings.add_performance(4000, [Stretch(1.0, {Quantity.THROUGHPUT: 40.0})] * 9, 0.1)
    found = findings.measurements(runs=1, seconds=8.0).performance
    assert found[Quantity.THROUGHPUT][4000].value == pytest.approx(400)
