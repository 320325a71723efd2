"""Makes jobs of what was drawn: as users hand them in, with targets and what they would reserve.

``scenario`` calls this with the arrivals. What users misjudge is drawn by a stream of its own for
all of them, whatever policy runs, so that one that reads reservations changes no other's draws.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import ceil, log

import numpy as np

from wharfinger.model.arrays import Array
from wharfinger.model.workload import (
    Measure,
    Profile,
    ProfileMode,
    Reservation,
    Run,
    Scale,
    Target,
    Workload,
    WorkloadType,
)
from wharfinger.simulator.scenario.jobs import APPLICATION, Job
from wharfinger.simulator.scenario.population import Draft, PopulationContext
from wharfinger.simulator.scenario.scenario_types import (
    PopulationClass,
    Reservations,
    Scenario,
    TargetKind,
    TargetOf,
    Targets,
)
from wharfinger.simulator.truth.ground_truth import TrueResident, alone_with_cpus

_NOT_PROFILED = Profile(ProfileMode.NONE)
_ONE_SERVER = Scale()


def hand_in(
    world: PopulationContext, drafts: Sequence[Draft], times: Sequence[float]
) -> Iterator[Job]:
    """The jobs in order of arrival.

    Args:
        world: The cluster.
        drafts: What comes.
        times: When each of them comes, ascending.
    """
    names = _names(drafts)
    stated = _stated(world, drafts)
    for draft, name, at, said in zip(drafts, names, times, stated, strict=True):
        yield Job(
            _workload(world, draft, name),
            draft.application,
            at,
            draft.work,
            draft.lifetime_seconds,
            draft.cpu_millicpus,
            draft.memory_bytes,
            draft.load,
            stated=said,
            phases=draft.phases,
        )


def _names(drafts: Sequence[Draft]) -> Iterator[str]:
    """Class and number, or the name that it has."""
    counts: dict[str, int] = {}
    width = len(str(len(drafts)))
    for draft in drafts:
        number = counts[draft.of.name] = counts.get(draft.of.name, 0) + 1
        yield draft.name or f"{draft.of.name}-{number:0{width}}"


def _workload(world: PopulationContext, draft: Draft, name: str) -> Workload:
    """As its user hands it in; its reservation is what it really needs."""
    each, type_ = draft.of, draft.type
    return Workload(
        name,
        type_,
        _run(draft.application, restartable=each.restartable),
        _target(world, draft),
        each.tolerance,
        each.priority,
        _ONE_SERVER if type_ is WorkloadType.SINGLE_NODE else each.scale,
        _reservation(_needed(world, draft), draft.memory_bytes),
        _NOT_PROFILED if type_ is WorkloadType.BEST_EFFORT else each.profile,
        _MEASURE if draft.load is None else _measured_under_load(draft.application),
    )


# Values that many jobs have alike are one object each: less memory, and less to collect.


@lru_cache(maxsize=10_000)
def _run(application: str, *, restartable: bool) -> Run:
    return Run((APPLICATION, application), restartable=restartable)


_MEASURE = Measure()


@lru_cache(maxsize=10_000)
def _measured_under_load(application: str) -> Measure:
    """Whoever hands in a service has something that asks it: a copy can be measured."""
    return Measure(load_command=(APPLICATION, application, "load"))


@lru_cache(maxsize=10_000)
def _reservation(cpu_millicpus: int, memory_bytes: int) -> Reservation:
    return Reservation(cpu_millicpus, memory_bytes)


@lru_cache(maxsize=10_000)
def _rate(rate: float) -> Target:
    return Target(rate_per_second=rate)


def _target(world: PopulationContext, draft: Draft) -> Target | None:
    if draft.best_effort or draft.type is WorkloadType.BEST_EFFORT:
        return None
    if draft.load is not None:
        return _service_target(draft.of)
    targets = draft.of.targets or world.scenario.targets
    if targets.of is TargetOf.NONE:
        return None
    rate = _aimed_at(world, draft, targets)
    if targets.kind is TargetKind.RATE:
        return _rate(rate)
    return Target(completion_seconds=draft.work / rate + targets.room_seconds)


def _service_target(each: PopulationClass) -> Target:
    load = each.load
    flat = load.base_per_second if load and load.base_per_second == load.most_per_second else None
    return Target(each.throughput_per_second or flat, each.latency)


def _aimed_at(world: PopulationContext, draft: Draft, targets: Targets) -> float:
    """The rate that is asked of it."""
    rates = world.rates_of(draft.application)
    platform, share = draft.goal
    rate = max(rates) if targets.of is TargetOf.BEST else _on_a_server(world, rates, platform)
    if draft.seconds:
        rate *= draft.work / draft.seconds / max(rates)
    low, high = targets.share.low, targets.share.high
    return rate * (low + share * (high - low))


def _on_a_server(world: PopulationContext, rates: Sequence[float], draw: float) -> float:
    """The rate on a server drawn among those on which it runs."""
    counts = [count if rate else 0 for (_, count), rate in zip(world.platforms, rates, strict=True)]
    at = draw * sum(counts)
    for rate, count in zip(rates, counts, strict=True):
        if at < count:
            return rate
        at -= count
    return max(rates)


def whole(scenario: Scenario, cpu_millicpus: float) -> int:
    """At least what is asked: in thousandths, or in whole CPUs where no others are given."""
    if scenario.fractional_cpu:
        return max(1, round(cpu_millicpus))
    return 1000 * max(1, ceil(cpu_millicpus / 1000))


def _needed(world: PopulationContext, draft: Draft) -> int:
    """CPU that it can use; who could use more than the largest server has is given all of one.

    Of a service whose threads say how far it could go, what its load takes.
    """
    most = min(world.most_cpu_millicpus, whole(world.scenario, draft.cpu_millicpus))
    if draft.load is None or draft.application not in world.needs:
        return most
    return min(most, _for_its_load(world, draft))


def _for_its_load(world: PopulationContext, draft: Draft) -> int:
    """Whole CPUs with which it holds its highest load on the cluster's middle platform, or all."""
    assert draft.load is not None
    rates = world.rates_of(draft.application)
    runs = [at for at, rate in enumerate(rates) if rate]
    order = sorted(runs, key=rates.__getitem__)
    platform = world.platforms[order[len(order) // 2]][0]
    asked, bound = max(draft.load.per_second), draft.of.latency
    queue = world.truth.queue(draft.application)
    for cpu in range(1000, platform.cpu_millicpus, 1000):
        resident = TrueResident(draft.application, float(cpu), draft.memory_bytes, asked)
        could, busy = alone_with_cpus(world.truth, platform.name, resident)
        held = queue.held_per_second(could, busy, bound) if bound else could
        if held >= asked:
            return cpu
    return platform.cpu_millicpus


def _stated(world: PopulationContext, drafts: Sequence[Draft]) -> Iterator[Reservation | None]:
    """What each user would reserve, but no more than some server has.

    A cluster refuses what it can never hold, and users learn that at once.
    """
    model, scenario = world.scenario.reservations, world.scenario
    draws = world.streams.of("reservations").random((len(drafts), 3))
    if model is None:
        yield from (None for _ in drafts)
        return
    factors = (column.tolist() for column in misjudged(model, draws))
    for draft, cpu, memory in zip(drafts, *factors, strict=True):
        needs = _needed(world, draft) if draft.load else draft.cpu_millicpus
        wanted = whole(scenario, needs * cpu), round(draft.memory_bytes * memory)
        yield Reservation(*_held_by_one(world, draft, *wanted))


def _held_by_one(
    world: PopulationContext, draft: Draft, cpu_millicpus: int, memory_bytes: int
) -> tuple[int, int]:
    """As much of both as one server has that can hold what is needed; the most CPU first."""
    sizes = {(platform.cpu_millicpus, platform.memory_bytes) for platform, _ in world.platforms}
    large = [size for size in sizes if size[1] >= draft.memory_bytes] or sizes
    given = min(cpu_millicpus, max(cpu for cpu, _ in large))
    most = max(memory for cpu, memory in large if cpu >= given)
    return given, min(memory_bytes, most)


def misjudged(model: Reservations, draws: Array) -> tuple[Array, Array]:
    """By which factors users are wrong (Quasar, Figure 1d).

    Args:
        model: How.
        draws: (N, 3) even draws from 0 to 1: which kind of user, and how far off in CPU and memory.

    Returns:
        (N,) factors of CPU, and of memory.
    """
    over = draws[:, 0] < model.over
    under = ~over & (draws[:, 0] < model.over + model.under)
    too_much, too_little = log(model.over_up_to), -log(model.under_up_to)
    exponents = np.where(over, too_much, np.where(under, too_little, 0.0))
    return np.exp(exponents * draws[:, 1]), np.exp(np.where(over, too_much, 0.0) * draws[:, 2])
