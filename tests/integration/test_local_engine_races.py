"""The local engine between two supervisors, and between a stop and what comes after it."""

from pathlib import Path
from unittest.mock import patch

from tests.support.supervised import until
from wharfinger.engines.local import LocalEngine
from wharfinger.host.supervisor import LaunchSpec, Supervisor, launch, read_run
from wharfinger.manager import actions as act
from wharfinger.manager import events as ev
from wharfinger.testing import EngineHarness, ShellPrograms


def _harness(directory: Path) -> EngineHarness:
    return EngineHarness(directory, LocalEngine, ShellPrograms(directory))


def test_a_stop_reaches_the_supervisor_that_came_first(tmp_path: Path) -> None:
    """One of a dead engine had the claim when ours was asked to stop."""
    harness = _harness(tmp_path)

    def launch_second(run_dir: Path, spec: LaunchSpec) -> Supervisor:
        first = launch(run_dir, spec)
        until(lambda: read_run(run_dir).started, "start by the first supervisor")
        first.close()
        return launch(run_dir, spec)

    with harness.session() as session:
        start = harness.start(session, "k", harness.programs.lasting("k"))
        with patch("wharfinger.engines.local.engine.launch", launch_second):
            session.perform(start, act.StopWorkload("k", 5.0))
        assert session.wait_for(ev.WorkloadFinished, "k").reason == "stopped"
        harness.expect_started_once(session, "k")
