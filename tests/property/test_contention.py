"""Those who share a server slow each other as the model says, for whatever shares it."""

from dataclasses import replace
from math import inf, log
from random import Random

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from tests.support import reference_contention as reference
from tests.support import slow
from tests.support.physics import (
    PLATFORMS,
    SOURCES,
    Group,
    application,
    drawn_group,
    groups,
    picks,
    resident,
    source_beside,
)
from wharfinger.simulator.truth.physics.coefficients import row_of
from wharfinger.simulator.truth.physics.hardware import Hardware
from wharfinger.simulator.truth.physics.solver import Asked, Constants, Solution, Solver
from wharfinger.simulator.truth.physics.sources import CORE_SOURCES

CONSTANTS = Constants()
NO_WHIMS = Constants(whim=0.0)
AGREE = 5e-6
"""Measured: 5e-7 at most over 700 groups of up to 32."""
LIMIT = 200
P99_ITERATIONS = 20
"""Measured: 15 (median 9, most 31) over 10,000 groups."""


def solved(hardware: Hardware, asked: list[Asked], constants: Constants = CONSTANTS) -> Solution:
    """By a solver that has seen nothing else, so that order of asking can't matter."""
    return Solver(hardware, constants).solve(asked)


def change(one: list[float], other: list[float]) -> float:
    """Largest relative one; below a thousandth of an instruction a microsecond all is none."""
    a, b = np.array(one), np.array(other)
    return float(np.max(np.abs(a - b) / np.maximum(np.maximum(a, b), 1e-6)))


def assert_alike(found: Solution, other: reference.Found) -> None:
    np.testing.assert_allclose(found.could, other.could, rtol=AGREE)
    np.testing.assert_allclose(found.does, other.does, rtol=AGREE)
    np.testing.assert_allclose(found.busy, other.busy, rtol=AGREE, atol=1e-9)


# --- the same as by another method --------------------------------------------------------


@given(groups(), st.sampled_from([CONSTANTS, NO_WHIMS, Constants(smt=False), Constants(True, 2.0)]))
def test_kernel_and_reference_agree(drawn: Group, constants: Constants) -> None:
    hardware, asked = drawn
    try:
        found = reference.solve(asked, hardware, constants)
    except reference.NoFixedPointError:
        reject()  # Its plain iteration may go round where caches are nearly indifferent.
    assert_alike(solved(hardware, asked, constants), found)


# The last two: Newton's method undamped goes round three points, as a load binds and does not.
@pytest.mark.parametrize("seed", [1630, 2861, *range(20), *slow(range(20, 100))])
def test_kernel_and_reference_agree_on_full_servers(seed: int) -> None:
    hardware, asked = drawn_group(seed)
    assert_alike(solved(hardware, asked), reference.solve(asked, hardware, CONSTANTS))


@pytest.mark.parametrize("seed", [*range(5000, 5008), *slow(range(5008, 5040))])
def test_one_fixed_point_from_many_starts(seed: int) -> None:
    hardware, asked = drawn_group(seed, 12)
    kernel, random = solved(hardware, asked), np.random.default_rng(seed)
    for _ in range(5):
        start = reference.State(
            np.exp(random.uniform(log(64), log(hardware.llc_bytes), len(asked))),
            random.uniform(0, 0.999, 4),
            float(random.uniform(0.05, 1)),
        )
        assert_alike(kernel, reference.solve(asked, hardware, CONSTANTS, start))


# --- small steps, small changes -----------------------------------------------------------


# How much a rate may change with a step: some are steep (one core's cache, nearly all taken by a
# source), none jumps. Much shorter steps show that: a jump would stay as it is. Seen: up to 0.1 for
# a thousandth of a CPU, 0.006 for a hundredth of a source's intensity.
STEPS = (1.0, 1e-2, 1e-4)
BOUND = 0.5
NOISE = 1e-5


@given(groups(most=5), st.sampled_from(SOURCES), st.floats(0, 99.98))
def test_no_jump_with_a_sources_intensity(drawn: Group, resource: str, intensity: float) -> None:
    hardware, asked = drawn
    if resource in CORE_SOURCES and not hardware.smt:
        return
    for scale in STEPS:
        found = [
            solved(hardware, [*asked, source_beside(resource, each, hardware, asked, 0)]).does
            for each in (intensity, intensity + 0.01 * scale)
        ]
        assert change(found[0][:-1], found[1][:-1]) <= BOUND * scale + NOISE


@given(groups(most=5), st.data())
def test_no_jump_with_cpus(drawn: Group, data: st.DataObject) -> None:
    hardware, others = drawn
    program = resident(application("measured", picks(data.draw)), hardware, picks(data.draw))
    cpus = data.draw(st.floats(0, program.application.threads))
    for scale in STEPS:
        one, other = (
            solved(hardware, [*others, replace(program, cpus=each)]).does
            for each in (cpus, cpus + 1e-3 * scale)
        )
        assert change(one[:-1], other[:-1]) <= BOUND * scale + NOISE
        assert abs(other[-1] - one[-1]) <= BOUND * scale + NOISE


