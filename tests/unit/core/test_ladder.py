"""What is done, rung by rung, for one that is off its target; and never forever."""

from dataclasses import replace
from math import log

import pytest

from tests.support.cluster import Cluster, running, server, workload
from tests.support.courses import (
    PERIOD_SECONDS,
    classified,
    curve,
    filler,
    labelled,
    made,
    measure,
    of,
    phase,
    start,
    wants,
)
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import is_violated
from wharfinger.model.allocation import cpu_of
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.performance import Quantity, Reading, Sample
from wharfinger.model.profile import Estimate, quantile
from wharfinger.model.units import cpu_number
from wharfinger.model.view import Capabilities, Resize
from wharfinger.model.workload import Adapt, Scale, Target, Workload

# --- room ----------------------------------------------------------------------------------------


def test_neighbours_that_do_not_need_it_give_room_to_one_that_lacks_it() -> None:
    cluster = made("feedback", 1)
    start(cluster, wants("w", 100, 500), wants("ahead", 100, 300), wants("level", 100, 200))
    measure(cluster, 1, w=60, ahead=140, level=110)
    (given,) = of(act.ResizeAllocation, measure(cluster, 1, w=60, ahead=140, level=110))
    assert given.key == cluster.key("ahead")
    after = given.placements[0].allocation.cpu_millicpus
    assert after == round(300 * 1.1 / 1.4)
    why = cluster.record("ahead").decisions[-1].decision
    assert why.accepted
    assert why.message.startswith("w ")
    assert "140%" in why.message
    assert f"reduced from 0.3 to {cpu_number(after)} CPU" in why.message
    step = cluster.tell(ev.AllocationResized(given.key, given.placements))
    (taken,) = of(act.ResizeAllocation, list(step.actions))
    assert taken.key == cluster.key("w")
    assert taken.placements[0].allocation.cpu_millicpus == 500 + 300 - after


def test_nobody_gives_where_there_is_room_or_more_would_not_help() -> None:
    cluster = made("feedback", 2)
    start(cluster, wants("w", 100, 500), wants("ahead", 100, 300))
    asked = measure(cluster, 2, w=60, ahead=140)
    assert [action.key for action in of(act.ResizeAllocation, asked)] == [cluster.key("w")]


def _seen(cluster: Cluster, used: dict[str, float], **rates: float) -> list[act.Action]:
    """A period in which these used so much CPU."""
    cluster.now += PERIOD_SECONDS
    readings = {
        name: {
            Quantity.RATE: Reading(rate, "progress lines"),
            Quantity.CPU: Reading(used[name], "CPU time", trusted=False),
        }
        for name, rate in rates.items()
    }
    samples = tuple(Sample(cluster.key(name), each) for name, each in readings.items())
    step = cluster.tell(ev.ServerMeasured("a", samples))
    cluster.check_books()
    return list(step.actions)


def test_one_that_something_else_slows_gives_a_neighbor_the_cpu_that_it_leaves_idle() -> None:
    cluster = made("feedback", 2)
    start(cluster, wants("w", 100, 500), wants("slowed", 100, 1500))
    used = {"w": 0.5, "slowed": 0.25}
    asked: list[act.Action] = []
    while not asked:
        asked = of(act.ResizeAllocation, _seen(cluster, used, w=60, slowed=70))
    (given,) = asked
    assert given.key == cluster.key("slowed")
    assert given.placements[0].allocation.cpu_millicpus == 750, "half of it at most"
    why = cluster.record("slowed").decisions[-1].decision.message
    assert "reduced from 1.5 to 0.75 CPU: it uses 0.25, and more would not help it" in why
    step = cluster.tell(ev.AllocationResized(given.key, given.placements))
    (taken,) = of(act.ResizeAllocation, list(step.actions))
    assert taken.key == cluster.key("w")


@pytest.mark.parametrize("waits", [True, False])
def test_it_keeps_that_until_another_waits_for_room(waits: bool) -> None:
    cluster = made("feedback", 2)
    start(cluster, wants("slowed", 100, 1600))
    if waits:
        cluster.tell(ev.WorkloadSubmitted(workload("next", 1000)))
        assert cluster.record("next").deferral is ReasonCode.NO_ROOM
    asked = []
    for _ in range(8):
        asked += of(act.ResizeAllocation, _seen(cluster, {"slowed": 0.3}, slowed=70))
    assert [a.placements[0].allocation.cpu_millicpus for a in asked[:1]] == [800] * waits


