"""Loads have the shape that their name says."""

from math import inf

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.simulator.scenario.jobs import Load
from wharfinger.simulator.scenario.loads import LoadModel, LoadShape, make_load

PERIODIC = {"base_per_second": 100.0, "peak_per_second": 300.0, "period_seconds": 2400.0}


def test_flat_and_steps():
    assert make_load(LoadModel(base_per_second=7.0), inf).per_second == (7.0,)
    steps = LoadModel(LoadShape.STEPS, steps=((0.0, 5.0), (60.0, 9.0)))
    load = make_load(steps, 100.0)
    assert (load.at(59.0), load.at(60.0)) == (5.0, 9.0)
    assert steps.most_per_second == 9.0


def test_a_spike_may_begin_at_once():
    spike = LoadModel(LoadShape.SPIKE, 1.0, 5.0, at_seconds=0.0, for_seconds=10.0)
    load = make_load(spike, 100.0)
    assert (load.at(0.0), load.at(9.0), load.at(10.0)) == (5.0, 5.0, 1.0)


def test_a_sine_goes_up_first_and_comes_round():
    load = make_load(LoadModel(LoadShape.FLUCTUATING, **PERIODIC), 4800.0)
    assert load.at(600.0) == pytest.approx(300.0, rel=0.01)
    assert load.at(1800.0) == pytest.approx(100.0, rel=0.02)
    assert load.at(100.0) == pytest.approx(load.at(2500.0))
    assert load.mean(2400.0) == pytest.approx(200.0)


def test_a_day_has_a_night_at_the_base():
    load = make_load(LoadModel(LoadShape.DIURNAL, **PERIODIC), 2400.0)
    assert load.at(0.0) == load.at(500.0) == load.at(2399.0) == 100.0
    assert load.at(1200.0) == pytest.approx(300.0, rel=0.01)
    assert max(load.per_second) <= 300.0
    assert load.mean(2400.0) < 200.0


def test_a_life_without_end_has_a_load_with_one():
    load = make_load(LoadModel(LoadShape.FLUCTUATING, **PERIODIC), inf)
    assert len(load.times) == 7 * 24


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"shape": LoadShape.SPIKE, "base_per_second": 5.0, "peak_per_second": 1.0},
        {"shape": LoadShape.FLAT, "base_per_second": 5.0, "peak_per_second": 9.0},
        {"shape": LoadShape.STEPS},
        {"base_per_second": 5.0, "steps": ((0.0, 1.0),)},
        {"shape": LoadShape.STEPS, "steps": ((1.0, 1.0),)},
        {"shape": LoadShape.STEPS, "steps": ((0.0, 1.0), (0.0, 2.0))},
    ],
)
def test_what_contradicts_itself_is_refused(wrong: dict):
    with pytest.raises(InvalidInput):
        LoadModel(**wrong)


def test_queries_between_two_moments_are_counted():
    load = Load((0.0, 10.0, 20.0), (5.0, 50.0, 1.0))
    assert load.total(0.0, 10.0) == 50.0
    assert load.total(8.0, 22.0) == 2 * 5 + 10 * 50 + 2 * 1
    assert load.total(30.0, 31.0) == 1.0
    assert load.mean(20.0) == (50 + 500) / 20
    assert load.capped(20.0).total(0.0, 30.0) == 50 + 200 + 10


def test_minutes_after_a_rise_end_at_the_next():
    load = Load((0.0, 10.0, 200.0, 300.0, 5000.0), (10.0, 15.0, 22.0, 33.0, 0.0))
    # From 15 to 22 is less than half more.
    assert load.after_rises() == ((10.0, 300.0), (300.0, 900.0))


def test_a_load_that_stays_at_nothing_does_not_rise():
    assert Load((0.0, 10.0, 20.0), (0.0, 0.0, 1.0)).after_rises() == ((20.0, 620.0),)
