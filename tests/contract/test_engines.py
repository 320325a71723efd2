"""Every engine keeps the promises of ``wharfinger.engines.base``."""

import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.fake_slurm import FakeSlurm, node
from tests.support.local import take_cgroups_away
from wharfinger.engines.base import Engine
from wharfinger.engines.local import LocalEngine
from wharfinger.engines.notes import MemoryNotes
from wharfinger.engines.slurm import SlurmEngine, SlurmSettings
from wharfinger.model.view import Capabilities, Resize
from wharfinger.model.workload import Probe, Run, Workload, WorkloadType
from wharfinger.simulator.cluster.cluster import SimulatedCluster
from wharfinger.simulator.engine import SimulatedEngine
from wharfinger.simulator.kernel.loop import EventLoop
from wharfinger.simulator.scenario.jobs import APPLICATION, Job
from wharfinger.simulator.scenario.setup import Costs
from wharfinger.simulator.truth.ground_truth import Undisturbed
from wharfinger.testing import (
    EngineHarness,
    FaultyEngine,
    MemoryCluster,
    MemoryEngine,
    MemoryPrograms,
    ShellPrograms,
    engine_checks,
)
from wharfinger.testing.harness import FAILED, EngineCheck
from wharfinger.testing.memory import make_server

MakeEngine = Callable[[], Engine]

every_check = pytest.mark.parametrize("check", engine_checks(), ids=lambda check: check.__name__)


ELSEWHERE = f"other={min(os.sched_getaffinity(0))}"
"""The same machine under another name."""


def _memory_harness(directory: Path, wrap: Callable[[MakeEngine], Engine]) -> EngineHarness:
    cluster = MemoryCluster(profiles=True)

    def remove_servers() -> None:
        if "b" not in cluster.machines:
            cluster.remove_server("a")
            cluster.put_server(make_server("b"))

    def make_elsewhere(_state: Path) -> Engine:
        remove_servers()
        return wrap(lambda: MemoryEngine(cluster))

    return EngineHarness(
        directory,
        lambda _state: wrap(lambda: MemoryEngine(cluster)),
        MemoryPrograms(cluster),
        make_elsewhere,
        lambda _engine: remove_servers(),
        occupy=lambda _engine, cpu, memory: cluster.occupy("a", cpu, memory),
    )


def _offer(cluster: SimulatedCluster, workload: Workload) -> str:
    handle = f"{cluster.name}-{workload.name}"
    cluster.offer(replace(workload, owner="someone"), handle)
    return handle


def _spreading_harness(directory: Path, wrap: Callable[[MakeEngine], Engine]) -> EngineHarness:
    able = Capabilities(max_servers_per_workload=2, evicts=True, offers=True, annotates=True)
    cluster = MemoryCluster(map(make_server, "ab"), capabilities=able)
    return EngineHarness(
        directory,
        lambda _state: wrap(lambda: MemoryEngine(cluster)),
        MemoryPrograms(cluster),
        evict=cluster.evict,
        lose_server=cluster.lose_part,
        offer=partial(_offer, cluster),
        withdraw=cluster.withdraw,
    )


def _rigid_harness(directory: Path, wrap: Callable[[MakeEngine], Engine]) -> EngineHarness:
    """It resizes within what it started with, and suspends nothing."""
    able = Capabilities(resize=Resize.WITHIN_ALLOCATION, suspend=False, fractional_cpu=False)
    cluster = MemoryCluster(capabilities=able)
    return EngineHarness(
        directory,
        lambda _state: wrap(lambda: MemoryEngine(cluster)),
        MemoryPrograms(cluster),
    )


def _local_harness(directory: Path, wrap: Callable[[MakeEngine], Engine]) -> EngineHarness:
    def make_engine(state: Path, servers: str) -> Engine:
        return LocalEngine(state, servers=servers, hastened_seconds=0.25)

    def remove_servers(engine: Engine) -> None:
        local = engine.inner if isinstance(engine, FaultyEngine) else engine
        assert isinstance(local, LocalEngine)
        local.refresh(ELSEWHERE)

    return EngineHarness(
        directory,
        lambda state: wrap(lambda: make_engine(state, "1")),
        ShellPrograms(directory),
        lambda state: wrap(lambda: make_engine(state, ELSEWHERE)),
        remove_servers,
    )


