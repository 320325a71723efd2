"""``spec.adapt``: what is done about a workload once it is placed, as its user lets it be."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cluster import Cluster, workload
from tests.support.courses import (
    filler,
    made,
    measure,
    of,
    phase,
    start,
    wants,
)
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.codec import decode_event
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Mode
from wharfinger.core.state import AdjustmentKind
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.performance import Quantity, Reading, Sample
from wharfinger.model.workload import Adapt, Reservation, Workload

DISRUPTIVE = (act.ResizeAllocation, act.SuspendWorkload, act.StopWorkload, act.ProbeWorkload)


def let(wanted: Workload, adapt: Adapt) -> Workload:
    return replace(wanted, adapt=adapt)


def short_of_cpu(adapt: Adapt, **others) -> tuple[Cluster, list[act.Action]]:
    """One that misses its target for half a minute beside free CPU."""
    cluster = made("feedback", 4, **others)
    start(cluster, let(wants("w", 100, 500), adapt))
    return cluster, measure(cluster, 3, w=60)


def test_auto_is_adjusted() -> None:
    _, asked = short_of_cpu(Adapt.AUTO)
    assert of(act.ResizeAllocation, asked)


def test_off_is_left_as_it_is() -> None:
    cluster, asked = short_of_cpu(Adapt.OFF)
    assert asked == []
    assert cluster.record("w").adjustments == []
    assert cluster.record("w").tracking is not None, "users still see that it misses its target"


def test_recommend_tells_and_does_nothing() -> None:
    cluster, asked = short_of_cpu(Adapt.RECOMMEND)
    assert asked == []
    (told,) = cluster.record("w").adjustments
    assert (told.kind, told.reason) == (AdjustmentKind.UNCHANGED, ReasonCode.RECOMMENDED)
    decision = cluster.record("w").decisions[-1].decision
    assert decision.message.startswith("recommended: ")
    assert decision.would_change == "adapt: auto in its manifest"
    assert cluster.record("w").reason == "recommended"


@pytest.mark.parametrize("adapt", Adapt)
def test_a_manager_that_recommends_is_stricter(adapt: Adapt) -> None:
    cluster = made("feedback", 4)
    start(cluster, let(wants("w", 100, 500), adapt))
    cluster.mode = Mode.RECOMMEND
    cluster.manager = cluster.make_manager(None)
    for time, kind, payload in cluster.log:
        cluster.manager.apply(time, decode_event(kind, payload))
    assert measure(cluster, 3, w=60) == []
    told = [made_.reason for made_ in cluster.record("w").adjustments]
    assert told == ([] if adapt is Adapt.OFF else [ReasonCode.RECOMMENDED])


def test_it_is_changed_while_it_runs() -> None:
    cluster, _ = short_of_cpu(Adapt.OFF)
    cluster.tell(ev.WorkloadUpdated(let(cluster.record("w").workload, Adapt.AUTO)))
    assert of(act.ResizeAllocation, measure(cluster, 3, w=60))
    cluster, _ = short_of_cpu(Adapt.AUTO)
    cluster.tell(ev.WorkloadUpdated(let(cluster.record("w").workload, Adapt.OFF)))
    placed = cluster.record("w").placements
    measure(cluster, 12, w=60)
    assert cluster.record("w").placements == placed


def test_the_next_action_waits_for_the_answer_to_the_one_before() -> None:
    cluster = made("feedback", 2, 2)
    start(cluster, wants("w", 100, 500, restartable=True), filler("f"))
    asked = of(act.ResizeAllocation, measure(cluster, 2, w=60))
    assert len(asked) == 1
    assert measure(cluster, 20, w=30) == [], "it is neither resized again nor moved"
    cluster.tell(ev.AllocationResized(asked[0].key, asked[0].placements))
    assert len(measure(cluster, 20, w=30)) == 1


def test_what_its_user_changes_is_followed_all_the_same() -> None:
    cluster = made("least-loaded", 4)
    start(cluster, let(workload("w", 500), Adapt.OFF))
    more = replace(cluster.record("w").workload, reservation=Reservation(1000, 2**28))
    step = cluster.tell(ev.WorkloadUpdated(more))
    (resized,) = of(act.ResizeAllocation, list(step.actions))
    assert resized.placements[0].allocation.cpu_millicpus == 1000


def test_memory_that_it_needs_is_given_all_the_same() -> None:
    cluster = made("least-loaded", 4)
    elastic = replace(workload("w", 500), reservation=Reservation(500, 2**28, True, True))
    start(cluster, let(elastic, Adapt.OFF))
    cluster.now += 30
    cpu = Reading(0.5, "CPU time", trusted=False)
    full = {Quantity.MEMORY: Reading(2.0**28, "cgroup", trusted=False), Quantity.CPU: cpu}
    sample = Sample(cluster.key("w"), full)
    (resized,) = of(
        act.ResizeAllocation, list(cluster.tell(ev.ServerMeasured("a", (sample,))).actions)
    )
    assert resized.placements[0].allocation.memory_bytes == 2**29
    assert resized.placements[0].allocation.cpu_millicpus == 500


@pytest.mark.parametrize("adapt", [Adapt.OFF, Adapt.RECOMMEND])
def test_a_neighbour_that_may_not_be_adjusted_is_left_alone(adapt: Adapt) -> None:
    cluster = made()
    start(cluster, wants(), let(filler("f1"), adapt), filler("f2"))
    asked = measure(cluster, 4, w=80)
    assert of(act.SuspendWorkload, asked) == [act.SuspendWorkload(cluster.key("f2"))]
    cluster = made("feedback", 1)
    start(cluster, wants("w", 100, 500), let(wants("ahead", 100, 300), adapt))
    asked = of(act.ResizeAllocation, measure(cluster, 3, w=60, ahead=140))
    assert cluster.key("ahead") not in [action.key for action in asked], "it gives nothing"


def test_neighbours_are_not_suspended_for_one_that_is_only_told() -> None:
    cluster = made()
    start(cluster, let(wants(), Adapt.RECOMMEND), filler("f"))
    assert measure(cluster, 4, w=80) == []
    assert phase(cluster, "f") is Phase.RUNNING
    assert cluster.record("w").reason == "recommended"


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(("w", "x", "f")), st.integers(20, 180), st.booleans()),
        min_size=5,
        max_size=40,
    ),
    st.sampled_from(Adapt),
    st.sampled_from(("feedback", "quasar")),
)
def test_one_disruptive_action_at_a_time_on_one_workload(
    course: list[tuple[str, int, bool]], adapt: Adapt, policy: str
) -> None:
    """Until the engine has answered the one, no other is asked for; on ``off`` there is none."""
    cluster = made(policy, 2, 2, planner=None)
    start(
        cluster,
        let(wants("w", 100, 500, restartable=True), adapt),
        wants("x", 100, 1000, restartable=True),
        filler("f"),
    )
    open_: dict[str, act.Action] = {}
    for name, rate, answers in course:
        asked = measure(cluster, 1, **{name: float(rate)})
        for action in of(DISRUPTIVE, asked):  # type: ignore[arg-type]
            key = action.key  # type: ignore[attr-defined]
            assert key not in open_, f"{action} while {open_[key]} is under way"
            assert adapt is not Adapt.OFF or key != cluster.key("w")
            open_[key] = action
        if answers:
            for key, action in list(open_.items()):
                _answer(cluster, action)
                del open_[key]


def _answer(cluster: Cluster, action: act.Action) -> None:
    match action:
        case act.ResizeAllocation(key, placements):
            cluster.tell(ev.AllocationResized(key, placements))
        case act.StopWorkload(key):
            cluster.tell(ev.WorkloadFinished(key, None, 15, "killed"))
        case _:
            return
