"""A load is forecast by what repeats itself; noise and what happens once forecast nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, exp, inf, isfinite, log, nan, pi, sin
from random import Random

import pytest

from wharfinger.core.load_history import LoadHistory
from wharfinger.core.tracking import LoadForecast
from wharfinger.policies.adaptation.forecast import Forecaster

EPOCH, HOUR, DAY = 1.7e9, 3600.0, 86_400.0
Load = Callable[[float], float | None]


@dataclass(frozen=True, slots=True)
class Told:
    """A forecast, what was measured when it was made, and what came at its horizon, both exact."""

    at: float
    load: float
    came: float
    forecast: LoadForecast

    @property
    def rises(self) -> bool:
        """It is sure that the load will be higher by a tenth and more."""
        return self.forecast.tells_change and self.forecast.low_per_second > 1.1 * self.load


def told(
    load: Load, seconds: float, *, every: float = 5.0, noise: float = 0.03, horizon: float = 30.0
) -> list[Told]:
    random, history, before = Random(5), LoadHistory(), None
    forecaster, found = Forecaster(horizon, 0.8), []
    for number in range(int(seconds / every)):
        at = every * number
        value = load(at)
        if value is None:
            continue
        seen = value * random.lognormvariate(0, noise)
        history = history.with_measurement(EPOCH + at, seen)
        before = forecaster.forecast(history, before, EPOCH + at, 20.0)
        if before is not None:
            found.append(Told(at, value, load(at + horizon) or 0.0, before))
    return found


def flat(_at: float) -> float:
    return 100.0


def sine(at: float) -> float:
    """A period of half an hour."""
    return 1000 * (1.2 + sin(2 * pi * at / 1800))


def daily(at: float) -> float:
    return 200 + 800 * max(0.0, -cos(2 * pi * at / DAY))


def square(at: float) -> float:
    """A period of ten minutes."""
    return 100.0 if at % 600 < 300 else 400.0


def walk(seed: int) -> Load:
    random, at = Random(seed), [log(200)]
    for _ in range(10_000):
        at.append(at[-1] + random.gauss(0, 0.02))
    return lambda second: exp(at[int(second / 5)])


@pytest.mark.parametrize("noise", [0.03, 0.2])
def test_a_flat_load_stays_as_it_is(noise: float) -> None:
    all_told = told(flat, 1.5 * HOUR, noise=noise)
    assert not any(one.forecast.tells_change for one in all_told)
    assert all_told[-1].forecast.mean_per_second == pytest.approx(100.0, rel=2 * noise)
    assert all_told[-1].forecast.error_log == pytest.approx(noise, rel=0.3)


@pytest.mark.parametrize("seed", range(2))
def test_a_random_walk_tells_no_change(seed: int) -> None:
    assert not any(one.rises for one in told(walk(seed), 2 * HOUR, noise=0.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "period", "every"),
    [(sine, 1800.0, 5.0), (square, 600.0, 5.0), (daily, DAY, 120.0)],
    ids=["sine", "square", "daily"],
)
def test_a_season_is_found_after_two_of_it(load: Load, period: float, every: float) -> None:
    all_told = told(load, 3.2 * period, every=every)
    seasons = [one for one in all_told if one.forecast.season is not None]
    assert 2 * period <= seasons[0].at < 2.6 * period
    length = seasons[-1].forecast.season_seconds
    assert length == pytest.approx(period, rel=0.05)


def test_a_rise_is_known_before_it_comes_from_the_third_period_on() -> None:
    all_told = told(square, 3_000)
    before = [one for one in all_told if 270 < one.at % 600 < 300]
    assert not any(one.rises for one in before if one.at < 1_200)
    assert all(any(one.rises for one in before if one.at // 600 == n) for n in (3, 4))
    assert max(one.forecast.mean_per_second for one in all_told) < 470, "no more than was measured"


@pytest.mark.parametrize("load", [flat, square])
def test_a_bound_is_held_about_as_often_as_its_confidence_says(load: Load) -> None:
    all_told = told(load, 1.5 * HOUR)
    low = sum(one.forecast.low_per_second <= one.came for one in all_told) / len(all_told)
    high = sum(one.forecast.high_per_second >= one.came for one in all_told) / len(all_told)
    assert 0.7 < low < 0.95
    assert 0.7 < high < 0.95


@pytest.mark.parametrize(
    "load",
    [
        lambda at: 100.0 if at < 1800 else 300.0,
        lambda at: 300.0 if 1_500 < at < 1_800 else 100.0,
    ],
    ids=["step", "spike"],
)
def test_what_happened_once_is_not_expected_again(load: Load) -> None:
    assert not any(one.rises for one in told(load, HOUR))


def test_what_stops_repeating_itself_is_believed_for_no_longer_than_it_took_to_learn() -> None:
    all_told = told(lambda at: square(at) if at < 3_000 else 100.0, 6_000)
    assert any(one.rises for one in all_told if one.at < 3_000)
    assert not any(one.rises for one in all_told if one.at > 3_900)


def test_a_steady_rise_is_a_trend() -> None:
    def ramp(at: float) -> float:
        """Twice a rise over ten minutes, not after the same time: no season."""
        since = next((at - begin for begin in (800, 2_500) if 0 <= at - begin < 600), 0)
        return 100 * exp(since / 150)

    all_told = told(ramp, 3_100)
    second = [one for one in all_told if one.at > 2_500]
    assert any(one.forecast.is_trend and one.rises for one in second)
    first = [one for one in all_told if one.at < 1_400]
    assert not any(one.rises for one in first), "no more than was ever measured"


@pytest.mark.slow
def test_after_a_gap_or_a_stop_nothing_is_made_up() -> None:
    def with_gap(at: float) -> float | None:
        return None if 5_000 < at < 6_200 else sine(at)

    all_told = told(with_gap, 10_100)
    assert all(isfinite(one.forecast.mean_per_second) for one in all_told)
    assert not any(one.forecast.tells_change for one in all_told if 6_200 <= one.at < 6_230)
    assert any(one.forecast.season is not None for one in all_told if one.at > 10_000)
    stopped = told(lambda at: sine(at) if at < 5_000 else 0.0, 7_500)
    assert not any(one.rises for one in stopped if one.at > 7_000)
    assert not any(one.forecast.tells_change for one in told(lambda _at: 0.0, 600))


@pytest.mark.parametrize("now", [nan, inf, -1.0])
def test_what_is_no_load_or_no_time_is_borne(now: float) -> None:
    history = LoadHistory()
    for number, value in enumerate([100.0, nan, inf, -5.0, 0.0] * 40):
        history = history.with_measurement(EPOCH + number, value)
        Forecaster(2.0, 0.8).forecast(history, None, EPOCH + number, 20.0)
    assert Forecaster(2.0, 0.8).forecast(LoadHistory(), None, now, 20.0) is None


@pytest.mark.parametrize("confidence", [0.0, 1.0])
def test_what_no_past_error_tells_is_not_said(confidence: float) -> None:
    history = LoadHistory()
    for number in range(200):
        history = history.with_measurement(EPOCH + number, 100.0 + number % 3)
    made = Forecaster(4.0, confidence).forecast(history, None, EPOCH + 200, 20.0)
    assert (made is None) == (confidence == 1.0)


def test_a_horizon_of_nothing_or_of_days_is_borne() -> None:
    history = LoadHistory()
    for number in range(3_000):
        history = history.with_measurement(EPOCH + 5 * number, 100.0)
    for horizon in (0.0, 1e9):
        Forecaster(horizon, 0.8).forecast(history, None, EPOCH + 15_000, 20.0)
