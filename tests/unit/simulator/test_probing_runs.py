"""Probes of what runs in the simulated cluster."""

from dataclasses import replace

import pytest

from tests.unit.simulator.test_injection import TRUTH, X5670, Bench
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.interference import SharedResource
from wharfinger.model.platform import Platform, Server
from wharfinger.model.profile import ProfilingPlan
from wharfinger.simulator.truth.physics.clusters import HARDWARE

R = SharedResource
HELD = Placement("s", Allocation(1000, 4 << 30))


class Running(Bench):
    """A program that runs on that server."""

    def __init__(self, name: str, *, clones: bool = False) -> None:
        super().__init__(noise=0.01)
        able = replace(self.cluster.capabilities, clones=clones)
        self.cluster.capabilities = able
        job = replace(self.cluster.jobs[name], work=1e15)
        self.cluster.jobs[name] = job
        self.name = name
        self.cluster.perform(act.StartWorkload(name, job.workload, (HELD,)))
        self.loop.run(30.0)
        self.run = self.cluster.run_of(name)

    def probe(self, *sources: R, number: int = 1, server: str = "") -> act.ProbeWorkload:
        cpu, memory = HELD.allocation.cpu_millicpus, HELD.allocation.memory_bytes
        here = server or HELD.server
        plan = ProfilingPlan(here, (cpu,), memory, sources, 8.0, 0.05, live=not server)
        asked = act.ProbeWorkload(self.name, number, self.run.job.workload, plan)
        self.cluster.perform(asked)
        return asked

    def told(self) -> list[ev.WorkloadProbed]:
        return [report for report in self.reports if isinstance(report, ev.WorkloadProbed)]

    def wait(self) -> ev.WorkloadProbed:
        while not self.told() and self.loop.step():
            pass
        return self.told()[-1]


def test_a_source_rises_beside_what_runs_and_nothing_of_it_stays() -> None:
    bench = Running("mcf")
    rate = bench.run.rate
    asked = bench.probe(R.LAST_LEVEL_CACHE, R.STORAGE_BANDWIDTH)
    bench.cluster.perform(asked)
    told = bench.wait()
    assert not told.reason
    assert told.measurements.tolerated[R.LAST_LEVEL_CACHE].value < 90
    assert told.measurements.tolerated[R.STORAGE_BANDWIDTH].value == 100
    assert set(told.measurements.caused) >= {R.STORAGE_BANDWIDTH}
    assert len(bench.run.parts[0].machine.parts) == 1
    assert bench.run.rate == pytest.approx(rate)
    bench.cluster.perform(asked)
    assert bench.told() == [told, told], "asked for again it is answered as before"


def test_its_scores_are_those_of_a_copy() -> None:
    source = R.LAST_LEVEL_CACHE
    profiled = Bench(noise=0.01).profile("mcf", source).tolerated[source]
    bench = Running("mcf")
    bench.probe(source)
    probed = bench.wait().measurements.tolerated[source]
    assert probed.value == pytest.approx(profiled.value, abs=2 * (probed.error + profiled.error))


def test_performance_falls_no_further_than_it_may() -> None:
    bench = Running("mcf")
    rate, lowest = bench.run.rate, 1.0
    bench.probe(R.LAST_LEVEL_CACHE, R.MEMORY_BANDWIDTH)
    below = 0.0
    while not bench.told():
        before = bench.loop.now
        bench.loop.step()
        share = bench.run.rate / rate
        lowest = min(lowest, share)
        below += (bench.loop.now - before) * (share < 0.95)
    assert below <= 60.0, "only while it is looked whether it has turned"


@pytest.mark.parametrize("what", ["stop", "suspend", "resize", "server"])
def test_it_ends_with_what_changes_its_workload(what: str) -> None:
    bench = Running("mcf")
    bench.probe(R.LAST_LEVEL_CACHE)
    bench.loop.run(bench.loop.now + 8.0)
    match what:
        case "stop":
            bench.cluster.perform(act.StopWorkload("mcf", 1.0))
        case "suspend":
            bench.cluster.perform(act.SuspendWorkload("mcf"))
        case "resize":
            wanted = (replace(HELD, allocation=Allocation(2000, 4 << 30)),)
            bench.cluster.perform(act.ResizeAllocation("mcf", wanted))
        case _:
            bench.cluster.remove_server("s")
    bench.loop.run(bench.loop.now + 5.0)
    assert bench.wait().reason
    for machine in bench.cluster.machines.values():
        assert all(part.run is bench.run for part in machine.parts)


def test_an_engine_that_goes_takes_its_sources_along() -> None:
    bench = Running("mcf")
    asked = bench.probe(R.LAST_LEVEL_CACHE)
    bench.loop.run(bench.loop.now + 8.0)
    bench.cluster.detach(bench.reports.append)
    bench.cluster.probing.clear()
    assert len(bench.run.parts[0].machine.parts) == 1
    bench.reports.clear()
    bench.cluster.attach(bench.reports.append)
    bench.cluster.perform(asked)
    assert not bench.wait().reason


def test_a_copy_goes_on_from_where_its_workload_is() -> None:
    known = HARDWARE[X5670]
    kind = Platform(X5670, "x86_64", "", known.cpu_millicpus, known.memory_bytes)
    bench = Running("mcf", clones=True)
    bench.cluster.put_server(Server("t", kind, kind.cpu_millicpus, kind.memory_bytes))
    rate = bench.run.rate
    bench.probe(R.LAST_LEVEL_CACHE, server="t")
    bench.loop.run(bench.loop.now + 12.0)
    assert bench.run.rate == pytest.approx(rate), "it is not slowed itself"
    assert len(bench.cluster.machines["t"].parts) >= 1
    assert bench.wait().measurements.tolerated[R.LAST_LEVEL_CACHE].value < 90
    assert not bench.cluster.machines["t"].parts


def test_a_copy_of_one_of_several_parts_is_asked_for_its_share() -> None:
    known = HARDWARE[X5670]
    kind = Platform(X5670, "x86_64", "", known.cpu_millicpus, known.memory_bytes)
    bench = Running("mcf", clones=True)
    for name in ("t", "u"):
        bench.cluster.put_server(Server(name, kind, kind.cpu_millicpus, kind.memory_bytes))
    both = HELD, replace(HELD, server="t")
    bench.cluster.perform(act.ResizeAllocation("mcf", both))
    bench.loop.run(bench.loop.now + 30.0)
    bench.probe(R.LAST_LEVEL_CACHE)
    assert bench.wait().reason == "it does not run on one server"
    bench.run.load_per_second, bench.run.parts[0].share = 80.0, 0.5
    bench.probe(R.LAST_LEVEL_CACHE, number=2, server="u")
    bench.loop.run(bench.loop.now + 12.0)
    (copy,) = {part.run.load_per_second for part in bench.cluster.machines["u"].parts[:1]}
    assert copy == 40.0
    bench.reports.clear()
    assert bench.wait().measurements.tolerated[R.LAST_LEVEL_CACHE].value < 90


def test_what_it_cannot_do_it_says() -> None:
    bench = Running("mcf")
    bench.probe(R.LAST_LEVEL_CACHE, server="t")
    assert bench.wait().reason == "this engine does not copy what runs"
    assert TRUTH.source(X5670, R.LAST_LEVEL_CACHE, 50.0, bench.run.parts[0].resident)