# --- giving way ----------------------------------------------------------------------------------


def test_where_more_cpu_cannot_be_had_a_best_effort_neighbour_gives_way() -> None:
    cluster = made()
    start(cluster, wants(), filler("f1"), filler("f2"))
    asked = measure(cluster, 2, w=80)
    assert asked == [act.SuspendWorkload(cluster.key("f2"))], "the newest of those that press alike"
    assert phase(cluster, "f2") is Phase.SUSPENDED
    why = cluster.record("f2").decisions[-1].decision
    assert why.reason is ReasonCode.SUSPENDED_FOR_TARGET
    assert "w has violated its target at 80% for 10 s" in why.message
    assert cluster.record("w").decisions[-1].decision == why
    assert cluster.record("f2").reason == "suspended-for-target"


def test_the_busiest_gives_way_first_and_one_at_a_time() -> None:
    cluster = made()
    start(cluster, wants(), filler("f1"), filler("f2"))
    busy = Sample(cluster.key("f1"), {Quantity.CPU: Reading(0.9, "CPU time", trusted=False)})
    cluster.tell(ev.ServerMeasured("a", (busy,)))
    measure(cluster, 2, w=80)
    assert [phase(cluster, f) for f in ("f1", "f2")] == [Phase.SUSPENDED, Phase.RUNNING]
    measure(cluster, 1, w=90)
    assert phase(cluster, "f2") is Phase.RUNNING, "that has time to show"
    measure(cluster, 1, w=90)
    assert [phase(cluster, f) for f in ("f1", "f2")] == [Phase.SUSPENDED] * 2, "it did help"


def test_in_a_deep_violation_all_are_suspended_at_once_and_judged_a_minute_later() -> None:
    cluster = made()
    start(cluster, wants(), *map(filler, ("f1", "f2", "f3")))
    measure(cluster, 3, w=40)
    assert [phase(cluster, f) for f in ("f1", "f2", "f3")] == [Phase.SUSPENDED] * 3
    measure(cluster, 4, w=40)
    assert [phase(cluster, f) for f in ("f1", "f2", "f3")] == [Phase.SUSPENDED] * 3
    measure(cluster, 2, w=40)
    assert [phase(cluster, f) for f in ("f1", "f2", "f3")] == [Phase.RUNNING] * 3
    why = cluster.record("f1").decisions[-1].decision.message
    assert why == "w did no better for it: resumed"


def test_of_a_deep_violation_one_suspension_at_a_time_is_recommended() -> None:
    cluster = made()
    fillers = map(filler, ("f1", "f2", "f3"))
    start(cluster, replace(wants(), adapt=Adapt.RECOMMEND), *fillers)
    assert not of(act.SuspendWorkload, measure(cluster, 2, w=40))
    told = [each.decision.message for each in cluster.record("w").decisions]
    (recommended,) = (message for message in told if message.startswith("recommended: "))
    assert recommended.endswith("best-effort f3 is suspended")


def test_what_can_only_be_stopped_goes_one_by_one_in_a_deep_violation_too() -> None:
    cluster = made(able=Capabilities(suspend=False))
    fillers = [filler(name) for name in ("f1", "f2", "f3")]
    start(cluster, wants(), *(replace(f, run=replace(f.run, restartable=True)) for f in fillers))
    stopped = [len(of(act.StopWorkload, measure(cluster, w=40))) for _ in range(4)]
    assert stopped == [0, 1, 1, 1]


@pytest.mark.parametrize(("period", "waits"), [(10, 1), (30, 0), (90, 1)])
def test_what_is_measured_seldom_began_between_two_measurements(period: int, waits: int) -> None:
    cluster = made()
    start(cluster, wants(), filler("f"))
    for rate in (100, 100, *[80] * (1 + waits)):
        assert phase(cluster, "f") is Phase.RUNNING
        cluster.now += period - PERIOD_SECONDS
        measure(cluster, 1, w=rate)
    assert phase(cluster, "f") is Phase.SUSPENDED


