"""A placement is asked about the servers of a queue first, also for whom others are stopped."""

import numpy as np
import pytest

from tests.support.cluster import MIB, server, workload
from wharfinger.core.pools import place_within
from wharfinger.core.seams.admission import ServerSets
from wharfinger.core.seams.verdicts import PlacementVerdict, Preempt
from wharfinger.core.tables import ServerTable
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Decision, Place, ReasonCode, Refuse, Stage
from wharfinger.model.view import Capabilities, Request, View

FREE, PREEMPTED, FULL = "free", "preempted", "full"


class Stating:
    """Answers for the first server that accepts work and is not full, as a test states."""

    name = "stating"

    def __init__(self, *servers: str) -> None:
        self._servers = servers

    def place(self, request: Request, view: View) -> PlacementVerdict:
        for row in np.flatnonzero(view.accepting).tolist():
            there = (Placement(view.names[row], Allocation(1000, MIB)),)
            if self._servers[row] == FREE:
                return Place(there, decision(accepted=True))
            if self._servers[row] == PREEMPTED:
                return Preempt(("victim",), decision(accepted=True), there)
        return Refuse(decision(accepted=False))


def decision(*, accepted: bool) -> Decision:
    reason = ReasonCode.OK if accepted else ReasonCode.NO_ROOM
    return Decision(Stage.PLACEMENT, "stating", accepted, reason, "")


@pytest.mark.parametrize(
    ("servers", "kind", "where"),
    [
        ((PREEMPTED, FREE), Place, "s1"),  # a later set has a place without it
        ((PREEMPTED, FULL), Preempt, "s0"),
        ((FULL, FULL, PREEMPTED), Refuse, ReasonCode.WAITS_FOR_QUALITY),
        ((FULL, FULL, FREE), Refuse, ReasonCode.WAITS_FOR_QUALITY),
        ((FULL, FULL, FULL), Refuse, ReasonCode.NO_ROOM),
    ],
)
def test_no_workload_is_stopped_on_servers_of_other_queues(servers, kind, where) -> None:
    table = ServerTable()
    for row in range(len(servers)):
        table.put(server(f"s{row}", 4))
    sets = [np.arange(len(servers)) == row for row in range(2)]
    view = table.view(Capabilities())
    found = place_within(Stating(*servers), Request(workload("w")), view, sets)
    assert isinstance(found, kind)
    placed = isinstance(found, Place | Preempt)
    assert (found.placements[0].server if placed else found.decision.reason) == where


def test_who_waits_is_tried_again_when_a_server_may_have_come_into_its_set() -> None:
    table = ServerTable()
    for row in range(3):
        table.put(server(f"s{row}", 4))
    sets = ServerSets.of([np.array([True, False, False])], np.array([True, True, False]))
    view = table.view(Capabilities())
    found = place_within(Stating(FULL, FULL, FREE), Request(workload("w")), view, sets)
    assert isinstance(found, Refuse)
    assert found.waits_for == ("s0", "s1")
