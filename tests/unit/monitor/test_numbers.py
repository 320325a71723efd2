"""Smoothing, staleness, histograms, proxies: what becomes of numbers that were read."""

import math
import random

import pytest

from wharfinger.model.performance import Quantity
from wharfinger.model.workload import (
    LatencyBound,
    Measure,
    Run,
    Target,
    Workload,
    WorkloadType,
)
from wharfinger.monitor import prometheus
from wharfinger.monitor.proxy import MIN_SAMPLES, Proxies, ProxyCheck, rank_correlation
from wharfinger.monitor.smoothing import (
    HALF_LIFE_SECONDS,
    LATENCY_HALF_LIFE_SECONDS,
    Counter,
    Level,
)
from wharfinger.monitor.source import ReadingSource
from wharfinger.monitor.spec import WatchSpec, spec_of


def test_a_step_shows_half_after_the_half_life():
    level = Level()
    for second in range(200):
        level.observe(float(second), 100.0)
    for second in range(200, 200 + int(HALF_LIFE_SECONDS)):
        level.observe(float(second), 200.0)
    assert level.value == pytest.approx(150.0, abs=0.1)


def test_a_latency_is_itself_again_soon_after_an_overload():
    arithmetic, geometric = Level(), Level.of_latency()
    for level in (arithmetic, geometric):
        for second in range(60):
            level.observe(float(second), 3.0 if 20 <= second < 40 else 0.03)
    half_lives = 20 / LATENCY_HALF_LIFE_SECONDS
    assert geometric.value == pytest.approx(0.03 * 100 ** (0.5**half_lives), rel=0.02)
    assert geometric.value < 0.05
    assert arithmetic.value > 0.2
    before = geometric.value
    geometric.observe(60.0, 0.0)
    assert geometric.value == before, "nothing took no time at all: it is no observation"


def test_lines_that_come_irregularly_weigh_as_long_as_they_stand_for():
    regular, irregular = Counter(), Counter()
    for second in range(61):
        regular.observe(float(second), 10.0 * second)
    for second in (0, 1, 7, 8, 20, 21, 22, 40, 60):
        irregular.observe(float(second), 10.0 * second)
    assert irregular.rate.value == pytest.approx(regular.rate.value)


def test_a_counter_that_begins_anew_is_no_negative_rate():
    counter = Counter()
    for now, total in enumerate((100.0, 110.0, 0.0, 10.0)):
        counter.observe(float(now), total)
    assert counter.rate.value == pytest.approx(10.0)


def test_no_progress_is_zero_and_no_news_is_no_signal():
    counter = Counter()
    for second in range(100):
        counter.observe(float(second), 5.0)
    assert counter.rate.value == 0.0
    assert counter.rate.silent_seconds(105.0) is None
    assert counter.rate.silent_seconds(120.0) == pytest.approx(21.0)


def test_who_reports_slowly_has_three_of_its_own_gaps():
    level = Level()
    for second in (0, 30, 60):
        level.observe(float(second), 1.0)
    assert level.silent_seconds(140.0) is None
    assert level.silent_seconds(160.0) is not None


SCRAPE = """\
# TYPE lat histogram
lat_bucket{path="/",le="0.1"} 80
lat_bucket{path="/",le="0.5"} 100
lat_bucket{path="/",le="+Inf"} 100
lat_bucket{path="/x",le="0.1"} 0
lat_bucket{path="/x",le="0.5"} 0
lat_bucket{path="/x",le="+Inf"} 100
lat_count{path="/"} 100
hits_total{code="200"} 3 1700000000000
hits_total{code="500"} 4
hits_total_other 9
"""


def test_series_are_added_up_by_their_labels():
    assert prometheus.total(SCRAPE, "hits_total") == 7
    assert prometheus.total(SCRAPE, 'hits_total{code="500"}') == 4
    with pytest.raises(ValueError, match="no metric"):
        prometheus.total(SCRAPE, "nothing")


def test_a_percentile_is_of_what_came_in_between():
    first = prometheus.buckets(SCRAPE, 'lat{path="/"}')
    assert prometheus.percentile(first, 90) == pytest.approx(0.3)
    later = {0.1: 80.0, 0.5: 200.0, math.inf: 200.0}
    assert prometheus.percentile(prometheus.between(first, later), 50) == pytest.approx(0.3)
    assert prometheus.percentile(prometheus.between(first, first), 50) is None
    assert prometheus.between(later, first) == first


def test_beyond_the_last_bucket_it_is_at_least_its_bound():
    assert prometheus.percentile(prometheus.buckets(SCRAPE, "lat"), 99) == 0.5
    with pytest.raises(ValueError, match="no histogram"):
        prometheus.buckets(SCRAPE, "hits_total")


def test_rank_correlation_asks_only_for_the_order():
    xs = [float(x) for x in range(10)]
    assert rank_correlation(xs, [math.exp(x) for x in xs]) == pytest.approx(1.0)
    assert rank_correlation(xs, [-x for x in xs]) == pytest.approx(-1.0)
    assert rank_correlation(xs, [1.0] * 10) is None


