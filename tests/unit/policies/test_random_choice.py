"""Random draws are uniform, repeatable, and cost no look at every server."""

from collections import Counter

import pytest

from tests.support.cluster import workload
from tests.support.views import seen
from wharfinger.model.decisions import Place, ReasonCode, Refuse
from wharfinger.model.view import Request, View
from wharfinger.policies.placement.random_choice import (
    PROBES,
    DrawSettings,
    RandomChoice,
    in_random_order,
)
from wharfinger.policies.registry import make_policy


def drawn(view: View, name: str = "w", seed: int = 0, **others) -> str:
    answer = RandomChoice(DrawSettings(seed)).place(Request(workload(name), **others), view)
    assert isinstance(answer, Place)
    return answer.placements[0].server


def far_from_uniform(counts: Counter, kinds: int) -> float:
    """Chi-squared over its degrees of freedom: about 1 for uniform draws."""
    expected = counts.total() / kinds
    return sum((counts[k] - expected) ** 2 / expected for k in counts) / (kinds - 1)


# --- draws ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_an_order_has_every_number_once(count: int) -> None:
    assert sorted(in_random_order(count, 1, "w")) == list(range(count))


def test_every_order_is_as_likely_as_the_others() -> None:
    orders = Counter(tuple(in_random_order(3, 0, f"w{i}")) for i in range(6000))
    assert len(orders) == 6
    assert far_from_uniform(orders, 6) < 3


def test_who_asks_for_what_and_the_seed_each_make_another_order() -> None:
    orders = {
        tuple(in_random_order(50, seed, name, what))
        for seed in (0, 1)
        for name in ("a", "b")
        for what in ("one", "other")
    }
    assert len(orders) == 8


# --- the policy ----------------------------------------------------------------------------------


def test_servers_with_room_are_drawn_alike() -> None:
    view = seen(*[2] * 20, used={"s3": 1500, "s7": 2000}, closed=("s11",))
    places = Counter(drawn(view, f"w{i}") for i in range(5000))
    assert places.keys().isdisjoint({"s3", "s7", "s11"})
    assert far_from_uniform(places, 17) < 2


def test_where_few_have_room_these_are_drawn_alike_too() -> None:
    count = 20 * PROBES
    free = {f"s{row}" for row in range(0, count, count // 4)}
    used = {name: 2000 for name in map("s{}".format, range(count)) if name not in free}
    view = seen(*[2] * count, used=used)
    places = Counter(drawn(view, f"w{i}") for i in range(400))
    assert set(places) == free
    assert far_from_uniform(places, 4) < 5


def test_the_same_workload_is_drawn_the_same_and_another_seed_draws_anew() -> None:
    view = seen(*[2] * 100)
    assert len({drawn(view, "w") for _ in range(3)}) == 1
    assert len({drawn(view, "w", seed) for seed in range(20)}) > 10
    assert make_policy("random[seed=5]").placement.place(
        Request(workload("w")), view
    ) == RandomChoice(DrawSettings(5)).place(Request(workload("w")), view)


def test_one_that_failed_to_start_goes_elsewhere() -> None:
    view = seen(2, 2)
    first = drawn(view)
    assert drawn(view, excluded=frozenset({view.names.index(first)})) != first


def test_what_was_looked_at_is_recorded_and_no_more() -> None:
    view = seen(*[2] * 1000)
    answer = RandomChoice().place(Request(workload("w")), view)
    assert answer.decision.considered == 1
    assert [c.reason for c in answer.decision.candidates] == [ReasonCode.OK]
    full = {f"s{row}": 2000 for row in range(1000)}
    refused = RandomChoice().place(Request(workload("w")), seen(*[2] * 1000, used=full))
    assert isinstance(refused, Refuse)
    assert refused.decision.reason is ReasonCode.NO_ROOM
