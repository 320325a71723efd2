"""A changed target or reservation of what runs: what follows it, and what is predicted then."""

from dataclasses import replace

import pytest

from tests.support.cluster import MIB, Cluster, running
from tests.support.courses import classified, curve, labelled, made, measure, of, wants
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.codec import decode_event, encode_event
from wharfinger.core.lifecycle import Phase
from wharfinger.errors import Conflict
from wharfinger.model.decisions import (
    Decision,
    Interval,
    Prediction,
    ReasonCode,
    Stage,
    Term,
)
from wharfinger.model.performance import Quantity
from wharfinger.model.workload import Adapt, Measure, Reservation, Target, Workload
from wharfinger.runtime.requests import RequestOutcome, application, check_update
from wharfinger.service.performance import newest_prediction

RATES = (250, 50), (500, 100), (1000, 200), (2000, 400)


@pytest.fixture
def cluster() -> Cluster:
    cluster = made("quasar", 4)
    cluster.tell(ev.WorkloadSubmitted(labelled(wants())))
    classified(cluster, "w", *RATES)
    running(cluster, "w")
    return cluster


def stated(cluster: Cluster) -> Workload:
    return cluster.record("w").workload


def update(cluster: Cluster, **changes):
    return cluster.tell(ev.WorkloadUpdated(replace(stated(cluster), **changes))).actions


def test_how_it_is_adjusted_is_changed_while_it_runs(cluster: Cluster) -> None:
    before, wanted = cluster.record("w").key, replace(stated(cluster), adapt=Adapt.OFF)
    acknowledged, events = application(cluster.manager, wanted)
    assert acknowledged.outcome is RequestOutcome.UPDATED
    (event,) = events
    assert cluster.tell(event).actions == ()
    record = cluster.record("w")
    assert (record.phase, record.key, record.run) == (Phase.RUNNING, before, 1)
    assert record.workload.adapt is Adapt.OFF


def test_a_prediction_says_for_which_target_and_allocation_it_is(cluster: Cluster) -> None:
    record = cluster.record("w")
    predicted = newest_prediction(record)
    assert predicted is record.predicted
    assert predicted.target == record.workload.target
    assert predicted.cpu_millicpus == record.placements[0].allocation.cpu_millicpus


def test_a_changed_target_is_predicted_anew_at_once(cluster: Cluster) -> None:
    before = newest_prediction(cluster.record("w"))
    rate = stated(cluster).target.rate_per_second
    update(cluster, target=Target(rate_per_second=4 * rate))
    record = cluster.record("w")
    after = newest_prediction(record)
    assert after.mean == pytest.approx(before.mean / 4)
    assert after.performance == before.performance, "as fast as it was"
    assert after.target == record.workload.target
    cluster.check_books()


def test_what_was_predicted_for_another_target_is_not_shown(cluster: Cluster) -> None:
    record = cluster.record("w")
    record.classification = None
    update(cluster, target=Target(rate_per_second=1.0))
    assert newest_prediction(record) is None


def test_what_was_measured_in_another_way_is_forgotten_and_predicted_anew(
    cluster: Cluster,
) -> None:
    record = cluster.record("w")
    measure(cluster, 4, w=100.0)
    assert record.observed
    update(cluster, measure=replace(stated(cluster).measure, every_seconds=2.0))
    assert newest_prediction(record) is not None, "it means the same"
    update(cluster, measure=Measure(progress_regex=r"other (\d+)"))
    assert newest_prediction(record) is None
    assert (record.observed, record.measurements.performance) == ({}, {})
    assert record.tracking is None
    assert cluster.replayed().find("w") == record
    (asked,) = of(act.ClassifyWorkload, measure(cluster, 4, w=100.0))
    cpu = record.placements[0].allocation.cpu_millicpus
    row = asked.measurements.performance[Quantity.RATE]
    assert {at: entry.value for at, entry in row.items()} == {cpu: pytest.approx(100.0)}
    cluster.tell(ev.WorkloadClassified(asked.key, curve((cpu, 100), (2 * cpu, 200))))
    after = newest_prediction(record)
    assert after.mean == pytest.approx(1.0)
    assert after.target == record.workload.target
    cluster.check_books()


