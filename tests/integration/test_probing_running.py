"""Sources of interference that rise beside real programs, in the local engine."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.local import session
from tests.support.profiling import COUNTING, LINES
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.workload import Profile, Run, Target, Workload, WorkloadType
from wharfinger.testing.harness import Session

pytestmark = [pytest.mark.alone, pytest.mark.slow]

ONE_CPU = f"a={min(os.sched_getaffinity(0))}"
INTEGER = SharedResource.INTEGER


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Session]:
    with session(tmp_path, servers=ONE_CPU, hastened_seconds=0.25) as opened:
        opened.deadline_seconds = 150.0
        yield opened


def run(
    engine: Session, folder: Path, key: str = "k", cpu: int = 500, server: int = 0
) -> act.StartWorkload:
    command = Run((sys.executable, "-c", COUNTING), {}, str(folder))
    target = Target(rate_per_second=1.0)
    profile = Profile(seconds=4.0)
    workload = Workload(key, WorkloadType.BATCH, command, target, measure=LINES, profile=profile)
    start = act.StartWorkload(
        key, workload, (Placement(engine.servers[server], Allocation(cpu, 256 << 20)),)
    )
    engine.perform(start)
    engine.wait_for(ev.WorkloadStarted, key)
    engine.perform(act.MeasureWorkload(key, workload))
    return start


def probe(start: act.StartWorkload, number: int = 1) -> act.ProbeWorkload:
    held = start.placements[0]
    cpu, memory = held.allocation.cpu_millicpus, held.allocation.memory_bytes
    plan = ProfilingPlan(held.server, (cpu,), memory, (INTEGER,), 8.0, 0.05, live=True)
    return act.ProbeWorkload(start.key, number, start.workload, plan)


def sources(folder: Path) -> list[str]:
    """Command lines of sources that are at work for the engine in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "integer" in line and "--control" in line and str(folder) in line:
            found.append(line)
    return found


def test_a_source_rises_beside_a_real_program(engine: Session, tmp_path: Path) -> None:
    start = run(engine, tmp_path)
    engine.perform(probe(start))
    told = engine.wait_for(ev.WorkloadProbed, "k")
    assert not told.reason
    known = told.measurements
    assert INTEGER in known.tolerated or "tolerated/integer" in known.silent, known
    if INTEGER in known.tolerated:
        assert 0 <= known.tolerated[INTEGER].value <= 100
        assert INTEGER in known.caused or "caused/integer" in known.silent, known
    if INTEGER in known.caused:
        assert 5 < known.caused[INTEGER].value <= 100
    engine.wait_until(lambda: not sources(tmp_path), "no source is left")
    assert not engine.ends("k")


def test_who_shares_its_cores_is_not_probed(engine: Session, tmp_path: Path) -> None:
    start = run(engine, tmp_path, cpu=300)
    run(engine, tmp_path, "l", cpu=300)
    engine.perform(probe(start))
    assert "shared with neighbors" in engine.wait_for(ev.WorkloadProbed, "k").reason


@pytest.mark.long
def test_a_copy_is_probed_on_an_empty_server(tmp_path: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("two servers with a CPU each need two CPUs")
    servers = f"a={cpus[0]},b={cpus[1]}"
    with session(tmp_path, servers=servers, hastened_seconds=0.25) as engine:
        engine.deadline_seconds = 150.0
        start = run(engine, tmp_path)
        asked = probe(start)
        elsewhere = replace(asked.plan, server=engine.servers[1], live=False)
        beside = replace(asked, plan=elsewhere)
        engine.perform(beside)
        told = engine.wait_for(ev.WorkloadProbed, "k")
        assert not told.reason
        known = told.measurements
        assert INTEGER in known.tolerated or "tolerated/integer" in known.silent, known
        assert not known.performance
        engine.wait_until(lambda: not sources(tmp_path), "no source is left")
        run(engine, tmp_path, "l", cpu=300, server=1)
        engine.perform(replace(beside, number=2))
        engine.wait_until(lambda: len(probed(engine)) == 2, "an answer to the second")
        assert "b is not empty" in probed(engine)[-1].reason
        assert not engine.ends("k")


def probed(engine: Session) -> list[ev.WorkloadProbed]:
    return [report for report in engine.about("k") if isinstance(report, ev.WorkloadProbed)]


def test_no_source_outlives_its_engine_or_its_workload(engine: Session, tmp_path: Path) -> None:
    start = run(engine, tmp_path)
    engine.perform(probe(start))
    engine.wait_until(lambda: bool(sources(tmp_path)), "a source at work")
    engine.reopen()
    engine.wait_until(lambda: not sources(tmp_path), "no source is left")
    engine.perform(start, act.MeasureWorkload("k", start.workload), replace(probe(start), number=2))
    engine.wait_until(lambda: bool(sources(tmp_path)), "a source at work again")
    engine.perform(act.StopWorkload("k", 1.0))
    assert engine.wait_for(ev.WorkloadProbed, "k").reason
    engine.wait_until(lambda: not sources(tmp_path), "no source is left")
