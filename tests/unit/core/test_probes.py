"""Probes of what runs, in the core: one at a time, replayable, and none left running."""

from dataclasses import replace

import pytest

from tests.support.cluster import Cluster, running, server, workload
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.codec import encode_state
from wharfinger.core.lifecycle import Phase
from wharfinger.core.tracking import LevelTracking, ProbeCause, Tracked
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Entry, Measurements

LLC = SharedResource.LAST_LEVEL_CACHE
WHY = Decision(Stage.ADAPTATION, "test", True, ReasonCode.OK, "by hand")
TOLD = Measurements(tolerated={LLC: Entry(40.0)})
COPY = (Placement("t", Allocation(1000, 1 << 20)),)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(able=replace(Cluster().able, probes_running=True, clones=True))
    cluster.tell(ev.ServerReported(server("s", 2)))
    cluster.sync()
    cluster.tell(ev.WorkloadSubmitted(workload("w")))
    running(cluster, "w")
    cluster.tell(ev.ServerReported(server("t", 2)))
    return cluster


def plan(cluster: Cluster, *placements: Placement) -> None:
    """As a remedy would have it."""
    planned = ev.ProbePlanned("w", WHY, ProbeCause.REACTIVE, (LLC,), 0.05, placements)
    cluster.conclude(planned)
    cluster.tell(ev.TimePassed())


def probes(cluster: Cluster) -> list[act.ProbeWorkload]:
    return [action for action in cluster.asked if isinstance(action, act.ProbeWorkload)]


def answer(cluster: Cluster, number: int) -> None:
    cluster.tell(ev.WorkloadProbed(cluster.key("w"), number, TOLD))


def test_a_probe_is_asked_for_once_and_its_answer_is_kept(cluster: Cluster) -> None:
    plan(cluster)
    cluster.tell(ev.TimePassed())
    (asked,) = probes(cluster)
    assert (asked.key, asked.number) == (cluster.key("w"), 1)
    assert (asked.plan.sources, asked.plan.server, asked.plan.live) == ((LLC,), "s", True)
    answer(cluster, 1)
    assert cluster.record("w").probe.answer == TOLD
    assert not cluster.record("w").probe.under_way
    assert not cluster.tell(ev.WorkloadProbed(asked.key, 1, Measurements())).events, "no news"
    plan(cluster)
    assert [each.number for each in probes(cluster)] == [1, 2]
    assert not cluster.tell(ev.WorkloadProbed(asked.key, 1, TOLD)).events, "of the one before"


def test_room_for_a_copy_is_held_while_it_is_probed(cluster: Cluster) -> None:
    plan(cluster, *COPY)
    row = cluster.manager.view.row("t")
    assert cluster.manager.view.cpu_allocated[row] == 1000
    assert encode_state(cluster.replayed().state) == encode_state(cluster.manager.state)
    assert cluster.replayed(3).view.cpu_allocated[row] == 1000
    answer(cluster, 1)
    assert cluster.manager.view.cpu_allocated[row] == 0


@pytest.mark.parametrize(("places", "where"), [((), "s"), (COPY, "t")])
def test_no_other_plan_is_carried_out_where_it_is_probed(
    cluster: Cluster, places: tuple[Placement, ...], where: str
) -> None:
    plan(cluster, *places)
    row = cluster.manager.view.row(where)
    assert cluster.manager.view.copies.tolist() == [int(at == row) for at in range(2)]
    assert cluster.replayed(3).view.copies[row] == 1
    plan(cluster, *places)
    assert cluster.manager.view.copies.sum() == 1, "another in its place"
    answer(cluster, 2)
    assert cluster.manager.view.copies.sum() == 0


def test_a_live_probe_ends_with_its_server(cluster: Cluster) -> None:
    plan(cluster)
    cluster.tell(ev.ServerLeft("s", "gone"))
    assert not cluster.record("w").probe.under_way
    assert cluster.manager.view.copies.sum() == 0
    cluster.check_books()


def test_a_copy_ends_with_its_server(cluster: Cluster) -> None:
    plan(cluster, *COPY)
    cluster.tell(ev.ServerLeft("t", "gone"))
    assert not cluster.record("w").probe.under_way
    assert list(cluster.manager.view.names) == ["s"]
    cluster.check_books()


@pytest.mark.parametrize("ends", ["finishes", "suspended", "vanishes"])
def test_a_probe_ends_with_what_runs(cluster: Cluster, ends: str) -> None:
    plan(cluster, *COPY)
    key = cluster.key("w")
    match ends:
        case "finishes":
            cluster.tell(ev.WorkloadFinished(key, 0, None, "exited"))
        case "vanishes":
            cluster.tell(ev.WorkloadVanished(key, "gone"))
        case _:
            cluster.tell(ev.SuspendRequested("w"))
    assert not cluster.record("w").probe.under_way
    assert not cluster.tell(ev.WorkloadProbed(key, 1, TOLD)).events
    cluster.check_books()
    assert encode_state(cluster.replayed().state) == encode_state(cluster.manager.state)


def test_a_killed_manager_asks_again_for_an_unanswered_probe(cluster: Cluster) -> None:
    plan(cluster)
    cluster.manager = cluster.replayed(5)
    cluster.asked = [a for a in cluster.asked if not isinstance(a, act.ProbeWorkload)]
    cluster.start()
    cluster.sync()
    (asked,) = probes(cluster)
    assert asked.number == 1
    answer(cluster, 1)
    assert not cluster.record("w").probe.under_way
    assert cluster.record("w").phase is Phase.RUNNING


def leaves_level(cluster: Cluster, shift: float) -> None:
    """As an adaptation concludes from a measurement."""
    level = LevelTracking(4.0, 3, 0.03, changed_at=cluster.now, shift=shift)
    cluster.conclude(ev.TargetsTracked((Tracked("w", None, level=level),)))
    cluster.now += 5


def test_the_largest_change_of_level_is_told_with_the_next_probe(cluster: Cluster) -> None:
    for shift in (-0.2, 0.5, 0.3):
        leaves_level(cluster, shift)
    assert cluster.record("w").left_level.shift == 0.5
    plan(cluster)
    answer(cluster, 1)
    assert cluster.record("w").probe.left_level.shift == 0.5
    assert cluster.record("w").left_level is None, "its scores are of now"
    assert encode_state(cluster.replayed().state) == encode_state(cluster.manager.state)
    leaves_level(cluster, -0.1)
    plan(cluster)
    answer(cluster, 2)
    assert cluster.record("w").probe.left_level.shift == -0.1


@pytest.mark.parametrize("keeps_work", [True, False])
def test_what_begins_anew_is_in_its_first_phase_again(cluster: Cluster, keeps_work: bool) -> None:
    able = cluster.manager.state.capabilities
    cluster.manager.state.capabilities = replace(able, keeps_work=keeps_work)
    leaves_level(cluster, 0.5)
    cluster.manager._record(cluster.now, ev.WorkloadMigrated("w", WHY))
    cluster.tell(ev.WorkloadFinished(cluster.key("w"), None, 15, "stopped"))
    running(cluster, "w")
    assert cluster.record("w").starts == 2
    assert (cluster.record("w").left_level is not None) is keeps_work
