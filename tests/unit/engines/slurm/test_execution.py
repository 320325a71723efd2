"""Commands beside a running program, as steps of its job."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fake_slurm import FakeSlurm
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.base import Execution
from wharfinger.engines.notes import MemoryNotes
from wharfinger.engines.slurm import SlurmEngine, SlurmSettings, execution
from wharfinger.engines.slurm.execution import command_on_node, step_options
from wharfinger.errors import EngineFault, InvalidInput, NotFound
from wharfinger.host.accounts import UserAccount
from wharfinger.model.workload import Run, Workload, WorkloadType
from wharfinger.testing import EngineHarness, ShellPrograms
from wharfinger.testing.harness import EngineTrial


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[FakeSlurm]:
    fake = FakeSlurm(tmp_path)
    yield fake
    fake.close()


@pytest.fixture
def trial(slurm: FakeSlurm, tmp_path: Path) -> Iterator[EngineTrial]:
    shared = tmp_path / "shared"
    shared.mkdir()
    settings, notes = SlurmSettings(shared_dir=shared, poll_seconds=0.2), MemoryNotes()
    harness = EngineHarness(
        tmp_path, lambda _: SlurmEngine(slurm, notes, settings), ShellPrograms(tmp_path)
    )
    with harness.trial() as trial:
        yield trial


def _output(execution: Execution) -> bytes:
    found, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            data = os.read(execution.stdout, 4096)
        except BlockingIOError:
            time.sleep(0.01)
            continue
        if not data:
            return found
        found += data
    raise AssertionError(f"its output does not end; so far {found!r}")


def test_it_becomes_the_programs_user_on_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    bob = UserAccount("bob", 42, 43, (43, 44), "/home/bob", "/bin/sh")
    monkeypatch.setattr(execution, "other_account", lambda name: bob if name == "bob" else None)
    run = Run(("service",), working_directory="/srv")
    own, other = (
        command_on_node(Workload("w", WorkloadType.BATCH, replace(run, user=user)), ("id", "-u"))
        for user in ("", "bob")
    )
    assert own[4:] == ["/srv", "id", "-u"]
    become = ["setpriv", "--reuid=42", "--regid=43", "--groups=43,44", "--"]
    assert other[4:] == ["/srv", *become, "id", "-u"]
    assert {"--jobid=7", "--nodelist=n2", "--overlap"} <= set(step_options(7, "n2"))


@pytest.mark.slow
def test_it_has_the_programs_environment_and_directory(trial: EngineTrial, tmp_path: Path) -> None:
    start = trial.action("k", trial.programs.lasting("k"))
    run = replace(start.workload.run, env={"KIND": "a b"}, working_directory=str(tmp_path))
    trial.perform(replace(start, workload=replace(start.workload, run=run)))
    trial.wait_for(ev.WorkloadStarted, "k")
    beside = trial.engine.execute("k", ("sh", "-c", 'echo "$KIND|$PWD|$SLURMD_NODENAME"; exit 7'))
    assert _output(beside) == f"a b|{tmp_path}|n1\n".encode()
    assert beside.wait(60) == 7
    beside.close()
    missing = trial.engine.execute("k", ("no-such-program",))
    assert missing.wait(60) == 127
    missing.close()


@pytest.mark.slow
def test_what_is_killed_leaves_nothing(trial: EngineTrial, tmp_path: Path) -> None:
    trial.run_lasting("k")
    file = tmp_path / "pid"
    beside = trial.engine.execute("k", ("sh", "-c", f"echo $$ >{file}; exec sleep 600"))
    trial.wait_until(lambda: file.exists() and bool(file.read_text()), "its beginning")
    pid = int(file.read_text())
    beside.kill()
    assert beside.wait(60) not in (None, 0)
    beside.close()
    trial.wait_until(lambda: not Path(f"/proc/{pid}").exists(), "its end on the node")
    trial.expect_no_end("k")


@pytest.mark.slow
def test_where_nothing_of_ours_runs_nothing_runs_beside_it(
    trial: EngineTrial, slurm: FakeSlurm
) -> None:
    start = trial.action("k", trial.programs.lasting("k"))
    trial.perform(start)
    trial.wait_for(ev.WorkloadStarted, "k")
    with pytest.raises(NotFound):
        trial.engine.execute("other", ("true",))
    trial.reopen()
    with pytest.raises(EngineFault, match="not known yet"):
        trial.engine.execute("k", ("true",))
    trial.perform(act.MeasureWorkload("k", start.workload))
    beside = trial.engine.execute("k", ("true",))
    assert beside.wait(60) == 0
    beside.close()
    script = "#!/bin/sh\nexec sleep 60\n"
    held = slurm.hand_in(script, "wharfinger: {target: {completionTime: 20m}}")
    trial.wait_for(ev.WorkloadOffered)
    offered = trial.action("user", trial.programs.lasting("user"))
    trial.perform(replace(offered, handle=f"job {held}"))
    trial.wait_for(ev.WorkloadStarted, "user")
    with pytest.raises(InvalidInput, match=f"srun --jobid={held} --overlap"):
        trial.engine.execute("user", ("true",))
