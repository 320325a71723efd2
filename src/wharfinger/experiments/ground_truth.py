"""What experiments on the physics share: they look at the ground truth itself, over populations.

No policy runs in them, so they say what the simulator is and not what a manager does. A seed draws
a population, so that an interval is over populations. ``quasar_figure2``, ``ibench_figure54``,
``pythia_figure6`` and ``physics_matrices`` call it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from wharfinger.experiments.base import Arguments, Context, Row
from wharfinger.experiments.statistics import interval
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.simulator.truth.ground_truth import Resident, busy_cpus
from wharfinger.simulator.truth.physics.application import Application
from wharfinger.simulator.truth.physics.hardware import Hardware
from wharfinger.simulator.truth.physics.regimes import DEFAULT, Regime, find_regime
from wharfinger.simulator.truth.physics.truth import Physics
from wharfinger.simulator.truth.queueing import Share

T = TypeVar("T")
Numbers = dict[str, float]
"""One seed's, by name."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A number that is held against a paper's.

    Attributes:
        name: As in ``Numbers``.
        unit: Of it.
        published: By the paper; ``None`` = nothing was.
    """

    name: str
    unit: str
    published: float | None = None


def regime_of(arguments: Arguments) -> Regime:
    """The regime that was asked for.

    Raises:
        InvalidInput: There is none of that name.
    """
    return find_regime(arguments.regime or DEFAULT)


def seeds_of(arguments: Arguments) -> tuple[int, ...]:
    """One population each."""
    return tuple(range(arguments.seed, arguments.seed + arguments.repeats))


def over_seeds(context: Context, measure: Callable[[int], T]) -> list[T]:
    """What is measured in each population; progress is told."""
    seeds = seeds_of(context.arguments)
    found = []
    for number, seed in enumerate(seeds):
        if context.progress is not None:
            context.progress(number, len(seeds))
        found.append(measure(seed))
    return found


def rows_of(found: Sequence[Mapping[str, float]], facts: Iterable[Fact]) -> tuple[Row, ...]:
    """Mean and interval of each fact over the seeds that have it."""
    return tuple(
        Row.of(
            fact.name, interval([each.get(fact.name) for each in found]), fact.unit, fact.published
        )
        for fact in facts
    )


def at(
    application: Application,
    cpus: float,
    memory_bytes: float | None = None,
    load_per_second: float | None = None,
    servers: int = 1,
) -> Resident:
    """A resident with that many CPUs, and its memory if nothing else is said."""
    memory = application.footprint_bytes if memory_bytes is None else memory_bytes
    return Resident(
        application.name, MILLICPUS_PER_CPU * cpus, int(memory), load_per_second, servers
    )


def p99_seconds(
    truth: Physics, platform: str, service: Resident, beside: Sequence[Resident] = ()
) -> float:
    """99th percentile of the latency of a service at its load, beside others."""
    assert service.load_per_second is not None
    group = [service, *beside]
    rates = truth.rates(platform, group)
    used = truth.used_millicpus(platform, group, rates)[0]
    share = Share(service.load_per_second, rates[0], busy_cpus(service, rates[0], used))
    return truth.queue(service.application).latency_seconds([share], 99)


def all_of(hardware: Hardware, application: Application) -> Resident:
    """With every CPU that it can use."""
    return at(application, min(application.threads, hardware.cores))
