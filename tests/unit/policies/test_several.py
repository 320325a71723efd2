"""Several servers for one workload, beside numbers worked by hand."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cluster import MIB, workload
from tests.support.views import seen
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Place, ReasonCode, Refuse
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Classification, Curve, Estimate
from wharfinger.model.view import Capabilities, OffTarget, Request, Resize, View
from wharfinger.model.workload import LatencyBound, OnMiss, Scale, Spread, Target, WorkloadType
from wharfinger.policies.placement.quasar import Quasar, QuasarSettings
from wharfinger.policies.placement.several import scale_out
from wharfinger.policies.placement.sizing import SizingSettings

ABLE = Capabilities(max_servers_per_workload=8)
QUASAR = Quasar(QuasarSettings(sizing=SizingSettings(idle_confidence=0.0)))
LINEAR = {1: Estimate(1.0, 0.0), 2: Estimate(2.0, 0.0), 4: Estimate(4.0, 0.0)}


def known(servers: Mapping[int, Estimate] = LINEAR, std: float = 0.02) -> Classification:
    """100 a second and CPU on one server."""
    columns = (500, 1000, 2000, 4000)
    curve = Curve(columns, tuple(Estimate(cpu / 10, std) for cpu in columns))
    return Classification("hand", "1", {Quantity.RATE: curve}, servers=servers)


def asks(
    rate: float,
    *,
    servers: Mapping[int, Estimate] = LINEAR,
    most: int = 4,
    std: float = 0.02,
    gang: bool = False,
    spread: Spread | None = None,
    **others,
) -> Request:
    stated = replace(
        workload("w"),
        target=Target(rate_per_second=rate),
        tolerance=0.0,
        scale=Scale(max_servers=most, gang=gang, spread=spread),
        type=WorkloadType.BATCH,
        **others,
    )
    return Request(stated, classification=known(servers, std))


def placed(request: Request, view: View) -> dict[str, int]:
    verdict = QUASAR.place(request, view)
    assert isinstance(verdict, Place)
    return {p.server: p.allocation.cpu_millicpus for p in verdict.placements}


def on(*cpus: int) -> tuple[Placement, ...]:
    return tuple(Placement(f"s{at}", Allocation(cpu, 256 * MIB)) for at, cpu in enumerate(cpus))


def test_one_server_where_one_will_do() -> None:
    assert list(placed(asks(300.0), seen(4, 4, 4, able=ABLE))) == ["s0"]


def test_the_fewest_servers_that_reach_the_target_each_with_no_more_than_it_takes() -> None:
    view = seen(4, 4, 4, 4, able=ABLE)
    taken = placed(asks(700.0), view)
    assert len(taken) == 2
    assert 7000 <= sum(taken.values()) <= 7500
    assert len(placed(asks(1100.0), view)) == 3


def test_two_servers_where_that_takes_clearly_less_cpu_than_one() -> None:
    flat = Curve((500, 1000, 2000, 4000), tuple(Estimate(v, 0.02) for v in (60, 100, 130, 160)))
    bends = Classification("hand", "1", {Quantity.RATE: flat}, servers=LINEAR)
    request = replace(asks(140.0), classification=bends)
    taken = placed(request, seen(4, 4, 4, able=ABLE))
    assert len(taken) == 2
    assert sum(taken.values()) <= 2000, "one would take more than 2.5 CPU"
    verdict = QUASAR.place(request, seen(4, 4, 4, able=ABLE))
    assert isinstance(verdict, Place)
    assert "one server alone takes" in verdict.decision.message
    half = {1: Estimate(1.0, 0.0), 2: Estimate(1.3, 0.0), 4: Estimate(1.6, 0.0)}
    costly = replace(request, classification=replace(bends, servers=half))
    assert len(placed(costly, seen(4, 4, 4, able=ABLE))) == 1, "two bring too little"
    assert len(placed(asks(350.0), seen(4, 4, 4, able=ABLE))) == 1, "two would take as much"


def test_more_are_taken_where_more_servers_bring_less() -> None:
    view = seen(4, 4, 4, 4, able=ABLE)
    half = {1: Estimate(1.0, 0.0), 2: Estimate(1.5, 0.0), 4: Estimate(2.5, 0.0)}
    assert len(placed(asks(700.0, servers=half), view)) == 3


def test_no_more_servers_than_its_user_and_the_engine_allow() -> None:
    request = asks(700.0)
    assert len(placed(request, seen(4, 4, 4, able=Capabilities()))) == 1
    assert len(placed(asks(700.0, most=1), seen(4, 4, 4, able=ABLE))) == 1
    assert len(placed(asks(1100.0, most=2), seen(4, 4, 4, 4, able=ABLE))) == 1


def test_where_no_number_is_sure_each_further_server_must_be_worth_it() -> None:
    view = seen(4, 4, 4, 4, able=ABLE)
    nothing = dict.fromkeys(range(1, 5), Estimate(1.0, 0.0))
    assert len(placed(asks(900.0, servers=nothing, std=0.5), view)) == 1


def test_unlike_servers_add_up_and_full_ones_are_left_out() -> None:
    view = seen(2, 4, 4, 1, used={"s1": 4000}, able=ABLE)
    taken = placed(asks(550.0), view)
    assert set(taken) == {"s0", "s2"}
    assert 5500 <= sum(taken.values()) <= 6000


def test_the_decision_says_why_so_many_and_what_is_expected() -> None:
    verdict = QUASAR.place(asks(700.0), seen(4, 4, 4, able=ABLE))
    assert isinstance(verdict, Place)
    decision = verdict.decision
    assert decision.reason is ReasonCode.OK
    assert decision.numbers["servers"] == 2
    assert "80% confidence; one server alone gives 56%" in decision.message
    assert decision.predicted is not None
    assert decision.predicted.low <= 1.02
    assert decision.predicted.mean >= 1.0
    given = sum(p.allocation.cpu_millicpus for p in verdict.placements)
    assert decision.predicted.cpu_millicpus == given


def test_what_several_servers_reach_is_not_out_of_reach() -> None:
    view = seen(4, 4, 4, able=ABLE)
    rejects = asks(700.0, on_miss=OnMiss.REJECT)
    assert len(placed(rejects, view)) == 2
    alone = QUASAR.place(asks(700.0, most=1, on_miss=OnMiss.REJECT), view)
    assert isinstance(alone, Refuse)
    assert alone.decision.reason is ReasonCode.WILL_MISS


def test_a_service_is_on_as_many_as_its_load_takes() -> None:
    columns = (500, 1000, 2000, 4000)
    held = Curve(columns, tuple(Estimate(cpu / 10, 0.02) for cpu in columns))
    curves = {Quantity.HELD: held, Quantity.THROUGHPUT: held}
    what = Classification("hand", "1", curves, held_below_seconds=0.1)
    target = Target(throughput_per_second=700.0, latency=LatencyBound(99, 0.1))
    service = replace(
        workload("w"),
        type=WorkloadType.LATENCY_CRITICAL,
        target=target,
        tolerance=0.0,
        scale=Scale(max_servers=4),
    )
    request = Request(service, classification=what)
    assert len(placed(request, seen(4, 4, 4, able=ABLE))) == 2


# --- gangs, and failure zones ------------------------------------------------------------


def test_a_gang_waits_for_room_on_all_of_its_servers() -> None:
    request = asks(1000.0, gang=True)
    view = seen(4, 4, 4, used={"s2": 4000}, able=ABLE)
    verdict = QUASAR.place(request, view)
    assert isinstance(verdict, Refuse)
    assert verdict.decision.reason is ReasonCode.NO_ROOM
    assert "3 servers with up to 3.45 CPU each would keep its target" in verdict.decision.message
    assert "scale.gang: false" in verdict.decision.would_change
    assert placed(asks(1000.0), view), "without, it starts with what there is"
    assert len(placed(request, seen(4, 4, 4, able=ABLE))) == 3


def test_a_gang_that_no_room_would_help_does_not_wait() -> None:
    view = seen(4, 4, 4, used={"s2": 4000}, able=ABLE)
    assert placed(asks(5000.0, gang=True), view), "out of reach"
    closed = seen(4, 4, 4, closed=("s2",), able=ABLE)
    assert placed(asks(1000.0, gang=True), closed), "no room will come on a closed server"
    one = asks(300.0, gang=True)
    assert len(placed(one, view)) == 1, "one server keeps its target"


def zoned(view: View, *zones: int) -> View:
    return replace(view, zone=np.array(zones))


def test_its_servers_are_spread_over_zones() -> None:
    view = zoned(seen(4, 4, 4, 3, able=ABLE), 1, 1, 1, 2)
    request = asks(600.0, spread=Spread.ZONE)
    assert set(placed(request, view)) == {"s0", "s3"}, "a smaller server in another zone"
    assert set(placed(asks(600.0), view)) == {"s0", "s1"}
    assert set(placed(asks(1000.0, spread=Spread.ZONE), view)) == {"s0", "s1", "s3"}


def test_a_zone_that_is_unknown_is_one_of_its_own() -> None:
    request = asks(1100.0, spread=Spread.ZONE)
    assert set(placed(request, zoned(seen(4, 4, 4, able=ABLE), 0, 0, 0))) == {"s0", "s1", "s2"}
    view = zoned(seen(4, 4, 4, 4, able=ABLE), 1, 1, 0, 0)
    assert set(placed(request, view)) == {"s0", "s2", "s3"}


def test_one_more_server_is_in_another_zone() -> None:
    view = zoned(seen(4, 4, 4, used={"s0": 4000}, able=ABLE), 1, 1, 2)
    request = off(asks(600.0, spread=Spread.ZONE), 0.66)
    verdict = QUASAR.resize(request, on(4000), view)
    assert isinstance(verdict, Place)
    assert [p.server for p in verdict.placements] == ["s0", "s2"]


@given(data=st.data())
def test_no_zone_has_two_more_than_another_that_has_room(data: st.DataObject) -> None:
    zones = data.draw(st.lists(st.integers(0, 3), min_size=2, max_size=8))
    rate = data.draw(st.sampled_from([700.0, 1100.0, 1500.0]))
    view = zoned(seen(*[4] * len(zones), able=ABLE), *zones)
    taken = placed(asks(rate, spread=Spread.ZONE), view)
    parts = Counter(at for name in taken if (at := zones[int(name[1:])]))
    for zone in filter(None, set(zones)):
        if parts[zone] < zones.count(zone):
            assert max(parts.values(), default=0) <= parts[zone] + 1


# --- while it runs -----------------------------------------------------------------------


def off(request: Request, normalized: float, **others) -> Request:
    others = {"for_seconds": 30.0, "cpu_seconds_per_second": None, **others}
    return replace(request, off_target=OffTarget(normalized, **others))


def test_one_more_server_where_its_own_has_no_room() -> None:
    view = seen(4, 4, 4, used={"s0": 4000}, able=ABLE)
    verdict = QUASAR.resize(off(asks(600.0), 0.66), on(4000), view)
    assert isinstance(verdict, Place)
    assert verdict.placements[0] == on(4000)[0]
    assert [p.server for p in verdict.placements] == ["s0", "s1"]
    assert 2000 <= verdict.placements[1].allocation.cpu_millicpus <= 3000
    assert verdict.decision.predicted is not None
    assert verdict.decision.predicted.mean == pytest.approx(1.1, abs=0.1)


def test_first_more_cpu_where_it_is() -> None:
    view = seen(8, 4, 4, used={"s0": 2000}, able=ABLE)
    verdict = QUASAR.resize(off(asks(300.0), 0.7), on(2000), view)
    assert isinstance(verdict, Place)
    assert [p.server for p in verdict.placements] == ["s0"]


def test_where_more_cpu_does_not_help_a_framework_gets_a_server_and_a_service_none() -> None:
    view = seen(4, 4, used={"s0": 4000}, able=ABLE)
    idle = off(asks(600.0), 0.66, cpu_seconds_per_second=1.0)
    verdict = QUASAR.resize(idle, on(4000), view)
    assert isinstance(verdict, Place)
    assert len(verdict.placements) == 2
    service = replace(idle, workload=replace(idle.workload, type=WorkloadType.LATENCY_CRITICAL))
    refused = QUASAR.resize(service, on(4000), view)
    assert isinstance(refused, Refuse)
    assert refused.decision.reason is ReasonCode.WOULD_NOT_HELP


def test_a_gang_gets_no_server_while_it_runs() -> None:
    view = seen(4, 4, used={"s0": 4000}, able=ABLE)
    assert isinstance(QUASAR.resize(off(asks(600.0, gang=True), 0.66), on(4000), view), Refuse)


def test_on_several_servers_cpu_follows_the_target_in_proportion_within_each_ones_room() -> None:
    view = seen(8, 8, used={"s0": 2000, "s1": 7000}, able=ABLE)
    verdict = QUASAR.resize(off(asks(300.0, most=2), 0.5), on(2000, 1000), view)
    assert isinstance(verdict, Place)
    assert [p.allocation.cpu_millicpus for p in verdict.placements] == [4400, 2000]
    less = QUASAR.resize(off(asks(300.0, most=2), 2.2), on(2000, 1000), view)
    assert isinstance(less, Place)
    assert [p.allocation.cpu_millicpus for p in less.placements] == [1000, 500]


def serves(rate: float, normalized: float, used_cpus: float = 1.0, **others) -> Request:
    """A service that holds more than it is asked for."""
    asked = off(asks(rate, **others), normalized, cpu_seconds_per_second=used_cpus)
    target = Target(rate_per_second=rate, latency=LatencyBound(99, 0.1))
    service = replace(asked.workload, type=WorkloadType.LATENCY_CRITICAL, target=target)
    return replace(asked, workload=service)


def stateful(request: Request) -> Request:
    scale = replace(request.workload.scale, stateful=True)
    return replace(request, workload=replace(request.workload, scale=scale))


def for_neighbor(request: Request) -> Request:
    assert request.off_target is not None
    return replace(request, off_target=replace(request.off_target, for_neighbor=True))


def left_by(request: Request, *cpus: int, view: View) -> list[str]:
    verdict = QUASAR.resize(request, on(*cpus), view)
    assert isinstance(verdict, Place)
    return [p.server for p in verdict.placements]


def used_by_three(**others: int) -> dict[str, int]:
    return {"s0": 1000, "s1": 1000, "s2": 1000, **others}


def test_a_service_whose_load_has_gone_leaves_its_worst_server() -> None:
    view = seen(4, 4, 4, used=used_by_three(), able=ABLE)
    request = serves(300.0, 1.9)
    verdict = QUASAR.resize(request, on(1000, 1000, 1000), view)
    assert isinstance(verdict, Place)
    assert verdict.placements[0].server == "s0"
    assert [p.server for p in verdict.placements] == ["s0", "s1"], "of equals it leaves the newest"
    assert 1700 <= sum(p.allocation.cpu_millicpus for p in verdict.placements) <= 2000
    assert "without s2, where it does least for its CPU" in verdict.decision.message
    slower = replace(
        request.classification,
        platform="fast",
        platforms={"slow": Estimate(0.5, 0.0), "fast": Estimate(1.0, 0.0)},
    )
    unlike = replace(view, platforms=("slow", "fast"), platform=np.array([0, 1, 1]))
    request = replace(request, classification=slower)
    assert left_by(request, 1000, 1000, 1000, view=unlike) == ["s1", "s2"]


def test_what_is_far_too_much_goes_at_once_though_it_leaves_one_server_at_a_time() -> None:
    view = seen(4, 4, 4, used=used_by_three(s0=2000, s1=2000, s2=2000), able=ABLE)
    verdict = QUASAR.resize(serves(300.0, 5.0, used_cpus=0.3), on(2000, 2000, 2000), view)
    assert isinstance(verdict, Place)
    assert [p.allocation.cpu_millicpus for p in verdict.placements] == [1500, 1500]


def test_whole_cpus_are_given_back_by_leaving() -> None:
    whole = replace(ABLE, fractional_cpu=False)
    view = seen(4, 4, 4, used=used_by_three(), able=whole)
    assert left_by(serves(300.0, 1.8), 1000, 1000, 1000, view=view) == ["s0", "s1"]


def flat_from(cpus: int) -> Classification:
    """That more than so much CPU does not help on a server."""
    columns = (500, 1000, 2000, 4000)
    curve = Curve(columns, tuple(Estimate(min(cpu, cpus) / 10, 0.02) for cpu in columns))
    return Classification("hand", "1", {Quantity.RATE: curve}, servers=LINEAR)


@pytest.mark.parametrize(
    ("request_", "used", "able"),
    [
        (serves(300.0, 1.4), {}, ABLE),
        (serves(300.0, 1.9), {"s0": 4000, "s1": 4000, "s2": 4000}, ABLE),
        (replace(serves(300.0, 1.9), classification=flat_from(1000)), {}, ABLE),
        (serves(300.0, 1.9, used_cpus=1.6), {}, ABLE),
        (serves(300.0, 1.9, gang=True), {}, ABLE),
        (stateful(serves(300.0, 1.9)), {}, ABLE),
        (for_neighbor(serves(300.0, 1.9)), {}, ABLE),
        (off(asks(300.0), 1.9), {}, ABLE),
        (serves(300.0, 1.9), {}, replace(ABLE, resize=Resize.WITHIN_ALLOCATION)),
    ],
    ids=[
        "its load needs it",
        "the others have no room",
        "the others can't use their room",
        "its CPU is used",
        "gang",
        "stateful",
        "a neighbor wants it",
        "framework",
        "the engine can't",
    ],
)
def test_it_stays_on_all_of_its_servers(
    request_: Request, used: dict[str, int], able: Capabilities
) -> None:
    view = seen(4, 4, 4, used=used_by_three(**used), able=able)
    assert left_by(request_, 1000, 1000, 1000, view=view) == ["s0", "s1", "s2"]


def slowed(request: Request, *busy: float, **others) -> Request:
    """It misses its target, and is so busy on each of its servers."""
    assert request.off_target is not None
    shares = {f"s{at}": share for at, share in enumerate(busy)}
    return replace(request, off_target=replace(request.off_target, busy=shares, **others))


def test_a_service_with_idle_cpu_leaves_the_servers_that_slow_it() -> None:
    view = seen(4, 4, 4, used=used_by_three(s0=2000, s1=2000, s2=2000), able=ABLE)
    request = slowed(serves(300.0, 0.8, used_cpus=1.4), 0.2, 0.3, 0.2)
    verdict = QUASAR.resize(request, on(2000, 2000, 2000), view)
    assert isinstance(verdict, Place)
    assert verdict.placements == (on(2000)[0], on(2000, 2000, 2000)[2])
    assert verdict.decision.reason is ReasonCode.OK
    assert verdict.decision.message == (
        "at 80% of its target with idle CPU it leaves s1, where it is slower: "
        "4 of 6 CPU on 2 servers hold its load"
    )
    both = slowed(serves(300.0, 0.8, used_cpus=1.6), 0.2, 0.3, 0.3)
    assert left_by(both, 2000, 2000, 2000, view=view) == ["s0"]


@pytest.mark.parametrize(
    "request_",
    [
        slowed(serves(300.0, 0.8, used_cpus=1.4), 0.2, 0.21, 0.2),
        slowed(serves(300.0, 0.8, used_cpus=3.5), 0.5, 0.75, 0.5),
        slowed(serves(300.0, 0.8, used_cpus=1.4)),
        slowed(serves(300.0, 0.8, used_cpus=1.4, gang=True), 0.2, 0.3, 0.2),
        slowed(stateful(serves(300.0, 0.8, used_cpus=1.4)), 0.2, 0.3, 0.2),
        slowed(serves(300.0, 0.8, used_cpus=1.4, spread=Spread.ZONE), 0.2, 0.3, 0.2),
    ],
    ids=["alike", "the others are busy", "not known", "gang", "stateful", "spread"],
)
def test_else_more_cpu_would_not_help_it(request_: Request) -> None:
    view = seen(4, 4, 4, used=used_by_three(s0=2000, s1=2000, s2=2000), able=ABLE)
    verdict = QUASAR.resize(request_, on(2000, 2000, 2000), view)
    assert isinstance(verdict, Refuse)
    assert verdict.decision.reason is ReasonCode.WOULD_NOT_HELP


def test_cpu_on_several_servers_that_is_not_used_is_taken_back() -> None:
    view = seen(4, 4, 4, used={"s0": 3000, "s1": 3000}, able=ABLE)
    request = slowed(serves(300.0, 0.5, used_cpus=3.0), unused_from=4000)
    verdict = QUASAR.resize(request, on(3000, 3000), view)
    assert isinstance(verdict, Place)
    assert [p.allocation.cpu_millicpus for p in verdict.placements] == [2000, 2000]
    assert "reduced from 6 to 4 CPU: it uses hardly more" in verdict.decision.message
    assert "at 50% of its target it does worse with it" in verdict.decision.message
    again = slowed(serves(300.0, 0.5, used_cpus=3.0), unused_from=4000)
    assert isinstance(QUASAR.resize(again, on(2000, 2000), view), Refuse)
    hardly = slowed(serves(300.0, 0.5, used_cpus=3.0), unused_from=3900)
    assert isinstance(QUASAR.resize(hardly, on(2000, 2000), view), Refuse)


def test_a_server_is_left_in_the_zone_that_has_most_of_it() -> None:
    view = seen(4, 4, 4, used=used_by_three(), able=ABLE)
    zoned = replace(view, zone=np.array([1, 1, 2]))
    request = serves(300.0, 1.9, spread=Spread.ZONE)
    assert left_by(request, 1000, 1000, 1000, view=zoned) == ["s0", "s2"]


def test_one_more_is_not_taken_where_it_brings_nothing() -> None:
    view = seen(4, 4, used={"s0": 4000}, able=ABLE)
    nothing = dict.fromkeys(range(1, 5), Estimate(1.0, 0.0))
    request = off(asks(600.0, servers=nothing), 0.66)
    assert isinstance(QUASAR.resize(request, on(4000), view), Refuse)


def test_numbers_of_servers_that_are_not_classified_are_not_taken() -> None:
    request = asks(700.0, servers={1: Estimate(1.0, 0.0), 2: Estimate(2.0, 0.0)}, most=8)
    outs = scale_out(request.workload, request.classification, ABLE)
    assert set(outs) == {1, 2}
    assert set(scale_out(request.workload, None, ABLE)) == {1}


def test_the_decision_says_what_each_server_gives_and_what_the_next_would() -> None:
    view = seen(4, 4, 4, 4, able=ABLE)
    verdict = QUASAR.place(asks(700.0), view)
    assert isinstance(verdict, Place)
    decision = verdict.decision
    parts = [one for one in decision.candidates if "cpu_given_millicpus" in one.numbers]
    assert [(one.server, one.numbers["cpu_given_millicpus"]) for one in parts] == [
        (p.server, p.allocation.cpu_millicpus) for p in verdict.placements
    ]
    assert decision.predicted is not None
    shares = sum(one.numbers["predicted_share"] for one in parts)
    assert shares == pytest.approx(decision.predicted.mean)
    assert decision.numbers["one_server_pace"] == pytest.approx(400 / 700, rel=0.02)
    assert decision.numbers["next_server_pace"] > decision.predicted.mean
    assert "s2 as well would make that" in decision.message
    most = QUASAR.place(asks(700.0, most=2), view)
    assert isinstance(most, Place)
    assert "next_server_pace" not in most.decision.numbers


def test_no_resize_on_several_servers_is_planned_where_the_engine_can_not() -> None:
    able = Capabilities(max_servers_per_workload=8)
    off = OffTarget(0.8, 60.0, None)
    for resizes in (Resize.ANY, Resize.NONE):
        view = seen(8, 8, able=replace(able, resize=resizes))
        request = replace(asks(150.0), off_target=off)
        answer = Quasar().resize(request, on(1000, 1000), view)
        assert isinstance(answer, Place if resizes else Refuse)
    assert answer.decision.reason is ReasonCode.NOT_SUPPORTED
    assert answer.decision.would_change
