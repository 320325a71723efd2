"""Scenarios of the physics: what is drawn for whom, and that all that are shipped run."""

from dataclasses import replace
from pathlib import Path

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.results.steady import steady_window
from wharfinger.simulator.run import RunSpec, prepare, run
from wharfinger.simulator.scenario.build import build
from wharfinger.simulator.scenario.scenario_files import (
    in_regime,
    load_scenario,
    read_scenario,
    shipped,
)
from wharfinger.simulator.truth.physics.clusters import EC2_SERVERS, HARDWARE, LOCAL_SERVERS
from wharfinger.simulator.truth.physics.pools import Pool, draw_pool, memory_load
from wharfinger.simulator.truth.physics.regimes import REGIMES

PHYSICAL = [name for name in shipped() if name.startswith(("paragon-", "quasar-"))]
MODERATE = REGIMES["moderate"]
ONE = "{name: b, pool: single-threaded}"
SERVES = (
    "type: latency-critical, lifetime: 1h, load: {shape: flat, base: 5/s}, "
    "target: {latency: {percentile: 99, below: 50ms}}"
)


@pytest.mark.slow
@pytest.mark.parametrize("name", PHYSICAL)
def test_each_scenario_runs(name: str):
    workloads = None if name == "quasar-single" else 40
    outcome = run(RunSpec(name, "least-loaded", workloads=workloads))
    assert outcome.summary["workloads"] == (10 if name == "quasar-single" else 40)
    assert outcome.summary["unfinished"] == 0
    assert any("regime moderate" in note for note in outcome.notes)


def test_the_papers_clusters_have_the_papers_servers():
    local = sum(HARDWARE[name].cores * count for name, count in LOCAL_SERVERS)
    ec2 = sum(HARDWARE[name].cores * count for name, count in EC2_SERVERS)
    assert (local, sum(count for _, count in LOCAL_SERVERS)) == (178, 40)
    assert (ec2, sum(count for _, count in EC2_SERVERS)) == (7355, 1000)
    for name, servers in (("paragon-local-low", 40), ("paragon-ec2-low", 1000)):
        assert len(build(load_scenario(name), 0, workloads=1).servers) == servers


def test_a_server_has_what_its_hardware_has():
    setup = build(load_scenario("paragon-ec2-low"), 0, workloads=10)
    for server in setup.servers:
        known = HARDWARE[server.platform.name]
        assert (server.cpu_millicpus, server.memory_bytes) == (
            known.cpu_millicpus,
            known.memory_bytes,
        )


def test_an_overcommitting_regime_promises_more_than_there_is():
    scenario = in_regime(load_scenario("paragon-ec2-low"), "overcommitted")
    for server in build(scenario, 0, workloads=10).servers:
        assert server.cpu_millicpus == 2 * server.platform.cpu_millicpus
        assert server.memory_bytes > server.platform.memory_bytes


def test_pools_are_as_large_as_the_papers():
    sizes = {pool: len(draw_pool(pool, MODERATE, Streams(1))) for pool in Pool}
    assert [sizes[Pool(name)] for name in ("single-threaded", "multithreaded", "mixes")] == [
        29,
        22,
        350,
    ]
    assert sizes[Pool.IO_BOUND] == 25
    arq = replace(load_scenario("paragon-local-low").population[3], pool_size=12)
    smaller = replace(load_scenario("paragon-local-low"), population=(arq,))
    assert len({job.application for job in build(smaller, 0, workloads=500).jobs}) == 12


def test_a_pool_hangs_on_the_seed_alone():
    one, again, other = (draw_pool(Pool.MIXES, MODERATE, Streams(seed)) for seed in (1, 1, 2))
    assert one == again
    assert [app.name for app in one] == [app.name for app in other]
    assert one != other


def test_what_is_asked_for_is_what_a_program_needs():
    setup = build(load_scenario("paragon-ec2-low"), 3, workloads=200)
    for job in setup.jobs:
        app = setup.truth.applications[job.application]
        assert job.cpu_millicpus == 1000 * app.threads
        assert job.memory_bytes >= app.footprint_bytes
        assert job.workload.reservation.cpu_millicpus == job.cpu_millicpus


def test_phases_load_memory_as_they_say():
    setup = build(load_scenario("paragon-local-phases"), 0)
    apps = setup.truth.applications
    medium, high = [], []
    for job in setup.jobs:
        names = [phase.application for phase in job.all_phases]
        assert len(names) == 3
        assert len({apps[name].threads for name in names}) == 1
        medium += [memory_load(apps[names[0]]), memory_load(apps[names[2]])]
        high.append(memory_load(apps[names[1]]))
        assert job.memory_bytes == max(apps[name].footprint_bytes for name in names)
    assert sum(high) / len(high) > 1.5 * sum(medium) / len(medium)


def test_a_job_with_phases_alone_on_the_best_platform_loses_nothing_but_its_start():
    simulation = prepare(RunSpec("paragon-local-phases", "least-loaded", servers=40, workloads=1))
    fate = simulation.run().fates[0]
    parts = fate.platform_loss, fate.allocation_loss, fate.interference_loss, fate.waiting_loss
    assert 1 - fate.performance == pytest.approx(sum(parts))
    assert fate.interference_loss == pytest.approx(0.0, abs=1e-9)


