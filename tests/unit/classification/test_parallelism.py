"""What CPU that is used tells of more of it: censored, or no more helps."""

from collections.abc import Mapping
from math import inf, log

import numpy as np
import pytest

from wharfinger.classification.classifier import Classifier
from wharfinger.classification.parallelism import Use, gains, own_uses, parallelism
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.model.configuration import Configuration
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Curve, Entry, Measurements
from wharfinger.model.workload import WorkloadType

COLUMNS = (1000, 2000, 4000, 8000, 16000)
NOISE = 0.03


def run(
    threads: int, contention: float = 0.0, waits: float = 0.0
) -> dict[int, tuple[float, float]]:
    """Rate and busy CPUs by allocation: CPU time is shared by the threads, waiting is not."""
    told = {}
    for cpu in COLUMNS:
        cpus = min(cpu / 1000, threads)
        computing = (1 + contention * (cpus - 1)) / cpus
        rate = 1 / (computing + waits)
        told[cpu] = rate, rate * computing * cpus
    return told


def known(rng: np.random.Generator, *, used: bool = True) -> UtilityMatrix:
    rows, busy = dict[str, dict[str, float]](), dict[str, dict[str, float]]()
    for number in range(40):
        own = run(*drawn(rng))
        names = {cpu: Configuration(cpu).name for cpu in COLUMNS}
        errors = np.exp(NOISE * rng.standard_normal((2, len(COLUMNS))))
        rows[f"p{number}"] = {names[c]: own[c][0] * e for c, e in zip(own, errors[0], strict=True)}
        busy[f"p{number}"] = {names[c]: own[c][1] * e for c, e in zip(own, errors[1], strict=True)}
    return UtilityMatrix.of(Aspect.SCALE_UP, rows, error=NOISE, used=busy if used else None)


def drawn(rng: np.random.Generator) -> tuple[int, float, float]:
    waits = rng.choice([0.0, rng.uniform(0.1, 0.8)])
    return int(rng.choice([1, 2, 4, 8, 12])), rng.uniform(0.005, 0.1), float(waits)


def measured(
    own: Mapping[int, tuple[float, float]], cpus: tuple[int, ...], rng: np.random.Generator
) -> Measurements:
    def entries(at: int) -> dict[int, Entry]:
        return {c: Entry(own[c][at] * np.exp(NOISE * rng.standard_normal()), NOISE) for c in cpus}

    return Measurements({Quantity.RATE: entries(0), Quantity.CPU: entries(1)})


def curve_of(classifier: Classifier, told: Measurements) -> Curve:
    return classifier.classify(told, WorkloadType.BATCH).curves[Quantity.RATE]


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier({Aspect.SCALE_UP: known(np.random.default_rng(1))})


def test_a_program_of_eight_threads_that_used_all_four_cpus_may_gain(classifier) -> None:
    rng = np.random.default_rng(2)
    own = run(8, 0.03)
    eight = curve_of(classifier, measured(own, (1000, 4000), rng)).at(8000)
    assert abs(log(own[8000][0] / eight.mean)) < 1.645 * eight.std
    assert eight.mean > 1.2 * own[4000][0]
    assert eight.std > 0.1


def test_a_program_of_one_thread_is_flat_from_one_cpu_on(classifier) -> None:
    own, rng = run(1), np.random.default_rng(3)
    for most in (4000, 16000):
        curve = curve_of(classifier, measured(own, (1000, most), rng))
        for cpu in (1200, 2000, 4000, 8000, 16000, 32000):
            assert curve.at(cpu).mean == pytest.approx(1.0, rel=4 * NOISE)
            assert curve.at(cpu).std < 0.1


def test_three_threads_are_given_no_more_than_three_cpus(classifier) -> None:
    curve = curve_of(classifier, measured(run(3), (1000, 4000), np.random.default_rng(4)))
    three, four = curve.at(3200), curve.at(4000)
    assert three.mean == pytest.approx(four.mean, rel=0.02)
    assert curve.at(2000).mean < 0.8 * four.mean


def test_intervals_hold_above_what_was_measured(classifier) -> None:
    rng, held = np.random.default_rng(5), []
    for _ in range(150):
        own = run(*drawn(rng))
        pair = sorted(rng.choice(COLUMNS[:-1], 2, replace=False).tolist())
        curve = curve_of(classifier, measured(own, tuple(pair), rng))
        for cpu in (c for c in COLUMNS if c > pair[1]):
            estimate = curve.at(cpu)
            held.append(abs(log(own[cpu][0] / estimate.mean)) <= 1.645 * estimate.std)
    assert 0.85 <= np.mean(held) <= 0.97


@pytest.mark.parametrize(
    ("uses", "cpus"),
    [
        ([(1, 1.0, 1.0), (4, 4.0, 4.0)], inf),
        ([(1, 1.0, 1.0), (4, 1.0, 1.0)], 1.0),
        ([(1, 1.0, 1.0), (4, 3.0, 3.0)], 3.0),
        ([(8, 4.0, 4.0), (16, 4.0, 4.0)], 8.0),  # Neither was used wholly: no more is in use.
        ([(1, 1.0, 0.5), (4, 1.6, 0.85)], inf),  # It waits for a disk, with four threads.
        ([(4, 4.0, 3.9)], inf),
    ],
)
def test_how_many_cpus_it_can_use(uses: list[tuple[float, float, float]], cpus: float) -> None:
    found = parallelism([Use(*use) for use in uses])
    assert found is not None
    if cpus == inf:
        assert found.censored
    else:
        assert found.cpus == pytest.approx(cpus, rel=0.01) or found.cpus == found.most.cpus


def test_one_allocation_that_was_not_used_wholly_tells_nothing() -> None:
    assert parallelism([Use(4.0, 1.0, 1.0)]) is None
    assert parallelism([]) is None


def test_a_disk_bounds_what_is_possible() -> None:
    waits = parallelism(own_uses({1000: 1.0, 4000: 1.6}, {1000: 0.5, 4000: 0.85}))
    assert waits is not None
    assert waits.possible_gain(4.0) == 0.0
    assert 0 < waits.possible_gain(8.0) < waits.possible_gain(1e9) <= log(2 / 1.6) + 1e-6


def test_where_no_known_program_tells_its_use_anything_between_is_likely() -> None:
    own = parallelism([Use(1.0, 1.0, 1.0), Use(4.0, 4.0, 4.0)])
    assert own is not None
    gain = gains(own, 1.0, (), [8000])[8000]
    low, high = (gain.mean * np.exp(sign * 1.645 * gain.std) for sign in (-1, 1))
    assert low <= 1.0
    assert high >= 2.0


def test_without_the_use_of_known_programs_columns_stay_as_they_were() -> None:
    rng = np.random.default_rng(6)
    blind = Classifier({Aspect.SCALE_UP: known(rng, used=False)})
    told = measured(run(8), (1000, 4000), rng)
    without = Measurements({Quantity.RATE: told.performance[Quantity.RATE]})
    with_use, silent = curve_of(blind, told), curve_of(blind, without)
    assert with_use.at(8000) == silent.at(8000)
    assert with_use.at(64000).mean > silent.at(64000).mean


def test_a_service_that_leaves_cpu_idle_is_asked_for_less(classifier) -> None:
    told = {Quantity.THROUGHPUT: {1000: Entry(10.0, 0.05), 4000: Entry(40.0, 0.05)}}
    idle = told | {Quantity.CPU: {1000: Entry(0.3), 4000: Entry(0.3)}}
    with_use, silent = (classifier.classify(Measurements(each)).curves for each in (idle, told))
    assert with_use == silent
