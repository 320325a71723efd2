"""``wharfinger contention collect``: real programs on one CPU, killed on its way and taken up."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.live import expect_no_processes_with
from wharfinger.files.contention_sets import read_measurements

EXAMPLE = Path(__file__).parents[2] / "examples/contention.yaml"
PATIENCE_SECONDS = 240.0
ATTEMPTS = 8
"""On a machine that does other things as well, a second may be a bad one."""
FAILING = """
---
apiVersion: wharfinger.dev/v1alpha1
kind: Workload
metadata: {name: failing}
spec:
  type: batch
  run: {command: [sh, -c, "echo no room left >&2; exit 3"]}
"""


def command(plan: Path, out: Path, *options: str) -> list[str]:
    cpu = str(min(os.sched_getaffinity(0)))
    words = [sys.executable, "-m", "wharfinger", "contention", "collect", str(plan)]
    words += ["--out", str(out), "--cpus", cpu, "--batch-cpus", cpu, "--seconds", "0.6s"]
    return [*words, "--qos", "10%", *options]


def rows_of(out: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(out.read_text().splitlines())) if out.exists() else []


def collect(plan: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(plan, out, *options),
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def plan_in(tmp_path: Path, more: str = "") -> Path:
    """The example, whose programs can be told from others'."""
    plan = tmp_path / "plan.yaml"
    text = EXAMPLE.read_text().replace("done = 0", f"done = 0  # {tmp_path}")
    plan.write_text(
        text.replace("while :; do :; done", f": {tmp_path}; while :; do :; done") + more
    )
    return plan


@pytest.mark.long
def test_one_that_is_killed_leaves_nothing_and_goes_on_where_it_was(tmp_path: Path) -> None:
    plan, out = plan_in(tmp_path), tmp_path / "m.csv"
    with subprocess.Popen(command(plan, out, "--bubbles", "64Ki"), stdout=subprocess.PIPE) as one:
        until = time.monotonic() + PATIENCE_SECONDS
        while len(rows_of(out)) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        one.send_signal(signal.SIGKILL)
    before = rows_of(out)
    assert [row["batch"] for row in before[:2]] == ["bubble:64Ki", "busy"]
    expect_no_processes_with(str(tmp_path))
    done = collect(plan, out, "--bubbles", "64Ki", "--sets", "4", "-o", "json")
    assert done.returncode == 0, done.stderr
    (service,) = json.loads(done.stdout)["services"]
    assert (service["ls"], service["known"], service["measured"]) == ("sums", len(before), 4)
    rows = rows_of(out)
    assert rows[: len(before)] == before
    assert len({row["batch"] for row in rows}) == len(rows) == len(before) + 4
    assert {"busy", "pack", "sleepy"} <= {row["batch"] for row in rows}
    (measured,) = read_measurements(out).services
    assert measured.setting.service == "sums"
    for row in rows:
        assert float(row["error"]) > 0
        assert float(row["seconds"]) > 1.0


@pytest.mark.slow
def test_a_busy_neighbor_on_the_same_cpu_takes_more_than_one_that_sleeps(tmp_path: Path) -> None:
    for attempt in range(ATTEMPTS):
        out = tmp_path / f"{attempt}.csv"
        done = collect(plan_in(tmp_path, FAILING), out, "--degree", "1")
        assert done.returncode == 1
        assert "sums beside failing: failing ended with 3: no room left" in done.stdout
        kept = {row["batch"]: float(row["performance"]) for row in rows_of(out)}
        assert kept.keys() == {"busy", "pack", "sleepy"}
        if kept["busy"] < 0.8 < kept["sleepy"]:
            return  # The machine may have been busy itself.
    pytest.fail(f"{kept}")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--cpus", "4095"], "--cpus: 4095 may not be used here"),
        (["--bubbles", "8"], "--bubbles: '8' is 8 bytes; write at least 4Ki"),
        (["--out", "missing/m.csv"], "there is no directory"),
        (["--degree", "9"], "--degree"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, options: list[str], words: str) -> None:
    given = [str(EXAMPLE), "--out", str(tmp_path / "m.csv"), *options]
    done = subprocess.run(
        [sys.executable, "-m", "wharfinger", "contention", "collect", *given],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []
