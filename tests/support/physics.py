"""Arbitrary applications and groups of residents of one server.

Ranges are those of published characterisations: cycles, accesses and working sets of programs,
memory parallelism, scalability, streams. One definition serves two ways of drawing: hypothesis,
which shrinks what it finds, and a seeded generator, where a test needs thousands.
"""

from collections.abc import Callable
from math import exp, log
from random import Random

from hypothesis import strategies as st

from wharfinger.model.interference import SCORED, SharedResource
from wharfinger.simulator.truth.physics.application import (
    Application,
    Mix,
    Serving,
    Streaming,
    WorkingSet,
)
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.hardware import GIB, KIB, MIB, Hardware
from wharfinger.simulator.truth.physics.solver import Asked
from wharfinger.simulator.truth.physics.sources import CORE_SOURCES, source_of

Group = tuple[Hardware, list[Asked]]
"""A server and those on it."""
Pick = Callable[[float, float], float]
"""A number between two."""

PLATFORMS = tuple(HARDWARE.values())
SOURCES = tuple(SharedResource)


def log_between(pick: Pick, low: float, high: float) -> float:
    return min(high, max(low, exp(pick(log(low), log(high)))))


def application(name: str, pick: Pick) -> Application:
    """Single-threaded or not, computing, memory-intensive or waiting for a device, or a service."""
    intensive, multithreaded = pick(0, 1) < 0.5, pick(0, 1) < 0.5
    device = int(pick(0, 4.999))  # 0 = disk, 1 = network, 2 = both, else neither
    integer = pick(0.1, 0.5)
    accesses = pick(9, 40) if intensive else log_between(pick, 0.2, 4)
    knee = log_between(pick, 0.25 * MIB, 16 * MIB)
    return Application(
        name,
        cycles=pick(0.3, 1.3),
        mix=Mix(integer, pick(0, 0.2), pick(0, 0.25)),
        sets=(
            WorkingSet(pick(0.005, 0.05), log_between(pick, 16 * KIB, 128 * KIB)),
            WorkingSet(accesses / 1000, knee, pick(1, 4), pick(0, 0.6)),
        ),
        parallelism=log_between(pick, 1.2, 8),
        code_bytes=log_between(pick, 4 * KIB, 128 * KIB),
        footprint_bytes=round(log_between(pick, 0.01 * GIB, 4 * GIB)),
        threads=round(log_between(pick, 2, 16)) if multithreaded else 1,
        contention=log_between(pick, 0.005, 0.12),
        coherence=log_between(pick, 1e-5, 3e-3),
        disk=_stream(pick, device in (0, 2)),
        network=_stream(pick, device in (1, 2)),
        writes=pick(0, 0.5),
        whim=pick(0.08, 0.25),
        serving=Serving(log_between(pick, 1e4, 1e7), pick(0, 2)) if pick(0, 1) < 0.25 else None,
    )


def _stream(pick: Pick, wanted: bool) -> Streaming:
    """Waits for 30 to 80% of its time, at 70 to 400 MB/s of its own."""
    if not wanted:
        return Streaming()
    waits, own = pick(0.3, 0.8), log_between(pick, 0.07, 0.4)
    return Streaming(waits / (1 - waits) * own, own, pick(1, 8))


def resident(application: Application, hardware: Hardware, pick: Pick) -> Asked:
    """Some CPUs and some memory; a service, and now and then a program, is asked a certain load."""
    cap = -1.0
    if application.serving or pick(0, 1) < 0.2:
        cap = pick(0, 1.5) * application.threads
    return Asked(
        application,
        0.0 if pick(0, 1) < 0.03 else pick(0.1, min(application.threads, hardware.cores)),
        application.footprint_bytes * pick(0.6, 1.2),
        cap,
        pick(0.5, 1) if pick(0, 1) < 0.2 else 1.0,
        pick(0, 0.3) if pick(0, 1) < 0.1 else 0.0,
    )


def source_beside(
    resource: SharedResource, intensity: float, hardware: Hardware, group: list[Asked], near: int
) -> Asked:
    """A source of interference beside the residents; a core's is bound to that one."""
    source, cap = source_of(resource, intensity, hardware, group[near].cpus if group else 1.0)
    at = near if resource in CORE_SOURCES and group else -1
    return Asked(source, float(source.threads), float(source.footprint_bytes), cap, beside=at)


def group(hardware: Hardware, count: int, pick: Pick) -> list[Asked]:
    """So many residents, a few of them sources."""
    made: list[Asked] = []
    for place in range(count):
        if pick(0, 1) < 0.15:
            resource = SCORED[int(pick(0, len(SCORED) - 1e-6))]  # seeds name groups
            near = int(pick(0, max(1, len(made)) - 1e-6))
            if hardware.smt or resource not in CORE_SOURCES:
                made.append(source_beside(resource, pick(0, 100), hardware, made, near))
                continue
        made.append(resident(application(f"app-{place}", pick), hardware, pick))
    return made


def drawn_group(seed: int, most: int = 32) -> Group:
    """A platform and 1 to ``most`` residents, the same for the same seed."""
    return drawn_group_of(seed, Random(f"count {seed}").randint(1, most))


def drawn_group_of(seed: int, count: int) -> Group:
    """A platform and so many residents, the same for the same seed."""
    hardware = PLATFORMS[seed % len(PLATFORMS)]
    return hardware, group(hardware, count, Random(seed).uniform)


platforms = st.sampled_from(PLATFORMS)


def picks(draw: st.DrawFn) -> Pick:
    return lambda low, high: draw(st.floats(low, high))


@st.composite
def groups(draw: st.DrawFn, least: int = 1, most: int = 6) -> Group:
    """A platform and its residents."""
    hardware = draw(platforms)
    return hardware, group(hardware, draw(st.integers(least, most)), picks(draw))
