"""Paragon on real programs: who goes beside whom, and that its log is decided again so.

Order of effect only. The bottleneck is a disk of our own, whose rate does not depend on what else
this machine does.
"""

import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.disk import MEBIBYTE, SlowDisk, slow_disk
from tests.support.live import LiveManager, expect_no_processes_with, manifest

pytestmark = [pytest.mark.alone, pytest.mark.slow, pytest.mark.root]

LINES = {"progress": {"regex": "done=([0-9]+)"}}

SYNCING = """
import os, sys
size, each = int(sys.argv[2]), int(sys.argv[3])
descriptor, done = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600), 0
while True:
    os.pwrite(descriptor, b"x" * size, done % 64 * size)
    os.fsync(descriptor)
    done += 1
    if done % each == 0:
        print(f"done={done}", flush=True)
"""
COUNTING = """
import time
done = 0
while True:
    for _ in range(2000):
        done += 1
    time.sleep(0.05)
    print(f"done={done}", flush=True)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SlowDisk]:
    with slow_disk(tmp_path, 16 * MEBIBYTE, 256 * MEBIBYTE) as made:
        yield made
    expect_no_processes_with(str(tmp_path))


def batch(
    name: str, folder: Path, script: str, *arguments: str, cpu: str, seconds: int = 2
) -> dict[str, Any]:
    """A program that works on for ever, and says how far it is; profiled for so long."""
    command = (sys.executable, "-c", script, *arguments)
    made = manifest(
        name,
        *command,
        target={"rate": "1/s"},
        measure=LINES,
        profile={"seconds": seconds},
        resources={"cpu": cpu, "memory": "64Mi"},
    )
    made["spec"]["run"]["workingDir"] = str(folder)
    return made


def placed(manager: LiveManager, workload: dict[str, Any]) -> str:
    """Submit it, and wait until it runs; its server."""
    manager.submit(workload)
    name = workload["metadata"]["name"]
    found = manager.wait_for(lambda found: found[name]["phase"] == "running")
    (server,) = found[name]["servers"]
    return str(server)


def score(manager: LiveManager, name: str, kind: str) -> float:
    """How much interference on the disk it tolerates, or causes; NaN where none was measured."""
    found = json.loads(manager.run("describe", "workload", name, "-o", "json"))
    known = {each["name"]: each for each in found["classification"]["interference"]}
    if not known["storage-bandwidth"][f"{kind}_measured"]:
        print(f"{name}: {kind} was not measured: {found['classification']['silent']}")
        return math.nan
    value: float = known["storage-bandwidth"][kind]
    return value


ATTEMPTS = 3
"""What a copy of a few seconds measures of a shared disk is off now and then."""


def test_what_wants_the_same_disk_is_kept_apart_and_what_does_not_is_packed(
    disk: SlowDisk, tmp_path: Path
) -> None:
    """It goes beside what leaves it little room, and not beside what has the same bottleneck."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("two servers with a CPU each need two CPUs")
    servers = f"one={cpus[0]},two={cpus[1]}"
    attempts = (share_a_disk(disk, servers, tmp_path / str(at)) for at in range(ATTEMPTS))
    measured = []
    for tolerated, caused, others_cause in attempts:
        measured.append((tolerated, caused, others_cause))
        if tolerated < caused > others_cause:
            return
    pytest.fail(f"tolerated, caused by the noisy one and by the other: {measured}")


