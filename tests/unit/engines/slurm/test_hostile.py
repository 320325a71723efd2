"""Bad input and bad luck: one clear line, and what others own stays as it is."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fake_slurm import FakeSlurm, node
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.notes import MemoryNotes
from wharfinger.engines.slurm import SlurmEngine, SlurmSettings
from wharfinger.engines.slurm.client.base import SlurmJob
from wharfinger.engines.slurm.client.commands import fault_of
from wharfinger.engines.slurm.comments import note_in
from wharfinger.errors import InvalidInput
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.testing import EngineHarness, ShellPrograms
from wharfinger.testing.harness import EngineTrial

pytestmark = pytest.mark.slow  # Real programs take real time.

TARGET = "wharfinger: {target: {completionTime: 20m}}"
NO_SPACE = "error: Unable to save state: No space left on device"


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[FakeSlurm]:
    fake = FakeSlurm(tmp_path)
    yield fake
    fake.before = lambda name: None
    fake.close()


@pytest.fixture
def trial(slurm: FakeSlurm, tmp_path: Path) -> Iterator[EngineTrial]:
    (tmp_path / "shared").mkdir()
    notes = MemoryNotes()
    settings = SlurmSettings(shared_dir=tmp_path / "shared", poll_seconds=0.2, lost_seconds=0.5)
    make_engine = lambda _state: SlurmEngine(slurm, notes, settings)  # noqa: E731
    with EngineHarness(tmp_path, make_engine, ShellPrograms(tmp_path)).trial() as trial:
        yield trial


def _job(slurm: FakeSlurm, job_id: int) -> SlurmJob:
    return next(job for job in slurm.jobs_now() if job.job_id == job_id)


def _start(trial: EngineTrial, job_id: int, key: str = "k") -> act.StartWorkload:
    """Of a user's job, once it is offered."""
    handle = f"job {job_id}"
    trial.wait_until(lambda: any(o.handle == handle for o in _offers(trial)), handle)
    (offer,) = (offer for offer in _offers(trial) if offer.handle == handle)
    placement = Placement("n1", Allocation(1000, 64 << 20))
    return act.StartWorkload(key, offer.workload, (placement,), handle)


def _offers(trial: EngineTrial) -> list[ev.WorkloadOffered]:
    return [report for report in trial.reports if isinstance(report, ev.WorkloadOffered)]


# --- what the cluster is ------------------------------------------------------------------------


def test_a_slurm_that_is_too_old_is_refused_before_anything_is_asked(
    slurm: FakeSlurm, tmp_path: Path
):
    slurm.version = (21, 8)
    engine = SlurmEngine(slurm, MemoryNotes(), SlurmSettings())
    with pytest.raises(InvalidInput, match=r"this is Slurm 21\.08; 22\.05 or later is needed"):
        engine.open()
    assert slurm.calls == ["site"]


def test_a_partition_that_does_not_exist_is_refused(slurm: FakeSlurm, tmp_path: Path):
    engine = SlurmEngine(slurm, MemoryNotes(), SlurmSettings(partitions=("debug",)))
    with pytest.raises(InvalidInput, match="'debug': no such partition; there are: main"):
        engine.open()


def test_a_node_of_size_zero_is_no_server_until_it_has_one(
    slurm: FakeSlurm, trial: EngineTrial, caplog: pytest.LogCaptureFixture
):
    slurm.nodes_by_name["n3"] = node("n3", cpus=0)
    with caplog.at_level(logging.WARNING):
        trial.reopen()
    (line,) = (record.getMessage() for record in caplog.records if "n3" in record.getMessage())
    assert line.startswith("node n3 has 0 CPUs")
    assert "n3" not in trial.wait_for(ev.EngineSynced).servers
    trial.forget_reports()
    slurm.nodes_by_name["n3"] = node("n3", cpus=2)
    trial.wait_until(
        lambda: "n3" in {s.name for r in _reported(trial) for s in r.servers}, "the server n3"
    )


def _reported(trial: EngineTrial) -> list[ev.ServersReported]:
    return [report for report in trial.reports if isinstance(report, ev.ServersReported)]


