"""Ramps on programs whose sensitivity is known."""

import random
from collections.abc import Callable

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.ibench.ramp import RampPlan, RampSample, TakeSample, Tolerance, conclude, next_step

Response = Callable[[float], float]


def ramp(plan: RampPlan, response: Response) -> tuple[Tolerance, list[RampSample]]:
    samples: list[RampSample] = []
    while isinstance(step := next_step(plan, samples), TakeSample):
        samples.append(RampSample(step.intensity, response(step.intensity)))
    return step, samples


def test_the_score_is_where_the_curve_crosses_the_tolerance():
    found, _ = ramp(RampPlan(), lambda intensity: 200 - intensity)
    assert found.score == pytest.approx(10)
    assert found.low <= 10 <= found.high <= 20
    assert not found.censored
    assert found.confidence == 1.0


def test_a_program_that_does_not_mind_tolerates_100_and_is_censored():
    found, samples = ramp(RampPlan(), lambda _: 7.0)
    assert (found.score, found.censored, found.confidence) == (100.0, True, 1.0)
    assert len(samples) == 3 * 11
    assert [point.intensity for point in found.curve] == list(RampPlan().levels)
    assert all(point.relative_performance == 1 for point in found.curve)


def test_a_cliff_is_found_between_its_levels():
    found, samples = ramp(RampPlan(), lambda intensity: 100.0 if intensity <= 40 else 10.0)
    assert (found.low, found.high) == (40.0, 50.0)
    assert 40 <= found.score <= 41
    # Pressure ends with the confirmation: nothing above the cliff is tried.
    assert max(sample.intensity for sample in samples) == 50


def test_the_step_that_breaks_the_tolerance_is_repeated_after_a_rest():
    _, samples = ramp(RampPlan(), lambda intensity: 100.0 if intensity < 30 else 50.0)
    order = [sample.intensity for sample in samples[::3]]
    assert order == [0, 10, 20, 30, 0, 30]


def test_a_drift_is_not_taken_for_interference():
    calls = 0

    def slower_from_the_tenth_sample(_: float) -> float:
        nonlocal calls
        calls += 1
        return 100.0 if calls < 10 else 60.0

    found, samples = ramp(RampPlan(), slower_from_the_tenth_sample)
    assert (found.score, found.censored) == (100.0, True)
    assert [s.intensity for s in samples].count(0.0) == 6


def test_samples_before_the_effect_is_there_are_left_out():
    last: list[float] = []

    def late(intensity: float) -> float:
        last.append(intensity)
        settled = len(last) > 1 and last[-2] == intensity
        return 100 - intensity if settled else 1000.0

    found, _ = ramp(RampPlan(discard_samples=1), late)
    assert found.score == pytest.approx(5)


def noisy(seed: int, share: float, response: Response) -> Response:
    chance = random.Random(seed)
    return lambda intensity: response(intensity) * chance.gauss(1, share)


def test_noise_is_seldom_taken_for_interference():
    found = [ramp(RampPlan(), noisy(seed, 0.03, lambda _: 50.0))[0] for seed in range(200)]
    assert sum(tolerance.censored for tolerance in found) >= 180


def test_noise_moves_the_score_by_little():
    def response(intensity: float) -> float:
        return 100 - intensity / 4  # crosses 5 % at 20

    scores = [ramp(RampPlan(), noisy(seed, 0.01, response))[0].score for seed in range(100)]
    assert sum(10 <= score <= 30 for score in scores) >= 90


def test_an_unclear_step_gets_more_samples_but_not_for_ever():
    plan = RampPlan(max_samples_per_visit=6)
    found, samples = ramp(plan, noisy(1, 0.2, lambda intensity: 100 - intensity / 2))
    assert 3 < max(point.samples for point in found.curve) <= 12
    assert len(samples) < 250


def test_a_ramp_that_is_stopped_gives_a_lower_bound():
    samples = [RampSample(0, 10.0)] * 3 + [RampSample(10, 10.0)] * 3 + [RampSample(20, 2.0)] * 2
    found = conclude(RampPlan(), samples)
    assert (found.score, found.censored) == (10.0, True)
    assert conclude(RampPlan(), []).score == 0.0


def test_performance_of_nothing_cannot_drop():
    with pytest.raises(InvalidInput, match="performance alone is 0"):
        ramp(RampPlan(), lambda _: 0.0)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tolerance": 0.0}, "tolerance: 0.0; give"),
        ({"levels": ()}, "levels"),
        ({"levels": (20.0, 10.0)}, "levels"),
        ({"levels": (50.0, 120.0)}, "levels"),
        ({"samples_per_visit": 2}, "samples_per_visit: 2; give 3"),
        ({"confidence": 0.5}, "confidence: 0.5; give"),
        ({"discard_samples": -1}, "discard_samples"),
    ],
)
def test_a_wrong_plan_is_refused_in_one_line(fields: dict[str, object], words: str):
    with pytest.raises(InvalidInput, match=words):
        RampPlan(**fields)  # type: ignore[arg-type] # wrong on purpose


@pytest.mark.parametrize("performance", [-1.0, float("nan"), float("inf")])
def test_a_sample_is_a_number(performance: float):
    with pytest.raises(InvalidInput, match="performance"):
        RampSample(0, performance)
