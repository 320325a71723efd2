"""The simulated cluster: what happens to those who run there."""

from dataclasses import replace

import pytest

from tests.support.simulations import (
    GIBIBYTE,
    PLATFORMS,
    Crowded,
    batch_job,
    servers,
    service_job,
)
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import FurtherRun, ProfilingPlan
from wharfinger.simulator.cluster.cluster import SimulatedCluster
from wharfinger.simulator.kernel.loop import EventLoop
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.jobs import Job, Load
from wharfinger.simulator.scenario.setup import Costs, Faults, Measuring

AT_ONCE = Costs(0.0, 0.0, 0.0, 0.0, 0.0)


class Told:
    """A cluster, and what it has told."""

    def __init__(self, *jobs: Job, count: int = 2, **how: object) -> None:
        memory = {platform.name: platform.memory_bytes for platform in PLATFORMS}
        made = {"costs": AT_ONCE, "streams": Streams(1), **how}
        self.cluster = SimulatedCluster(
            EventLoop(),
            Crowded(memory_bytes=memory),
            servers(count),
            jobs,
            **made,  # type: ignore[arg-type]
        )
        self.reports: list[ev.Report] = []
        self.cluster.attach(self.reports.append)

    def start(
        self,
        name: str,
        *names: str,
        cpu: int = 1000,
        memory: int = 0,
        best_effort: bool = False,
    ) -> None:
        memory = memory or self.cluster.jobs[name].memory_bytes
        held = Allocation(0 if best_effort else cpu, memory, best_effort)
        places = tuple(Placement(server, held) for server in names or ("s0",))
        workload = self.cluster.jobs[name].workload
        self.cluster.perform(act.StartWorkload(name, workload, places))

    def at(self, seconds: float) -> None:
        self.cluster.loop.run(seconds)

    def ends(self) -> dict[str, tuple[str, float]]:
        return {
            name: (report.reason, account.ended_at or 0.0)
            for name, account in self.cluster.accounts.items()
            for report in self.reports
            if isinstance(report, ev.WorkloadFinished | ev.WorkloadVanished) and report.key == name
        }

    def of(self, kind: type) -> list[ev.Report]:
        return [report for report in self.reports if isinstance(report, kind)]


def test_neighbours_slow_one_another_only_while_they_are_there() -> None:
    told = Told(batch_job("a", work=10), batch_job("b", work=0.9))
    told.start("a")
    told.start("b")
    told.at(100)
    # b takes 1 s beside a, which does 0.9 of its 10 in that and the rest alone.
    assert told.ends() == {
        "a": ("exited", pytest.approx(10.1)),
        "b": ("exited", pytest.approx(1.0)),
    }


def test_best_effort_work_shares_what_is_left() -> None:
    jobs = [batch_job("a", work=100, cpu=2000)]
    jobs += [batch_job(name, work=100, cpu=2000, best_effort=True) for name in ("b", "c")]
    told = Told(*jobs)
    told.start("a", cpu=2000)
    told.start("b", best_effort=True)
    told.start("c", best_effort=True)
    told.at(1)
    used = [part.cpu_millicpus for part in told.cluster.machines["s0"].parts]
    assert used == [2000.0, 1000.0, 1000.0]
    told.cluster.perform(act.SuspendWorkload("b"))
    used = [part.cpu_millicpus for part in told.cluster.machines["s0"].parts]
    assert (used[0], used[2]) == (2000.0, 2000.0)


def test_who_came_last_is_killed_when_memory_is_exhausted() -> None:
    jobs = [batch_job(name, work=50, takes=3 * GIBIBYTE) for name in "abc"]
    told = Told(*jobs)
    for name in "abc":
        told.start(name)
        told.at(told.cluster.now + 1)
    assert told.ends() == {"c": ("out-of-memory", 2.0)}
    assert told.cluster.accounts["c"].failed


def test_one_that_may_not_take_the_memory_it_needs_is_killed_and_tells_what_it_takes() -> None:
    told = Told(batch_job("short", takes=3 * GIBIBYTE), batch_job("a", work=5))
    told.start("short", memory=2 * GIBIBYTE)
    told.start("a", memory=4 * GIBIBYTE)
    told.at(20)
    assert told.ends() == {"short": ("out-of-memory", 0.0), "a": ("exited", 5.0)}
    peaks = {each.key: each.memory_peak_bytes for each in told.of(ev.WorkloadFinished)}
    assert peaks == {"short": 2 * GIBIBYTE, "a": GIBIBYTE}


