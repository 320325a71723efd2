"""Targets follow from what a program does alone; reservations from how users err."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.demo.conftest import SECONDS, STATED, workloads
from wharfinger.demo.reservations import reservations
from wharfinger.demo.workloads import (
    COMPLETE_BY,
    FILLERS,
    SHARE,
    TARGETED,
    targets,
)

CPUS = st.sampled_from([1.0, 2.0])


@given(CPUS, st.floats(1.0, 1e5))
def test_a_batch_job_fits_into_its_time_with_what_it_needs(cpus, rate):
    needs = dict.fromkeys(TARGETED, SHARE * cpus)
    values = targets(dict.fromkeys(TARGETED, rate), 0.0, needs, 110.0)
    for name in COMPLETE_BY:
        assert values[f"{name}_total"] / (rate * SHARE * cpus) < values[f"{name}_seconds"]


@given(st.integers(0, 1000), st.integers(3, 30))
def test_most_users_ask_for_too_much_and_some_for_too_little(seed, count):
    names = [str(number) for number in range(count)]
    stated = reservations(names, 0.2, seed, 1.0)
    assert abs(sum(cpus > 0.2 for cpus in stated.values()) - 0.7 * count) <= 1
    assert abs(sum(cpus < 0.2 for cpus in stated.values()) - 0.2 * count) <= 1
    assert all(0 < cpus <= 1 for cpus in stated.values())
    assert stated == reservations(names, 0.2, seed, 1.0)


@given(CPUS, st.floats(1.0, 1e5), st.floats(1e-4, 0.5))
def test_every_manifest_is_one(cpus, rate, latency):
    made = {one.name: one for one in workloads(cpus=cpus, rate=rate, latency=latency)}
    assert set(made) == {*TARGETED, *FILLERS}
    for name, workload in made.items():
        assert (workload.target is not None) == (name in TARGETED)
        if name in TARGETED:
            assert workload.reservation.cpu_millicpus == round(1000 * STATED[name])
            assert workload.tolerance == pytest.approx(0.1)
    web = made["web"]
    assert web.target.latency.below_seconds == pytest.approx(max(0.1, 20 * latency), rel=0.05)
    assert web.measure.load_command[-1].startswith(f"{SECONDS / 2}:")
