"""The pure parts of profiling on this machine: readings, jobs, and where layers lie."""

import os
from pathlib import Path

import pytest

from wharfinger.engines.local.profiling.job import ProfilingJob
from wharfinger.engines.local.profiling.readings import Heard
from wharfinger.engines.local.profiling.worker import cap, choose_upper
from wharfinger.engines.supervised.machine import Launcher
from wharfinger.host.cgroups import discover
from wharfinger.host.topology import discover_servers
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


def test_layers_lie_in_our_own_directory_on_the_same_storage(tmp_path: Path):
    assert choose_upper(tmp_path, tmp_path, "k") == tmp_path / "upper"


def test_layers_lie_with_the_workload_on_another_storage(tmp_path: Path):
    other = Path("/dev/shm")
    if other.stat().st_dev == tmp_path.stat().st_dev or not os.access(other, os.W_OK):
        pytest.skip("no other storage here")
    assert choose_upper(other, tmp_path, "k").parent == other


def test_the_cap_is_a_tenth_of_the_room_at_most(tmp_path: Path):
    def room() -> int:
        status = os.statvfs(tmp_path)
        return status.f_bavail * status.f_frsize

    assert cap(tmp_path, 1000) == 1000
    before, found = room(), cap(tmp_path, 1 << 62)
    assert found <= max(before, room()) // 9  # Others write and remove files, too.


def make_job(tmp_path: Path) -> ProfilingJob:
    nothing = tmp_path / "nothing"
    nothing.touch()
    [server, *_] = discover_servers(None)
    workload = Workload("w", WorkloadType.BATCH, Run(("true",), {"A": "ü"}, "/"))
    plan = ProfilingPlan("a", (500, 1000), 1 << 20, (SharedResource.INTEGER,), 8.0)
    control = discover("test-job", cgroup_file=nothing, mountinfo_file=nothing)
    machine = Launcher({"a": server}, control, (1, 2), 4)
    return ProfilingJob("k", workload, plan, machine, tmp_path, 3, {"storage-bandwidth 66305": 1e9})


def test_a_job_comes_through_as_it_was(tmp_path: Path):
    job = make_job(tmp_path)
    assert ProfilingJob.decode(job.encode()) == job
