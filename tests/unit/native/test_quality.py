"""Resource quality."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Estimate
from wharfinger.native import OrderedRows, needed_quality, refresh_quality, tiers_with_room
from wharfinger.testing.policy import make_view


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_quality_is_worked_out_for_the_rows_that_are_named(seed, servers):
    rng = np.random.default_rng(seed)
    levels = rng.uniform(-10, 140, (4, 10, servers))
    left = (100 - np.minimum(levels[2], 100)).mean(axis=0)
    tolerated = np.clip(levels[0], 0, 100).mean(axis=0)
    quality, rows = np.full((2, servers), -1.0), np.nonzero(rng.random(servers) < 0.5)[0].tolist()
    refresh_quality(levels, rows, quality, levels.shape[1])
    expected = np.full((2, servers), -1.0)
    expected[:, rows] = np.array([left / 100, (left + tolerated) / 200])[:, rows]
    assert quality == pytest.approx(expected)
    with pytest.raises(ValueError, match="no row"):
        refresh_quality(levels, [servers], quality, levels.shape[1])


def test_what_is_unknown_of_a_workload_needs_nothing():
    ten = frozenset(list(SharedResource)[:10])
    scores = [Estimate(120.0, 1.0), Estimate(30.0, 1.0)]
    caused = dict(zip(SharedResource, scores, strict=False))
    assert needed_quality(caused, None, ten) == pytest.approx(0.13)
    assert needed_quality(caused, caused, ten) == pytest.approx((130 + 70) / 2 / 1000)
    assert needed_quality({}, {}, ten) == 0


@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 5))
def test_tiers_of_servers_and_which_have_room(seed, servers, ranges):
    random = Random(seed)
    view = make_view(random, servers)
    quality = np.array([random.choice((0.0, 0.25, 0.5, 1.0, random.random())) for _ in view.names])
    bounds = [*sorted(random.choice((0.25, 0.5, random.random())) for _ in range(ranges)), np.inf]
    columns = (view.accepting, view.cpu_capacity, view.cpu_allocated, view.memory_capacity,
               view.memory_allocated)  # fmt: skip
    tiers, has_room = tiers_with_room(quality, *columns, 500, 2**26, bounds)
    usable = (view.accepting > 0) & (view.cpu_capacity - view.cpu_allocated >= 500)
    usable &= view.memory_capacity - view.memory_allocated >= 2**26
    for at, (tier, fits) in enumerate(zip(tiers, has_room, strict=True)):
        inside = (bounds[at] <= quality) & (quality < bounds[at + 1])
        assert tier.tolist() == inside.tolist()
        assert fits == (inside & usable).any()
    with pytest.raises(ValueError, match="two bounds"):
        tiers_with_room(quality, *columns, 500, 2**26, [0.0])


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_quantiles_of_rows_that_change_now_and_then(seed, rows):
    rng, ordered = np.random.default_rng(seed), OrderedRows()
    values, counts = rng.random(rows).round(1), (rng.random(rows) < 0.7).astype(np.uint8)
    shares = (np.arange(1, 5) / 5).tolist()
    for changes in (0, 1, 3, rows, 0, 2):
        at = rng.integers(0, rows, changes)
        values[at], counts[at] = rng.random(changes).round(1), rng.random(changes) < 0.7
        if rng.random() < 0.2:
            rows += 1
            values, counts = np.resize(values, rows), np.resize(counts, rows)
        told = ordered.quantiles(values, counts, shares)
        there = values[counts > 0]
        assert told == (np.quantile(there, shares).tolist() if there.size else shares)
