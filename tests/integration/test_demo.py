"""``wharfinger demo``, shortened: it runs to its end, and leaves nothing wherever it is stopped."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import expect_no_processes_with
from tests.support.slurm import needs_slurm


def demo(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "wharfinger", "demo", *options],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs the tests in the background hands down an ignored interrupt.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - no threads here
    )


@pytest.mark.long
@pytest.mark.alone
def test_it_runs_to_its_end_and_its_log_is_decided_again_as_it_was(tmp_path: Path) -> None:
    process = demo(tmp_path, "--seconds", "15", "--keep", "-o", "json")
    output, errors = process.communicate(timeout=600)
    assert process.returncode in (0, 3), errors
    found = json.loads(output)
    for run, policy in ((found, "quasar"), (found["baseline"], "least-loaded")):
        assert run["policy"] == policy
        assert 0 < run["targeted_utilization"] <= run["utilization"]
        kinds = [workload["type"] for workload in run["workloads"]]
        assert [kinds.count(k) for k in ("latency-critical", "batch", "best-effort")] == [2, 3, 3]
        mets = [w["met"] for w in run["workloads"] if w["target"] is not None]
        assert all(isinstance(met, bool) for met in mets)
        assert len(mets) == 5
    assert (process.returncode == 0) == (found["targets_met"] >= 4)
    kept = next(path for path in tmp_path.iterdir() if path.is_dir())
    assert [path.name for path in tmp_path.iterdir() if path != kept] == found["files"]
    state = kept / "state"
    os.kill(int((state / "lock").read_text()), signal.SIGTERM)
    _wait_until_free(state)
    again = replay(state, "--known", str(kept / "known"))
    assert again["difference"] is None
    assert again["same"]
    assert again["workloads"] == 8
    assert again["decisions"] > 8


def replay(state: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "wharfinger", "replay", str(state), *options, "-o", "json"]
    found: dict[str, Any] = json.loads(
        subprocess.run(command, check=False, capture_output=True).stdout
    )
    return found


def _wait_until_free(state: Path) -> None:
    """Until the manager is gone, and with it its lock."""
    with (state / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


@pytest.mark.long
@pytest.mark.alone
def test_it_runs_on_a_slurm_cluster_of_its_own(tmp_path: Path) -> None:
    needs_slurm()
    # On a busy machine 30 s are not enough: profiling before the services may take all of them.
    process = demo(tmp_path, "--engine", "slurm", "--seconds", "60", "-o", "json")
    output, errors = process.communicate(timeout=900)
    assert process.returncode in (0, 3), errors
    found = json.loads(output)
    assert [found["policy"], found["baseline"]["policy"]] == ["quasar", "slurm-backfill"]
    for run in (found, found["baseline"]):
        assert run["servers"] == 6
        assert len({server for each in run["workloads"] for server in each["servers"]}) >= 3
        services = [each for each in run["workloads"] if each["name"] in ("web", "cache")]
        assert any(each["held_share"] is not None for each in services), run["workloads"]
    assert [path.name for path in tmp_path.iterdir()] == found["files"]
    expect_no_processes_with(str(tmp_path))


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("step", ["[1/5]", "[3/5]"])
def test_an_interrupt_ends_everything(tmp_path: Path, step: str) -> None:
    process = demo(tmp_path, "--seconds", "15", "--policy", "feedback")
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(step):
            process.stderr.readline()
            break
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=180)
    assert (process.returncode, output) == (130, "")
    assert list(tmp_path.iterdir()) == []
    expect_no_processes_with(str(tmp_path))


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--policy", "best"), "'best' is not a policy"), (("--seconds", "3"), "too short")],
)
def test_a_wrong_call_is_refused_before_anything_starts(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    process = demo(tmp_path, *options)
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 2
    assert said in errors
    assert len(errors.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
