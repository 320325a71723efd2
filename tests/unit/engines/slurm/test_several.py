"""A workload on several nodes: one job, a supervisor on each."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fake_slurm import FakeSlurm, node
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.notes import MemoryNotes
from wharfinger.engines.slurm import SlurmEngine, SlurmSettings
from wharfinger.engines.slurm.client.base import SlurmJob
from wharfinger.engines.slurm.ends import RunReading
from wharfinger.engines.slurm.parts import merged
from wharfinger.engines.slurm.start import NextStep, SlurmStart
from wharfinger.engines.slurm.start_notes import note_of
from wharfinger.host.processes import ProcessIdentity
from wharfinger.host.run_dir import Claim, ExitRecord, RunRecord, Started
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.workload import Run, Workload, WorkloadType
from wharfinger.testing import EngineHarness, ShellPrograms
from wharfinger.testing.harness import EngineTrial

PLACEMENTS = tuple(Placement(name, Allocation(1000, 64 << 20)) for name in ("n1", "n2"))
WORKLOAD = Workload("k", WorkloadType.BATCH, Run(("true",)))


def _reading(
    claim: Claim = Claim.TAKEN,
    *,
    began: float | None = 1.0,
    code: int | None = None,
    ended: float | None = None,
    **more: object,
) -> RunReading:
    who = ProcessIdentity("boot", 1, 1)
    over = ended is not None
    record = ExitRecord(code, None, None, None, False, 1.0, 1.0, ended or 0.0, 0, 0, 0)
    started = None if began is None else Started(who, began)
    return RunReading(RunRecord(claim, who, started, record if over else None), **more)  # type: ignore[arg-type]


def test_it_has_begun_when_it_has_on_each_and_ended_when_it_has_on_each() -> None:
    waits, runs, runs_later = (_reading(began=at) for at in (None, 1.0, 2.0))
    ended = _reading(code=0, ended=9.0)
    assert merged([runs, waits]).record.started is None
    began = merged([runs, runs_later, ended]).record.started
    assert began is not None
    assert began.started_at_seconds == 2.0
    assert merged([runs, ended]).record.exit is None
    over = merged([ended, _reading(code=0, ended=12.0)]).record.exit
    assert over is not None
    assert (over.exit_code, over.ended_at_seconds, over.cpu_seconds) == (0, 12.0, 2.0)


def test_how_it_ended_is_how_the_first_that_failed_did() -> None:
    ends = [
        _reading(code=0, ended=1.0),
        _reading(code=4, ended=3.0, last_line="late"),
        _reading(code=3, ended=2.0, last_line="why"),
    ]
    together = merged(ends)
    assert together.record.exit is not None
    assert (together.record.exit.exit_code, together.last_line) == (3, "why")
    assert not together.part_failed
    assert merged([*ends, _reading()]).part_failed


def test_one_claim_that_is_taken_is_a_beginning_and_all_that_are_cancelled_are_none() -> None:
    none, cancelled = (_reading(c, began=None) for c in (Claim.NONE, Claim.CANCELLED))
    for readings, claim in (
        ([none, cancelled], Claim.NONE),
        ([cancelled, cancelled], Claim.CANCELLED),
        ([_reading(), cancelled], Claim.TAKEN),
    ):
        assert merged(readings, "said").record.claim is claim
    # On the node whose claim was cancelled nothing is awaited.
    assert merged([_reading(code=0, ended=1.0), cancelled]).record.exit is not None


def test_a_job_whose_script_was_lost_is_ended_once_its_program_has_on_each_node() -> None:
    start = SlurmStart("k", note_of(WORKLOAD, PLACEMENTS), supervised=True, accepted=True)
    job = SlurmJob(1, "k", "root", "main", "RUNNING", nodes=("n2",))
    start.see(job, merged([_reading(), _reading()]))
    lost = start.newly_lost()
    assert [placement.server for placement in lost] == ["n1"]
    start.note = start.note.without(lost)
    (told,) = start.losses()
    assert told.placements == lost
    assert not start.newly_lost()
    follow = lambda: start.follow(6.0, 60.0, 30.0, lambda *_: None)  # noqa: E731
    assert [follow(), follow()] == [None, None]
    start.see(job, merged([_reading(code=0, ended=9.0)]))
    assert [follow(), follow()] == [None, NextStep.CANCEL]


# --- with processes -------------------------------------------------------------------------------


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[FakeSlurm]:
    fake = FakeSlurm(tmp_path)
    yield fake
    fake.close()


@pytest.fixture
def trial(slurm: FakeSlurm, tmp_path: Path) -> Iterator[EngineTrial]:
    shared = tmp_path / "shared dir"
    shared.mkdir()
    settings, notes = SlurmSettings(shared_dir=shared, poll_seconds=0.2), MemoryNotes()
    harness = EngineHarness(
        tmp_path, lambda _: SlurmEngine(slurm, notes, settings), ShellPrograms(tmp_path)
    )
    with harness.trial() as trial:
        yield trial


def _start(trial: EngineTrial, script: str) -> None:
    run = Run(("sh", "-c", script), working_directory="/")
    trial.perform(replace(trial.action("k", run), placements=PLACEMENTS))


@pytest.mark.slow
def test_it_is_one_job_whose_programs_know_where_they_are(
    trial: EngineTrial, slurm: FakeSlurm, tmp_path: Path
) -> None:
    file = shlex.quote(str(tmp_path / "told"))
    _start(trial, f'echo "$WHARFINGER_SERVER of $WHARFINGER_SERVERS" >>{file}')
    trial.expect_status("k", 0)
    assert sorted((tmp_path / "told").read_text().split("\n")) == ["", "n1 of n1,n2", "n2 of n1,n2"]
    (job,) = slurm.own()["k"]
    assert (job.node_count, job.nodes, job.cpus) == (2, ("n1", "n2"), 2)


@pytest.mark.slow
def test_what_fails_on_one_node_is_stopped_on_the_others(trial: EngineTrial) -> None:
    _start(trial, 'echo no room; [ "$WHARFINGER_SERVER" = n1 ] || exit 3; exec sleep 60')
    end = trial.wait_for(ev.WorkloadFinished, "k")
    assert (end.exit_code, end.reason, end.last_output) == (3, "exited", "no room")


@pytest.mark.slow
def test_each_node_keeps_to_its_own_allocation(trial: EngineTrial, tmp_path: Path) -> None:
    _start(trial, "sleep 60")
    trial.wait_for(ev.WorkloadStarted, "k")
    less = tuple(
        replace(p, allocation=replace(p.allocation, cpu_millicpus=cpu))
        for p, cpu in zip(PLACEMENTS, (250, 750), strict=True)
    )
    trial.perform(act.ResizeAllocation("k", less))
    assert trial.wait_for(ev.AllocationResized, "k").placements == less
    paces = {f.parent.name: f.read_text().strip() for f in tmp_path.glob("shared dir/*/k/*/pace")}
    assert paces == {"n1": "250", "n2": "750"}
    more = tuple(replace(p, allocation=Allocation(2000, 64 << 20)) for p in PLACEMENTS)
    for refused in (PLACEMENTS[:1], more):
        trial.forget_reports()
        trial.perform(act.ResizeAllocation("k", refused))
        trial.wait_for(ev.ResizeFailed, "k")


@pytest.mark.slow
def test_nodes_that_no_partition_has_together_are_refused(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.nodes_by_name["n2"] = node("n2", partitions=("other",))
    settings = SlurmSettings(shared_dir=tmp_path, partitions=("main", "other"))
    harness = EngineHarness(
        tmp_path, lambda _: SlurmEngine(slurm, MemoryNotes(), settings), ShellPrograms(tmp_path)
    )
    with harness.trial() as trial:
        _start(trial, "true")
        assert "no partition has all of n1, n2" in trial.expect_refused("k", retryable=True).reason
