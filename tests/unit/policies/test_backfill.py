"""Backfill places sizes as users state them, on as many servers as they state, at once."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.cluster import workload
from tests.support.views import seen
from wharfinger.errors import InvalidInput
from wharfinger.model.decisions import Place, ReasonCode, Refuse
from wharfinger.model.view import Capabilities, Request, View
from wharfinger.model.workload import Scale, Spread
from wharfinger.policies.placement.backfill import (
    BackfillPlacement,
    BackfillSettings,
    FillOrder,
)
from wharfinger.policies.registry import make_policy

MANY = Capabilities(max_servers_per_workload=8)


def asked(
    view: View,
    millicpus: int = 1000,
    servers: int = 1,
    order: FillOrder = FillOrder.FIRST_FIT,
    spread: Spread | None = None,
    **others,
) -> Place | Refuse:
    stated = replace(workload("w", millicpus), scale=Scale(servers, spread=spread))
    return BackfillPlacement(BackfillSettings(order)).place(Request(stated, **others), view)


def names(answer: Place | Refuse) -> list[str]:
    assert isinstance(answer, Place), answer.decision.message
    return [placement.server for placement in answer.placements]


def test_the_first_server_with_room_is_taken_or_the_least_loaded() -> None:
    view = seen(8, 8, 8, used={"s0": 8000, "s1": 6000, "s2": 1000})
    assert names(asked(view, 2000)) == ["s1"]
    assert names(asked(view, 2000, order=FillOrder.LEAST_LOADED)) == ["s2"]


def test_all_stated_servers_are_taken_at_once_or_none() -> None:
    view = seen(8, 8, 8, used={"s1": 5000}, able=MANY)
    answer = asked(view, 4000, servers=2)
    assert names(answer) == ["s0", "s2"]
    assert {p.allocation.cpu_millicpus for p in answer.placements} == {4000}
    refused = asked(view, 4000, servers=3)
    assert isinstance(refused, Refuse)
    assert refused.decision.reason is ReasonCode.NO_ROOM
    assert refused.servers_needed == 3
    assert refused.decision.numbers["servers_needed"] == 3
    assert refused.decision.message.startswith("2 of the 3 servers that it needs have 4 CPU")


@pytest.mark.parametrize(
    ("able", "cpus", "count"),
    [
        (MANY, (8, 8, 8), 3),  # as many as there are
        (MANY, (8, 2, 8), 2),  # as many as are large enough
        (Capabilities(max_servers_per_workload=2), (8, 8, 8), 2),
        (Capabilities(max_servers_per_workload=1), (8, 8, 8), 1),
    ],
)
def test_no_more_servers_than_there_are_and_the_engine_takes(
    able: Capabilities, cpus: tuple[int, ...], count: int
) -> None:
    assert len(names(asked(seen(*cpus, able=able), 4000, servers=5))) == count


def test_what_no_server_can_hold_is_too_large() -> None:
    answer = asked(seen(2, 2, able=MANY), 4000, servers=2)
    assert isinstance(answer, Refuse)
    assert answer.decision.reason is ReasonCode.TOO_LARGE


def test_servers_that_failed_to_start_it_are_told_from_full_ones() -> None:
    answer = asked(seen(8, 8, able=MANY), 1000, servers=2, excluded=frozenset({0}))
    assert isinstance(answer, Refuse)
    assert answer.decision.reason is ReasonCode.SERVERS_EXCLUDED


def test_zones_are_taken_in_turn_where_it_is_to_be_spread() -> None:
    view = replace(seen(8, 8, 8, able=MANY), zone=np.array([1, 1, 2], dtype=np.int64))
    assert names(asked(view, servers=2, spread=Spread.ZONE)) == ["s0", "s2"]


def test_whole_cpus_are_given_where_the_engine_has_no_others() -> None:
    answer = asked(seen(8, able=Capabilities(fractional_cpu=False)), 1500)
    assert isinstance(answer, Place)
    assert answer.placements[0].allocation.cpu_millicpus == 2000


def test_many_may_pass_a_blocked_head_and_its_settings_are_read() -> None:
    assert make_policy("backfill").admission.backfill == 500
    made = make_policy("backfill[order=least-loaded,backfill=7]")
    assert made.admission.backfill == 7
    assert made.placement.settings.order is FillOrder.LEAST_LOADED
    with pytest.raises(InvalidInput, match="one of first-fit, least-loaded"):
        make_policy("backfill[order=best-fit]")