def test_it_goes_on_once_nobody_misses_a_target() -> None:
    cluster = made()
    start(cluster, wants(), filler("f"))
    measure(cluster, 2, w=80)
    measure(cluster, 2, w=100)
    assert phase(cluster, "f") is Phase.SUSPENDED, "not before 30 s"
    due = cluster.manager.wake_at(cluster.now)
    assert due == cluster.record("f").phase_since + 30
    cluster.now = due
    step = cluster.tell(ev.TimePassed())
    assert act.ResumeWorkload(cluster.key("f")) in step.actions
    assert phase(cluster, "f") is Phase.RUNNING
    assert cluster.manager.wake_at(cluster.now) is None


def test_each_time_it_gives_way_for_twice_as_long() -> None:
    cluster = made()
    start(cluster, wants(), filler("f"))
    lengths = []
    for _ in range(7):
        while phase(cluster, "f") is Phase.RUNNING:
            measure(cluster, 1, w=80)
        since = cluster.now
        while phase(cluster, "f") is Phase.SUSPENDED:
            measure(cluster, 1, w=100)
        lengths.append(cluster.now - since)
    assert lengths == [30, 60, 120, 240, 480, 960, 960]


def test_several_go_on_one_after_the_other() -> None:
    cluster = made()
    start(cluster, wants(), filler("f1"), filler("f2"))
    for times, rate in ((2, 80), (2, 86), (4, 92), (1, 100)):
        measure(cluster, times, w=rate)
    assert [phase(cluster, f) for f in ("f1", "f2")] == [Phase.SUSPENDED, Phase.RUNNING]
    assert cluster.manager.wake_at(cluster.now) == cluster.record("f2").phase_since + 20
    measure(cluster, 2, w=100)
    assert phase(cluster, "f1") is Phase.RUNNING


def test_who_gave_way_in_vain_goes_on_and_is_spared_for_a_while() -> None:
    cluster = made()
    start(cluster, wants(), filler("f1"), filler("f2"))
    measure(cluster, 2, w=80)
    asked = measure(cluster, 2, w=80)
    assert [phase(cluster, f) for f in ("f1", "f2")] == [Phase.SUSPENDED, Phase.RUNNING]
    resumed = [action.key for action in of(act.ResumeWorkload, asked)]
    assert resumed == [cluster.record("f2").key], "the engine has to let it go on"
    assert cluster.record("f2").ineffective_at == cluster.now
    assert "w did no better" in cluster.record("f2").decisions[-1].decision.message
    measure(cluster, 2, w=80)
    assert [phase(cluster, f) for f in ("f1", "f2")] == [Phase.RUNNING, Phase.RUNNING]
    measure(cluster, 90, w=80)
    assert not cluster.manager.state.workloads["f1"].suspensions
    asked = measure(cluster, 10, w=80)
    assert of(act.SuspendWorkload, asked), "after 16 minutes it is tried again"


def test_nobody_stays_suspended_for_ever_beside_one_that_misses() -> None:
    cluster = made()
    start(cluster, wants(), filler("f"))
    measure(cluster, 2, w=50)
    suspended_at = cluster.now
    while phase(cluster, "f") is Phase.SUSPENDED:
        measure(cluster, 1, w=80)
    assert cluster.now - suspended_at == 960
    assert "the longest suspension is over" in cluster.record("f").decisions[-1].decision.message
    measure(cluster, 1, w=80)
    assert phase(cluster, "f") is Phase.RUNNING, "not straight back"


@pytest.mark.parametrize("ending", ["finished", "vanished", "revoked"])
def test_it_goes_on_when_the_one_it_gave_way_to_has_gone(ending: str) -> None:
    cluster = made()
    start(cluster, wants(), filler("f"))
    measure(cluster, 2, w=80)
    cluster.now += 40
    key = cluster.key("w")
    if ending == "revoked":
        cluster.tell(ev.WorkloadRevoked("w"))
    lost = ev.WorkloadVanished(key, "gone")
    cluster.tell(lost if ending == "vanished" else ev.WorkloadFinished(key, 0, None, "exited"))
    assert phase(cluster, "f") is Phase.RUNNING
    assert cluster.asked[-1] == act.ResumeWorkload(cluster.key("f"))


