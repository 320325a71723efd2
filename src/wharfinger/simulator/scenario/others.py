"""Jobs of others on the same servers, and evictions: what an engine that others use too brings.

Drawn before a run begins, the same for every policy. ``simulator.cluster.others`` carries them out.
"""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.manifest.kinds import DURATION, TIME
from wharfinger.simulator.scenario.distributions import Distribution, Shape, distribution_fields
from wharfinger.simulator.scenario.scenario_kinds import CPUS, MEMORIES

_GIB = 1024**3
_MAX_JOBS = 1_000_000


@dataclass(frozen=True, slots=True)
class Others:
    """Jobs that others hand to the same cluster; gaps are exponentially distributed."""

    every_seconds: Annotated[float, DURATION("Mean time between two that come.")]
    cpus_millicpus: Annotated[tuple[int, ...], CPUS("That one holds on its server.")] = (1000,)
    memory_bytes: Annotated[tuple[int, ...], MEMORIES("The same of memory.")] = (_GIB,)
    duration: Annotated[Distribution, distribution_fields("How long it holds them.")] = field(
        default_factory=lambda: Distribution(Shape.LOGNORMAL, 1200.0, 0.8, 60.0, 14_400.0)
    )


@dataclass(frozen=True, slots=True)
class Evictions:
    """How often the engine takes a workload off that runs; times are exponentially distributed."""

    every_seconds: Annotated[
        float, DURATION("Mean time that one runs until it is taken off, without end if it ends.")
    ]
    notice_seconds: Annotated[
        float, TIME("For which it runs on when that is decided, and keeps what it does.")
    ] = 0.0


@dataclass(frozen=True, slots=True)
class ForeignJob:
    """One job of others; it goes to the first server with room, from the share ``where`` on."""

    at_seconds: float
    seconds: float
    cpu_millicpus: int
    memory_bytes: int
    where: float


def draw_others(
    others: Others | None,
    horizon_seconds: float,
    largest: tuple[int, int],
    random: np.random.Generator,
) -> tuple[ForeignJob, ...]:
    """All that come until the horizon, in order of time.

    ``largest`` is the CPU, in thousandths, and the memory, in bytes, of the largest server.
    ``InvalidInput`` if one is larger, or far too many would be drawn.
    """
    if others is None:
        return ()
    if max(others.cpus_millicpus) > largest[0] or max(others.memory_bytes) > largest[1]:
        raise InvalidInput("others: a job is larger than every server; write less cpus or memory")
    expected = horizon_seconds / others.every_seconds
    if expected > _MAX_JOBS:
        raise InvalidInput(f"others: about {expected:.0f} jobs in all; raise every")
    times: list[float] = []
    at = float(random.exponential(others.every_seconds))
    while at < horizon_seconds:
        times.append(at)
        at += float(random.exponential(others.every_seconds))
    count = len(times)
    seconds = others.duration.draw(random, count).tolist()
    cpu = random.choice(others.cpus_millicpus, count).tolist()
    memory = random.choice(others.memory_bytes, count).tolist()
    where = random.random(count).tolist()
    return tuple(map(ForeignJob, times, seconds, cpu, memory, where))
