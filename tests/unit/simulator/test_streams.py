"""Chance by purpose: independent of order, of other purposes and of Python's hash seed."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from wharfinger.simulator.kernel.streams import Streams

NAMES = [("cache", n) for n in range(20_000)]

PRINT_DRAWS = """
import json
from wharfinger.simulator.kernel.streams import Streams
streams = Streams(7)
for purpose in {"arrivals", "service", "noise", "faults"}:  # in the order of the hash seed
    streams.of(purpose)
    streams.uniform(purpose, 0)
print(json.dumps([
    streams.of("arrivals").random(3).tolist(),
    streams.of("noise").random(3).tolist(),
    [streams.uniform("noise", "cache", n) for n in range(3)],
    [streams.normal("noise", "cache", n) for n in range(3)],
]))
"""


def draws_of_a_process(hash_seed: str) -> object:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", PRINT_DRAWS],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_draws_do_not_depend_on_the_hash_seed():
    here = Streams(7)
    draws = [
        here.of("arrivals").random(3).tolist(),
        here.of("noise").random(3).tolist(),
        [here.uniform("noise", "cache", n) for n in range(3)],
        [here.normal("noise", "cache", n) for n in range(3)],
    ]
    assert draws_of_a_process("1") == draws_of_a_process("2") == draws


def test_draws_stay_what_they_are():
    """A change here is another run for every seed that somebody wrote down."""
    streams = Streams(7)
    raw = streams.of("arrivals").bit_generator.random_raw(2)
    assert raw.tolist() == [9147371185816935911, 13885633553236135035]
    assert streams.uniform("noise", "cache", 1) == 0.9264308187413691
    assert streams.uniform("noise") == 0.36895113636401644


def test_a_purpose_goes_on_whatever_others_draw():
    alone, beside = Streams(1), Streams(1)
    expected = alone.of("service").random(10)
    found = []
    for _ in range(10):
        beside.of("arrivals").exponential(size=3)
        beside.uniform("service", "x")
        found.append(beside.of("service").random())
    np.testing.assert_array_equal(found, expected)


def test_a_named_draw_is_the_same_whenever_it_is_made():
    forth, back = Streams(1), Streams(1)
    back.of("noise").random(5)
    assert [forth.uniform("noise", *n) for n in NAMES[:100]] == [
        back.uniform("noise", *n) for n in reversed(NAMES[:100])
    ][::-1]


@pytest.mark.parametrize("draw", ["uniform", "normal"])
def test_seeds_purposes_and_names_are_told_apart(draw):
    names = [
        (),
        ("",),
        ("a",),
        ("a", "b"),
        ("ab",),
        ("a", "", "b"),
        (1,),
        ("1",),
        (-1,),
        (1, 1),
        (11,),
    ]
    found = [
        getattr(Streams(seed), draw)(purpose, *name)
        for seed in (0, 1, -1, 2**80)
        for purpose in ("noise", "faults", "", "1:noise")
        for name in names
    ]
    assert len(set(found)) == len(found)


def test_streams_are_told_apart_from_each_other_and_from_named_draws():
    streams = Streams(0)
    found = [
        *streams.of("a").random(100),
        *streams.of("b").random(100),
        *Streams(1).of("a").random(100),
        *(streams.uniform("a", n) for n in range(100)),
    ]
    assert len(set(found)) == len(found)


def distance(values: list[float], distribution) -> float:
    """Kolmogorov and Smirnov's, times the root of the number: above 1.95 once in a thousand."""
    ordered = np.sort(values)
    expected = np.array([distribution(value) for value in ordered])
    steps = np.arange(len(ordered) + 1) / len(ordered)
    gap = max((steps[1:] - expected).max(), (expected - steps[:-1]).max())
    return gap * math.sqrt(len(ordered))


def normal_distribution(value: float) -> float:
    return 0.5 * math.erfc(-value / math.sqrt(2))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_named_draws_are_distributed_as_they_say(seed):
    streams = Streams(seed)
    assert distance([streams.uniform("u", *n) for n in NAMES], lambda value: value) < 1.95
    assert distance([streams.normal("n", *n) for n in NAMES], normal_distribution) < 1.95
    factors = [streams.lognormal("f", *n, sigma=0.1) for n in NAMES]
    assert distance(factors, lambda f: normal_distribution(math.log(f) / 0.1)) < 1.95


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_neighbouring_names_and_purposes_are_not_correlated(seed):
    streams = Streams(seed)
    draws = np.array([streams.normal("noise", *n) for n in NAMES])
    others = np.array([streams.normal("nois", *n) for n in NAMES])
    sequence = streams.of("noise").standard_normal(len(NAMES))
    bound = 4 / math.sqrt(len(NAMES))
    for one, other in [(draws[1:], draws[:-1]), (draws, others), (draws, sequence)]:
        assert abs(np.corrcoef(one, other)[0, 1]) < bound


def test_a_uniform_draw_is_never_an_end(monkeypatch):
    streams = Streams(0)
    for word, value in [(0, 2.0**-53), (2**64 - 1, 1 - 2.0**-53)]:
        monkeypatch.setattr(
            "wharfinger.simulator.kernel.streams._first_word", lambda _, word=word: (word,)
        )
        assert streams.uniform("u") == value
        assert math.isfinite(streams.normal("u"))


def test_a_name_that_is_none_is_refused():
    with pytest.raises(TypeError):
        Streams(0).uniform("noise", object())
