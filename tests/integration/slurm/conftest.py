from collections.abc import Iterator

import pytest

from tests.support.slurm import slurm_cluster
from wharfinger.demo.slurm.cluster import SlurmCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    """One for all tests of a file: a test leaves it with its nodes idle and its daemons up."""
    with slurm_cluster("jobcomp", settings={"SlurmdTimeout": "5"}) as made:
        yield made
