"""What the papers say of programs that share a server, asked of the physics."""

from dataclasses import replace

import numpy as np
import pytest

from wharfinger.interference.bubble import contention_of
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.application import Application, WorkingSet
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.hardware import GIB, MIB
from wharfinger.simulator.truth.physics.named import NAMED, PYTHIA_BATCH
from wharfinger.simulator.truth.physics.pools import Pool, draw_pool
from wharfinger.simulator.truth.physics.regimes import REGIMES
from wharfinger.simulator.truth.physics.solver import Constants
from wharfinger.simulator.truth.physics.sources import bubble
from wharfinger.simulator.truth.physics.truth import Physics
from wharfinger.simulator.truth.queueing import QueueShare

HIGH_END, SIBLINGS, PYTHIA = "xeon-x5670", "j", "e5-2670"
SIZES = (1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 26.0, 32.0, 48.0, 64.0)
(MEMCACHED,) = draw_pool(Pool.MEMCACHED, REGIMES["moderate"], Streams(0))
SMALL_CACHE = replace(MEMCACHED, footprint_bytes=2 * GIB)
HOLDS_DATA = Application(
    "holds-data", threads=4, footprint_bytes=GIB, data_bytes=30.0 * GIB, reread=0.5, spread=0.01
)
TRUTH = Physics(
    [HARDWARE[name] for name in (HIGH_END, SIBLINGS, PYTHIA)],
    [*NAMED.values(), SMALL_CACHE, HOLDS_DATA, *map(bubble, SIZES)],
    Constants(whim=0.0),
)


def one(name: str, cpus: float = 1.0, **other: object) -> TrueResident:
    memory = TRUTH.applications[name].footprint_bytes
    return TrueResident(name, 1000 * cpus, memory, **other)  # type: ignore[arg-type]


def kept(resident: TrueResident, resource: SharedResource, intensity: float, on: str) -> float:
    source = TRUTH.source(on, resource, intensity, resident)
    beside = [resident] if source is None else [resident, source]
    return TRUTH.rates(on, beside)[0] / TRUTH.alone(on, resident)


@pytest.mark.parametrize("platform", [HIGH_END, SIBLINGS])
def test_mcf_minds_memory_and_not_the_network(platform: str):
    mcf = one("mcf")
    at_half = kept(mcf, SharedResource.MEMORY_CAPACITY, 50, platform)
    assert kept(mcf, SharedResource.MEMORY_CAPACITY, 100, platform) < at_half < 0.95
    assert kept(mcf, SharedResource.NETWORK_BANDWIDTH, 100, platform) == pytest.approx(1, abs=1e-6)


def test_who_computes_minds_little_of_what_mcf_minds():
    for resource in (SharedResource.MEMORY_CAPACITY, SharedResource.LAST_LEVEL_CACHE):
        computes, waits = (kept(one(name), resource, 90, HIGH_END) for name in ("povray", "mcf"))
        assert computes > max(0.9, waits)


@pytest.mark.parametrize("resource", SharedResource)
@pytest.mark.parametrize("name", ["mcf", "libquantum", "povray", "kmeans"])
def test_a_source_that_does_nothing_disturbs_nobody(name: str, resource: SharedResource):
    for platform in (HIGH_END, SIBLINGS):
        assert kept(one(name), resource, 0.01, platform) == pytest.approx(1, abs=0.01)


def test_a_source_reaches_every_socket():
    """Else it and a program of one thread would have a cache each, and never meet."""
    assert kept(one("omnetpp"), SharedResource.LAST_LEVEL_CACHE, 100, HIGH_END) < 0.95


def test_memorys_source_finds_out_how_much_bandwidth_there_is():
    slow = Physics([HARDWARE[HIGH_END]], [], Constants(bandwidth=0.5))
    nobody = TrueResident("", 1000.0, 0)
    for truth in (TRUTH, slow):
        source = truth.source(HIGH_END, SharedResource.MEMORY_BANDWIDTH, 50, nobody)
        assert truth.utilisation(HIGH_END, [source])[0] == pytest.approx(0.5, abs=0.02)


def test_several_servers_hold_data_that_one_does_not():
    job = one("holds-data", 4.0)
    given = replace(job, memory_bytes=10 * GIB)
    alone = TRUTH.alone(HIGH_END, given)
    four = 4 * TRUTH.alone(HIGH_END, replace(given, servers=4))
    assert four > 4 * alone
    # With room for all of it on one, nothing is gained but servers.
    roomy = replace(job, memory_bytes=40 * GIB)
    assert TRUTH.alone(HIGH_END, replace(roomy, servers=4)) < TRUTH.alone(HIGH_END, roomy)


def test_latency_has_a_knee_and_no_bound():
    service = one("memcached", 4.0, load_per_second=0.0)
    could = TRUTH.alone(HIGH_END, service)

    def p99(load: float) -> float:
        asked = replace(service, load_per_second=load * could)
        share = QueueShare(load * could, TRUTH.alone(HIGH_END, asked), 4.0)
        return TRUTH.queue("memcached").latency_seconds([share], 99)

    idle, middle, high, full = p99(0.01), p99(0.5), p99(0.85), p99(1.0)
    assert middle < 2 * idle
    assert idle < middle < high < full
    assert full > 20 * idle


def test_the_sum_of_contentions_is_too_high_and_the_more_the_more_there_are():
    redis = one("redis", 2.0, load_per_second=0.0)
    redis = replace(redis, load_per_second=0.4 * TRUTH.alone(PYTHIA, redis))
    alone = TRUTH.alone(PYTHIA, redis)

    def qos(*names: str) -> float:
        residents = [one(name, min(2, TRUTH.applications[name].threads)) for name in names]
        return TRUTH.rates(PYTHIA, [redis, *residents])[0] / alone

    curve = np.array([qos(bubble(size).name) for size in SIZES])

    def over(degree: int) -> float:
        chosen = np.random.default_rng(degree).choice(PYTHIA_BATCH, (40, degree))
        errors = []
        for names in chosen:
            joint = contention_of(qos(*names), SIZES, curve)
            if joint > 0.2:
                alone = sum(contention_of(qos(name), SIZES, curve) for name in names)
                errors.append((alone - joint) / joint)
        return float(np.nanmean(errors))

    two, three, four = over(2), over(3), over(4)
    assert 0.05 < two < three < four < 1.0


def test_a_bubble_grows_worse():
    curve = [
        TRUTH.rates(PYTHIA, [one("omnetpp"), one(bubble(size).name, 2.0)])[0] for size in SIZES
    ]
    assert (np.diff(curve) <= 1e-9 * curve[0]).all()


def test_contention_is_read_off_the_curve():
    curve = np.array([0.99, 0.95, 0.95, 0.80])
    sizes = [1.0, 2.0, 3.0, 4.0]
    assert contention_of(1.01, sizes, curve) == 0
    assert contention_of(0.97, sizes, curve) == pytest.approx(1.5)
    assert contention_of(0.95, sizes, curve) == 2.0  # The smallest that does as much.
    assert np.isnan(contention_of(0.7, sizes, curve))  # No bubble does as much.


def test_a_bubble_of_a_size_reads_all_of_it():
    (used,) = bubble(8.0).sets
    assert isinstance(used, WorkingSet)
    assert used.beyond(8 * MIB) < 0.1 * used.beyond(1 * MIB)
