"""One server more above 70% load, one less where the others would stay below 50%."""

from dataclasses import replace

import pytest

from tests.support.cluster import workload
from tests.support.views import seen
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Place, ReasonCode, Refuse
from wharfinger.model.view import Capabilities, Request, Resize, View
from wharfinger.model.workload import Scale, Workload, WorkloadType
from wharfinger.policies.placement.autoscale import IN, MOST_SERVERS, OUT, Autoscale

ABLE = Capabilities(max_servers_per_workload=64)


def service(most: int = 64, **others) -> Workload:
    served = replace(workload("web"), type=WorkloadType.LATENCY_CRITICAL, scale=Scale(most))
    return replace(served, **others)


def on(*names: str) -> tuple[Placement, ...]:
    """What the reservation of ``workload`` is, on these."""
    return tuple(Placement(name, Allocation(1000, 256 * 2**20)) for name in names)


def view_of(servers: int = 4, **others) -> View:
    return seen(*[2] * servers, **{"able": ABLE, **others})


def resized(
    load: float | None,
    held: tuple[Placement, ...],
    view: View | None = None,
    asked: Workload | None = None,
) -> Place | Refuse | None:
    request = Request(asked or service(), load=load)
    return Autoscale().resize(request, held, view or view_of())


def test_over_seventy_per_cent_the_least_loaded_other_server_is_added() -> None:
    view = view_of(used={"s0": 0, "s1": 900, "s2": 500, "s3": 900})
    assert resized(OUT, on("s0"), view) is None
    answer = resized(0.71, on("s0"), view)
    assert isinstance(answer, Place)
    assert answer.placements == on("s0", "s2")
    assert answer.decision.message == "load 71% is over 70%: s2 makes 2 servers"
    assert answer.decision.candidates[0].server == "s2"
    assert "s0" not in {candidate.server for candidate in answer.decision.candidates}


def test_the_newest_is_left_where_the_others_can_bear_it() -> None:
    assert resized(0.3334, on("s0", "s1", "s2")) is None
    answer = resized(0.3333, on("s0", "s1", "s2"))
    assert isinstance(answer, Place)
    assert answer.placements == on("s0", "s1")
    assert resized(0.0, on("s0")) is None, "one is always left"


@pytest.mark.parametrize("demand", [0.2, 0.5, 0.69, 0.71, 1.0, 1.9, 2.5, 3.3, 4.6, 5.5])
@pytest.mark.parametrize("begins_on", [1, MOST_SERVERS])
def test_a_steady_demand_comes_to_rest(demand: float, begins_on: int) -> None:
    """In CPUs; with a load of at most 70%, and not on more servers than the gap to 50% allows."""
    view = view_of(MOST_SERVERS)
    held = on(*view.names[:begins_on])
    for _ in range(MOST_SERVERS):
        answer = resized(min(1.0, demand / len(held)), held, view)
        if answer is None:
            break
        assert isinstance(answer, Place)
        assert abs(len(answer.placements) - len(held)) == 1
        held = answer.placements
    assert answer is None
    assert demand / len(held) <= OUT
    assert len(held) == 1 or demand / (len(held) - 1) >= IN


def test_never_on_more_than_eight_nor_than_user_and_engine_allow() -> None:
    wide = view_of(12)
    assert resized(1.0, on(*wide.names[:8]), wide) is None
    assert isinstance(resized(1.0, on(*wide.names[:7]), wide), Place)
    assert resized(1.0, on("s0", "s1"), asked=service(2)) is None
    two = view_of(able=Capabilities(max_servers_per_workload=2))
    assert resized(1.0, on("s0", "s1"), two) is None
    assert resized(1.0, on("s0"), view_of(able=Capabilities())) is None
    unable = view_of(able=replace(ABLE, resize=Resize.NONE))
    assert resized(1.0, on("s0"), unable) is resized(0.0, on("s0", "s1"), unable) is None


def test_a_user_who_allows_fewer_now_gets_fewer_whatever_the_load() -> None:
    answer = resized(0.9, on("s0", "s1", "s2"), asked=service(2))
    assert isinstance(answer, Place)
    assert answer.placements == on("s0", "s1")


def test_where_no_other_server_has_room_it_says_so() -> None:
    full = {"s1": 1500, "s2": 2000, "s3": 1001}
    answer = resized(0.9, on("s0"), view_of(used=full))
    assert isinstance(answer, Refuse)
    assert answer.decision.reason is ReasonCode.NO_ROOM
    assert answer.decision.would_change == "1 CPU and 256Mi free on another server"


@pytest.mark.parametrize("kind", sorted(set(WorkloadType) - {WorkloadType.LATENCY_CRITICAL}))
def test_only_services_are_scaled(kind: WorkloadType) -> None:
    assert resized(1.0, on("s0"), asked=service(type=kind)) is None


def test_a_changed_reservation_is_given_on_every_server() -> None:
    changed = service(reservation=replace(service().reservation, cpu_millicpus=1500))
    answer = resized(None, on("s0", "s1"), asked=changed)
    assert isinstance(answer, Place)
    assert [p.allocation.cpu_millicpus for p in answer.placements] == [1500, 1500]