@given(groups(most=5), st.data())
def test_no_jump_with_load(drawn: Group, data: st.DataObject) -> None:
    hardware, others = drawn
    service = resident(application("measured", picks(data.draw)), hardware, picks(data.draw))
    load = data.draw(st.floats(0, 8))
    for scale in STEPS:
        one, other = (
            solved(hardware, [*others, replace(service, cap=each)]).does
            for each in (load, load + 1e-4 * scale)
        )
        assert change(one[:-1], other[:-1]) <= BOUND * scale + NOISE
        assert abs(other[-1] - one[-1]) <= 1e-4 * scale + NOISE


# --- nothing gives more than it has -------------------------------------------------------


def assert_conserved(hardware: Hardware, asked: list[Asked]) -> None:
    solver = Solver(hardware, CONSTANTS)
    found = solver.solve(asked)
    shares, used = solver.kernel.shares(), solver.kernel.utilisation()
    assert all(0 <= each <= 1 for each in used)
    assert sum(shares) <= hardware.llc_bytes * (1 + 1e-9) or all(
        share == pytest.approx(row_of(each.application, hardware, 1.0).reach)
        for share, each in zip(shares, asked, strict=True)
    )
    for share, each in zip(shares, asked, strict=True):
        assert share <= row_of(each.application, hardware, 1.0).reach * (1 + 1e-9)
    assert sum(found.busy) <= hardware.cores * (1 + 1e-6)
    for could, does, busy, each in zip(found.could, found.does, found.busy, asked, strict=True):
        assert 0 <= does <= could < inf
        assert each.cap < 0 or does <= each.cap
        assert busy <= each.cpus * (1 + 1e-9)
        assert (does > 0) == (each.cpus > 0 and each.cap != 0)


@given(groups())
def test_nothing_gives_more_than_it_has(drawn: Group) -> None:
    assert_conserved(*drawn)


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda each: each.name)
def test_a_crowded_server_gives_no_more_than_it_has(platform: Hardware) -> None:
    seed = 10 * len(PLATFORMS) + PLATFORMS.index(platform)
    assert_conserved(*drawn_group(seed, 64))


# --- what does not matter -----------------------------------------------------------------


@given(groups(least=2), st.randoms(use_true_random=False))
def test_order_of_residents_does_not_matter(drawn: Group, random: Random) -> None:
    hardware, asked = drawn
    order = list(range(len(asked)))
    random.shuffle(order)
    places = [order.index(at) for at in range(len(asked))]
    turned = [
        replace(asked[at], beside=places[asked[at].beside] if asked[at].beside >= 0 else -1)
        for at in order
    ]
    one, other = solved(hardware, asked), solved(hardware, turned)
    assert other.could == pytest.approx([one.could[at] for at in order], rel=1e-6)
    assert other.does == pytest.approx([one.does[at] for at in order], rel=1e-6)


@given(groups(), st.integers(0, 10**6))
def test_the_same_question_has_the_same_answer_to_the_bit(drawn: Group, seed: int) -> None:
    hardware, asked = drawn
    solver = Solver(hardware, CONSTANTS)
    first = solver.solve(asked)
    solver.solve(group_of_others(hardware, seed))
    assert solver.solve(asked) == first == solved(hardware, asked)


def group_of_others(hardware: Hardware, seed: int) -> list[Asked]:
    pick = Random(seed).uniform
    return [resident(application(f"other-{n}", pick), hardware, pick) for n in range(9)]


# --- neighbours ---------------------------------------------------------------------------


@given(groups())
def test_nobody_is_faster_than_alone(drawn: Group) -> None:
    """Not so of one neighbour more: it may hold back another that pressed harder (test_solver)."""
    hardware, asked = drawn
    found = solved(hardware, asked, NO_WHIMS)
    for could, each in zip(found.could, asked, strict=True):
        alone = solved(hardware, [replace(each, beside=-1)], NO_WHIMS)
        assert could <= alone.could[0] * (1 + 1e-6)


@given(groups(least=2))
def test_whims_are_bounded(drawn: Group) -> None:
    """They change the time in the core by a factor of at most exp(1/4), however many there are."""
    hardware, asked = drawn
    found = solved(hardware, asked, Constants(whim=10.0))
    for could, each in zip(found.could, asked, strict=True):
        alone = solved(hardware, [replace(each, beside=-1)], NO_WHIMS)
        assert could <= alone.could[0] * np.exp(0.25) * (1 + 1e-6)


# --- how long it takes --------------------------------------------------------------------


@pytest.mark.long
def test_few_iterations_are_enough() -> None:
    taken = []
    for seed in range(2500):
        hardware, asked = drawn_group(seed)
        solver = Solver(hardware, CONSTANTS)
        solver.solve(asked)
        taken.append(solver.kernel.iterations)
    assert np.percentile(taken, 99) <= P99_ITERATIONS
    assert max(taken) < LIMIT / 2


@given(groups(most=8))
def test_it_always_settles(drawn: Group) -> None:
    hardware, asked = drawn
    solver = Solver(hardware, CONSTANTS)
    solver.solve(asked)
    assert solver.kernel.iterations < LIMIT
