"""Targets follow from what a program does alone; reservations from how users err."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.demo.manifests import Place, manifest
from wharfinger.demo.plan import (
    MEMBERS,
    Goal,
    Kind,
    Solo,
    Timing,
    goal_of,
    reservations,
)
from wharfinger.manifest import load_manifests

CPUS = st.sampled_from([1.0, 2.0])


@given(CPUS, st.floats(1.0, 1e5), st.floats(1e-4, 0.5))
def test_what_all_need_together_is_half_of_the_cpus(cpus, rate, latency):
    solo = Solo(rate, latency)
    goals = [goal_of(m, solo, cpus, Timing()) for m in MEMBERS if m.targeted]
    assert sum(goal.need_cpus for goal in goals) == pytest.approx(0.5 * cpus)
    assert len(goals) == 5


@given(CPUS, st.floats(1.0, 1e5))
def test_a_batch_job_fits_into_its_time_with_what_it_needs(cpus, rate):
    for member in MEMBERS:
        if member.kind is Kind.BATCH:
            goal = goal_of(member, Solo(rate), cpus, Timing())
            seconds = goal.total / (rate * goal.need_cpus)
            assert seconds < goal.completion_seconds


@given(st.integers(0, 1000), st.integers(3, 30))
def test_most_users_ask_for_too_much_and_some_for_too_little(seed, count):
    goals = {str(number): Goal(0.3) for number in range(count)}
    drawn = reservations(goals, seed, 1.0)
    over = sum(reservation.factor > 1 for reservation in drawn.values())
    under = sum(reservation.factor < 1 for reservation in drawn.values())
    assert abs(over - 0.7 * count) <= 1
    assert abs(under - 0.2 * count) <= 1
    assert all(0 < reservation.cpus <= 1 for reservation in drawn.values())
    assert drawn == reservations(goals, seed, 1.0)


def test_every_manifest_is_one(tmp_path):
    goals = {m.name: goal_of(m, Solo(700.0, 0.003), 2.0, Timing()) for m in MEMBERS if m.targeted}
    stated = reservations(goals, 0, 1.0)
    place = Place(tmp_path, {"web": 8001, "cache": 8002}, 1000.0)
    for member in MEMBERS:
        goal, reservation = goals.get(member.name), stated.get(member.name)
        text = str(manifest(member, place, Timing(), goal, reservation))
        (workload,) = load_manifests(text, source="demo", working_directory=str(tmp_path))
        assert workload.name == member.name
        assert (workload.target is not None) == member.targeted
        if reservation is not None:
            assert workload.reservation.cpu_millicpus == round(1000 * reservation.cpus)
