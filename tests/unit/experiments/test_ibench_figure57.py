"""memcached's server changed by its profile, and a profile of the ground truth against that."""

from functools import cache

import numpy as np
import pytest

from tests.support.pictures import shows_data
from wharfinger.experiments import ibench_figure57 as figure57
from wharfinger.experiments.ground_truth import StudyFindings, draw_programs
from wharfinger.experiments.registry import EXPERIMENTS
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import REGIMES

MODERATE = REGIMES["moderate"]
R = SharedResource
NO_LAW = "nothing injects it in this ground truth"


@cache
def server(*changes: figure57.Offer) -> figure57.Provisioned:
    memcached = draw_programs([Pool.MEMCACHED], MODERATE, 0)[0]
    return figure57.Provisioned(memcached, MODERATE, changes)


@cache
def found(regime: str) -> StudyFindings:
    return figure57.look(REGIMES[regime], 0)


def true_crossing(resource: SharedResource) -> float:
    """The intensity at which p99 is 5% above that alone, by bisection of the truth itself."""
    subject = server()
    alone, low, high = subject.p99(), 0.0, 100.0
    for _ in range(20):
        middle = (low + high) / 2
        source = subject.truth.source("server", resource, middle, subject.service)
        assert source is not None
        slow = subject.p99([source]) > alone / 0.95
        low, high = (low, middle) if slow else (middle, high)
    return high


def test_a_profile_of_the_truth_finds_where_performance_drops():
    profile = server().profile(np.random.default_rng(1))
    rows = {row["name"]: row for row in profile["sources"]}
    for resource in (R.NETWORK_BANDWIDTH, R.INTEGER, R.L1_INSTRUCTION_CACHE):
        score, truth = rows[resource.value]["tolerated"], true_crossing(resource)
        assert score["low"] - 5 <= truth <= score["high"] + 5, resource
    assert rows["storage-bandwidth"]["verdict"] == "kept"
    assert rows["memory-bandwidth"]["caused"]["value"] < 50
    assert profile["seconds"] <= figure57.SECONDS


def test_what_the_ground_truth_has_no_law_for_has_no_signal():
    profile = server().profile(np.random.default_rng(1))
    reasons = {row["name"]: row["reason"] for row in profile["sources"]}
    assert set(reasons) == {each.value for each in R}
    lawless = [
        each.value
        for each in R
        if server().truth.source("server", each, 50, server().service) is None
    ]
    assert all(reasons[name] == NO_LAW for name in lawless)
    assert NO_LAW not in [reason for name, reason in reasons.items() if name not in lawless]


def rows_of(**tolerated: float) -> list[dict[str, object]]:
    return [
        {
            "name": name.replace("_", "-"),
            "verdict": "slowed",
            "tolerated": {"value": value, "low": value - 1, "high": value + 1},
        }
        for name, value in tolerated.items()
    ]


def test_the_next_change_is_what_is_minded_most_of_what_is_on_offer():
    profile = {"sources": rows_of(network_bandwidth=50.0, l2_cache=20.0, memory_bandwidth=5.0)}
    assert figure57.next_offer(profile, []) == (figure57.MEMORY, [])
    offer, before = figure57.next_offer(profile, [figure57.MEMORY])
    assert (offer, before) == (figure57.NETWORK, ["memory-bandwidth", "l2-cache"])
    assert figure57.next_offer(profile, figure57.PUBLISHED)[0] is None


def test_an_offer_changes_what_it_says():
    changed = server(*figure57.PUBLISHED).truth.hardware["server"]
    assert changed.memory_bytes == 24 * 1024**3
    assert changed.network_bandwidth == pytest.approx(1.25)
    assert changed.memory_bandwidth == pytest.approx(1.5 * figure57.SERVER.memory_bandwidth)
    assert (changed.cores, changed.llc_bytes) == (8, 8 * 1024**2)


@pytest.mark.slow
@pytest.mark.parametrize("regime", ["moderate", "contended"])
def test_neighbors_disturb_less_on_the_changed_server(regime: str):
    numbers = found(regime).numbers
    alone, before = numbers["server-0/alone/p99"], numbers["server-0/beside/p99"]
    after = numbers["server-2/beside/p99"]
    assert alone < after < before
    assert numbers["server-2/beside/cpu-use"] < numbers["server-0/beside/cpu-use"]
    assert numbers["server-0/alone/p50"] < alone < 1e6 * figure57.BOUND_SECONDS


def test_each_step_says_what_its_profile_advises():
    said = found("moderate").said
    assert "Spend on" in said[0]
    assert "Changed next:" in said[0]
    assert said[-1].endswith(("nothing.", "shown."))


@pytest.mark.slow
def test_every_picture_can_be_drawn():
    pytest.importorskip("matplotlib")
    for picture in EXPERIMENTS["ibench-figure57"].pictures:
        figure = picture.draw(
            found("moderate").drawn[picture.name], picture.title, **picture.options
        )
        assert shows_data(figure)