def test_a_suspended_one_can_be_stopped_and_needs_no_waking_then() -> None:
    cluster = made()
    start(cluster, wants(), filler("f"))
    measure(cluster, 2, w=80)
    step = cluster.tell(ev.WorkloadRevoked("f"))
    assert of(act.StopWorkload, step.actions)
    assert cluster.manager.wake_at(cluster.now + 1000) in (None, cluster.now + 60)
    cluster.tell(ev.WorkloadFinished(cluster.key("f"), None, 9, "killed"))
    assert phase(cluster, "f") is Phase.REVOKED
    cluster.check_books()


def test_engines_that_cannot_suspend_are_not_asked_to() -> None:
    cluster = made(able=Capabilities(suspend=False))
    start(cluster, wants(), filler("f"))
    assert not of(act.SuspendWorkload, measure(cluster, 10, w=80))


def test_a_policy_that_follows_no_target_disturbs_no_neighbour_for_it() -> None:
    for policy in ("least-loaded", "round-robin"):
        cluster = made(policy)
        start(cluster, wants(), filler("f"))
        assert not of(act.SuspendWorkload, measure(cluster, 10, w=50))


def test_what_the_engine_could_not_resize_neighbours_may_mend() -> None:
    cluster = made()
    start(cluster, wants(millicpus=1000), filler("f"))
    resize = of(act.ResizeAllocation, measure(cluster, 2, w=80))[0]
    cluster.tell(ev.ResizeFailed(resize.key, "no such group"))
    assert cluster.record("w").reason == "resize-failed"
    measure(cluster, 2, w=80)
    assert phase(cluster, "f") is Phase.SUSPENDED


def test_who_is_suspended_is_asked_for_once_and_again_after_a_restart() -> None:
    cluster = made()
    start(cluster, wants(), filler("f"))
    asked = measure(cluster, 2, w=80) + measure(cluster, 2, w=90)
    assert len(of(act.SuspendWorkload, asked)) == 1
    cluster.manager = cluster.replayed()
    cluster.asked, known = [], cluster.started_keys()
    cluster.start()
    keys = tuple(cluster.key(name) for name in ("w", "f"))
    cluster.tell(ev.EngineSynced(known or keys, ("a",)))
    assert of(act.SuspendWorkload, cluster.asked) == [act.SuspendWorkload(cluster.key("f"))]


def test_they_go_on_in_the_same_order_after_a_take_over_from_a_snapshot() -> None:
    """f1 is older, f2 was suspended first."""
    cluster = made()
    start(cluster, wants(), filler("f1"), filler("f2"))
    measure(cluster, 2, w=80)
    measure(cluster, 2, w=90)
    other = cluster.replayed(len(cluster.log))
    for manager in (cluster.manager, other):
        sample = Sample(cluster.key("w"), {Quantity.RATE: Reading(100, "x")})
        events = manager.handle(cluster.now + 70, ev.ServerMeasured("a", (sample,))).events
        assert [e.name for e in events if isinstance(e, ev.WorkloadResumed)] == ["f2"]
    assert other.state == cluster.manager.state


# --- moving --------------------------------------------------------------------------------------


def restartable(**others) -> Workload:
    return labelled(wants(restartable=True, **others))


def crowded() -> Cluster:
    """w runs on a, which has 1 CPU; b has 4, and only just."""
    cluster = made("quasar", 1)
    cluster.tell(ev.WorkloadSubmitted(replace(restartable(), tolerance=0.0)))
    classified(cluster, "w", (500, 50), (1000, 110), (4000, 300))
    running(cluster, "w")
    cluster.tell(ev.ServerReported(server("b", 4)))
    return cluster


def reclassified(cluster: Cluster, times: int, **rates: float) -> list[act.Action]:
    """As ``measure``; a classifier answers at once, as before."""
    asked = []
    for _ in range(times):
        asked += measure(cluster, 1, **rates)
        if cluster.record("w").reclassifying:
            told = curve((500, 50), (1000, 110), (4000, 300))
            cluster.tell(ev.WorkloadClassified(cluster.key("w"), told))
    return asked