def share_a_disk(disk: SlowDisk, servers: str, state: Path) -> tuple[float, float, float]:
    """What the sensitive one tolerates, and what the noisy and the large one cause.

    Where these are in order, the noisy one is where it should be.
    """
    policy = "paragon[placement.sources=2]"
    manager = LiveManager(state, "--policy", policy, "--servers", servers, prefix=disk.prefix)
    manager.start()
    try:
        # It takes all that the disk gives. The disk gives it in bursts: a number must cover some.
        small = ("sensitive", "65536", "100")
        sensitive = batch("sensitive", disk.folder, SYNCING, *small, cpu="200m", seconds=8)
        apart = placed(manager, sensitive)
        # It has room on the other server only, and leaves little there.
        full = placed(manager, batch("large", disk.folder, COUNTING, cpu="850m"))
        assert full != apart
        large = ("noisy", "262144", "10")
        noisy = placed(manager, batch("noisy", disk.folder, SYNCING, *large, cpu="75m", seconds=4))
        tolerated = score(manager, "sensitive", "tolerated")
        caused, others_cause = (score(manager, name, "caused") for name in ("noisy", "large"))
        if tolerated < caused > others_cause:
            # By room alone it would have gone beside the sensitive one.
            assert noisy == full, manager.run("explain", "noisy")
    finally:
        manager.clear()
    again = json.loads(manager.run("replay", str(state), "-o", "json"))
    assert again["same"], again["difference"]
    assert again["workloads"] == 3
    assert again["decisions"] >= 6
    return tolerated, caused, others_cause


# --- phases ----------------------------------------------------------------------------------

IN_PHASES = """
import hashlib, os, sys
done = 0
while True:
    rounds = 9000 if os.path.exists(sys.argv[1]) else 3000
    for _ in range(5):
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", rounds)
        done += 1
    print(f"done={done}", flush=True)
"""
WATCHFUL = (
    "paragon[phases.share=0,phases.level.level_settling_seconds=2,phases.level.warm_up=3,"
    "phases.level.noise=0.1]"
)

REPORTS = 12
"""After so many it has a level: those of four seconds that settle it, and as long again."""


@pytest.mark.long
def test_a_program_that_enters_another_phase_is_probed_and_classified_again(
    tmp_path: Path,
) -> None:
    """Its phase begins when the test says so; each step of its work takes three times as long."""
    switch = tmp_path / "switch"
    manager = LiveManager(
        tmp_path / "state",
        "--policy",
        WATCHFUL,
        "--servers",
        f"one={min(os.sched_getaffinity(0))}",
        hurry={"report_seconds": 0.5, "hastened_seconds": 0.25},
    )
    manager.start()
    try:
        program = manifest(
            "phased",
            *(sys.executable, "-c", IN_PHASES, str(switch)),
            target={"rate": "1/s"},
            measure=LINES,
            profile={"seconds": 5},
            resources={"cpu": "500m", "memory": "64Mi"},
        )
        manager.submit(program)
        manager.wait_for(lambda found: rate(found["phased"]) > 0)
        before, reported = predicted(manager), set[float]()

        def has_level(found: dict[str, dict[str, Any]]) -> bool:
            reported.add(rate(found["phased"]))
            return len(reported) > REPORTS

        manager.wait_for(has_level)
        switch.touch()
        manager.wait_for(lambda found: "another phase: " in manager.run("explain", "phased"))
        told = json.loads(manager.run("describe", "workload", "phased", "-o", "json"))
        assert not any("by that alone" in made["message"] for made in told["adjustments"])
        manager.wait_for(lambda found: predicted(manager) < 0.9 * before)
        assert manager.workloads()["phased"]["starts"] == 1
    finally:
        manager.clear()
    again = json.loads(manager.run("replay", str(manager.state), "-o", "json"))
    assert again["same"], again["difference"]


def rate(workload: dict[str, Any]) -> float:
    return (workload["achieved"] or {}).get("rate_per_second") or 0.0


def predicted(manager: LiveManager) -> float:
    """Its steps per second with its CPU, as it is classified."""
    found = json.loads(manager.run("describe", "workload", "phased", "-o", "json"))
    (curve,) = (each for each in found["classification"]["curves"] if "rate" in each["name"])
    (point,) = (each for each in curve["points"] if each["cpus"] == 0.5)
    value: float = point["mean"]
    return value