# --- what users write ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "comment",
    [
        "wharfinger: {target: {completionTime: 20m}, x: " + "y" * 1_000_000 + "}",
        "wharfinger: \x00\x01\x02\x1b[31m{",
        "wharfinger: \udcff\udcfe{target",
        "wharfinger: {target: &a [*a, *a]}",
        "wharfinger: " + "[" * 5000,
        "wharfinger: !!python/object/apply:os.system [id]",
        "wharfinger: {target: {completionTime: 20m}}\n---\n{target: {completionTime: 1m}}",
    ],
    ids=["1MB", "binary", "no-utf8", "aliases", "nested", "tagged", "two"],
)
def test_a_hostile_comment_gets_one_line_and_harms_no_other(
    slurm: FakeSlurm, trial: EngineTrial, comment: str
):
    number = slurm.hand_in("#!/bin/sh\nexit 0\n", comment)
    good = slurm.hand_in("#!/bin/sh\nexit 3\n", TARGET)
    trial.perform(_start(trial, good))
    trial.expect_status("k", 3)
    trial.wait_until(lambda: note_in(_job(slurm, number).comment), "the note")
    note = note_in(_job(slurm, number).comment)
    assert note.startswith("not taken: comment: ")
    assert note.isprintable()
    assert len(note) <= 400
    assert _job(slurm, number).comment.startswith(comment.rstrip())
    assert _job(slurm, number).held


def test_a_name_with_newlines_names_nothing_here(slurm: FakeSlurm, trial: EngineTrial):
    name = "two\nlines; $(reboot)\x1b[31m JobState=COMPLETED"
    number = slurm.hand_in("#!/bin/sh\nexit 3\n", TARGET, name=name)
    start = _start(trial, number)
    assert start.workload.name == f"slurm-{number}"
    trial.perform(start)
    trial.expect_status("k", 3)
    assert _job(slurm, number).name == name


# --- what happens in between --------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "update", "release"])
def test_a_user_who_cancels_between_decision_and_release(
    slurm: FakeSlurm, trial: EngineTrial, tmp_path: Path, when: str
):
    mark = tmp_path / "mark"
    number = slurm.hand_in(f"#!/bin/sh\ntouch {mark}\n", TARGET)
    start = _start(trial, number)

    def before(name: str) -> None:
        if name == when:
            slurm.before = lambda name: None
            slurm.end(number, "CANCELLED")

    if when == "before":
        slurm.end(number, "CANCELLED")
    slurm.before = before
    trial.perform(start)
    trial.wait_until(lambda: trial.ends("k"), "its end")
    (end,) = trial.ends("k")
    assert isinstance(end, ev.StartFailed)
    assert not end.retryable
    assert not mark.exists()
    assert _job(slurm, number).state == "CANCELLED"


def test_a_user_who_releases_it_before_us_has_it_run_as_it_was(
    slurm: FakeSlurm, trial: EngineTrial
):
    number = slurm.hand_in("#!/bin/sh\nsleep 300\n", TARGET, cpus=4, required_nodes=())
    start = _start(trial, number)
    slurm.release([number])
    trial.perform(start)
    assert "took it back" in trial.expect_refused("k", retryable=False).reason
    assert (_job(slurm, number).state, _job(slurm, number).cpus) == ("RUNNING", 4)


@pytest.mark.parametrize("call", ["submit", "release"])
def test_a_full_state_save_location_delays_a_start_and_doubles_none(
    slurm: FakeSlurm, trial: EngineTrial, call: str
):
    left = 2

    def before(name: str) -> None:
        nonlocal left
        if name == call and left:
            left -= 1
            raise fault_of("sbatch", NO_SPACE)

    slurm.before = before
    trial.start("k", trial.programs.exiting("k", 3))
    trial.expect_status("k", 3)
    trial.expect_started_once("k")
    assert left == 0


@pytest.mark.parametrize("seconds", [-86_400.0, 86_400.0])
def test_a_clock_that_jumps_ends_nothing(
    slurm: FakeSlurm, trial: EngineTrial, monkeypatch: pytest.MonkeyPatch, seconds: float
):
    trial.run_lasting("k")
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + seconds)
    trial.take_in(1.0)
    assert not trial.ends("k")
    trial.start("late", trial.programs.exiting("late", 3))
    trial.expect_status("late", 3)
    trial.perform(act.StopWorkload("k", 1.0))
    trial.expect_one_end("k")