def test_what_is_known_to_be_wrong_moves_nobody() -> None:
    cluster = crowded()
    assert not of(act.StopWorkload, measure(cluster, 30, w=70))
    assert cluster.record("w").reclassifying


def test_one_that_may_be_restarted_is_moved_to_where_its_target_is_expected_to_be_kept() -> None:
    cluster = crowded()
    asked = reclassified(cluster, 5, w=70)
    assert not of(act.StopWorkload, asked), "it has hardly run"
    asked = reclassified(cluster, 2, w=70)
    old = cluster.key("w")
    assert [action.key for action in of(act.StopWorkload, asked)] == [old]
    assert phase(cluster, "w") is Phase.MIGRATING
    assert cluster.record("w").reason == "placed-for-target"
    assert not measure(cluster, 3, w=70), "and asked for once"
    step = cluster.tell(ev.WorkloadFinished(old, None, 15, "killed"))
    cluster.check_books()
    assert [p.server for p in of(act.StartWorkload, list(step.actions))[0].placements] == ["b"]
    assert cluster.key("w") != old
    assert cluster.record("w").exit_code is None
    running(cluster, "w")
    assert (cluster.record("w").starts, cluster.record("w").migrations) == (2, 1)


def test_it_goes_back_rather_than_nowhere() -> None:
    cluster = crowded()
    reclassified(cluster, 7, w=70)
    cluster.tell(ev.ServerLeft("b", "gone"))
    cluster.tell(ev.WorkloadFinished(cluster.key("w"), None, 15, "killed"))
    assert cluster.record("w").placements[0].server == "a"
    cluster.check_books()


def test_its_destination_keeps_room_for_it_until_it_is_there() -> None:
    cluster = crowded()
    reclassified(cluster, 7, w=70)
    assert phase(cluster, "w") is Phase.MIGRATING
    (destination,) = cluster.record("w").planned
    assert destination.server == "b"
    cluster.tell(ev.WorkloadSubmitted(workload("big", 4000)))
    assert cluster.record("big").deferral is ReasonCode.NO_ROOM
    cluster.check_books()
    cluster.tell(ev.WorkloadFinished(cluster.key("w"), None, 15, "killed"))
    assert cluster.record("w").placements == (destination,)
    assert phase(cluster, "big") is Phase.QUEUED
    cluster.check_books()


def test_a_destination_that_takes_no_more_work_sends_it_back() -> None:
    cluster = crowded()
    reclassified(cluster, 7, w=70)
    cluster.tell(ev.ServerReported(server("b", 4, accepting=False)))
    cluster.tell(ev.WorkloadFinished(cluster.key("w"), None, 15, "killed"))
    assert cluster.record("w").placements[0].server == "a"
    cluster.check_books()


def test_each_move_needs_twice_as_long_a_run_before_it() -> None:
    cluster = crowded()
    runs = []
    for _ in range(4):
        started = cluster.now
        while phase(cluster, "w") is Phase.RUNNING:
            for action in reclassified(cluster, 1, w=70):
                if isinstance(action, act.ResizeAllocation):
                    cluster.tell(ev.ResizeFailed(action.key, "no"))
        runs.append(cluster.now - started)
        cluster.tell(ev.WorkloadFinished(cluster.key("w"), None, 15, "killed"))
        running(cluster, "w")
    assert all(run >= 60 * 2**at for at, run in enumerate(runs)), runs


def test_what_may_not_be_restarted_or_has_nowhere_better_stays() -> None:
    cluster = made("quasar", 1)
    cluster.tell(ev.WorkloadSubmitted(labelled(wants())))
    classified(cluster, "w", (500, 50), (1000, 110), (4000, 300))
    running(cluster, "w")
    cluster.tell(ev.ServerReported(server("b", 4)))
    assert not of(act.StopWorkload, reclassified(cluster, 20, w=70))
    alone = made("quasar", 1)
    alone.tell(ev.WorkloadSubmitted(restartable()))
    classified(alone, "w", (500, 50), (1000, 110), (4000, 300))
    running(alone, "w")
    assert not of(act.StopWorkload, reclassified(alone, 20, w=70))


