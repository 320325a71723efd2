"""What holds of every ramp, whatever the program and the noise."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.ibench.ramp import RampPlan, RampSample, TakeSample, Tolerance, next_step

LEVELS = st.lists(st.integers(1, 100), min_size=1, max_size=12, unique=True).map(sorted)
PERFORMANCE = st.floats(1e-3, 1e6)


@st.composite
def plans(draw: st.DrawFn) -> RampPlan:
    samples = draw(st.integers(3, 5))
    return RampPlan(
        tolerance=draw(st.floats(0.01, 0.5)),
        levels=tuple(map(float, draw(LEVELS))),
        samples_per_visit=samples,
        max_samples_per_visit=samples + draw(st.integers(0, 4)),
        discard_samples=draw(st.integers(0, 2)),
        confidence=draw(st.floats(0.6, 0.99)),
        confirmations=draw(st.integers(0, 2)),
    )


def most_samples(plan: RampPlan) -> int:
    per_visit = plan.max_samples_per_visit + plan.discard_samples
    return (1 + len(plan.levels) * (1 + 2 * plan.confirmations)) * per_visit


@given(plans(), st.data())
def test_every_ramp_ends_and_says_what_it_found(plan: RampPlan, data: st.DataObject):
    samples: list[RampSample] = []
    while isinstance(step := next_step(plan, samples), TakeSample):
        assert step.intensity in (0.0, *plan.levels)
        samples.append(RampSample(step.intensity, data.draw(PERFORMANCE)))
        assert len(samples) <= most_samples(plan)
    assert 0 <= step.low <= step.score <= step.high <= 100
    assert 0 <= step.confidence <= 1
    assert not step.censored or step.score == plan.levels[-1]


def falling(draws: list[float]) -> list[float]:
    """A response that never rises, from shares."""
    return list(itertools.accumulate(draws, lambda a, b: a * b))


def ramp(plan: RampPlan, alone: float, response: dict[float, float]) -> Tolerance:
    samples: list[RampSample] = []
    while isinstance(step := next_step(plan, samples), TakeSample):
        share = response[step.intensity] if step.intensity else 1.0
        samples.append(RampSample(step.intensity, alone * share))
    return step


SHARES = st.lists(st.floats(0.5, 1.0), min_size=10, max_size=10).map(falling)


@given(SHARES, PERFORMANCE)
def test_without_noise_the_first_level_below_the_tolerance_is_found(
    shares: list[float], alone: float
):
    plan = RampPlan()
    response = dict(zip(plan.levels, shares, strict=True))
    # Not on the edge, where rounding decides.
    if any(abs(share - 0.95) < 1e-6 for share in shares):
        return
    found = ramp(plan, alone, response)
    below = [level for level, share in response.items() if share < 0.95]
    assert found.censored == (not below)
    assert found.high == (below[0] if below else 100.0)
    assert found.low == max((lv for lv in plan.levels if response[lv] > 0.95), default=0.0)


@given(SHARES, SHARES)
def test_without_noise_who_minds_more_tolerates_no_more(a: list[float], b: list[float]):
    plan = RampPlan()
    worse = dict(zip(plan.levels, map(min, a, b), strict=True))
    better = dict(zip(plan.levels, a, strict=True))
    assert ramp(plan, 1.0, worse).score <= ramp(plan, 1.0, better).score + 1e-6
