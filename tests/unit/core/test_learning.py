"""What is learnt of a workload from how it runs."""

from dataclasses import replace

import pytest

from tests.support.cluster import Cluster, running, workload
from tests.support.courses import (
    classified,
    curve,
    labelled,
    made,
    measure,
    of,
    phase,
    start,
    wants,
)
from tests.support.views import seen
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import WorkloadRecord
from wharfinger.core.tracking import TargetTracking
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.performance import Performance, Quantity, Reading, Sample
from wharfinger.model.profile import (
    Classification,
    Entry,
    Estimate,
    Measurements,
    SettingEntry,
)
from wharfinger.model.view import Capabilities, Request, Resize
from wharfinger.model.workload import Profile, ProfileMode, Scale, Target
from wharfinger.policies.adaptation.learning import Learning
from wharfinger.policies.adaptation.slack import TargetSettings

# --- learning from what runs ---------------------------------------------------------------------


def learner(*columns: tuple[int, float], millicpus: int = 400, **others) -> Cluster:
    cluster = made("feedback", 4, able=Capabilities(**others))
    cluster.tell(ev.WorkloadSubmitted(labelled(wants(millicpus=millicpus))))
    classified(cluster, "w", *columns)
    running(cluster, "w")
    return cluster


def test_a_program_that_surprises_is_classified_anew_at_its_new_level() -> None:
    cluster = learner((400, 200), (800, 300))
    asked = measure(cluster, 2, w=100)
    found = of(act.ClassifyWorkload, asked)
    assert len(found) == 1
    rates = {c: e.value for c, e in found[0].measurements.performance[Quantity.RATE].items()}
    assert rates == {400: 100, 800: 150}, "the shape stays"
    why = "reclassified: it runs 69% off what was predicted for 0.4 CPU"
    assert cluster.record("w").decisions[-1].decision.message == why
    assert not of(act.ClassifyWorkload, measure(cluster, 1, w=100)), "asked for once"
    cluster.tell(ev.WorkloadClassified(cluster.key("w"), curve((400, 100), (800, 150))))
    assert not of(act.ClassifyWorkload, measure(cluster, 20, w=100))


def test_an_estimate_that_stays_wrong_is_made_anew_once_a_minute() -> None:
    cluster = learner((400, 200), (800, 300))
    count = 0
    for _ in range(60):
        for _ in of(act.ClassifyWorkload, measure(cluster, 1, w=100)):
            count += 1
            cluster.tell(ev.WorkloadClassified(cluster.key("w"), curve((400, 200), (800, 300))))
    assert 2 <= count <= 10


def test_a_quantity_without_a_curve_is_no_reason_to_ask_for_ever() -> None:
    cluster = learner((400, 200), (800, 300))
    cluster.tell(ev.WorkloadClassified(cluster.key("w"), Classification("hand", "1")))
    count = 0
    for _ in range(60):
        for _ in of(act.ClassifyWorkload, measure(cluster, 1, w=100)):
            count += 1
            cluster.tell(ev.WorkloadClassified(cluster.key("w"), Classification("hand", "1")))
    assert count <= 1


def test_a_failure_to_classify_anew_leaves_what_was_known() -> None:
    cluster = learner((400, 200), (800, 300))
    measure(cluster, 2, w=100)
    known = cluster.record("w").classification
    cluster.tell(ev.ClassificationFailed(cluster.key("w"), "no estimator"))
    assert not cluster.record("w").reclassifying
    assert cluster.record("w").classification == known
    assert phase(cluster, "w") is Phase.RUNNING


def test_one_that_is_within_what_was_predicted_is_left_alone() -> None:
    cluster = learner((400, 100), (800, 150))
    assert not of(act.ClassifyWorkload, measure(cluster, 20, w=105))


def test_one_measured_under_one_allocation_runs_under_a_second_for_a_while() -> None:
    cluster = learner((400, 100))
    assert not of(act.ResizeAllocation, measure(cluster, 1, w=100))
    asked = measure(cluster, 2, w=100)
    resize = of(act.ResizeAllocation, asked)[0]
    assert resize.placements[0].allocation.cpu_millicpus == 600
    cluster.tell(ev.AllocationResized(resize.key, resize.placements))
    asked = measure(cluster, 3, w=130)
    found = of(act.ClassifyWorkload, asked)[0].measurements.performance[Quantity.RATE]
    assert {cpu: round(entry.value) for cpu, entry in found.items()} == {400: 130, 600: 130}
    cluster.tell(ev.WorkloadClassified(resize.key, curve((400, 100), (600, 130))))
    assert not of(act.ResizeAllocation, measure(cluster, 30, w=130)), "and no third"