def test_before_it_runs_another_way_of_measuring_replaces_it() -> None:
    cluster = made("quasar", 4)
    cluster.tell(ev.WorkloadSubmitted(labelled(wants())))
    other = replace(stated(cluster), measure=Measure(progress_regex=r"other (\d+)"))
    assert cluster.record("w").phase is Phase.PROFILING
    told, events = application(cluster.manager, other)
    assert told.outcome is RequestOutcome.REPLACED
    assert [type(event) for event in events] == [ev.WorkloadRevoked, ev.WorkloadSubmitted]
    with pytest.raises(Conflict, match="apply the manifest"):
        check_update(cluster.manager, other)


def test_what_was_predicted_for_another_allocation_is_not_shown(cluster: Cluster) -> None:
    record = cluster.record("w")
    place = record.placements[0]
    less = replace(place.allocation, cpu_millicpus=place.allocation.cpu_millicpus - 50)
    record.placements = (replace(place, allocation=less),)
    assert newest_prediction(record) is None


@pytest.mark.parametrize("policy", ["quasar", "feedback"])
def test_changed_memory_is_carried_out_where_a_target_sizes_the_cpu(policy: str) -> None:
    cluster = made(policy, 4)
    cluster.tell(ev.WorkloadSubmitted(labelled(wants())))
    classified(cluster, "w", *RATES)
    running(cluster, "w")
    held = cluster.record("w").placements[0].allocation
    cpu = stated(cluster).reservation.cpu_millicpus
    asked = update(cluster, reservation=Reservation(cpu, 1024 * MIB))
    (resize,) = of(act.ResizeAllocation, asked)
    assert resize.placements[0].allocation == replace(held, memory_bytes=1024 * MIB)
    cluster.tell(ev.AllocationResized(resize.key, resize.placements))
    assert cluster.record("w").placements == resize.placements
    assert (newest_prediction(cluster.record("w")) is not None) == (policy == "quasar")
    cluster.check_books()


def test_changed_cpu_of_one_that_is_sized_by_its_target_says_that_it_has_no_effect(
    cluster: Cluster,
) -> None:
    memory_bytes = stated(cluster).reservation.memory_bytes
    asked = update(cluster, reservation=Reservation(3000, memory_bytes))
    assert not of(act.ResizeAllocation, asked)
    record = cluster.record("w")
    assert record.reason == ReasonCode.SIZED_BY_TARGET
    assert "resources.cpu (3) does not change its CPU (0.55), which follows" in record.message
    assert not record.resize_wanted


def test_memory_that_there_is_no_room_for_waits(cluster: Cluster) -> None:
    cpu = stated(cluster).reservation.cpu_millicpus
    asked = update(cluster, reservation=Reservation(cpu, 10**6 * MIB))
    assert not of(act.ResizeAllocation, asked)
    assert cluster.record("w").reason == ReasonCode.NO_ROOM
    assert cluster.record("w").resize_wanted


def test_a_prediction_of_version_0_1_is_of_any_target() -> None:
    predicted = Prediction(1.0, 0.9, 1.1, 0.8)
    decision = Decision(Stage.PLACEMENT, "quasar", True, ReasonCode.OK, "", predicted=predicted)
    kind, payload = encode_event(ev.AllocationUnchanged("w", decision))
    old = payload.replace(b',"target":null,"cpu_millicpus":0', b"")
    assert old != payload
    read = decode_event(kind, old).decision.predicted
    assert read.is_of(Target(rate_per_second=1.0), 250)


def test_a_start_says_what_it_is_predicted_to_take_at_most() -> None:
    cluster = made("quasar", 4)
    cluster.tell(ev.WorkloadSubmitted(labelled(wants())))
    classified(cluster, "w", *RATES)
    record = cluster.record("w")
    synced = ev.EngineSynced((), tuple(cluster.manager.state.servers))
    (start,) = of(act.StartWorkload, cluster.tell(synced).actions)
    assert start.at_most_seconds is None, "a rate without an end"
    performance = {Term.COMPLETION: Interval(50.0, 40.0, 65.0)}
    record.predicted = replace(record.predicted, performance=performance)
    (start,) = of(act.StartWorkload, cluster.tell(synced).actions)
    assert start.at_most_seconds == 65.0
    record.submitted_at -= 20.0
    (start,) = of(act.StartWorkload, cluster.tell(synced).actions)
    assert start.at_most_seconds == 45.0, "it has waited for the rest"