def test_a_deadline_that_has_passed_moves_nothing_and_nobody() -> None:
    cluster = made("quasar", 1, 4)
    late = replace(restartable(), target=Target(completion_seconds=15.0))
    cluster.tell(ev.WorkloadSubmitted(late))
    classified(cluster, "w", (500, 50), (4000, 300))
    running(cluster, "w")
    start(cluster, filler("f"))
    cluster.now += 100
    for _ in range(20):
        cluster.now += 10
        readings = {Quantity.REMAINING: Reading(1000.0, "progress lines")}
        step = cluster.tell(ev.ServerMeasured("a", (Sample(cluster.key("w"), readings),)))
        assert not step.actions
    assert not cluster.manager.view.unsettled.any()


# --- servers that take nothing new ---------------------------------------------------------------


def test_a_server_takes_no_new_work_while_a_resident_is_off_for_a_minute_at_most() -> None:
    cluster = made("quasar", 2)
    start(cluster, wants(millicpus=1000))
    measure(cluster, 1, w=80)
    cluster.tell(ev.WorkloadSubmitted(workload("new", 100)))
    assert cluster.record("new").reason == "off-prediction"
    asked = measure(cluster, 1, w=80)
    cluster.tell(
        ev.AllocationResized(cluster.key("w"), of(act.ResizeAllocation, asked)[0].placements)
    )
    assert phase(cluster, "new") is Phase.QUEUED, "an adjustment alone says nothing yet"
    measure(cluster, 1, w=100)
    assert phase(cluster, "new") is Phase.PLACED
    cluster.check_books()


def test_one_that_misses_for_ever_closes_its_server_for_a_minute() -> None:
    cluster = made("quasar", 2, able=Capabilities(resize=Resize.NONE))
    start(cluster, wants(millicpus=1000))
    measure(cluster, 1, w=80)
    cluster.tell(ev.WorkloadSubmitted(workload("new", 100)))
    waited = 0
    while phase(cluster, "new") is Phase.QUEUED:
        measure(cluster, 1, w=80)
        waited += 10
    assert waited == 60


@pytest.mark.parametrize("later", [61.0, -500.0])
def test_one_that_is_not_measured_any_more_closes_it_no_longer(later: float) -> None:
    """Silence, or a clock that was set back so far that no sample is ever new."""
    cluster = made("quasar", 2)
    cluster.now = 1000.0
    start(cluster, wants(millicpus=1000))
    measure(cluster, 1, w=80)
    cluster.tell(ev.WorkloadSubmitted(workload("new", 100)))
    assert cluster.manager.wake_at(cluster.now) == cluster.now + 60
    cluster.now += later
    cluster.tell(ev.TimePassed())
    assert phase(cluster, "new") is Phase.PLACED
    assert cluster.manager.wake_at(cluster.now) is None


def test_a_closed_server_is_not_overtaken_by_those_behind() -> None:
    cluster = made("quasar", 4, 1)
    start(cluster, wants(millicpus=1500))
    measure(cluster, 1, w=80)
    cluster.tell(ev.WorkloadSubmitted(workload("large", 2000)))
    cluster.tell(ev.WorkloadSubmitted(workload("small", 600)))
    cluster.tell(ev.WorkloadSubmitted(workload("medium", 500)))
    assert cluster.record("small").placements[0].server == "b", "where large can never go"
    assert phase(cluster, "medium") is Phase.QUEUED
    measure(cluster, 1, w=100)
    assert [phase(cluster, name) for name in ("large", "medium")] == [Phase.PLACED] * 2


# --- a clock that is set back --------------------------------------------------------------------


def test_a_clock_that_is_set_back_stops_no_adaptation() -> None:
    cluster = made()
    cluster.now = 10_000.0
    start(cluster, wants(millicpus=400), filler("f"))
    measure(cluster, 1, w=80)
    cluster.now -= 5000
    measure(cluster, 1, w=80)
    assert of(act.ResizeAllocation, measure(cluster, 1, w=80)), "10 s by the new clock"


def test_a_clock_that_is_set_back_keeps_nobody_suspended() -> None:
    cluster = made()
    cluster.now = 10_000.0
    start(cluster, wants(), filler("f"))
    measure(cluster, 2, w=80)
    cluster.now -= 5000
    assert cluster.manager.wake_at(cluster.now) == cluster.now
    cluster.tell(ev.TimePassed())
    assert phase(cluster, "f") is Phase.RUNNING


