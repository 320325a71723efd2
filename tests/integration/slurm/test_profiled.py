"""Profiling on the nodes of a real Slurm: known programs by platform, and what is placed by it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import LiveManager, manifest
from tests.support.slurm import slurm_cluster
from wharfinger.catalog.known_files import load_known
from wharfinger.classification.utility import Aspect
from wharfinger.demo.slurm.cluster import SlurmCluster
from wharfinger.demo.slurm.settings import MIB, NodeSet

# A tenth of a CPU starts a profiler in ten times the seconds; what is fast is told by the clock.
pytestmark = [pytest.mark.long, pytest.mark.alone]

NODES = (
    NodeSet("old", ("a1",), 4, 2048 * MIB, 100),
    NodeSet("middling", ("b1",), 2, 1024 * MIB, 100),
    NodeSet("new", ("c1",), 2, 1024 * MIB, 1000),
)
PLATFORMS = ("--platform-feature", "platform:*")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with slurm_cluster("jobcomp", nodes=NODES, settings={"SlurmdTimeout": "60"}) as made:
        yield made


@pytest.fixture(scope="module")
def known(cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``classify measure`` makes of a program on this cluster."""
    place = tmp_path_factory.mktemp("measured")
    shared, out = place / "shared", place / "known"
    shared.mkdir()
    words = ["classify", "measure", "--engine", "slurm", "--shared-dir", shared, *PLATFORMS]
    words += ["--only", "sha256sum", "--seconds", "0.5s", "--out", out]
    subprocess.run(
        [sys.executable, "-m", "wharfinger", *map(str, words)],
        env={**os.environ, **cluster.environment},
        check=True,
    )
    assert not list(shared.iterdir())
    return out


def test_known_programs_are_measured_on_every_platform(known: Path):
    made = load_known(known)
    assert [program.name for program in made.programs] == ["sha256sum"]
    across = made.matrices[Aspect.HETEROGENEITY]
    assert {f"{name}@1000m" for name in ("old", "middling", "new")} <= set(across.columns)
    for row in across.rows.values():
        assert row.entries["new@1000m"].value > 1.2 * row.entries["old@1000m"].value


WORK = "head -c 4000000 /dev/zero | cksum >/dev/null"


def rate_alone() -> float:
    """Rounds of the work in a second here: what a node without a quota does, and others a tenth."""
    rounds, best = 20, 0.0
    for _ in range(3):
        began = time.monotonic()
        loop = f"i=0; while [ $i -lt {rounds} ]; do {WORK}; i=$((i+1)); done"
        subprocess.run(["sh", "-c", loop], check=True)
        best = max(best, rounds / (time.monotonic() - began))
    return best


@pytest.mark.parametrize("best_effort", [False, True])
def test_a_program_is_placed_where_it_is_faster_after_profiling_elsewhere(
    best_effort: bool, cluster: SlurmCluster, known: Path, tmp_path: Path
):
    """Best-effort work has no target, and is run on two platforms all the same."""
    shared = tmp_path / "shared"
    shared.mkdir()
    options = ("--engine", "slurm", "--shared-dir", str(shared), *PLATFORMS, "--known", str(known))
    manager = LiveManager(tmp_path / "state", *options, env=cluster.environment)
    stated: dict[str, Any] = {"resources": {"cpu": 1, "memory": "64Mi"}, "type": "best-effort"}
    if not best_effort:
        rate = f"{0.4 * rate_alone():.3g}/s"
        stated = {"resources": {"memory": "64Mi"}, "target": {"rate": rate}}
    manager.start()
    try:
        manager.submit(
            manifest(
                "sums",
                *("sh", "-c", f"i=0; while {WORK}; do i=$((i+1)); echo done=$i; done"),
                measure={"progress": {"regex": r"done=(\d+)"}},
                **stated,
            )
        )
        running = manager.wait_for(lambda found: found["sums"]["phase"] == "running", 400)
        told, described = (
            manager.run("explain", "sums", "-o", "wide"),
            manager.run("describe", "sums"),
        )
        assert running["sums"]["servers"] == ["c1"], told
        assert "a copy runs for" in told
        assert " on a1 with " in told
        assert "on new: " in described
    finally:
        manager.clear()
    assert not list(shared.glob("profiles-*"))