def test_a_server_that_fails_takes_what_runs_there_with_it_and_comes_back_empty() -> None:
    told = Told(batch_job("a", work=50), batch_job("b", work=50))
    told.start("a")
    told.start("b", "s1")
    told.at(5)
    server = told.cluster.machines["s0"].server
    told.cluster.remove_server("s0")
    told.at(6)
    told.cluster.put_server(server)
    assert [report.key for report in told.of(ev.WorkloadVanished)] == ["a"]
    assert told.of(ev.ServerLeft) == [ev.ServerLeft("s0", "it failed")]
    assert not told.cluster.machines["s0"].parts
    assert told.cluster.ledger.capacity == 12000


def test_an_answer_that_is_lost_is_told_later() -> None:
    told = Told(batch_job("a", work=1), faults=Faults(lost_answers=1.0, found_seconds=7.0))
    told.start("a")
    told.at(5)
    assert told.of(ev.WorkloadStarted) == []
    told.at(20)
    assert len(told.of(ev.WorkloadStarted)) == len(told.of(ev.WorkloadFinished)) == 1
    assert told.cluster.accounts["a"].ended_at == pytest.approx(1.0)


def test_moving_costs_the_work_so_far_unless_that_is_kept() -> None:
    for keeps, ends_at in ((False, 26.0), (True, 20.0)):
        costs = replace(AT_ONCE, move_seconds=10.0, keeps_work=keeps)
        told = Told(batch_job("a", work=10), costs=costs)
        told.start("a")
        told.at(6)
        told.cluster.perform(act.StopWorkload("a", 0.0))
        told.at(6)
        workload = told.cluster.jobs["a"].workload
        place = (Placement("s0", Allocation(1000, GIBIBYTE)),)
        told.cluster.perform(act.StartWorkload("again", workload, place))
        told.at(100)
        assert told.cluster.accounts["a"].ended_at == pytest.approx(ends_at)


def test_a_service_on_two_servers_is_asked_by_what_each_holds() -> None:
    job = service_job("a", 0.0, 50.0, Load((0.0,), (120.0,)))
    told = Told(job)
    told.start("a")
    told.at(1)
    run = told.cluster.run_of("a")
    assert run is not None
    assert run.kept == pytest.approx((100 - 4.60517 / 0.2) / 120)
    more = tuple(Placement(server, Allocation(1000, GIBIBYTE)) for server in ("s0", "s1"))
    told.cluster.perform(act.ResizeAllocation("a", more))
    told.at(2)
    assert run.kept == 1.0
    held = [100 - 4.60517 / 0.2, 150 - 4.60517 / 0.2]
    loads = [part.resident.load_per_second for part in run.parts if part.resident]
    assert loads == pytest.approx([120 * each / sum(held) for each in held])
    assert told.of(ev.AllocationResized) == [ev.AllocationResized("a", more)]


def test_measurements_are_noisy_and_late_and_end_with_the_workload() -> None:
    measuring = Measuring(every_seconds=2.0, noise=0.1, delay_seconds=0.5)
    told = Told(batch_job("a", work=9), measuring=measuring)
    told.start("a")
    told.at(0)
    told.cluster.perform(act.MeasureWorkload("a", told.cluster.jobs["a"].workload))
    told.at(2.4)
    assert told.of(ev.ServerMeasured) == []
    told.at(100)
    seen = [report.samples[0].readings for report in told.of(ev.ServerMeasured)]
    rates = [readings[Quantity.RATE].value for readings in seen]
    assert len(rates) == 4
    assert len(set(rates)) == 4
    assert all(0.6 < rate < 1.5 for rate in rates)
    assert seen[0][Quantity.CPU].value == 1.0
    assert not seen[0][Quantity.CPU].trusted


def test_a_profiling_plan_takes_its_time_and_its_servers() -> None:
    quiet = Measuring(noise=0.0)
    told = Told(batch_job("a", work=1000), batch_job("b", work=1000), count=4, measuring=quiet)
    told.start("b", "s2")
    plan = ProfilingPlan(
        server="s0",
        cpu_millicpus=(2000, 1000),
        memory_bytes=GIBIBYTE,
        sources=(SharedResource.INTEGER,),
        seconds=12.0,
        further=(
            FurtherRun(Setting("large", Configuration(2000)), ("s1",)),
            FurtherRun(Setting("small", Configuration(2000), servers=2), ("s0", "s2")),
        ),
    )
    told.cluster.perform(act.ProfileWorkload("k", told.cluster.jobs["a"].workload, plan))
    told.at(1)
    assert [part.cpu_millicpus for part in told.cluster.machines["s0"].parts] == [1000.0]
    told.at(13)
    (answer,) = told.of(ev.ProfilingFinished)
    found = answer.measurements  # type: ignore[attr-defined]
    assert found.platform == "small"
    # On s0 two allocations and the run on two servers; the other platform at the same time.
    assert found.seconds == pytest.approx(9.0)
    # The job can use one CPU, whatever it is given; b slows the run that takes its server.
    assert {cpu: e.value for cpu, e in found.performance[Quantity.RATE].items()} == {
        2000: pytest.approx(1.0),
        1000: pytest.approx(1.0),
    }
    values = [entry.entry.value for entry in found.further[Quantity.RATE]]
    assert values == [pytest.approx(1.5), pytest.approx(1.9)]
    assert found.silent["tolerated/integer"]
    assert not told.cluster.machines["s0"].parts
    assert "a" not in told.cluster.accounts


