"""Rows are filled in from few entries, and are the less sure the less was measured."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from wharfinger.classification.classifier import MIN_ERROR, MIN_POINTS, Classifier
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.estimators.matrix import Matrix, Transform
from wharfinger.model.configuration import Configuration
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Measurements, Origin
from wharfinger.model.workload import LatencyBound

CPU, DISK = SharedResource.INTEGER, SharedResource.STORAGE_BANDWIDTH
COLUMNS = (100, 250, 500, 1000, 2000)
NOTHING = Measurements()


@dataclass
class Programs:
    """Half of them use one CPU, half use two; the more they cause, the less they tolerate."""

    measured_scores: bool = True

    @property
    def scale_up(self) -> Matrix:
        rng = np.random.default_rng(1)
        rows = {}
        for number in range(24):
            limit = 1000 if number % 2 else 2000
            noise = np.exp(rng.normal(0, 0.03, len(COLUMNS)))
            level = math.exp(rng.normal(0, 3))
            rows[f"p{number}"] = level * np.minimum(COLUMNS, limit) * noise
        return Matrix.of(rows, [Configuration(cpu).name for cpu in COLUMNS])

    @property
    def tolerated(self) -> Matrix:
        return self._scores(lambda level: (level, level))

    @property
    def caused(self) -> Matrix:
        return self._scores(lambda level: (100 - level, 100 - level))

    def _scores(self, of) -> Matrix:
        rng = np.random.default_rng(2)
        rows = {
            f"p{number}": np.clip(np.array(of(level)) + rng.normal(0, 4, 2), 0, 100)
            for number, level in enumerate(rng.uniform(10, 90, 24))
        }
        return Matrix.of(
            rows if self.measured_scores else {}, [CPU, DISK], transform=Transform.IDENTITY
        )


def matrices(programs: Programs) -> dict[Aspect, UtilityMatrix]:
    found = {Aspect.SCALE_UP: programs.scale_up}
    if programs.measured_scores:
        found |= {Aspect.TOLERATED: programs.tolerated, Aspect.CAUSED: programs.caused}
    return {kind: utility(kind, matrix) for kind, matrix in found.items()}


def utility(kind: Aspect, matrix: Matrix) -> UtilityMatrix:
    rows = {
        name: {c: float(v) for c, v in zip(matrix.columns, row, strict=True) if not np.isnan(v)}
        for name, row in zip(matrix.rows, matrix.values, strict=True)
    }
    made = UtilityMatrix.of(kind, rows, dict(zip(matrix.rows, matrix.groups, strict=True)))
    return replace(made, columns=matrix.columns)


CLASSIFIER = Classifier(matrices(Programs()))


def rate(entries: dict[int, float]) -> Measurements:
    return Measurements({Quantity.RATE: {cpu: Entry(v, 0.01) for cpu, v in entries.items()}})


def test_two_entries_tell_the_row() -> None:
    curve = CLASSIFIER.classify(rate({1000: 50.0, 250: 12.4})).curves[Quantity.RATE]
    assert curve.cpu_millicpus == COLUMNS
    assert curve.at(500).mean == pytest.approx(25, rel=0.1)
    assert curve.at(1000).mean == pytest.approx(50, rel=0.02)
    assert curve.at(1000).std <= MIN_ERROR
    assert curve.at(2000).std > 3 * curve.at(500).std, "who uses two CPUs can't be seen here"
    below = CLASSIFIER.classify(rate({2000: 50.0, 1000: 49.0})).curves[Quantity.RATE]
    assert below.at(500).mean == pytest.approx(25, rel=0.25), "it has one thread"


def service(throughput: float, latency: float, used: float, cpu: int = 500) -> Measurements:
    return Measurements(
        {
            Quantity.THROUGHPUT: {cpu: Entry(throughput, 0.03)},
            Quantity.LATENCY: {cpu: Entry(latency, 0.03)},
            Quantity.CPU: {cpu: Entry(used, 0.03)},
        }
    )


def test_a_service_is_classified_by_what_it_holds_at_its_bound() -> None:
    """It could answer 100 a second, was asked 50, and then took 40 ms: so k = 2."""
    bound = LatencyBound(99, 0.1)
    found = CLASSIFIER.classify(service(100.0, 0.04, 0.25), bound=bound)
    held = found.curves[Quantity.HELD]
    assert held.at(500).mean == pytest.approx(80.0, rel=0.05)
    assert held.at(250).mean < held.at(500).mean < held.at(1000).mean
    assert held.at(500).std > found.curves[Quantity.THROUGHPUT].at(500).std
    assert found.held_below_seconds == 0.1
    assert found.asked_per_second == pytest.approx(50.0, rel=0.05)
    tight = CLASSIFIER.classify(service(100.0, 0.04, 0.25), bound=LatencyBound(99, 0.03))
    assert tight.curves[Quantity.HELD].at(500).mean == pytest.approx(33.3, rel=0.1)


def test_a_saturated_one_held_what_it_did_or_queues_as_the_law_says() -> None:
    fine = CLASSIFIER.classify(service(100.0, 0.08, 0.49), bound=LatencyBound(99, 0.1))
    assert fine.curves[Quantity.HELD].at(500).mean == pytest.approx(100.0, rel=0.05)
    late = CLASSIFIER.classify(service(100.0, 0.5, 0.49), bound=LatencyBound(99, 0.1))
    assert late.curves[Quantity.HELD].at(500).mean == pytest.approx(54.0, rel=0.05)
    never = CLASSIFIER.classify(service(100.0, 0.5, 0.49), bound=LatencyBound(99, 0.001))
    assert 0 < never.curves[Quantity.HELD].at(500).mean < 10


def test_a_load_that_takes_all_there_is_and_keeps_the_bound_waits_for_its_answers() -> None:
    bound = LatencyBound(99, 0.1)
    closed = CLASSIFIER.classify(service(100.0, 0.08, 0.49), bound=bound)
    assert closed.saturating
    assert closed.idle_latency_seconds is None
    overloaded = CLASSIFIER.classify(service(100.0, 0.5, 0.49), bound=bound)
    assert not overloaded.saturating
    calm = CLASSIFIER.classify(service(100.0, 0.04, 0.25), bound=bound)
    assert not calm.saturating
    assert calm.idle_latency_seconds.mean == pytest.approx(0.02), "half of it was waiting"
    assert calm.idle_latency_seconds.std == 0.5


def test_without_a_bound_or_its_latency_nothing_is_said_of_what_it_holds() -> None:
    found = service(100.0, 0.04, 0.25)
    assert Quantity.HELD not in CLASSIFIER.classify(found).curves
    rows = {q: row for q, row in found.performance.items() if q is not Quantity.CPU}
    bound = LatencyBound(99, 0.1)
    assert Quantity.HELD not in CLASSIFIER.classify(Measurements(rows), bound=bound).curves


def test_what_was_observed_of_it_counts_more_than_its_copy() -> None:
    copy = service(100.0, 0.04, 0.25)
    latency = Entry(0.2, 0.03, origin=Origin.OBSERVED)
    rows = {
        **copy.performance,
        Quantity.LATENCY: {**copy.performance[Quantity.LATENCY], 1000: latency},
        Quantity.CPU: {500: Entry(0.25), 1000: Entry(0.5, origin=Origin.OBSERVED)},
    }
    bound = LatencyBound(99, 0.1)
    could = CLASSIFIER.classify(copy, bound=bound).curves[Quantity.THROUGHPUT].at(1000).mean
    held = CLASSIFIER.classify(Measurements(rows), bound=bound).curves[Quantity.HELD]
    expected = max(could - 0.2 * could * 0.5 / 0.1, 0.05 * could)
    assert held.at(1000).mean == pytest.approx(expected, rel=0.1)


def test_a_performance_of_zero_is_none() -> None:
    found = CLASSIFIER.classify(rate({500: 0.0, 1000: 20.0}))
    assert found.curves[Quantity.RATE].at(1000).mean == pytest.approx(20.0)
    assert not CLASSIFIER.classify(rate({500: 0.0})).curves


def test_a_latency_without_end_is_none_and_holds_nothing() -> None:
    """Of a copy that is offered more than it can do with so little CPU."""
    latencies = {500: Entry(math.inf), 1000: Entry(0.02), 2000: Entry(0.01)}
    busy = {cpu: Entry(cpu / 1000) for cpu in latencies}
    answered = {cpu: Entry(float(cpu)) for cpu in latencies}
    found = Measurements(
        {Quantity.LATENCY: latencies, Quantity.THROUGHPUT: answered, Quantity.CPU: busy}
    )
    made = CLASSIFIER.classify(found, bound=LatencyBound(99, 0.05))
    assert made.curves[Quantity.LATENCY].at(1000).mean == pytest.approx(0.02, rel=0.2)
    assert all(each.mean > 0 for each in made.curves[Quantity.HELD].estimates)
    assert (
        Quantity.LATENCY
        not in CLASSIFIER.classify(Measurements({Quantity.LATENCY: {500: Entry(math.inf)}})).curves
    )
    piling = Measurements(
        {**found.performance, Quantity.CPU: {cpu: Entry(cpu / 4000) for cpu in latencies}}
    )
    rest = CLASSIFIER.classify(piling, bound=LatencyBound(99, 0.05)).idle_latency_seconds
    assert rest is not None and rest.mean == pytest.approx(0.75 * math.sqrt(0.02 * 0.01))


def test_more_cpu_never_means_less() -> None:
    curve = CLASSIFIER.classify(rate({500: 10.0, 1000: 21.0})).curves[Quantity.RATE]
    means = [estimate.mean for estimate in curve.estimates]
    assert means == sorted(means)
    falling = CLASSIFIER.classify(rate({500: 21.0, 1000: 10.0})).curves[Quantity.RATE]
    assert falling.at(1000).mean >= falling.at(500).mean, "also where it was measured"


def test_a_latency_falls_with_cpu_and_stays_in_seconds() -> None:
    found = Measurements({Quantity.LATENCY: {1000: Entry(0.010), 250: Entry(0.041)}})
    curve = CLASSIFIER.classify(found).curves[Quantity.LATENCY]
    assert curve.at(500).mean == pytest.approx(0.020, rel=0.15)
    assert curve.at(1000).mean == pytest.approx(0.010, rel=0.02)


def test_an_entry_between_columns_counts_and_stands_in_the_curve() -> None:
    curve = CLASSIFIER.classify(rate({600: 30.0})).curves[Quantity.RATE]
    assert 600 in curve.cpu_millicpus
    assert curve.at(600).mean == 30.0
    assert curve.at(1000).mean == pytest.approx(50, rel=0.15)


def test_nothing_measured_is_like_any_and_very_unsure() -> None:
    found = CLASSIFIER.classify(NOTHING)
    assert found.measured == 0
    assert not found.curves
    assert found.shape is not None
    assert found.shape.at(1000).mean == 1.0
    assert found.shape.at(500).mean == pytest.approx(0.5, rel=0.1)
    assert 25 < found.tolerated[CPU].mean < 75
    assert found.tolerated[CPU].std > 15


def test_an_unsure_entry_is_corrected_by_a_sure_one() -> None:
    entries = {500: Entry(25.0, 0.02), 250: Entry(20.0, 0.5)}
    curve = CLASSIFIER.classify(Measurements({Quantity.RATE: entries})).curves[Quantity.RATE]
    assert curve.at(250).mean == pytest.approx(12.5, rel=0.15)
    assert curve.at(500).mean == pytest.approx(25, rel=0.05)
    sure = {500: Entry(25.0, 0.02), 250: Entry(20.0, 0.02)}
    kept = CLASSIFIER.classify(Measurements({Quantity.RATE: sure})).curves[Quantity.RATE]
    assert kept.at(250).mean > 16, "both are sure: it is an unusual program"


def test_a_score_that_is_a_lower_bound_lies_anywhere_above() -> None:
    found = CLASSIFIER.classify(Measurements(tolerated={CPU: Entry(50.0, 0.0, censored=True)}))
    assert found.tolerated[CPU].mean == 75.0
    assert 13 < found.tolerated[CPU].std < 17
    never = CLASSIFIER.classify(Measurements(tolerated={CPU: Entry(100.0, 0.0, censored=True)}))
    assert never.tolerated[CPU].mean == 100.0


def test_one_score_tells_of_the_other() -> None:
    found = CLASSIFIER.classify(Measurements(tolerated={CPU: Entry(90.0)}, caused={}))
    assert found.tolerated[CPU].mean == 90.0
    assert found.tolerated[CPU].std == MIN_POINTS
    unknown = CLASSIFIER.classify(NOTHING).tolerated[DISK]
    assert found.tolerated[DISK].mean > unknown.mean + 15
    assert found.tolerated[DISK].std < unknown.std
    assert found.measured == 1


def test_scores_stay_within_their_scale() -> None:
    found = CLASSIFIER.classify(Measurements(caused={CPU: Entry(100.0), DISK: Entry(0.0)}))
    assert all(0 <= score.mean <= 100 for score in found.caused.values())


def test_known_programs_without_scores_leave_what_was_measured() -> None:
    classifier = Classifier(matrices(Programs(measured_scores=False)))
    assert not classifier.classify(NOTHING).tolerated
    found = classifier.classify(Measurements(tolerated={CPU: Entry(60.0, 12.0)}))
    assert found.tolerated[CPU].mean == 60.0
    assert found.tolerated[CPU].std == 12.0


def test_the_same_gives_the_same_and_says_by_what() -> None:
    again = Classifier(matrices(Programs())).classify(rate({1000: 50.0, 250: 12.4}))
    assert again == CLASSIFIER.classify(rate({1000: 50.0, 250: 12.4}))
    assert again.estimator == "gaussian"
    assert int(again.version) >= 1
