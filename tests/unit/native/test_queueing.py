"""The law of latency in C, against its equations in Python: the same to the last bit."""

from collections.abc import Callable
from math import exp, sqrt

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.native import beyond, longest, most_load

variations = st.floats(0.0, 6.0)
workers = st.floats(1.0, 24.0)
loads = st.floats(0.0, 0.999)


def told(load: float, servers: float, variation: float, units: float) -> float:
    """By the equations of simulator.truth.queueing."""
    constant, branches = 0.0, [(1.0, 1.0)]
    if variation <= 1:
        spread = max(sqrt(variation), 1e-3)
        constant, branches = 1 - spread, [(1.0, 1 / spread)]
    else:
        often = 0.5 * (1 + sqrt((variation - 1) / (variation + 1)))
        branches = [(often, 2 * often), (1 - often, 2 * (1 - often))]
    left = units - constant
    if left < 0:
        return 1.0
    waits = load ** (sqrt(2 * (servers + 1)) - 1)
    leaves = 2 * servers * (1 - load) / (1 + variation)
    total = 0.0
    for weight, rate in branches:
        served, gap = exp(-rate * left), leaves - rate
        if abs(gap) < 1e-9 * rate:
            waited = served * (1 + rate * left)
        else:
            waited = (leaves * served - rate * exp(-leaves * left)) / gap
        total += weight * ((1 - waits) * served + waits * waited)
    return min(1.0, max(0.0, total))


def bisected(holds: Callable[[float], bool], high: float, precision: float) -> tuple[float, float]:
    low = 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
        if high - low < precision * high:
            break
    return low, high


@given(loads, workers, variations, st.floats(0.0, 100.0))
def test_the_probability_is_that_of_the_equations(
    load: float, servers: float, variation: float, units: float
):
    assert beyond(load, servers, variation, units) == told(load, servers, variation, units)


@given(st.floats(0.0, 100.0), workers, variations, st.floats(0.001, 0.5))
def test_the_most_load_is_that_of_a_bisection(
    units: float, servers: float, variation: float, allowed: float
):
    expected = 0.0
    if told(0.0, servers, variation, units) <= allowed:
        expected, _ = bisected(
            lambda load: told(load, servers, variation, units) <= allowed, 1.0, 0.0
        )
    assert most_load(units, servers, variation, allowed) == expected


@given(
    st.lists(
        st.tuples(st.floats(0.01, 1.0), st.floats(1.0, 900.0), st.floats(1.0, 1000.0), workers),
        min_size=1,
        max_size=4,
    ),
    variations,
)
def test_the_latency_over_several_servers_is_that_of_a_bisection(
    shares: list[tuple[float, float, float, float]], variation: float
):
    def mixed(seconds: float) -> float:
        return sum(
            weight
            * (
                1.0
                if could <= load
                else told(load / could, servers, variation, seconds / (servers / could))
            )
            for weight, load, could, servers in shares
        )

    expected = 10.0
    if mixed(10.0) < 0.01:
        _, expected = bisected(lambda at: mixed(at) > 0.01, 10.0, 1e-7)
    assert longest(shares, variation, 0.01, 10.0, 1e-7) == expected
