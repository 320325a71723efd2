"""What a request is given by a policy that does not size by target."""

from dataclasses import replace

import pytest

from tests.support.cluster import workload
from wharfinger.model.view import Capabilities, Request
from wharfinger.model.workload import WorkloadType


@pytest.mark.parametrize(
    ("best_effort", "able", "cpu"),
    [
        (False, Capabilities(), 250),
        (False, Capabilities(fractional_cpu=False), 1000),
        (True, Capabilities(), 0),
        (True, Capabilities(fractional_cpu=False), 0),
        (True, Capabilities(fractional_cpu=False, shares_cpus=False), 1000),
    ],
)
def test_best_effort_work_has_cpus_of_its_own_where_it_can_share_none(
    best_effort: bool, able: Capabilities, cpu: int
) -> None:
    wanted = workload("w", 250)
    if best_effort:
        wanted = replace(wanted, type=WorkloadType.BEST_EFFORT)
    given = Request(wanted).reserved(able)
    assert (given.cpu_millicpus, given.best_effort) == (cpu, best_effort)