def test_a_live_profile_from_nothing_comes_to_two_allocations() -> None:
    """A cold start; then as it runs; then under a second allocation."""
    cluster = made("feedback", 4)
    live = labelled(wants(millicpus=400), profile=Profile(ProfileMode.LIVE))
    cluster.tell(ev.WorkloadSubmitted(live))
    key = cluster.key("w")
    cluster.tell(ev.ProfilingFailed(key, "no copies here"))
    assert of(act.ClassifyWorkload, cluster.asked)
    cluster.tell(ev.WorkloadClassified(key, Classification("hand", "1")))
    running(cluster, "w")
    assert of(act.ClassifyWorkload, measure(cluster, 2, w=100))
    cluster.tell(ev.WorkloadClassified(cluster.key("w"), curve((400, 100), (800, 200), std=0.3)))
    resize = of(act.ResizeAllocation, measure(cluster, 2, w=100))
    assert [r.placements[0].allocation.cpu_millicpus for r in resize] == [600]


@pytest.mark.parametrize(
    ("change", "able"),
    [
        ({}, {"resize": Resize.NONE}),
        ({"profile": Profile(ProfileMode.NONE)}, {}),
        ({"tolerance": 0.0}, {}),
    ],
)
def test_a_second_allocation_is_not_always_had(change, able) -> None:
    cluster = made("feedback", 4, able=Capabilities(**able))
    cluster.tell(ev.WorkloadSubmitted(labelled(wants(millicpus=4000), **change)))
    classified(cluster, "w", (4000, 100))
    running(cluster, "w")
    assert not of(act.ResizeAllocation, measure(cluster, 10, w=100))


def test_what_keeps_what_it_states_has_no_second_allocation() -> None:
    cluster = made("paragon", 4)
    cluster.tell(ev.WorkloadSubmitted(labelled(wants(millicpus=400))))
    classified(cluster, "w", (400, 100))
    running(cluster, "w")
    assert not of(act.ResizeAllocation, measure(cluster, 30, w=100))


def test_a_second_allocation_that_fails_is_not_tried_for_ever() -> None:
    cluster = learner((400, 100))
    count = 0
    for _ in range(60):
        for action in of(act.ResizeAllocation, measure(cluster, 1, w=100)):
            count += 1
            cluster.tell(ev.ResizeFailed(action.key, "no"))
    assert count == 1


def test_without_room_it_is_less_by_its_tolerance() -> None:
    cluster = made("feedback", 4)
    cluster.tell(ev.WorkloadSubmitted(labelled(wants(millicpus=4000))))
    classified(cluster, "w", (4000, 100))
    running(cluster, "w")
    resize = of(act.ResizeAllocation, measure(cluster, 3, w=100))
    assert resize[0].placements[0].allocation.cpu_millicpus == 3800


def test_what_an_idle_service_answers_says_nothing_of_what_it_could() -> None:
    cluster = made("feedback", 4)
    service = replace(workload("w", 400), target=Target(throughput_per_second=100))
    start(cluster, service)
    for used, expected in ((0.1, None), (0.4, 100.0)):
        for _ in range(3):
            cluster.now += 10
            readings = {
                Quantity.THROUGHPUT: Reading(100.0, "load generator"),
                Quantity.CPU: Reading(used, "CPU time", trusted=False),
            }
            cluster.tell(ev.ServerMeasured("a", (Sample(cluster.key("w"), readings),)))
        entries = cluster.record("w").observed.get(Quantity.THROUGHPUT, {})
        assert (entries[400].value if entries else None) == expected


def test_so_many_allocations_are_remembered_and_no_more() -> None:
    cluster = made("feedback", 64, planner=None)
    start(cluster, wants(millicpus=400))
    for rate in (90, 110) * 30:
        for action in of(act.ResizeAllocation, measure(cluster, 3, w=rate)):
            cluster.tell(ev.AllocationResized(action.key, action.placements))
    observed = cluster.record("w").observed[Quantity.RATE]
    assert len(observed) == TargetSettings().max_observed
    assert list(observed)[-1] == cluster.record("w").placements[0].allocation.cpu_millicpus


def test_on_another_platform_it_surprises_only_by_more_than_that_explains() -> None:
    """Profiled on a usual server, it runs on one that is half as fast."""
    known = replace(curve((400, 200), (800, 300)), platform="usual")
    known = replace(known, platforms={"old": Estimate(0.5, 0.0)})
    profiled = {Quantity.RATE: {400: Entry(200.0), 800: Entry(300.0)}}
    setting = Setting("usual", Configuration(400), 2)
    record = WorkloadRecord(
        workload("w"),
        1,
        0.0,
        placements=(Placement("s", Allocation(400, 1)),),
        classification=known,
        measurements=Measurements(
            profiled,
            platform="usual",
            further={Quantity.RATE: (SettingEntry(setting, Entry(360.0)),)},
        ),
    )
    learning = Learning(TargetSettings())
    record.observed = {Quantity.RATE: {400: Entry(100.0)}}
    assert not learning.surprise(record, 100.0, "old")
    assert "runs 69% off" in learning.surprise(record, 100.0, "usual")

    record.observed = {Quantity.RATE: {400: Entry(50.0)}}
    assert "runs 69% off" in learning.surprise(record, 100.0, "old")
    found = learning.corrected(record, "old")
    assert found.platform == "usual", "all is told as it would be there"
    rates = {cpu: entry.value for cpu, entry in found.performance[Quantity.RATE].items()}
    assert rates == pytest.approx({400: 100.0, 800: 150.0})
    assert found.further[Quantity.RATE][0].entry.value == pytest.approx(180.0)


