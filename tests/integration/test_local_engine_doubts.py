"""The local engine where it must not believe, and where it must not say what is not certain."""

import os
import select
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from tests.support import wait_until
from tests.support.local import finished, is_gone, session, start, started
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.supervised.records import EndRecord, StartRecord, create_run, save_end
from wharfinger.errors import OutOfSpace
from wharfinger.host.run_dir import read_run
from wharfinger.host.supervisor import LaunchSpec, launch
from wharfinger.model.allocation import Placement

EXIT = (
    "how exited 0\nstop_requested 0\ncpu_seconds 0.0\nstarted_at_seconds 10.0\n"
    "ended_at_seconds 12.0\noutput_bytes 0\ndropped_bytes 0\nunkilled_processes 0\nend\n"
)
NO_ROOM = OutOfSpace("cannot write the claim: No space left on device")


def test_what_says_that_it_ended_and_runs_is_not_believed(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "k"
    with session(tmp_path) as cluster:
        pid = started(cluster, start(cluster, "k", "sleep 300"))
        save_end(folder, EndRecord(None, ev.WorkloadFinished("k", 0, None, "exited")))
        (folder / "exit").write_text(EXIT)
        cluster.reopen()
        cluster.wait_for(ev.WorkloadStarted, "k")
        assert "k" in cluster.engine.usage()
        assert not is_gone(pid)
        cluster.perform(act.StopWorkload("k", 5.0))
        assert finished(cluster, "k").reason == "stopped"
        assert is_gone(pid)
        cluster.reopen()
        assert finished(cluster, "k").reason == "stopped"


def test_without_room_for_the_claim_no_start_is_called_failed(tmp_path: Path) -> None:
    with session(tmp_path) as cluster:
        actions = {key: start(cluster, key, "exit 0") for key in ("comes", "stays-away")}
        with patch("wharfinger.engines.supervised.run.cancel", side_effect=NO_ROOM):
            for key, action in actions.items():
                place = Placement("nowhere", action.placements[0].allocation)
                create_run(tmp_path / "state", key, StartRecord(place))
                cluster.perform(replace(action, placements=(place,)))
            cluster.take_in(0.1)
            assert not [r for r in cluster.reports if isinstance(r, ev.StartFailed)]
            env = {"PATH": os.environ["PATH"], "WHARFINGER_KEY": "comes"}
            run_dir = tmp_path / "state" / "comes"
            late = launch(run_dir, LaunchSpec(("sh", "-c", "exit 6"), env, Path("/")))
            wait_until(lambda: read_run(run_dir).exit, what="the late supervisor's run")
            late.close()
        assert cluster.wait_for(ev.StartFailed, "stays-away").retryable
        assert finished(cluster, "comes").exit_code == 6
        assert not any(isinstance(report, ev.StartFailed) for report in cluster.about("comes"))


def test_a_run_directory_that_was_moved_away_stops_nobody_from_stopping(tmp_path: Path) -> None:
    folder, moved, gate = tmp_path / "state" / "k", tmp_path / "moved", tmp_path / "gate"
    with session(tmp_path) as cluster:
        script = f"until [ -e {gate} ]; do sleep 0.01; done; mv {folder} {moved}; exec sleep 300"
        pid = started(cluster, start(cluster, "k", script, grace_seconds=1.0))
        gate.touch()
        wait_until(moved.exists, what="the directory is away")
        assert cluster.engine.read_log("k").data == b""
        cluster.perform(act.StopWorkload("k", 1.0))
        assert isinstance(cluster.wait_for_end("k"), ev.WorkloadVanished)
        assert is_gone(pid)
        assert cluster.engine.read_log("k", 5).ended
        cluster.take_in()
        assert not select.select([cluster.engine], [], [], 0.1)[0]
        cluster.perform(act.ForgetWorkload("k"))
        cluster.reopen()
        assert not cluster.wait_for(ev.EngineSynced).known_keys
