"""The local engine between two supervisors, and between a stop and what comes after it."""

from pathlib import Path
from unittest.mock import patch

from tests.support.supervised import until
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.local import LocalEngine
from wharfinger.errors import EngineFault
from wharfinger.host.cgroups import Group
from wharfinger.host.run_dir import read_run
from wharfinger.host.supervisor import LaunchSpec, Supervisor, launch
from wharfinger.testing import EngineHarness, ShellPrograms


def _harness(directory: Path) -> EngineHarness:
    return EngineHarness(directory, LocalEngine, ShellPrograms(directory))


def _children() -> set[str]:
    return set(Path("/proc/thread-self/children").read_text().split())


def test_a_stop_reaches_the_supervisor_that_came_first(tmp_path: Path) -> None:
    """One of a dead engine had the claim when ours was asked to stop."""
    harness = _harness(tmp_path)

    def launch_second(run_dir: Path, spec: LaunchSpec) -> Supervisor:
        first = launch(run_dir, spec)
        until(lambda: read_run(run_dir).started, "start by the first supervisor")
        first.close()
        return launch(run_dir, spec)

    with harness.trial() as trial:
        start = trial.action("k", harness.programs.lasting("k"))
        with patch("wharfinger.engines.supervised.machine.launch", launch_second):
            trial.perform(start, act.StopWorkload("k", 5.0))
        assert trial.wait_for(ev.WorkloadFinished, "k").reason == "stopped"
        trial.expect_started_once("k")


def test_what_is_forgotten_before_it_began_leaves_nothing(tmp_path: Path) -> None:
    """No process that nobody reaps, no directory in which a late supervisor finds no claim."""
    harness = _harness(tmp_path)
    keys = [f"k{number}" for number in range(10)]
    children = _children()
    with harness.trial() as trial:
        for key in keys:
            trial.perform(
                trial.action(key, harness.programs.lasting(key)),
                act.StopWorkload(key, 0.0),
                act.ForgetWorkload(key),
            )
        for key in keys:
            trial.wait_for_end(key)
            trial.perform(act.ForgetWorkload(key))
        trial.wait_until(lambda: not list(harness.state.iterdir()), "empty state")
        # Of those from before some may have been reaped.
        trial.wait_until(lambda: _children() <= children, "no child that nobody reaps")


def test_a_group_that_cannot_be_read_hurts_nobody(tmp_path: Path) -> None:
    harness = _harness(tmp_path)
    fault = EngineFault("cannot list it: ENAMETOOLONG")
    with (
        harness.trial() as trial,
        patch.object(Group, "usage", side_effect=fault),
        patch.object(Group, "out_of_memory_kills", side_effect=fault),
    ):
        trial.start("lasts")
        trial.wait_for(ev.WorkloadStarted, "lasts")
        assert trial.engine.usage()["lasts"].processes == 1
        trial.start("ends", harness.programs.exiting("ends", 3))
        assert trial.wait_for(ev.WorkloadFinished, "ends").exit_code == 3
