"""The Slurm engine measures what runs: output, load, probes, CPU time, and nothing unshared."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.fake_slurm import FakeSlurm, node
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.notes import MemoryNotes
from wharfinger.engines.slurm import SlurmEngine, SlurmSettings
from wharfinger.errors import NotFound
from wharfinger.host.cgroups import find_hierarchies
from wharfinger.host.supervisor import LaunchSpec
from wharfinger.model.performance import Quantity, Sample
from wharfinger.model.workload import Measure, Probe, Run, Target, Workload
from wharfinger.testing import EngineHarness, ShellPrograms
from wharfinger.testing.harness import EngineTrial

pytestmark = pytest.mark.slow  # Real programs take real time.

COUNTING = "i=0; while true; do i=$((i+1)); echo done=$i; sleep 0.1; done"
LINES = Measure(r"done=(\d+)")
LOAD = """
import os, time
while True:
    print("ops 120", os.environ["WHARFINGER_NODE"], flush=True)
    time.sleep(0.2)
"""


class MeasuringSlurm(FakeSlurm):
    """One whose accounting says that each job uses a quarter of a CPU."""

    def usage(self, job_ids: Sequence[int]) -> Mapping[int, tuple[float, int]]:
        return dict.fromkeys(job_ids, (time.monotonic() / 4, 1 << 20))


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[FakeSlurm]:
    fake = MeasuringSlurm(tmp_path)
    yield fake
    fake.close()


@contextmanager
def _trial(slurm: FakeSlurm, directory: Path, *, shared: bool = True) -> Iterator[EngineTrial]:
    (directory / "shared").mkdir()
    notes = MemoryNotes()
    settings = SlurmSettings(
        poll_seconds=0.1, lost_seconds=0.5, shared_dir=directory / "shared" if shared else None
    )
    harness = EngineHarness(
        directory,
        lambda state: SlurmEngine(slurm, notes, settings, state),
        ShellPrograms(directory),
        deadline_seconds=60.0,
    )
    with harness.trial() as trial:
        yield trial


@pytest.fixture
def trial(slurm: FakeSlurm, tmp_path: Path) -> Iterator[EngineTrial]:
    with _trial(slurm, tmp_path) as trial:
        yield trial


def _measured(
    trial: EngineTrial, script: str, measure: Measure, key: str = "k", **run: Probe | None
) -> act.MeasureWorkload:
    start = trial.action(key, Run(("sh", "-c", script), working_directory="/", **run))
    workload = replace(start.workload, target=Target(rate_per_second=1.0), measure=measure)
    trial.perform(replace(start, workload=workload))
    trial.wait_for(ev.WorkloadStarted, key)
    asked = act.MeasureWorkload(key, workload)
    trial.perform(asked)
    return asked


def _samples(trial: EngineTrial, key: str = "k") -> list[Sample]:
    reports = (report for report in trial.reports if isinstance(report, ev.ServerMeasured))
    return [sample for report in reports for sample in report.samples if sample.key == key]


def _await_reading(
    trial: EngineTrial,
    quantity: Quantity,
    key: str = "k",
    fits: Callable[[float], bool] = lambda value: True,
) -> float:
    """The first that fits: one that is taken while the machine is busy may be off."""

    def fitting() -> list[float]:
        return [
            sample.readings[quantity].value
            for sample in _samples(trial, key)
            if quantity in sample.readings and fits(sample.readings[quantity].value)
        ]

    trial.wait_until(fitting, f"a reading of {quantity}")
    return fitting()[0]


def test_progress_lines_and_slurms_cpu_time_are_read(trial: EngineTrial):
    _measured(trial, COUNTING, LINES)
    _await_reading(trial, Quantity.RATE, fits=lambda rate: 1 < rate < 20)
    _await_reading(trial, Quantity.CPU, fits=lambda cpus: 0.15 < cpus < 0.35)


def test_a_load_generator_runs_here_until_its_service_ends(trial: EngineTrial):
    measure = Measure(load_command=(sys.executable, "-c", LOAD), load_regex=r"ops (\d+)")
    asked = _measured(trial, "sleep 600", measure)
    assert _await_reading(trial, Quantity.RATE) == pytest.approx(120)
    loads = trial.harness.state / ".loads"
    assert [path.name for path in loads.iterdir()] == ["k.1"]
    said = trial.engine.read_log("k", source="load").data
    assert said.startswith(b"ops 120 127.0.0.1\n")
    # Another manager goes on with the one that there is.
    trial.reopen()
    trial.perform(asked)
    _await_reading(trial, Quantity.RATE)
    assert [path.name for path in loads.iterdir()] == ["k.1"]
    trial.perform(act.StopWorkload("k", 0.0))
    trial.wait_for_end("k")
    trial.wait_until(lambda: _load_has_ended(trial), "end of the load")
    trial.perform(act.ForgetWorkload("k"))
    trial.wait_until(lambda: not loads.exists(), "end of its output")
    with pytest.raises(NotFound, match="no start has the key"):
        trial.engine.read_log("k", source="load")


def _load_has_ended(trial: EngineTrial) -> bool:
    chunk = trial.engine.read_log("k", source="load")
    return trial.engine.read_log("k", chunk.next_offset, source="load").ended


def test_a_load_generator_leaves_no_cgroup(slurm: FakeSlurm, tmp_path: Path):
    """Neither where its service ended under the manager that began it, nor under another."""
    with _trial(slurm, tmp_path) as trial:
        identity = trial.engine._notes.identity("")  # type: ignore[attr-defined]
        measure = Measure(load_command=(sys.executable, "-c", LOAD), load_regex=r"ops (\d+)")
        _measured(trial, "sleep 600", measure)
        _measured(trial, "sleep 600", measure, "l")
        _await_reading(trial, Quantity.RATE, "l")
        assert _groups(identity) or not any(os.access(h.own, os.W_OK) for h in find_hierarchies())
        trial.perform(act.StopWorkload("k", 0.0))
        trial.wait_for_end("k")
        trial.reopen()
        trial.perform(act.StopWorkload("l", 0.0))
        trial.wait_for_end("l")
    assert not _groups(identity)


def _groups(identity: str) -> list[Path]:
    """The cgroups around an engine's load generators; others' come and go beside us."""
    places = (h.own / f"wharfinger-{identity}" / "manager" for h in find_hierarchies())
    return [place for place in places if place.exists()]


def test_a_load_waits_until_its_service_is_ready(trial: EngineTrial, tmp_path: Path):
    ready = tmp_path / "ready"
    probe = Probe(command=("test", "-e", str(ready)), every_seconds=0.2)
    measure = Measure(load_command=(sys.executable, "-c", LOAD), load_regex=r"ops (\d+)")
    _measured(trial, "sleep 600", measure, ready=probe)
    trial.wait_for(ev.ReadinessChanged, "k")
    assert not (trial.harness.state / ".loads").exists()
    ready.touch()
    assert _await_reading(trial, Quantity.RATE) == pytest.approx(120)


def test_what_is_suspended_is_not_taken_for_dead(trial: EngineTrial, tmp_path: Path):
    alive = tmp_path / "alive"
    alive.touch()
    probe = Probe(
        command=("test", "-e", str(alive)), every_seconds=0.1, timeout_seconds=30.0, failures=2
    )
    _measured(trial, "sleep 600", LINES, alive=probe)
    trial.perform(act.SuspendWorkload("k"))
    trial.take_in(0.3)
    alive.unlink()
    trial.take_in(1.5)
    trial.expect_no_end("k")
    trial.perform(act.ResumeWorkload("k"))
    end = trial.wait_for(ev.WorkloadFinished, "k")
    assert end.reason == "not-alive"


@pytest.mark.long
def test_a_suspension_is_renewed_while_the_engine_is_there(
    trial: EngineTrial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    short = partial(LaunchSpec, suspension_lease_seconds=1.0)
    monkeypatch.setattr("wharfinger.engines.slurm.runs.LaunchSpec", short)
    monkeypatch.setattr("wharfinger.engines.slurm.jobs.RENEW_SECONDS", 0.2)
    note = tmp_path / "ticks"

    def stands_still() -> bool:
        before = note.stat().st_size
        until = time.monotonic() + 3.0
        while (left := until - time.monotonic()) > 0:
            trial.take_in(left)
        return note.stat().st_size == before

    _measured(trial, f"while :; do echo >> {note}; sleep 0.02; done", LINES)
    trial.wait_until(note.exists, "it runs")
    trial.perform(act.SuspendWorkload("k"))
    # For three leases in a row; on a machine that stalls, one may end before it is renewed.
    trial.wait_until(stands_still, "it is suspended")
    still = note.stat().st_size
    trial.perform(act.ResumeWorkload("k"))
    trial.wait_until(lambda: note.stat().st_size > still, "it goes on")


@pytest.mark.long
def test_asking_takes_no_time_of_the_manager(trial: EngineTrial):
    asked = _measured(trial, COUNTING, LINES)
    actions = [
        asked,
        act.MeasureWorkload("k", Workload("k", asked.workload.type, asked.workload.run)),
        act.MeasureWorkload("unknown", asked.workload),
    ]
    began = time.thread_time()
    for action in (*actions * 100, asked):
        trial.engine.perform(action)
    assert (time.thread_time() - began) / 301 < 1e-3
    assert _await_reading(trial, Quantity.RATE) > 1


def test_what_listens_on_a_node_is_asked_there(slurm: FakeSlurm, tmp_path: Path):
    slurm.nodes_by_name = {"n1": node("n1", address="127.0.0.3")}
    with _trial(slurm, tmp_path) as trial:
        probe = Probe(port=9, every_seconds=0.2)
        _measured(trial, "sleep 600", LINES, ready=probe)
        told = trial.wait_for(ev.ReadinessChanged, "k")
        assert told.reason == "127.0.0.3, port 9: connection refused"


def test_without_a_shared_directory_it_says_that_it_can_not(slurm: FakeSlurm, tmp_path: Path):
    with _trial(slurm, tmp_path, shared=False) as trial:
        able = trial.engine.capabilities
        assert not able.measures
        assert not able.probes
        _measured(trial, COUNTING, LINES)
        trial.take_in(0.3)
        assert not _samples(trial)
        with pytest.raises(NotFound, match="no shared directory"):
            trial.engine.read_log("k", source="load")


def test_an_engine_that_is_closed_leaves_no_descriptor(slurm: FakeSlurm, tmp_path: Path):
    with _trial(slurm, tmp_path) as trial:
        measure = Measure(load_command=(sys.executable, "-c", LOAD), load_regex=r"ops (\d+)")
        asked = _measured(trial, "sleep 600", measure)
        _await_reading(trial, Quantity.RATE)
        opened = lambda: len(os.listdir("/proc/self/fd"))  # noqa: E731, PTH208 - no files there
        before = opened()
        for _ in range(3):
            trial.reopen()
            trial.perform(asked)
            _await_reading(trial, Quantity.RATE)
        # What listing and a look at Slurm open is closed again.
        trial.wait_until(lambda: opened() <= before + 1, "closed descriptors")
