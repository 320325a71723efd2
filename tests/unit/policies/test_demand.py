"""A load that rises is sized for before the latency tells; its noise is no rise."""

from dataclasses import replace
from math import inf, nan
from random import Random

import pytest

from tests.support.cluster import workload
from wharfinger.core.lifecycle import Phase
from wharfinger.core.load_history import LoadHistory
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.performance import Performance, Quantity, Reading
from wharfinger.model.view import OffTarget
from wharfinger.model.workload import LatencyBound, Target, WorkloadType
from wharfinger.policies.adaptation.demand import Demand, sized_by
from wharfinger.policies.adaptation.demand_settings import DemandSettings

DEMAND = Demand(DemandSettings())
EVERY, BOUND = 5.0, 0.1
COULD = 200.0
"""Requests a second that keep its one CPU busy."""


def record(*, service: bool = True) -> WorkloadRecord:
    stated = workload("w")
    if service:
        target = Target(latency=LatencyBound(99, BOUND))
        stated = replace(stated, type=WorkloadType.LATENCY_CRITICAL, target=target)
    placements = (Placement("s", Allocation(1000, 1)),)
    return WorkloadRecord(
        stated, 1, 0.0, Phase.RUNNING, key="k", placements=placements, started_at=0.0
    )


def look(
    of: WorkloadRecord,
    now: float,
    offered: float | None,
    *,
    answered: float | None = None,
    cpu: float = 1.0,
    demand: Demand = DEMAND,
) -> OffTarget | None:
    """What a measurement says, of a service with k = 6: it holds 140 of 200 requests a second."""
    load = 100.0 if offered is None or not offered > 0 else offered
    could = COULD * cpu
    does = min(could, load) if answered is None else answered
    latency = 6.0 / (could - does) if does < 0.99 * could else 10.0
    readings = {
        Quantity.THROUGHPUT: Reading(does, "t"),
        Quantity.LATENCY: Reading(latency, "t"),
        Quantity.CPU: Reading(cpu * does / could, "t"),
    }
    if offered is not None:
        readings[Quantity.OFFERED] = Reading(offered, "t")
    of.performance = Performance(now, readings, {})
    of.demand = demand.tracking(of, now, 20.0)
    return demand.short(of, now)


def looks(of: WorkloadRecord, values: list[float], begin: float = 30.0) -> list[OffTarget | None]:
    return [look(of, begin + EVERY * n, value) for n, value in enumerate(values)]


def test_a_step_is_known_at_the_first_measurement_and_by_how_much() -> None:
    one = record()
    assert not any(looks(one, [100.0] * 12))
    risen = look(one, 90.0, 300.0)
    assert risen is not None
    assert risen.offered_per_second == pytest.approx(300.0)
    assert risen.normalized == pytest.approx(140 / 300, rel=0.02), "what it holds over the load"
    assert risen.lacks


def test_the_step_is_known_while_what_is_smoothed_is_not_yet_of_it() -> None:
    one = record()
    looks(one, [100.0] * 12)
    risen = look(one, 90.0, 300.0, answered=110.0)
    assert risen is not None
    assert risen.normalized == pytest.approx(140 / 300, rel=0.05)


def test_a_step_that_is_held_is_no_reason() -> None:
    one = record()
    assert not any(looks(one, [60.0] * 12 + [130.0] * 12))


def test_a_rise_that_leaves_cpu_idle_is_no_reason() -> None:
    """A latency beyond its bound has other reasons there, as neighbors."""
    one = record()
    looks(one, [10.0] * 12)
    assert one.demand is not None
    one.demand = replace(one.demand, held_share=0.2)
    assert look(one, 90.0, 90.0) is None
    assert (DEMAND.held(one) or 1.0) < 1
    one.demand = replace(one.demand, held_share=0.2)
    assert look(one, 95.0, 130.0) is not None


@pytest.mark.parametrize("noise", [0.03, 0.1, 0.2])
def test_noise_is_hardly_ever_a_rise(noise: float) -> None:
    """Its mean is close to what it holds, so that half of the measurements are nearly beyond."""
    random = Random(3)
    one = record()
    values = [125.0 * random.lognormvariate(0, noise) for _ in range(2_000)]
    # What it answers and uses are smoothed, so they follow the mean.
    rises = set()
    for n, value in enumerate(values):
        if look(one, 30 + EVERY * n, value, answered=125.0) is not None and n > 20:
            assert one.demand is not None
            rises.add(one.demand.level.changed_at)
    assert len(rises) <= 2_000 * 0.004


def test_a_load_without_noise_is_followed_where_settings_allow_none() -> None:
    settings = DemandSettings(offered_noise=0.0, min_offered_noise=0.0, noise_newest_share=0.0)
    demand, one = Demand(settings), record()
    for n, offered in enumerate([100.0] * 12 + [300.0]):
        look(one, 30 + EVERY * n, offered, demand=demand)
    assert one.demand is not None
    assert one.demand.level.changed_at == 30 + EVERY * 12
    assert one.demand.offered_per_second == pytest.approx(300.0)


