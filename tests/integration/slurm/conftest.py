from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live import LiveManager
from tests.support.slurm import slurm_cluster
from wharfinger.demo.slurm.cluster import SlurmCluster

HERE = Path(__file__).parent
ORDINARY = ("test_engine.py", "test_kill_loop.py")
"""Files that say themselves which of their tests are long: what every engine is held to."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file has a cluster of its own, which takes its time to begin and to end."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.path.name not in ORDINARY:
            item.add_marker("long")


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """One for all tests of a file: a test leaves it with its nodes idle and its daemons up.

    A node is lost when its daemon is silent for ``SLURMD_TIMEOUT`` seconds, of the file: short
    where a test waits for that; elsewhere a busy machine shall lose none.
    """
    seconds = getattr(request.module, "SLURMD_TIMEOUT", 60)
    with slurm_cluster("jobcomp", settings={"SlurmdTimeout": str(seconds)}) as made:
        yield made


@pytest.fixture
def manager(cluster: SlurmCluster, tmp_path: Path) -> Iterator[LiveManager]:
    """A manager that is up; afterwards nothing runs or waits on the cluster."""
    shared = tmp_path / "shared"
    shared.mkdir()
    options = ("--engine", "slurm", "--shared-dir", str(shared))
    options += ("--platform-feature", "platform:*", "--policy", "least-loaded")
    manager = LiveManager(tmp_path / "state", *options, env=cluster.environment)
    manager.start()
    try:
        yield manager
    finally:
        manager.clear()
        for job_id, state in cluster.job_states().items():
            if state in {"RUNNING", "PENDING"}:
                cluster.run("scancel", job_id)
        cluster.wait_until(
            lambda: not {"RUNNING", "PENDING"} & set(cluster.job_states().values()), "all ended"
        )