@pytest.mark.slow
def test_the_training_set_has_some_of_each_pool():
    setup = build(load_scenario("quasar-ec2-light"), 0)
    assert 20 <= len(setup.training) <= 36
    kinds = {name.rstrip("0123456789").rstrip("-") for name in setup.training}
    assert {"hadoop", "spark", "storm", "memcached", "webserver", "cassandra", "mix", "io"} <= kinds


@pytest.mark.parametrize(
    ("scenario", "regime", "says"),
    [
        ("synthetic", "moderate", "--regime: synthetic has no physics; leave it out"),
        ("paragon-gce", "harsh", "--regime: 'harsh' is no regime; there are moderate, contended"),
    ],
)
def test_a_regime_that_means_nothing_is_refused(scenario: str, regime: str, says: str):
    with pytest.raises(InvalidInput) as refused:
        prepare(RunSpec(scenario, "least-loaded", regime=regime))
    assert says in str(refused.value)


def test_a_platform_of_which_nothing_is_known_is_refused():
    scenario = load_scenario("paragon-gce")
    wrong = replace(scenario, servers=(replace(scenario.servers[0], platform="n9"),))
    with pytest.raises(InvalidInput, match="platform 'n9' is unknown; there are xeon-l5"):
        build(wrong, 0)


def test_a_program_that_a_pool_does_not_have_is_refused():
    scenario = load_scenario("paragon-gce")
    wrong = replace(scenario.population[0], applications=("doom",))
    with pytest.raises(
        InvalidInput, match="application 'doom' is not in pool single-threaded; it has 29"
    ):
        build(replace(scenario, population=(wrong,)), 0)


def drawn(text: str) -> object:
    head = "apiVersion: wharfinger.dev/v1alpha1\nkind: Scenario\nmetadata: {name: a}\nspec:\n"
    servers = "  servers: [{platform: xeon-x5670, count: 2}]\n"
    return build(read_scenario(head + servers + text, source="a.yaml", directory=Path("/")), 0)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("  population: [{name: b, phases: [low]}]\n", "phases and poolSize need a pool"),
        ("  population: [{name: b, poolSize: 3}]\n", "phases and poolSize need a pool"),
        ("  regime: contended\n  population: [{name: b}]\n", "a regime belongs to truth: physics"),
        (
            "  truth: physics\n  population: [{name: b, pool: mixes, cpus: [2, 4]}]\n",
            "its pool says what CPU and memory it can use; remove cpus, memory",
        ),
        (
            "  truth: physics\n  population: [{name: b, pool: memcached}]\n",
            "pool memcached serves; write load and target",
        ),
        (
            f"  truth: physics\n  population: [{{name: b, pool: mixes, {SERVES}}}]\n",
            "pool mixes has no requests; remove the load",
        ),
        (
            f"  truth: physics\n  population: [{ONE}, {{name: c, pool: pythia-batch}}]\n",
            "is another than in a class above",
        ),
    ],
)
def test_what_a_pool_does_not_know_is_refused(spec: str, says: str):
    with pytest.raises(InvalidInput, match=says):
        drawn(spec)


def test_a_pool_does_not_hang_on_who_draws_before_it():
    streams = Streams(3)
    draw_pool(Pool.HADOOP, MODERATE, streams)
    assert draw_pool(Pool.MIXES, MODERATE, streams) == draw_pool(Pool.MIXES, MODERATE, Streams(3))


@pytest.mark.long
def test_quasar_learns_from_the_training_set_and_places_by_scores():
    simulation = prepare(RunSpec("quasar-ec2-light", "quasar", servers=28, workloads=60))
    outcome = simulation.run()
    baseline = run(RunSpec("quasar-ec2-light", "least-loaded", servers=28, workloads=60))
    assert outcome.summary["qos_kept_fraction"] > baseline.summary["qos_kept_fraction"] - 0.2
    records = [simulation.manager.find(job.name) for job in simulation.setup.jobs]
    scored = [r for r in records if r.classification and r.classification.tolerated]
    assert len(scored) > len(records) / 2
    assert all(0 <= e.mean <= 100 for r in scored for e in r.classification.caused.values())


@pytest.mark.long
def test_the_oracle_fills_quasars_large_cluster_for_hours():
    summary = run(RunSpec("quasar-ec2", "oracle", seed=1, scale=0.3)).summary
    assert 0.85 <= summary["allocated_cpu_steady_mean"] <= 0.95
    assert 20_000 < summary["makespan_seconds"] < 40_000


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seconds"), [("quasar-ec2", 9_000), ("quasar-ec2-light", 600)])
def test_the_steady_state_of_quasars_large_cluster_begins_before_the_last_comes(name, seconds):
    begins, ends = steady_window(build(load_scenario(name), 0).jobs)
    assert 600 < begins < 1_200
    assert ends - begins > seconds