def test_a_rise_that_is_gone_is_no_reason_any_more() -> None:
    one = record()
    looks(one, [100.0] * 12)
    assert look(one, 90.0, 300.0) is not None
    assert not any(looks(one, [100.0] * 12, begin=95.0)[1:])


def test_after_an_adjustment_the_next_waits_for_a_measurement() -> None:
    one = record()
    looks(one, [100.0] * 12)
    assert look(one, 90.0, 300.0) is not None
    one.adjusted_at = 90.0
    assert look(one, 91.0, 300.0) is None
    assert look(one, 93.0, 300.0) is not None, "too little: it still holds half"
    one.placements = (Placement("s", Allocation(2500, 1)),)
    assert look(one, 94.0, 300.0, cpu=2.5) is None, "that is enough"
    assert look(one, 130.0, 300.0) is None, "no rise any more: what it does counts"


def test_a_demand_that_stops_or_is_not_told_leaves_what_was_known() -> None:
    one = record()
    looks(one, [100.0] * 12)
    before = one.demand
    for value in (0.0, -5.0, nan, None):
        assert look(one, 100.0, value) is None
        assert one.demand is not None
        assert before is not None
        assert (one.demand.level, one.demand.newest) == (before.level, before.newest)
        assert one.demand.seen_per_second == 0.0, "that nothing is asked is known of the load"
        assert DEMAND.held(one) is None, "nothing is sized by a load that is not told"
    assert not any(looks(one, [100.0] * 12, begin=500.0)), "it is as it was"


def test_a_load_without_end_or_a_clock_that_was_set_back_is_borne() -> None:
    one = record()
    looks(one, [100.0] * 12)
    assert look(one, 100.0, inf) is None
    assert look(one, 10.0, 300.0) is not None
    assert look(one, 5.0, 300.0) is None, "the rise is of a time that has not come"


def test_without_what_is_offered_or_without_a_bound_nothing_is_tracked() -> None:
    one, job = record(), record(service=False)
    assert look(one, 30.0, None) is None
    assert look(job, 30.0, 100.0) is None
    assert one.demand is None
    assert job.demand is None


def test_a_backlog_is_sized_by_its_load_and_a_low_latency_gives_no_more_than_it_takes() -> None:
    one = record()
    looks(one, [100.0] * 12 + [180.0] * 3)
    held = DEMAND.held(one)
    assert held == pytest.approx(140 / 180, rel=0.05)
    backlog = sized_by(OffTarget(0.01, 10.0, 1.0), held, one)
    assert backlog.normalized == held
    assert backlog.offered_per_second == pytest.approx(180.0)
    assert sized_by(OffTarget(0.95, 10.0, 1.0), held, one).normalized == 0.95
    looks(one, [100.0] * 20, begin=200.0)
    spare = sized_by(OffTarget(3.0, 60.0, 0.5), DEMAND.held(one), one)
    assert spare.normalized == pytest.approx(1.4, rel=0.05)
    assert spare.offered_per_second is None
    looks(one, [80.0] * 3, begin=300.0)
    slowed = OffTarget(0.5, 10.0, 0.5)
    assert sized_by(slowed, 0.8, one) is slowed, "half of its CPU is idle: neighbors slow it"
    throttled = OffTarget(0.9, 10.0, 0.5, throttled=0.2)
    assert sized_by(throttled, held, one) is throttled


def square(period: float) -> list[float]:
    return [60.0 if EVERY * n % period < period / 2 else 250.0 for n in range(500)]


def follow(of: WorkloadRecord, values: list[float], begin: float, demand: Demand) -> list[int]:
    """At which of them CPU would be added for what is forecast; what is noted is folded."""
    added = []
    for n, value in enumerate(values):
        now = begin + EVERY * n
        look(of, now, value, answered=min(value, 60.0))
        of.demand = demand.tracking(of, now, 20.0)
        history = of.load_history or LoadHistory()
        of.load_history = history.with_measurement(now, value)
        if demand.soon_short(of, now) is not None:
            added.append(n)
    return added


def test_before_a_rise_that_comes_every_time_cpu_is_added_and_none_is_given_back() -> None:
    one, values = record(), square(300.0)[:195]
    added = follow(one, values, 3_000.0, DEMAND)
    before = [n for n in added if values[n] < 100]
    assert before
    assert min(before) > 120, "not before two periods were seen"
    assert all(max(values[n : n + 9]) > 100 for n in before), "only what comes soon"
    off = Demand(DemandSettings(forecast=False))
    assert follow(record(), values, 3_000.0, off) == []


def test_a_noisy_load_forecasts_nothing_that_is_acted_on() -> None:
    random = Random(4)
    values = [130.0 * random.lognormvariate(0, 0.15) for _ in range(300)]
    one = record()
    assert follow(one, values, 3_000.0, DEMAND) == []
    assert DEMAND.held(one, later=True) == DEMAND.held(one)
