"""Sources of interference in the simulated cluster, through the profiler's own ramp."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.platform import Platform, Server
from wharfinger.model.profile import Measurements, ProfilingPlan
from wharfinger.model.workload import Run, Workload, WorkloadType
from wharfinger.simulator.cluster.campaign import Campaign
from wharfinger.simulator.cluster.cluster import SimulatedCluster
from wharfinger.simulator.kernel.loop import EventLoop
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.build import build
from wharfinger.simulator.scenario.jobs import APPLICATION, Job
from wharfinger.simulator.scenario.scenario_files import load_scenario
from wharfinger.simulator.scenario.setup import Measuring
from wharfinger.simulator.truth.physics.application import Application, Streaming
from wharfinger.simulator.truth.physics.clusters import EC2, HARDWARE, LOCAL
from wharfinger.simulator.truth.physics.hardware import GIB
from wharfinger.simulator.truth.physics.named import NAMED
from wharfinger.simulator.truth.physics.solver import Constants
from wharfinger.simulator.truth.physics.truth import Physics

R = SharedResource
READER = Application("reader", disk=Streaming(0.05, 0.2), footprint_bytes=GIB)
TRUTH = Physics([*LOCAL, *EC2], [*NAMED.values(), READER], Constants(whim=0.0))
X5670, CR1 = "xeon-x5670", "cr1.8xlarge"


class Bench:
    """One server on which plans run."""

    def __init__(self, platform: str = X5670, seed: int = 0, noise: float = 0.01) -> None:
        known = HARDWARE[platform]
        kind = Platform(platform, "x86_64", "", known.cpu_millicpus, known.memory_bytes)
        server = Server("s", kind, kind.cpu_millicpus, kind.memory_bytes)
        self.loop = EventLoop()
        self.cluster = SimulatedCluster(
            self.loop,
            TRUTH,
            [server],
            [_job(name) for name in (*NAMED, "reader")],
            streams=Streams(seed),
            measuring=Measuring(noise=noise),
        )
        self.reports: list[ev.Report] = []
        self.cluster.attach(self.reports.append)

    def ask(self, name: str, sources: Sequence[SharedResource]) -> None:
        plan = ProfilingPlan("s", (1000, 2000), 4 * GIB, tuple(sources), 60.0)
        self.cluster.perform(act.ProfileWorkload(name, self.cluster.jobs[name].workload, plan))

    def profile(self, name: str, *sources: SharedResource) -> Measurements:
        self.ask(name, sources)
        while self.loop.step():
            for report in self.reports:
                if isinstance(report, ev.ProfilingFinished):
                    return report.measurements
        raise AssertionError(self.reports)


def _job(name: str) -> Job:
    memory = TRUTH.applications[name].footprint_bytes
    workload = Workload(name, WorkloadType.BATCH, Run((APPLICATION, name)))
    return Job(workload, name, work=1e12, memory_bytes=memory)


def test_who_waits_for_memory_tolerates_less_of_it():
    sensitive = Bench().profile("mcf", R.MEMORY_BANDWIDTH, R.LAST_LEVEL_CACHE)
    robust = Bench().profile("povray", R.MEMORY_BANDWIDTH, R.LAST_LEVEL_CACHE)
    for source in (R.MEMORY_BANDWIDTH, R.LAST_LEVEL_CACHE):
        assert sensitive.tolerated[source].value < 0.75 * robust.tolerated[source].value
        assert not sensitive.tolerated[source].censored


def test_who_reads_minds_the_disk_most():
    found = Bench().profile("reader", R.STORAGE_BANDWIDTH, R.NETWORK_BANDWIDTH, R.LAST_LEVEL_CACHE)
    assert found.tolerated[R.STORAGE_BANDWIDTH].value < 60
    assert found.tolerated[R.NETWORK_BANDWIDTH].value == 100
    assert found.tolerated[R.NETWORK_BANDWIDTH].censored
    assert found.tolerated[R.LAST_LEVEL_CACHE].value > 80
    assert found.caused[R.STORAGE_BANDWIDTH].value > 10
    assert found.caused[R.NETWORK_BANDWIDTH].value == 0


def test_who_streams_causes_more_than_who_computes():
    scores = [
        Bench().profile(name, R.MEMORY_BANDWIDTH).caused[R.MEMORY_BANDWIDTH].value
        for name in ("povray", "lbm", "ocean")
    ]
    assert scores[0] <= scores[1] <= 100
    assert scores[0] < 3
    assert max(scores) > 5


def test_what_is_caused_is_an_intensity_of_the_source():
    """Ocean on its CPUs slows the probe as much as a source of that intensity would."""
    found = Bench(noise=0.0).profile("ocean", R.MEMORY_BANDWIDTH)
    again = Bench(noise=0.0).profile("ocean", R.MEMORY_BANDWIDTH)
    assert found.caused == again.caused
    assert 0 < found.caused[R.MEMORY_BANDWIDTH].value < 100
    assert found.caused[R.MEMORY_BANDWIDTH].error > 0


def test_a_platform_without_siblings_says_that_its_core_has_no_signal():
    found = Bench().profile("hmmer", R.INTEGER, R.LAST_LEVEL_CACHE)
    assert R.INTEGER not in found.tolerated
    assert found.silent["tolerated/integer"] == "nothing injects it in this ground truth"
    assert found.silent["caused/integer"] == found.silent["tolerated/integer"]
    assert R.LAST_LEVEL_CACHE in found.tolerated


def test_a_sibling_shows_which_units_a_program_needs():
    found = Bench(CR1).profile("hmmer", R.INTEGER, R.FLOATING_POINT)
    other = Bench(CR1).profile("namd", R.INTEGER, R.FLOATING_POINT)
    assert found.tolerated[R.INTEGER].value < found.tolerated[R.FLOATING_POINT].value
    assert other.tolerated[R.FLOATING_POINT].value < found.tolerated[R.FLOATING_POINT].value
    assert found.caused[R.INTEGER].value > found.caused[R.FLOATING_POINT].value


def test_nothing_is_left_when_a_plan_is_done_or_stopped():
    bench = Bench()
    bench.profile("mcf", R.LAST_LEVEL_CACHE)
    assert bench.cluster.machines["s"].parts == []
    bench.ask("lbm", [R.LAST_LEVEL_CACHE])
    while len(bench.cluster.machines["s"].parts) < 2:
        assert bench.loop.step()
    bench.cluster.perform(act.StopWorkload("lbm", 1.0))
    assert bench.cluster.machines["s"].parts == []
    assert bench.cluster.ledger.present == 0
    while bench.loop.step():
        pass
    assert any(isinstance(report, ev.ProfilingFailed) for report in bench.reports)


def test_the_same_seed_finds_the_same():
    runs = [Bench(seed=seed, noise=0.03).profile("mcf", R.LAST_LEVEL_CACHE) for seed in (4, 4, 5)]
    assert runs[0].tolerated == runs[1].tolerated
    assert runs[0].performance != runs[2].performance


def test_a_ramp_takes_about_the_time_of_four_allocations():
    plain, ramped = Bench().profile("mcf"), Bench().profile("mcf", R.LAST_LEVEL_CACHE)
    assert plain.seconds == pytest.approx(60, abs=2)
    assert ramped.seconds == pytest.approx(60, rel=0.6)


def test_a_full_server_has_no_cpu_for_a_source():
    bench = Bench("atom-330")
    found = bench.profile("hmmer", R.LAST_LEVEL_CACHE)
    assert R.LAST_LEVEL_CACHE in found.tolerated
    neighbour = Bench("m1.small")
    plan = ProfilingPlan("s", (1000,), 4 * GIB, (R.LAST_LEVEL_CACHE,), 60.0)
    workload = neighbour.cluster.jobs["povray"].workload
    neighbour.cluster.perform(act.ProfileWorkload("povray", workload, plan))
    while neighbour.loop.step():
        pass
    done = next(r for r in neighbour.reports if isinstance(r, ev.ProfilingFinished))
    assert done.measurements.silent["tolerated/last-level-cache"] == "no CPU is free"


def test_the_training_set_is_measured_by_running_it():
    setup = build(load_scenario("paragon-local-low"), 0, workloads=20)
    campaign = Campaign(setup, Streams(0), X5670, (1000, 4000, 12000), 2)
    sources = campaign.signals()
    assert R.MEMORY_BANDWIDTH in sources
    assert R.INTEGER not in sources
    found = campaign.measure(setup.training[0], sources)
    assert found is not None
    assert set(found.performance) == {Quantity.RATE, Quantity.CPU}
    for values in found.performance.values():
        assert sorted(values) == [1000, 4000, 12000]
    assert set(found.tolerated) == set(found.caused) == set(sources)
    settings = [run.setting for runs in found.further.values() for run in runs]
    assert {setting.platform for setting in settings} > {"xeon-e5345", "atom-330"}
    assert any(setting.servers == 2 for setting in settings)


def test_a_newcomer_takes_its_cpus_from_a_source():
    bench = Bench(noise=0.0)
    bench.ask("mcf", [R.LAST_LEVEL_CACHE])
    machine = bench.cluster.machines["s"]
    while len(machine.parts) < 2:
        assert bench.loop.step()
    before = machine.allocated_millicpus
    assert before <= 2000
    newcomer = bench.cluster.jobs["lbm"]
    placement = Placement("s", Allocation(11_000, GIB))
    wide = replace(newcomer, cpu_millicpus=11_000)
    bench.cluster.jobs["lbm"] = wide
    bench.cluster.perform(act.StartWorkload("lbm-1", wide.workload, (placement,)))
    while len(machine.parts) < 3:
        assert bench.loop.step()
    assert sum(part.cpu_millicpus for part in machine.parts) <= machine.cpu_millicpus
    assert machine.allocated_millicpus == before + 11_000


def test_a_copy_of_a_service_waits_as_the_service_does():
    setup = build(load_scenario("quasar-ec2-light"), 0, workloads=60)
    web = next(job for job in setup.jobs if job.application == "webserver")
    loop = EventLoop()
    cluster = SimulatedCluster(
        loop, setup.truth, setup.servers, [web], measuring=Measuring(noise=0)
    )
    reports: list[ev.Report] = []
    cluster.attach(reports.append)
    cluster.submitted(web)
    server = next(s for s in setup.servers if s.platform.name == "m3.2xlarge")
    plan = ProfilingPlan(server.name, (8000, 4000), web.memory_bytes, (), 60.0)
    cluster.perform(act.ProfileWorkload("k", web.workload, plan))
    while loop.step():
        pass
    done = next(r for r in reports if isinstance(r, ev.ProfilingFinished))
    latency = done.measurements.performance[Quantity.LATENCY][8000].value
    assert latency > 0.02  # a page takes so long alone
