"""The engines of the testing kit do what a test tells them to, and nothing else."""

import select
from random import Random

import pytest

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.errors import EngineFault
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.workload import Run, Workload, WorkloadType
from wharfinger.testing import EngineFaults, FaultyEngine, MemoryCluster, MemoryEngine


def start(key: str, *command: str, server: str = "a") -> act.StartWorkload:
    workload = Workload(key, WorkloadType.SINGLE_NODE, Run(command))
    return act.StartWorkload(key, workload, (Placement(server, Allocation(1000, 1 << 20)),))


def test_a_program_ends_when_the_clock_has_come_that_far() -> None:
    engine = MemoryEngine()
    engine.open()
    engine.poll()
    engine.perform(start("k", "sleep", "5"))
    assert engine.poll() == [ev.StartAccepted("k"), ev.WorkloadStarted("k", "memory k")]
    engine.cluster.advance(4.9)
    assert engine.poll() == []
    engine.cluster.advance(0.1)
    (end,) = engine.poll()
    assert isinstance(end, ev.WorkloadFinished)
    assert (end.key, end.exit_code, end.reason) == ("k", 0, "exited")
    engine.close()


def test_what_runs_outlives_the_engine() -> None:
    cluster = MemoryCluster()
    first = MemoryEngine(cluster)
    first.open()
    first.perform(start("k", "serve"))
    first.close()
    cluster.end("k", 7)
    second = MemoryEngine(cluster)
    second.open()
    assert second.poll()[1:] == [
        ev.WorkloadStarted("k", "memory k"),
        ev.WorkloadFinished("k", 7, None, "exited", 0.0),
        ev.EngineSynced(("k",), ("a",)),
    ]
    second.perform(start("k", "serve"))
    assert cluster.starts["k"] == 1
    second.close()


def _disturbed(seed: int) -> list[ev.Report]:
    cluster = MemoryCluster()
    faults = EngineFaults(delay=0.3, duplicate=0.3, reorder=0.5, refuse=0.2, crash=0.05)
    engine = FaultyEngine(lambda: MemoryEngine(cluster), Random(seed), faults)
    engine.open()
    seen: list[ev.Report] = []
    for number in range(30):
        try:
            engine.perform(start(f"k{number}", "exit", "3"))
        except EngineFault:
            assert f"k{number}" not in cluster.starts
        seen.extend(engine.poll())
    while select.select([engine], [], [], 0)[0]:
        seen.extend(engine.poll())
    assert max(cluster.starts.values()) == 1
    ended = {report.key for report in seen if isinstance(report, ev.WorkloadFinished)}
    assert ended == set(cluster.starts)
    engine.close()
    return seen


def test_the_same_seed_disturbs_in_the_same_way_and_loses_nothing() -> None:
    assert _disturbed(1) == _disturbed(1)
    assert _disturbed(1) != _disturbed(2)


def test_a_dead_engine_refuses_and_another_reports_what_it_missed() -> None:
    cluster = MemoryCluster()
    engine = FaultyEngine(lambda: MemoryEngine(cluster), Random(0))
    engine.open()
    engine.perform(start("k", "serve"))
    engine.die()
    cluster.end("k", 4)
    with pytest.raises(EngineFault, match="dead"):
        engine.perform(start("other", "serve"))
    assert engine.poll(0.0) == []
    engine.revive()
    assert ev.WorkloadFinished("k", 4, None, "exited", 0.0) in engine.poll()
    engine.close()
