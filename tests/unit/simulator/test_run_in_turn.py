"""Runs one after the other of one cluster: what is drawn once gives what is drawn anew."""

import pytest

from tests.support import first_and_long
from wharfinger.simulator.policies import estimates_for
from wharfinger.simulator.run import RunSpec, prepare, run, run_in_turn
from wharfinger.simulator.training import training_set

OF_THE_MACHINE = ("wall", "microseconds", "rss", "cpu_seconds")


def told(spec: RunSpec, how=run) -> tuple[dict, list]:
    outcome = how(spec)
    numbers = {
        key: value
        for key, value in outcome.summary.items()
        if not any(word in key for word in OF_THE_MACHINE)
    }
    return numbers, list(outcome.fates)


@pytest.mark.slow
@pytest.mark.parametrize("second", first_and_long(["least-loaded", "paragon", "oracle"]))
def test_a_later_run_is_what_it_is_alone(second: str):
    first = RunSpec("paragon-local-low", "paragon[rule=published]", seed=3, workloads=20)
    run_in_turn(first)
    spec = RunSpec("paragon-local-low", second, seed=3, workloads=20)
    assert told(spec, run_in_turn) == told(spec)


@pytest.mark.long
def test_another_seed_is_drawn_anew():
    spec = RunSpec("paragon-local-low", "least-loaded", seed=1, workloads=20)
    run_in_turn(spec)
    other = RunSpec("paragon-local-low", "least-loaded", seed=2, workloads=20)
    assert told(other, run_in_turn) == told(other)


@pytest.mark.slow
def test_policies_on_one_setup_learn_from_one_training_set():
    setup = prepare(RunSpec("paragon-local-low", "least-loaded", workloads=5)).setup
    before = training_set.cache_info().hits
    for policy in ("paragon", "paragon[rule=published]"):
        estimates_for(policy, setup, 0, 0.8)
    assert training_set.cache_info().hits == before + 1