def predicted_at(rate: float, low: float) -> Cluster:
    """w runs on a, and so much of its target, 100, is predicted."""
    cluster = made("quasar", 4, able=Capabilities(resize=Resize.NONE, fractional_cpu=False))
    cluster.tell(ev.WorkloadSubmitted(labelled(wants(millicpus=1000))))
    std = log(rate / low) / quantile(0.8)
    classified(cluster, "w", (1000, rate), (2000, rate), std=std)
    running(cluster, "w")
    return cluster


def test_one_that_was_placed_below_its_target_knowingly_closes_nothing() -> None:
    cluster = predicted_at(80, 66)
    measure(cluster, 3, w=78)
    assert is_violated(cluster.record("w"))
    assert not cluster.manager.view.unsettled.any()
    cluster.tell(ev.WorkloadSubmitted(workload("new", 100)))
    assert phase(cluster, "new") is Phase.PLACED


def test_one_below_its_prediction_closes_its_server_until_it_is_reclassified() -> None:
    cluster = predicted_at(200, 180)
    asked: list[act.Action] = []
    while not of(act.ClassifyWorkload, asked):
        asked = measure(cluster, 1, w=120)
        assert not is_violated(cluster.record("w")), "it keeps its target"
        assert cluster.manager.view.unsettled.tolist() == [1]
    cluster.tell(ev.WorkloadSubmitted(workload("new", 100)))
    assert cluster.record("new").reason == "off-prediction"
    (asked_for,) = of(act.ClassifyWorkload, asked)
    cluster.tell(ev.WorkloadClassified(asked_for.key, curve((1000, 121), (2000, 122))))
    assert cluster.record("w").predicted.mean == pytest.approx(1.2, abs=0.03)
    assert cluster.manager.view.unsettled.tolist() == [0]
    assert phase(cluster, "new") is Phase.PLACED
    cluster.check_books()


def test_one_that_waits_for_that_blocks_nobody() -> None:
    cluster = predicted_at(200, 180)
    cluster.tell(ev.ServerReported(server("b", 1)))
    measure(cluster, 1, w=120)
    assert cluster.manager.view.unsettled.tolist() == [1, 0]
    cluster.tell(ev.WorkloadSubmitted(workload("large", 3000)))
    assert cluster.record("large").reason == "off-prediction"
    cluster.tell(ev.WorkloadSubmitted(workload("small", 200)))
    assert cluster.record("small").placements[0].server == "b"
    assert "ahead of" not in cluster.record("small").decisions[-1].decision.message


def test_neighbors_give_to_one_on_several_servers_on_each_of_them() -> None:
    able = Capabilities(max_servers_per_workload=4, measures=True)
    cluster = made("quasar[idle_confidence=0]", 2, 2, able=able)
    twice = {1: Estimate(1.0, 0.0), 2: Estimate(2.0, 0.0)}
    known = ((500, 50), (1000, 100), (2000, 200))
    cluster.tell(ev.WorkloadSubmitted(labelled(replace(wants(rate=250), scale=Scale(2)))))
    classified(cluster, "w", *known, std=0.01, servers=twice)
    running(cluster, "w")
    cluster.tell(ev.WorkloadSubmitted(labelled(wants("ahead", rate=50, millicpus=500))))
    classified(cluster, "ahead", *known, std=0.01)
    running(cluster, "ahead")
    assert [p.server for p in cluster.record("w").placements] == ["a", "b"]
    (here,) = cluster.record("ahead").placements
    rates, asked = {"w": 180.0, "ahead": 70.0}, list[act.Action]()
    for _ in range(3):
        cpus = {n: cpu_of(cluster.record(n).placements) / 1000 for n in rates}
        asked += _seen(cluster, cpus, **rates)
    given = of(act.ResizeAllocation, asked)[0]
    assert given.key == cluster.key("ahead")
    assert given.placements[0].allocation.cpu_millicpus < here.allocation.cpu_millicpus
    why = cluster.record("ahead").decisions[-1].decision.message
    assert why.startswith("w violates its target and lacks room: ")
