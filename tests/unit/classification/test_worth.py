"""What runs of a copy are worth, and whom they cost."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from tests.support.cluster import workload
from tests.unit.classification.test_paces import PLATFORMS, recommender
from tests.unit.classification.test_planner import view
from wharfinger.classification.worth import (
    Prospects,
    When,
    best_time,
    first_runs,
    missing_runs,
    stake,
)
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Measurements
from wharfinger.model.view import Request
from wharfinger.model.workload import Target, WorkloadType

KNOWN, MAYBE, TWIN, SLOW = range(4)
MEAN = np.array([0.0, -0.1, -0.1, -3.0])
COVARIANCE = np.diag([0.001, 0.04, 0.04, 0.04])
COVARIANCE[MAYBE, TWIN] = COVARIANCE[TWIN, MAYBE] = 0.0399
AHEAD = Prospects(MEAN, COVARIANCE, 0.05)
JOB = replace(workload("w"), target=Target(rate_per_second=1.0))


def test_a_run_is_worth_what_it_may_change() -> None:
    gains = [AHEAD.worth([at]) - AHEAD.worth([]) for at in range(4)]
    assert min(gains[MAYBE], gains[TWIN]) > 0.05
    assert gains[MAYBE] == pytest.approx(gains[TWIN], abs=0.02)
    assert abs(gains[SLOW]) < 0.01, "it would never be chosen"
    assert AHEAD.worth([MAYBE, TWIN]) - AHEAD.worth([MAYBE]) < 0.3 * gains[TWIN]


def test_runs_end_where_they_do_not_repay_their_price() -> None:
    everywhere = [KNOWN, MAYBE, TWIN, SLOW]
    assert AHEAD.repaying(everywhere, 4, 0.02)[0] in (MAYBE, TWIN)
    assert SLOW not in AHEAD.repaying(everywhere, 4, 0.02)
    assert AHEAD.repaying(everywhere, 4, 0.5) == []
    assert len(AHEAD.repaying(everywhere, 1, 0.0)) == 1


def test_a_target_in_sure_reach_is_not_worth_a_run() -> None:
    easy = replace(AHEAD, target=-1.0)
    assert easy.worth([MAYBE]) - easy.worth([]) < 0.03 < AHEAD.worth([MAYBE]) - AHEAD.worth([])


def test_what_waits_too_long_for_runs_does_better_without() -> None:
    everywhere = range(4)
    told, late = (AHEAD.outcome([MAYBE, TWIN], everywhere, lost) for lost in (0.0, 0.06))
    assert told > AHEAD.outcome(None, everywhere) > late


@pytest.mark.parametrize(
    ("seconds", "restartable", "when"),
    [
        (600.0, False, When.BEFORE),
        (600.0, True, When.BEFORE),
        (30.0, True, When.BESIDE),
        (30.0, False, When.NEVER),
    ],
)
def test_a_short_workload_begins_before_its_profile(seconds, restartable, when) -> None:
    run = replace(JOB.run, restartable=restartable)
    request = Request(replace(JOB, expected_seconds=seconds, run=run))
    at_stake = stake(request, None, 0.8, 100, 4000, view(4000))
    assert at_stake.likely == (1.0,)
    others = PLATFORMS[1:]
    assert best_time(recommender(), PLATFORMS, "p0", others, others, at_stake) is when


def test_runs_beside_cost_nothing_where_it_began_well() -> None:
    everywhere, runs = range(4), [MAYBE, TWIN]
    begins = AHEAD.best(everywhere)
    waits = AHEAD.outcome(runs, everywhere, 0.04)
    elsewhere = 1.0 - np.eye(4)[begins]
    free, dear = (AHEAD.outcome(runs, everywhere, at * elsewhere) for at in (0.04, 0.9))
    assert free > waits
    assert dear == pytest.approx(AHEAD.outcome(None, everywhere), abs=0.02), "it stays"


@pytest.mark.parametrize(
    ("seconds", "when"),
    [((600.0, inf), When.BEFORE), ((), When.BEFORE), ((5.0, 10.0, 15.0), When.NEVER)],
)
def test_who_says_nothing_takes_as_long_as_others_do(seconds, when) -> None:
    request = Request(JOB, run_seconds=lambda: seconds)
    at_stake = stake(request, None, 0.8, 100, 4000, view(4000))
    assert len(at_stake.likely) == max(1, len(seconds))
    others = PLATFORMS[1:]
    assert best_time(recommender(), PLATFORMS, "p0", others, others, at_stake) is when
    assert stake(
        replace(request, workload=replace(JOB, expected_seconds=9.0)),
        None,
        0.8,
        100,
        4000,
        view(4000),
    ).likely == (1.0,)


def test_the_first_runs_are_few_where_room_is_scarce() -> None:
    request, others = Request(JOB), PLATFORMS[1:]
    seen = replace(view(4000), residents=np.array([40]))
    idle, full = (stake(request, None, 0.8, 100, room, seen) for room in (400_000, 100))
    assert idle.price < full.price
    count = [len(first_runs(recommender(), PLATFORMS, "p0", others, 9, at)) for at in (idle, full)]
    assert count[0] > count[1]
    assert len(first_runs(recommender(), PLATFORMS, "p0", others, 2, idle)) <= 2


def test_of_what_is_known_in_part_only_the_missing_is_run() -> None:
    at_stake = stake(Request(JOB), None, 0.8, 100, 4000, view(4000))
    entries = {name: Entry(1.0 + at / 10, 0.03) for at, name in enumerate(PLATFORMS[:2])}
    missing = PLATFORMS[5:]
    free = replace(at_stake, lost=0.0)
    runs = missing_runs(recommender(), PLATFORMS, entries, missing, 3, free)
    assert runs
    assert set(runs) <= set(missing)
    assert missing_runs(recommender(), PLATFORMS, entries, (), 3, free) == []
    late = replace(at_stake, lost=0.5)
    assert missing_runs(recommender(), PLATFORMS, entries, missing, 3, late) == []


def test_what_is_at_stake_is_known_from_what_ran() -> None:
    known = Measurements({Quantity.RATE: {1000: Entry(2.0)}}, total=400.0)
    at_stake = stake(Request(JOB), known, 1.0, 1000, 4000, view(4000))
    assert (at_stake.expected_seconds, at_stake.target) == (200.0, 0.0)
    service = replace(JOB, type=WorkloadType.LATENCY_CRITICAL)
    assert stake(Request(service), None, 1.0, 1000, 4000, view(4000)).lost == 0