def test_what_is_told_on_the_platform_of_its_profile_is_not_as_on_that_of_its_curves() -> None:
    """Profiled on a usual server, its curves are of the small one, which is known best."""
    known = replace(curve((400, 20), (800, 30)), platform="small")
    known = replace(known, platforms={"usual": Estimate(10.0, 0.0), "old": Estimate(5.0, 0.0)})
    record = WorkloadRecord(
        workload("w"),
        1,
        0.0,
        placements=(Placement("s", Allocation(400, 1)),),
        classification=known,
        measurements=Measurements(
            {Quantity.RATE: {400: Entry(200.0), 800: Entry(300.0)}}, platform="usual"
        ),
    )
    learning = Learning(TargetSettings())
    for level, expected in ((100.0, {400: 200.0, 800: 300.0}), (50.0, {400: 100.0, 800: 150.0})):
        record.observed = {Quantity.RATE: {400: Entry(level)}}
        told = learning.corrected(record, "old").performance[Quantity.RATE]
        assert {cpu: entry.value for cpu, entry in told.items()} == pytest.approx(expected)


def test_what_began_without_a_profile_is_known_where_it_was_seen() -> None:
    """A cold start says which platform most programs run best on; the entry is of its own."""
    cold = Classification("hand", "1", platform="usual", platforms={"old": Estimate(0.5, 0.1)})
    placed = (Placement("s", Allocation(400, 1)),)
    record = WorkloadRecord(workload("w"), 1, 0.0, placements=placed, classification=cold)
    record.observed = {Quantity.RATE: {400: Entry(100.0)}}
    learning = Learning(TargetSettings())
    assert learning.surprise(record, 100.0, "old")
    found = learning.corrected(record, "old")
    assert found.platform == "old"
    assert found.performance[Quantity.RATE][400].value == 100.0


def test_on_several_servers_it_is_known_by_what_it_does_on_each() -> None:
    """A framework does 1.6 times as much on two servers as on one; its latency tells nothing."""
    known = curve((400, 200), (800, 300), servers={1: Estimate(1.0, 0.0), 2: Estimate(1.6, 0.05)})
    placed = tuple(Placement(name, Allocation(cpu, 1)) for name, cpu in (("a", 600), ("b", 200)))
    record = WorkloadRecord(
        replace(workload("w"), scale=Scale(2)),
        1,
        0.0,
        phase=Phase.RUNNING,
        placements=placed,
        classification=known,
        measurements=Measurements({Quantity.RATE: {400: Entry(200.0), 800: Entry(300.0)}}),
        performance=Performance(
            1000.0,
            {Quantity.RATE: Reading(160.0, "test"), Quantity.LATENCY: Reading(1.0, "test")},
        ),
    )
    learning = Learning(TargetSettings())
    (told,) = learning.observations(record, 1000.0, None)
    assert (told.quantity, told.cpu_millicpus, told.entry.value) == (Quantity.RATE, 400, 100.0)
    assert told.entry.error == pytest.approx((0.03**2 + 0.05**2 + 0.1**2) ** 0.5)
    record.observed = {Quantity.RATE: {400: told.entry}}
    assert learning.surprise(record, 1000.0, "") == "it runs 69% off what was predicted for 0.4 CPU"
    row = learning.corrected(record, "").performance[Quantity.RATE]
    assert {cpu: entry.value for cpu, entry in row.items()} == {400: 100.0, 800: 150.0}
    record.workload = replace(record.workload, scale=Scale(1))
    assert not learning.observations(record, 1000.0, None), "nothing is known of two servers"


@pytest.mark.parametrize(
    ("used", "after"),
    [
        ({"s0": 600, "s1": 200}, [900, 300]),
        # As far as each has room.
        ({"s0": 3900, "s1": 200}, [700, 233]),
        ({"s0": 4000, "s1": 200}, [570, 190]),
    ],
)
def test_the_second_allocation_is_one_on_all_servers(
    used: dict[str, int], after: list[int]
) -> None:
    placed = tuple(Placement(name, Allocation(cpu, 1)) for name, cpu in (("s0", 600), ("s1", 200)))
    target = Target(rate_per_second=100)
    record = WorkloadRecord(
        replace(workload("w"), target=target, scale=Scale(2)), 1, 0.0, phase=Phase.RUNNING
    )
    record.placements, record.measurements = placed, Measurements()
    record.tracking = TargetTracking(1.0, 0, 0.0)
    record.observed = {Quantity.RATE: {400: Entry(100.0)}}
    learning, request = Learning(TargetSettings()), Request(record.workload)
    found = learning.second_allocation(record, request, seen(4, 4, used=used))
    assert [each.allocation.cpu_millicpus for each in found] == after
    record.observed[Quantity.RATE][600] = Entry(130.0)
    record.classification = curve((400, 100), (800, 160))
    record.placements = tuple(
        replace(p, allocation=replace(p.allocation, cpu_millicpus=cpu))
        for p, cpu in zip(placed, (900, 300), strict=True)
    )
    assert learning.surprise(record, 100.0, "") == "it is measured under one allocation more"
