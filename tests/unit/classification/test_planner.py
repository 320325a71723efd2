"""Who is copied, where, and at which allocations."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.cluster import Cluster, server, workload
from wharfinger.classification.planner import LEAST_MILLICPUS, JointPlanner
from wharfinger.manager import events as ev
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.view import Capabilities, ClusterView
from wharfinger.model.workload import Measure, Profile, ProfileMode, Target, WorkloadType

COLUMNS = (100, 250, 500, 750, 1000, 2000)
_LOGS = np.log(COLUMNS)
COVARIANCE = 4 + np.exp(-np.abs(_LOGS[:, None] - _LOGS))
PLANNER = JointPlanner(COLUMNS, COVARIANCE)
TARGETED = replace(workload("w"), target=Target(rate_per_second=1.0))
ABLE = Capabilities(profiles=True)


def view(*cpus: int, able: Capabilities = ABLE) -> ClusterView:
    cluster = Cluster()
    for number, cpu in enumerate(cpus):
        made = server(f"s{number}")
        cluster.tell(ev.ServerReported(replace(made, cpu_millicpus=cpu)))
    return replace(cluster.manager.view, capabilities=able)


def test_two_allocations_on_the_server_with_the_most_room_the_larger_first() -> None:
    found = PLANNER.plan(TARGETED, view(500, 1000))
    assert found is not None
    assert found.plan is not None
    assert found.plan.server == "s1"
    first, second = found.plan.cpu_millicpus
    assert first == 500, "the sources have the other half"
    assert LEAST_MILLICPUS <= second < first
    assert found.plan.seconds == TARGETED.profile.seconds
    assert len(found.plan.sources) == 2
    assert found.decision.accepted


@pytest.mark.parametrize(
    ("cpus", "allocations"), [((300,), (250, 100)), ((250,), (250, 100)), ((600,), (500, 250))]
)
def test_with_little_room_smaller_allocations_are_measured(cpus, allocations) -> None:
    found = PLANNER.plan(TARGETED, view(*cpus))
    assert found is not None
    assert found.plan is not None
    assert found.plan.cpu_millicpus == allocations


@pytest.mark.parametrize("cpus", [(), (200,)])
def test_without_room_it_waits(cpus) -> None:
    found = PLANNER.plan(TARGETED, view(*cpus))
    assert found is not None
    assert found.plan is None
    assert not found.decision.accepted
    assert found.decision.reason is (ReasonCode.NO_ROOM if cpus else ReasonCode.NO_SERVERS)
    assert found.decision.would_change


def test_one_copy_a_server() -> None:
    seen = view(1000, 500)
    busy = replace(seen, copies=np.array([1, 0]))
    found = PLANNER.plan(TARGETED, busy)
    assert found is not None
    assert found.plan is not None
    assert found.plan.server == "s1"
    full = PLANNER.plan(TARGETED, replace(seen, copies=np.array([1, 1])))
    assert full is not None
    assert not full.decision.accepted


def test_whole_cpus_only_where_there_are_no_others() -> None:
    able = Capabilities(profiles=True, fractional_cpu=False)
    for cpus, allocations in (((2000,), (2000, 1000)), ((1000,), (1000,))):
        found = PLANNER.plan(TARGETED, view(*cpus, able=able))
        assert found is not None
        assert found.plan is not None
        assert found.plan.cpu_millicpus == allocations


SERVICE = replace(TARGETED, type=WorkloadType.LATENCY_CRITICAL)
LOADED = replace(SERVICE, measure=Measure(load_command=("wrk",)))


@pytest.mark.parametrize(
    ("what", "able", "copied"),
    [
        (TARGETED, ABLE, True),
        (LOADED, ABLE, True),
        (SERVICE, ABLE, False),
        (replace(TARGETED, type=WorkloadType.BEST_EFFORT), ABLE, False),
        (replace(TARGETED, target=None), ABLE, False),
        (replace(TARGETED, profile=Profile(ProfileMode.LIVE)), ABLE, False),
        (replace(TARGETED, profile=Profile(ProfileMode.NONE)), ABLE, False),
        (TARGETED, Capabilities(profiles=False), False),
    ],
)
def test_who_is_not_copied_goes_by_its_like(what, able, copied) -> None:
    found = PLANNER.plan(what, view(1000, able=able))
    assert found is not None
    assert found.decision.accepted
    assert (found.plan is not None) == copied