class SimulatedPrograms:
    """Programs are jobs of the cluster; what they have done is in their accounts."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def _job(self, key: str, probe: Probe | None = None, **job: Any) -> Run:
        run = Run((APPLICATION, key), ready=probe, alive=probe)
        workload = Workload(key, WorkloadType.SINGLE_NODE, run)
        self._cluster.jobs[key] = Job(workload, key, **job)
        return run

    def exiting(self, key: str, status: int) -> Run:
        return self._job(key, work=0.0, exit_code=status)

    def lasting(self, key: str) -> Run:
        return self._job(key)

    def printing(self, key: str, text: str) -> Run:
        return self._job(key, work=0.0, output=text.encode())

    def failing(self, key: str, text: str) -> Run:
        return self._job(key, work=0.0, exit_code=FAILED, output=text.encode())

    def getting_ready(self, key: str) -> Run:
        return self._job(key, Probe(port=80), ready_seconds=1.0)

    def hanging(self, key: str) -> Run:
        return self._job(key, Probe(port=80), hangs_seconds=1.0)

    def working(self, key: str) -> Run:
        return self._job(key)

    def missing(self, key: str) -> Run:
        return Run(("no-such-program",))

    def starts(self, key: str) -> int:
        self._cluster.loop.run(self._cluster.now)  # what is due by now has happened
        runs = [run for run in self._cluster.runs if run.job.name == key]
        return sum(run.started is not None for run in runs)

    def work_done(self, key: str) -> int:
        self._cluster.loop.run(self._cluster.now + 1.0)
        for run in self._cluster.runs:
            run.settle(self._cluster.now)
        return int(self._cluster.accounts[key].done)


def _simulated_harness(directory: Path, wrap: Callable[[MakeEngine], Engine]) -> EngineHarness:
    at_once = Costs(0.0, 0.0, 0.0, 0.0, 0.0)
    able = Capabilities(
        4,
        measures=True,
        profiles=True,
        probes=True,
        probes_running=True,
        evicts=True,
        offers=True,
        annotates=True,
    )
    cluster = SimulatedCluster(
        EventLoop(), Undisturbed(), [make_server("a")], costs=at_once, capabilities=able
    )

    def remove_servers() -> None:
        if "a" in cluster.machines:
            cluster.remove_server("a")
            cluster.put_server(make_server("b"))

    def make_elsewhere(_state: Path) -> Engine:
        remove_servers()
        return wrap(lambda: SimulatedEngine(cluster))

    return EngineHarness(
        directory,
        lambda _state: wrap(lambda: SimulatedEngine(cluster)),
        SimulatedPrograms(cluster),
        make_elsewhere,
        lambda _engine: remove_servers(),
        deadline_seconds=60.0,
        occupy=lambda _engine, cpu, memory: cluster.occupy("a", cpu, memory),
        evict=cluster.evict,
        lose_server=cluster.lose_part,
        offer=partial(_offer, cluster),
        withdraw=cluster.withdraw,
    )


def _slurm_harness(directory: Path, wrap: Callable[[MakeEngine], Engine]) -> EngineHarness:
    shared = directory / "shared"
    shared.mkdir()
    slurm, notes = FakeSlurm(directory), MemoryNotes()
    settings = SlurmSettings(shared_dir=shared, poll_seconds=0.3)

    def job_id(key: str) -> int:
        return slurm.own()[key][-1].job_id

    def remove_servers() -> None:
        slurm.nodes_by_name = {"other": node("other")}

    def make_elsewhere(_state: Path) -> Engine:
        remove_servers()
        return wrap(lambda: SlurmEngine(slurm, notes, settings))

    def offer(workload: Workload) -> str:
        script = f"#!/bin/sh\nexec {shlex.join(workload.run.command)}\n"
        return f"job {slurm.hand_in(script, 'wharfinger: {target: {completionTime: 20m}}')}"

    foreign: list[int] = []

    def occupy(_engine: Engine, cpu: int, memory: int) -> None:
        while foreign:
            slurm.forget(foreign.pop())
        if cpu:
            foreign.append(slurm.foreign(server="n1", cpus=cpu // 1000, memory=memory))

    return EngineHarness(
        directory,
        lambda _state: wrap(lambda: SlurmEngine(slurm, notes, settings)),
        ShellPrograms(directory),
        make_elsewhere,
        lambda _engine: remove_servers(),
        60.0,  # A profiler is a Python, and its worker another.
        occupy=occupy,
        evict=lambda key: slurm.end(job_id(key), "NODE_FAIL"),
        lose_server=lambda key, node: slurm.lose(job_id(key), node),
        offer=offer,
        withdraw=lambda handle: slurm.cancel([int(handle.split()[1])]),
    )


def _bare(make_engine: MakeEngine) -> Engine:
    return make_engine()


def _faulty(make_engine: MakeEngine) -> Engine:
    return FaultyEngine(make_engine, Random(0))


@every_check
@pytest.mark.parametrize("wrap", [_bare, _faulty])
def test_memory_engine_that_spreads(check: EngineCheck, wrap, tmp_path: Path) -> None:
    check(_spreading_harness(tmp_path, wrap))


@every_check
@pytest.mark.parametrize("wrap", [_bare, _faulty])
def test_memory_engine_that_is_rigid(check: EngineCheck, wrap, tmp_path: Path) -> None:
    check(_rigid_harness(tmp_path, wrap))


@every_check
def test_memory_engine(check: EngineCheck, tmp_path: Path) -> None:
    check(_memory_harness(tmp_path, _bare))


@every_check
def test_faulty_engine_without_faults(check: EngineCheck, tmp_path: Path) -> None:
    check(_memory_harness(tmp_path, _faulty))


@every_check
def test_simulated_engine(check: EngineCheck, tmp_path: Path) -> None:
    check(_simulated_harness(tmp_path, _bare))


@every_check
def test_faulty_simulated_engine_without_faults(check: EngineCheck, tmp_path: Path) -> None:
    check(_simulated_harness(tmp_path, _faulty))


# Real programs take real time.


@pytest.mark.slow
@every_check
def test_local_engine(check: EngineCheck, tmp_path: Path) -> None:
    check(_local_harness(tmp_path, _bare))


@pytest.mark.long
@every_check
def test_local_engine_without_cgroups(
    check: EngineCheck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_cgroups_away(tmp_path, monkeypatch)
    check(_local_harness(tmp_path, _bare))


@pytest.mark.slow
@every_check
def test_faulty_local_engine_without_faults(check: EngineCheck, tmp_path: Path) -> None:
    check(_local_harness(tmp_path, _faulty))


@pytest.mark.slow
@every_check
@pytest.mark.parametrize("wrap", [_bare, _faulty])
def test_slurm_engine_on_a_slurm_of_processes(check: EngineCheck, wrap, tmp_path: Path) -> None:
    check(_slurm_harness(tmp_path, wrap))
