"""What residents of one server do to each other, case by case."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.support import reference_contention as reference
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.truth.physics.application import Application, Streaming, WorkingSet
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.coefficients import CORE_RESOURCES, row_of
from wharfinger.simulator.truth.physics.hardware import GIB, MIB, CoreGroup, Family, Hardware
from wharfinger.simulator.truth.physics.named import NAMED
from wharfinger.simulator.truth.physics.solver import Asked, Constants, Solution, Solver
from wharfinger.simulator.truth.physics.sources import source_of

XEON = HARDWARE["xeon-x5650"]
THREADED = HARDWARE["hi1.4xlarge"]
CONSTANTS = Constants(whim=0.0)

COMPUTES = Application("computes", sets=(WorkingSet(1e-5, 16 * 1024),), footprint_bytes=MIB)
STREAMS = Application(
    "streams", sets=(WorkingSet(0.03, 1e12, floor=1.0),), parallelism=8.0, footprint_bytes=GIB
)
REUSES = Application("reuses", sets=(WorkingSet(0.03, 6 * MIB, 3.0),), footprint_bytes=GIB)
COPIES = Application("copies", disk=Streaming(0.2, 0.1), footprint_bytes=MIB)
SENDS = Application("sends", network=Streaming(0.2, 0.1), footprint_bytes=MIB)
COPIES_AND_SENDS = replace(COPIES, name="both", network=Streaming(0.2, 0.1))


def has(application: Application, cpus: float = 1.0, **others: float) -> Asked:
    asked = Asked(application, cpus, float(application.footprint_bytes))
    return replace(asked, **others)


def solve(*asked: Asked, on=XEON, constants=CONSTANTS) -> Solution:
    return Solver(on, constants).solve(list(asked))


def test_programs_that_compute_do_not_meet_while_there_are_cores() -> None:
    alone, among = solve(has(COMPUTES)), solve(*[has(COMPUTES)] * 12)
    assert among.does == pytest.approx(alone.does * 12, rel=1e-3)


def test_more_threads_than_cpus_take_turns() -> None:
    alone, among = solve(has(COMPUTES)), solve(*[has(COMPUTES)] * 24)
    assert among.does == pytest.approx([alone.does[0] / 2] * 24, rel=1e-3)
    assert sum(among.busy) == pytest.approx(12)


def test_who_waits_for_a_disk_leaves_its_cpu_to_others() -> None:
    one_cpu = HARDWARE["m1.small"]
    both = solve(has(COMPUTES), has(COPIES), on=one_cpu)
    assert both.does[0] > 0.6 * solve(has(COMPUTES), on=one_cpu).does[0]
    assert sum(both.busy) == pytest.approx(1)


def test_streams_share_memory_bandwidth() -> None:
    solver = Solver(XEON, CONSTANTS)
    alone, among = solver.solve([has(STREAMS)]), solver.solve([has(STREAMS)] * 12)
    assert among.does[0] < 0.9 * alone.does[0]
    assert 0.5 < solver.kernel.utilisation()[0] < 1


def test_a_stream_takes_cache_from_who_would_use_it_again() -> None:
    solver = Solver(XEON, CONSTANTS)
    beside_computing = solver.solve([has(REUSES), *[has(COMPUTES)] * 4])
    beside_streams = solver.solve([has(REUSES), *[has(STREAMS)] * 4])
    assert solver.kernel.shares()[0] < solver.kernel.shares()[1]
    assert beside_streams.does[0] < 0.8 * beside_computing.does[0]


def test_a_service_that_is_asked_little_presses_little() -> None:
    busy, idle = (solve(has(REUSES), *[has(STREAMS, cap=cap)] * 4) for cap in (-1.0, 0.001))
    assert idle.does[0] > 1.1 * busy.does[0]
    assert idle.does[1] == 0.001
    assert idle.could[1] > 0.1


def test_one_neighbour_more_can_free_another_device() -> None:
    """It holds one back at the disk, which then sends less: physics, not a fault."""
    both = solve(has(SENDS), *[has(COPIES_AND_SENDS)] * 2)
    with_a_third = solve(has(SENDS), *[has(COPIES_AND_SENDS)] * 2, *[has(COPIES)] * 4)
    assert with_a_third.does[1] < both.does[1]
    assert with_a_third.does[0] > 1.02 * both.does[0]


def test_neighbours_that_throttle_each_other_press_less_than_their_sum() -> None:
    """As Pythia found: what each takes beside a program alone adds up to more than all take."""
    solver = Solver(XEON, CONSTANTS)
    beside_a_program = []
    for count in (3, 6, 12):
        solver.solve([has(COMPUTES), *[has(STREAMS)] * count])
        beside_a_program.append(solver.kernel.utilisation()[0])
    few, twice, four_times = beside_a_program
    assert twice < 1.95 * few
    assert four_times < 1.8 * twice


def test_what_is_read_again_costs_the_disk() -> None:
    without, rereads = solve(has(COMPUTES)), solve(has(COMPUTES, rereads=0.05))
    assert rereads.does[0] == pytest.approx(
        1 / (1 / without.does[0] + 0.05 / XEON.disk_bandwidth), rel=0.3
    )
    assert rereads.does[0] < 1 / (1 / without.does[0] + 0.05 / XEON.disk_bandwidth)


def test_short_memory_costs_time() -> None:
    short = has(STREAMS, memory_bytes=0.5 * GIB)
    assert solve(short).does[0] < 0.5 * solve(has(STREAMS)).does[0]


def test_who_has_no_cpu_does_nothing_and_is_in_nobodys_way() -> None:
    streams = has(STREAMS, 4.0)
    found = solve(has(REUSES), replace(streams, cpus=0.0), has(REUSES), has(STREAMS))
    without = solve(has(REUSES), has(REUSES), has(STREAMS))
    assert found.does[1] == found.could[1] == found.busy[1] == 0
    assert [found.does[at] for at in (0, 2, 3)] == pytest.approx(without.does, rel=1e-4)


def test_a_source_on_the_same_core_slows_by_its_intensity() -> None:
    rates = []
    for intensity in (0, 50, 100):
        source, _ = source_of(SharedResource.INTEGER, intensity, THREADED, 1.0)
        beside = Asked(source, float(source.threads), float(source.footprint_bytes), beside=0)
        rates.append(solve(has(COMPUTES), beside, on=THREADED).does[0])
    assert rates[0] > 1.1 * rates[1] > 1.1 * 1.1 * rates[2]


ADDED = (
    SharedResource.L2_BANDWIDTH,
    SharedResource.LAST_LEVEL_CACHE_BANDWIDTH,
    SharedResource.PREFETCHER,
    SharedResource.INTERCONNECT,
)


@pytest.mark.parametrize("resource", ADDED)
@pytest.mark.parametrize("name", ["mcf", "omnetpp", "povray"])
def test_sources_of_bandwidth_slow_more_the_more_intense(resource: SharedResource, name: str):
    program, rates = NAMED[name], []
    for intensity in (0, 25, 50, 75, 100):
        source, cap = source_of(resource, intensity, THREADED, 1.0)
        beside = has(source, float(source.threads), cap=cap, beside=0 if cap < 0 else -1)
        found = solve(has(program), beside, on=THREADED)
        expected = reference.solve([has(program), beside], THREADED, CONSTANTS)
        np.testing.assert_allclose(found.does, expected.does, rtol=1e-5)
        rates.append(found.does[0])
    assert all(before > after for before, after in pairwise(rates))
    assert rates[0] == pytest.approx(solve(has(program), on=THREADED).does[0], rel=0.01)


@pytest.mark.parametrize("one", [NAMED["mcf"], NAMED["povray"], REUSES])
def test_no_program_presses_on_what_only_sources_press_on(one: Application):
    row = row_of(one, THREADED, 1.0)
    for resource in ADDED:
        if resource in CORE_RESOURCES:
            assert row.pressure[CORE_RESOURCES.index(resource)] == 0
            assert row.sensitivity[CORE_RESOURCES.index(resource)] > 0


# --- unlike cores -------------------------------------------------------------------------


def of_groups(*groups: CoreGroup) -> Hardware:
    return replace(XEON, groups=groups)


ALIKE = CoreGroup(
    "alike", XEON.family, XEON.clock_ghz, XEON.cores // 2, XEON.l1_bytes, XEON.l2_bytes
)
SMALL = replace(ALIKE, name="small", family=Family.ATOM, clock_ghz=1.6)


def test_groups_of_like_cores_are_one() -> None:
    programs = [has(NAMED[name], cores=at % 2) for at, name in enumerate(("mcf", "lbm", "gcc"))]
    split = solve(*programs, on=of_groups(ALIKE, ALIKE))
    assert split == solve(*[replace(each, cores=0) for each in programs])


def test_programs_on_unlike_cores_share_the_last_level_and_memory() -> None:
    chip = of_groups(ALIKE, SMALL)
    large, small = (solve(has(NAMED["gcc"], cores=each), on=chip).does[0] for each in (0, 1))
    assert small < 0.6 * large
    streams = [has(STREAMS, cores=1)] * 6
    among = [has(REUSES), *streams]
    assert solve(*among, on=chip).does[0] < 0.95 * solve(has(REUSES), on=chip).does[0]
    # On slow cores they press less.
    assert solve(*among, on=chip).does[0] > solve(has(REUSES), *[has(STREAMS)] * 6).does[0]
    np.testing.assert_allclose(
        solve(*among, on=chip).does, reference.solve(among, chip, CONSTANTS).does, rtol=1e-5
    )


def test_time_is_the_sum_of_its_parts() -> None:
    among = [has(NAMED["mcf"]), has(STREAMS), has(STREAMS)]
    solver = Solver(XEON, CONSTANTS)
    for spent, rate in zip(solver.spent(among), solver.solve(among).does, strict=True):
        assert spent.core + spent.cache + spent.memory == pytest.approx(1 / rate, rel=1e-6)


@pytest.mark.parametrize("first", [True, False])
def test_whims_reach_who_is_bound_to_a_core_whoever_comes_first(first: bool) -> None:
    whims = Constants(whim=0.5)
    one, other = has(REUSES), has(STREAMS)
    asked = [one, replace(other, beside=0)] if first else [replace(other, beside=1), one]
    found = solve(*asked, on=THREADED, constants=whims)
    rates = found.does if first else found.does[::-1]
    expected = solve(one, replace(other, beside=0), on=THREADED, constants=whims).does
    assert rates == pytest.approx(expected, rel=1e-9)


def test_several_servers_share_the_work_and_wait_for_each_other() -> None:
    part = COMPUTES.per_server(4)
    whole, shared = solve(has(COMPUTES)), solve(has(COMPUTES, part=part))
    assert shared.does[0] == pytest.approx(part * whole.does[0], rel=1e-3)


def test_the_reference_says_so_where_nothing_settles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "MOST", 1)
    with pytest.raises(reference.NoFixedPointError):
        reference.solve([has(STREAMS)] * 12, XEON, CONSTANTS)


def test_the_reference_tells_where_it_found_them() -> None:
    found = reference.solve([has(REUSES), has(STREAMS)], XEON, CONSTANTS)
    solver = Solver(XEON, CONSTANTS)
    solver.solve([has(REUSES), has(STREAMS)])
    np.testing.assert_allclose(solver.kernel.shares(), found.state.shares, rtol=1e-5)
    np.testing.assert_allclose(solver.kernel.utilisation(), found.state.utilisations, atol=1e-6)
