"""The test cluster of ``wharfinger.demo.slurm``, or a skip that names how to get it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.live import manifest
from wharfinger.demo.slurm.cluster import SlurmCluster, missing_slurm
from wharfinger.demo.slurm.settings import AccountingKind


def needs_slurm(accounting: AccountingKind = "none") -> None:
    """Skip the test, by the command that installs it, where Slurm is not there."""
    command = missing_slurm(accounting)
    if command:
        pytest.skip(f"Slurm is not installed; install it by: {command}")


@contextmanager
def slurm_cluster(accounting: AccountingKind = "none", **options: Any) -> Iterator[SlurmCluster]:
    """A cluster that is up; afterwards nothing of it is left."""
    needs_slurm(accounting)
    with SlurmCluster(accounting=accounting, **options) as cluster:
        yield cluster


def slurm_batch(name: str, script: str, **spec: Any) -> dict[str, Any]:
    """A script that takes one CPU of a node, and is not profiled."""
    resources = {"cpu": 1, "memory": "64Mi"}
    return manifest(name, "sh", "-c", script, resources=resources, profile={"mode": "none"}, **spec)