def test_a_proxy_is_trusted_only_when_it_goes_with_the_metric():
    random_ = random.Random(1)
    good, bad, few = ProxyCheck(), ProxyCheck(), ProxyCheck()
    for step in range(60):
        good.compare(step + random_.random(), 10 * step)
        bad.compare(random_.random(), random_.random())
        if step < MIN_SAMPLES - 1:
            few.compare(step, step)
    for check in (good, bad, few):
        check.judge()
    assert (good.trusted, bad.trusted, few.trusted) == (True, False, False)
    assert few.correlation is None
    assert bad.estimate(1.0) is None
    assert good.estimate(30.0) == pytest.approx(300, rel=0.05)


def batch(**measure: object) -> ReadingSource:
    workload = Workload(
        "w",
        WorkloadType.BATCH,
        Run(("true",)),
        Target(completion_seconds=60.0),
        measure=Measure(r"(\d+)", **measure),  # type: ignore[arg-type]
    )
    return ReadingSource("progress lines", spec_of(WatchSpec("k", "/"), workload))


def test_a_quota_that_did_not_last_is_told_as_a_share_of_its_periods(tmp_path):
    stat = tmp_path / "cpu.stat"
    proxies = Proxies(WatchSpec("k", "", throttle_file=str(stat)))
    for second, (periods, throttled) in enumerate([(0, 0), (100, 20), (200, 40), (200, 40)]):
        stat.write_text(f"nr_periods {periods}\nnr_throttled {throttled}\nthrottled_time 5\n")
        proxies.sample(float(second), None)
        if second == 2:
            told = proxies.readings(2.0)[Quantity.THROTTLED]
            assert told.value == pytest.approx(0.2)
            assert not told.trusted
    stat.unlink()
    proxies.sample(4.0, None)
    assert Quantity.THROTTLED in proxies.readings(4.0)
    assert Quantity.THROTTLED not in proxies.readings(1000.0)
    assert not Proxies(WatchSpec("k", "")).readings(0.0)


def test_the_end_is_predicted_from_rate_and_total():
    source = batch(progress_total=100.0)
    for second in range(11):
        source.observe(float(second), {"number": 2.0 * second}, is_counter=True)
    found = source.readings(10.0)
    assert found[Quantity.RATE].value == pytest.approx(2.0)
    assert found[Quantity.REMAINING].value == pytest.approx(40.0)
    assert source.readings(12.0)[Quantity.REMAINING].value == pytest.approx(38.0)
    assert source.readings(60.0) == {}
    assert "nothing new" in source.why_silent(60.0, Quantity.REMAINING)


def test_without_a_total_or_progress_there_is_no_end():
    source = batch()
    for second in range(3):
        source.observe(float(second), {"number": 1.0}, is_counter=True)
    assert "no total" in source.why_silent(2.0, Quantity.REMAINING)
    stuck = batch(progress_total=9.0)
    for second in range(3):
        stuck.observe(float(second), {"number": 1.0}, is_counter=True)
    assert Quantity.REMAINING not in stuck.readings(2.0)
    assert stuck.why_silent(2.0, Quantity.REMAINING) == "it makes no progress"


def test_a_plain_number_of_a_service_is_what_its_target_is_about():
    def main(target: Target) -> Quantity:
        workload = Workload("w", WorkloadType.LATENCY_CRITICAL, Run(("true",)), target)
        return spec_of(WatchSpec("k", "/"), workload).main

    bound = LatencyBound(99, 0.01)
    assert main(Target(latency=bound)) is Quantity.LATENCY
    assert main(Target(throughput_per_second=1, latency=bound)) is Quantity.THROUGHPUT


def test_a_count_that_falls_or_is_negative_says_so():
    falling, negative, restarted = batch(), batch(), batch()
    for second in range(40):
        falling.observe(float(second), {"number": 100.0 - second}, is_counter=True)
        negative.observe(float(second), {"number": float(second - 100)}, is_counter=True)
        restarted.observe(float(second), {"number": float(second % 20)}, is_counter=True)
    why = falling.why_silent(40.0, Quantity.RATE)
    assert "the count of work done fell from 62 to 61; if it is a performance, write kind" in why
    assert "-61 is no work done so far" in negative.why_silent(40.0, Quantity.RATE)
    assert restarted.readings(40.0)[Quantity.RATE].value == pytest.approx(1.0)


def test_a_latency_that_nothing_can_tell_says_what_would():
    target = Target(throughput_per_second=1, latency=LatencyBound(99, 0.01))
    workload = Workload("w", WorkloadType.LATENCY_CRITICAL, Run(("true",)), target)
    source = ReadingSource("progress lines", spec_of(WatchSpec("k", "/"), workload))
    for second in range(3):
        source.observe(float(second), {"number": float(second)}, is_counter=True)
    assert "named latency_ms" in source.why_silent(3.0, Quantity.LATENCY)