def test_what_a_plan_runs_apart_goes_on_at_the_same_time() -> None:
    told = Told(batch_job("a", work=1000), count=3, measuring=Measuring(noise=0.0))
    plan = ProfilingPlan("s0", (2000, 1000), GIBIBYTE, (), 8.0, apart=("s2",))
    assert [(p.server, p.allocation.cpu_millicpus) for p in plan.placements] == [
        ("s0", 2000),
        ("s2", 1000),
    ]
    told.cluster.perform(act.ProfileWorkload("k", told.cluster.jobs["a"].workload, plan))
    told.at(3)
    there = [len(told.cluster.machines[name].parts) for name in ("s0", "s1", "s2")]
    assert there == [1, 0, 1]
    told.at(20)
    (answer,) = told.of(ev.ProfilingFinished)
    found = answer.measurements  # type: ignore[attr-defined]
    assert found.seconds == pytest.approx(4.0), "each runs for as long as one after the other"
    assert set(found.performance[Quantity.RATE]) == {1000, 2000}
    assert found.runs == 2
    assert not any(machine.parts for machine in told.cluster.machines.values())


def test_a_known_program_beside_a_copy_tells_what_each_takes_of_the_other() -> None:
    told = Told(batch_job("a", work=1000), measuring=Measuring(noise=0.0))
    plan = ProfilingPlan("s0", (1000,), GIBIBYTE, (), 9.0, beside=("cpu1000",))
    told.cluster.perform(act.ProfileWorkload("k", told.cluster.jobs["a"].workload, plan))
    told.at(20)
    (answer,) = told.of(ev.ProfilingFinished)
    found = answer.measurements  # type: ignore[attr-defined]
    assert found.beside["cpu1000"].value == pytest.approx(0.9)
    assert found.upon["cpu1000"].value == pytest.approx(0.9)


def test_copies_on_a_server_that_fails_give_nothing() -> None:
    told = Told(batch_job("a", work=1000))
    plan = ProfilingPlan("s0", (1000,), GIBIBYTE, (), 9.0)
    told.cluster.perform(act.ProfileWorkload("k", told.cluster.jobs["a"].workload, plan))
    told.at(3)
    told.cluster.remove_server("s0")
    told.at(20)
    assert told.of(ev.ProfilingFailed) == [ev.ProfilingFailed("k", "server s0 left")]
    assert not told.cluster.is_busy()


def test_a_copy_that_does_not_fit_in_memory_gives_nothing() -> None:
    jobs = [batch_job(name, work=50, takes=5 * GIBIBYTE) for name in "ab"]
    told = Told(*jobs)
    told.start("a")
    for key, limit in (("full", 5 * GIBIBYTE), ("limit", GIBIBYTE)):
        plan = ProfilingPlan("s0", (1000,), limit, (), 9.0)
        told.cluster.perform(act.ProfileWorkload(key, told.cluster.jobs["b"].workload, plan))
    told.at(3)
    why = f"the copy needs more memory than {GIBIBYTE} bytes"
    assert told.of(ev.ProfilingFailed) == [
        ev.ProfilingFailed("full", "the copy did not fit in memory"),
        ev.ProfilingFailed("limit", why, out_of_memory_bytes=GIBIBYTE),
    ]
    assert [part.run.key for part in told.cluster.machines["s0"].parts] == ["a"]


@pytest.mark.parametrize("gone", ["s0", "s1"])
def test_a_plan_fails_with_any_of_its_servers_whatever_runs_where(gone: str) -> None:
    told = Told(batch_job("a", work=1000))
    elsewhere = FurtherRun(Setting("large", Configuration(1000)), ("s1",))
    plan = ProfilingPlan("s0", (1000,), GIBIBYTE, (), 10.0, further=(elsewhere,))
    told.cluster.perform(act.ProfileWorkload("k", told.cluster.jobs["a"].workload, plan))
    told.at(3)
    told.cluster.remove_server(gone)
    told.at(30)
    assert told.of(ev.ProfilingFailed) == [ev.ProfilingFailed("k", f"server {gone} left")]


def test_the_best_platform_is_the_best_also_while_it_is_away() -> None:
    told = Told(batch_job("a", work=10))
    told.cluster.remove_server("s1")
    assert told.cluster.best("cpu1000") == 1.5
