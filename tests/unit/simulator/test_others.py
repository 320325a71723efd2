"""Jobs of others hold room on the same servers, and the engine takes off what runs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.cluster import MIB
from wharfinger.errors import InvalidInput, InvalidManifest
from wharfinger.model.platform import Platform, Server
from wharfinger.simulator.cluster.cluster import SimulatedCluster
from wharfinger.simulator.cluster.others import ForeignJobs
from wharfinger.simulator.kernel.loop import EventLoop
from wharfinger.simulator.run import RunSpec, prepare
from wharfinger.simulator.scenario.distributions import constant
from wharfinger.simulator.scenario.others import Evictions, ForeignJob, Others, draw_others
from wharfinger.simulator.scenario.scenario_files import read_scenario
from wharfinger.simulator.truth.ground_truth import Undisturbed

LARGEST = 8000, 64 * 1024**3
SCENARIO = """
apiVersion: wharfinger.dev/v1alpha1
kind: Scenario
metadata: {name: shared}
spec:
  servers: [{platform: p, count: 2, cpus: 4, memory: 8Gi}]
  population: [{name: job, type: batch, cpus: 2, memory: 1Gi, duration: 5m}]
  workloads: 12
  arrivals: {pattern: regular, every: 60s}
MORE
"""


def drawn(others: Others, horizon: float = 10_000.0, seed: int = 1) -> tuple[ForeignJob, ...]:
    return draw_others(others, horizon, LARGEST, np.random.default_rng(seed))


def test_they_come_until_the_horizon_at_their_rate_with_their_sizes() -> None:
    jobs = drawn(Others(10.0, (1000, 4000), (MIB, 2 * MIB), constant(60.0)))
    assert 850 < len(jobs) < 1150
    assert [job.at_seconds for job in jobs] == sorted(job.at_seconds for job in jobs)
    assert jobs[-1].at_seconds < 10_000.0
    assert {job.cpu_millicpus for job in jobs} == {1000, 4000}
    assert {job.seconds for job in jobs} == {60.0}
    assert jobs == drawn(Others(10.0, (1000, 4000), (MIB, 2 * MIB), constant(60.0)))
    assert draw_others(None, 1e9, LARGEST, np.random.default_rng(1)) == ()


@pytest.mark.parametrize(
    ("others", "words"),
    [
        (Others(10.0, (9000,)), "larger than every server"),
        (Others(10.0, memory_bytes=(65 * 1024**3,)), "larger than every server"),
        (Others(1e-3), "raise every"),
    ],
)
def test_what_can_not_be_is_told_in_one_line(others: Others, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        drawn(others)


def _servers() -> SimulatedCluster:
    platform = Platform("p", "simulated", "", 4000, 64 * MIB)
    servers = [Server(name, platform, 4000, 64 * MIB) for name in ("a", "b")]
    return SimulatedCluster(EventLoop(), Undisturbed({}, {"p": 64 * MIB}), servers)


def _held(cluster: SimulatedCluster) -> list[int]:
    return [machine.server.others_cpu_millicpus for machine in cluster.machines.values()]


def test_one_takes_free_room_gives_it_back_and_waits_where_there_is_none() -> None:
    cluster = _servers()
    jobs = [
        ForeignJob(10.0, 100.0, 3000, MIB, 0.0),
        ForeignJob(20.0, 100.0, 3000, MIB, 0.0),
        ForeignJob(30.0, 100.0, 3000, MIB, 0.9),
    ]
    foreign = ForeignJobs(cluster, jobs)
    foreign.begin()
    cluster.loop.run(35.0)
    assert _held(cluster) == [3000, 3000]
    assert foreign.waiting == [jobs[2]]
    cluster.loop.run(111.0)
    assert _held(cluster) == [3000, 3000], "who waited has come where the first has left"
    assert not foreign.waiting
    cluster.loop.run(1000.0)
    assert _held(cluster) == [0, 0]


def test_what_is_on_a_server_that_fails_is_gone_with_it() -> None:
    cluster = _servers()
    foreign = ForeignJobs(cluster, [ForeignJob(10.0, 100.0, 3000, MIB, 0.0)])
    foreign.begin()
    cluster.loop.run(20.0)
    server = replace(cluster.machines["a"].server, others_cpu_millicpus=0, others_memory_bytes=0)
    cluster.remove_server("a")
    cluster.put_server(server)
    cluster.loop.run(200.0)
    assert _held(cluster) == [0, 0]


def _run(tmp_path: Path, more: str = "", policy: str = "backfill"):
    path = tmp_path / "shared.yaml"
    path.write_text(SCENARIO.replace("MORE", more))
    simulation = prepare(RunSpec(str(path), policy, seed=3))
    return simulation, simulation.run()


@pytest.mark.slow
def test_workloads_wait_for_foreign_jobs_and_none_is_too_large(tmp_path: Path) -> None:
    alone, first = _run(tmp_path)
    shared, second = _run(tmp_path, "  others: {every: 20s, cpus: [2, 4], duration: 2m}")
    assert [job.arrives_at for job in alone.setup.jobs] == [
        job.arrives_at for job in shared.setup.jobs
    ]
    assert second.summary["unfinished"] == 0
    assert second.summary["waiting_loss_mean"] > first.summary["waiting_loss_mean"]


@pytest.mark.slow
def test_evicted_workloads_begin_anew_and_warned_ones_go_on(tmp_path: Path) -> None:
    def starts(more: str) -> tuple[int, float]:
        simulation, outcome = _run(tmp_path, more)
        assert outcome.summary["unfinished"] == outcome.summary["failed"] == 0
        accounts = simulation.cluster.accounts.values()
        return sum(a.starts for a in accounts), outcome.summary["makespan_seconds"]

    undisturbed, evicted, warned = map(
        starts,
        ("", "  evictions: {every: 4m}", "  evictions: {every: 4m, notice: 10s}"),
    )
    assert undisturbed[0] == 12 < warned[0]
    assert undisturbed[0] < evicted[0]
    assert warned[1] < evicted[1], "what they have done is not done again"
    assert starts("  evictions: {every: 4m}") == evicted


@pytest.mark.parametrize(
    ("more", "line", "words"),
    [
        ("  engine: {resize: maybe}", 10, "spec.engine.resize"),
        ("  engine: {fractionalCpu: 3}", 10, "spec.engine.fractionalCpu"),
        ("  engine: {moves: true}", 10, "moves"),
        ("  others: {every: 0s}", 10, "spec.others.every"),
        ("  others: {cpus: 1}", 10, "every"),
        ("  evictions: {every: 1m, notice: -1s}", 10, "spec.evictions.notice"),
    ],
)
def test_wrong_fields_are_told_by_line(more: str, line: int, words: str) -> None:
    with pytest.raises(InvalidManifest) as caught:
        read_scenario(SCENARIO.replace("MORE", more), source="x.yaml", directory=Path("/"))
    told = str(caught.value)
    assert f"x.yaml:{line}" in told
    assert words in told


def test_they_are_read_from_a_scenario() -> None:
    more = (
        "  engine: {resize: none, suspend: false, fractionalCpu: false}\n"
        "  others: {every: 1m}\n  evictions: {every: 1h, notice: 30s}"
    )
    scenario = read_scenario(SCENARIO.replace("MORE", more), source="x", directory=Path("/"))
    assert not (scenario.engine.resize or scenario.engine.suspend or scenario.engine.fractional_cpu)
    assert scenario.others is not None
    assert scenario.others.every_seconds == 60.0
    assert scenario.evictions == Evictions(3600.0, 30.0)
