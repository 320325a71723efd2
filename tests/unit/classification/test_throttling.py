"""A quota of CPU time bounds the tail of a latency from below."""

from dataclasses import replace
from math import inf

import pytest

from wharfinger.classification.prediction import parts_of, performance_with
from wharfinger.classification.throttling import Throttling
from wharfinger.model.decisions import Term
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Classification, Curve, Estimate
from wharfinger.model.workload import LatencyBound, Run, Target, Workload, WorkloadType

LONG, SHORT = 0.1, 0.01


def curve(*per_second: float, std: float = 0.05) -> Curve:
    columns = (100, 250, 500, 1000)
    return Curve(columns, tuple(Estimate(mean, std) for mean in per_second))


COULD = curve(1000.0, 2500.0, 5000.0, 10_000.0)
"""0.1 ms of CPU time each, on one CPU at most."""


def test_what_outlasts_the_quota_waits_for_the_rest_of_the_period() -> None:
    throttling = Throttling(COULD, 99.0, LONG)
    assert throttling.stopped_seconds(100, 300.0) == 0.0, "a third of the quota is never used up"
    busy, saturated = (throttling.stopped_seconds(100, asked) for asked in (800.0, 1e6))
    assert 0.02 < busy < saturated == pytest.approx(LONG * 0.9)
    assert throttling.stopped_seconds(1000, 1e6) == 0.0, "it has all that it can use"
    assert Throttling(COULD, 50.0, LONG).stopped_seconds(100, 800.0) == 0.0, "a median never waits"


def test_a_short_period_stops_it_for_less() -> None:
    long, short = (Throttling(COULD, 99.0, period) for period in (LONG, SHORT))
    assert short.stopped_seconds(500, 1e6) == pytest.approx(SHORT / 2)
    assert short.stopped_seconds(500, 4000.0) < long.stopped_seconds(500, 4000.0)


def test_the_load_that_a_bound_allows_is_that_at_which_the_tail_reaches_it() -> None:
    for period in (LONG, SHORT):
        throttling = Throttling(COULD, 99.0, period)
        most = throttling.most_held(250, 0.004)
        assert 0 < most < 10_000
        assert throttling.stopped_seconds(250, most) == pytest.approx(0.004, rel=1e-6)
        assert throttling.most_held(250, 0.2) == inf, "a period is over before this bound"
    assert Throttling(COULD, 99.99, LONG).most_held(250, 0.004) > 0


def known() -> Classification:
    """By the law alone it holds 95 % of what it can do within 2 ms."""
    held = curve(950.0, 2375.0, 4750.0, 9500.0)
    return Classification(
        "hand",
        "1",
        {Quantity.HELD: held, Quantity.THROUGHPUT: COULD},
        held_below_seconds=0.002,
    )


SERVICE = Workload(
    "w",
    WorkloadType.LATENCY_CRITICAL,
    Run(("w",), "/"),
    Target(throughput_per_second=900.0, latency=LatencyBound(99, 0.002)),
)


def test_a_share_that_the_quota_makes_too_slow_is_predicted_so() -> None:
    fluid, long, short = (parts_of(SERVICE, known(), 0.0, period) for period in (0.0, LONG, SHORT))
    assert fluid[0].normalized(100).mean > 1, "without a quota it would keep its target"
    assert long[0].normalized(100).mean < 1
    assert short[0].normalized(100).mean < 1
    assert long[0].normalized(500).mean > 1

    def latency(parts, cpu):
        return performance_with(parts, cpu, 0.0, 0.0, 0.95)[Term.LATENCY]

    assert latency(fluid, 100).mean < 0.002
    assert latency(long, 100).low < 0.03 < latency(long, 100).mean < 0.1
    assert latency(short, 50).mean > latency(short, 250).mean > latency(short, 500).mean


def test_a_bound_is_kept_under_the_load_that_there_is_though_the_target_states_less() -> None:
    rest = Estimate(0.001, 0.5)
    few, more = (
        replace(known(), asked_per_second=asked, idle_latency_seconds=rest)
        for asked in (500.0, 4000.0)
    )
    stated, offered = (parts_of(SERVICE, what, 0.0, SHORT) for what in (few, more))
    assert offered[0].normalized(1000).mean == pytest.approx(
        stated[0].normalized(1000).mean * 900 / 4000
    )
    assert offered[1].normalized(1000).mean == stated[1].normalized(1000).mean, "the throughput"


def test_a_load_that_takes_all_there_is_is_predicted_by_cpu_alone() -> None:
    measured = curve(0.02, 0.008, 0.004, 0.002)
    closed = replace(known(), saturating=True)
    closed = replace(closed, curves={**closed.curves, Quantity.LATENCY: measured})
    parts = parts_of(SERVICE, closed, 0.0, SHORT)
    assert [part.term for part in parts] == [Term.THROUGHPUT, Term.LATENCY]
    assert all(part.decides for part in parts)
    assert parts[1].normalized(250).mean == pytest.approx(0.25)


def test_a_latency_that_was_measured_at_rest_is_the_same_with_less_cpu() -> None:
    """What an idle service answers in hangs on all but its CPU, and is no wait for it."""
    slow = replace(known(), idle_latency_seconds=Estimate(0.001, 0.5))
    parts = parts_of(SERVICE, slow, 0.0, SHORT)
    latency = next(part for part in parts if part.term is Term.LATENCY)
    assert not latency.decides
    rest, busy = latency.curve.at(1000), latency.curve.at(100)
    assert rest.mean == pytest.approx(0.001 / 0.91)
    assert rest.std == pytest.approx(0.5, rel=0.01), "another minute has another percentile"
    assert busy.mean > 0.01
    fluid = parts_of(SERVICE, slow, 0.0)[2]
    assert fluid.curve.at(1000).mean != rest.mean, "without a quota the law alone is taken"
