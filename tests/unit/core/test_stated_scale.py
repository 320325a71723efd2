"""What a manifest states of several servers holds, or it gets none; what is stateful stays."""

from dataclasses import replace

import pytest

from tests.support.cluster import ABLE, Cluster, running, server, workload
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.residency import may_move
from wharfinger.model.decisions import Place, ReasonCode
from wharfinger.model.view import Request
from wharfinger.model.workload import Scale, Spread, WorkloadType
from wharfinger.policies.placement.autoscale import Autoscale

SEVERAL = replace(ABLE, max_servers_per_workload=4)
STATED = (Scale(3, gang=True), Scale(3, spread=Spread.ZONE))


def cluster_of(policy: str) -> Cluster:
    cluster = Cluster(policy, able=SEVERAL)
    zones = (("a", "x"), ("b", "x"), ("c", "y"))
    cluster.tell(ev.ServersReported(tuple(replace(server(n), zone=z) for n, z in zones)))
    cluster.sync()
    return cluster


@pytest.mark.parametrize("scale", STATED)
def test_a_policy_that_does_not_keep_it_is_refused_several_servers(scale: Scale) -> None:
    cluster = cluster_of("spreading-by-load")
    cluster.tell(ev.WorkloadSubmitted(replace(workload("w"), scale=scale)))
    record = cluster.record("w")
    assert (record.phase, record.deferral) == (Phase.QUEUED, ReasonCode.NOT_SUPPORTED)
    assert "spreading-by-load names several servers" in record.message
    cluster.tell(ev.WorkloadSubmitted(replace(workload("free"), scale=Scale(3))))
    assert len(cluster.record("free").placements) == 3
    cluster.tell(
        ev.WorkloadSubmitted(replace(workload("one"), scale=replace(scale, max_servers=1)))
    )
    assert len(cluster.record("one").placements) == 1


@pytest.mark.parametrize("scale", STATED)
def test_a_policy_that_gives_one_server_keeps_both(scale: Scale) -> None:
    cluster = cluster_of("least-loaded")
    cluster.tell(ev.WorkloadSubmitted(replace(workload("w"), scale=scale)))
    assert len(cluster.record("w").placements) == 1


def test_autoscale_spreads_over_zones_and_adds_no_server_to_a_gang() -> None:
    cluster = cluster_of("least-loaded")
    service = replace(workload("w"), type=WorkloadType.LATENCY_CRITICAL)
    cluster.tell(ev.WorkloadSubmitted(service))
    running(cluster, "w")
    held, view = cluster.record("w").placements, cluster.manager.view
    assert held[0].server == "a"

    def added(scale: Scale) -> list[str]:
        request = Request(replace(service, scale=scale), load=0.9)
        verdict = Autoscale().resize(request, held, view)
        return [p.server for p in verdict.placements[1:]] if isinstance(verdict, Place) else []

    assert added(Scale(3)) == ["b"]
    assert added(Scale(3, spread=Spread.ZONE)) == ["c"]
    assert added(Scale(3, gang=True)) == []


def test_what_is_stateful_is_no_victim_and_not_moved_for_a_target() -> None:
    made = workload("w")
    restartable = replace(made, run=replace(made.run, restartable=True))
    assert may_move(restartable)
    assert not may_move(made)
    stateful = replace(restartable, scale=Scale(stateful=True))
    assert not may_move(stateful)
    cluster = cluster_of("least-loaded")
    cluster.tell(ev.WorkloadSubmitted(stateful))
    running(cluster, "w")
    (occupant,) = cluster.manager.view.occupants("a")
    assert not occupant.stoppable
    cluster.tell(ev.ServerCordoned("a", drain=True))
    assert cluster.record("w").phase is Phase.MIGRATING  # Its operator wants the server empty.
