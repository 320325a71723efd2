"""Makes jobs of what was drawn: as users submit them, with targets and reservations.

Reservations are drawn from their own stream for all workloads, whatever policy runs, so that a
policy that reads them changes no other draw. Called by ``build``.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import ceil

from wharfinger.errors import InvalidInput
from wharfinger.model.requirements import Requirement, are_met, in_words
from wharfinger.model.workload import (
    Measure,
    Reservation,
    Run,
    Scale,
    Target,
    Workload,
    WorkloadType,
)
from wharfinger.simulator.scenario.jobs import APPLICATION, Job
from wharfinger.simulator.scenario.population import Draft, World
from wharfinger.simulator.scenario.scenario_types import Scenario
from wharfinger.simulator.scenario.targets import TargetKind, TargetOf, Targets, misjudged
from wharfinger.simulator.truth.ground_truth import TrueResident, alone_with_cpus

SERVER_LABEL = "server"
"""Of each server by its name, where workloads are on one from the start."""
_ONE_SERVER = Scale()
# Equal values of many jobs are one object each: less memory, and less to collect.
_run = lru_cache(maxsize=10_000)(Run)
_measure = lru_cache(maxsize=10_000)(Measure)
_reservation = lru_cache(maxsize=10_000)(Reservation)
_target_of = lru_cache(maxsize=10_000)(Target)


def submitted_jobs(world: World, drafts: Sequence[Draft], times: Sequence[float]) -> Iterator[Job]:
    """The jobs of the drafts, which arrive at ``times``, ascending."""
    stated = _stated(world, drafts)
    for draft, name, at, reserved in zip(drafts, _names(drafts), times, stated, strict=True):
        yield Job(
            _workload(world, draft, name),
            draft.application,
            at,
            draft.work,
            draft.lifetime_seconds,
            draft.cpu_millicpus,
            draft.memory_bytes,
            draft.load,
            stated=reserved,
            phases=draft.phases,
            stays=bool(draft.server),
        )


def _names(drafts: Sequence[Draft]) -> Iterator[str]:
    counts: dict[str, int] = {}
    width = len(str(len(drafts)))
    for draft in drafts:
        number = counts[draft.of.name] = counts.get(draft.of.name, 0) + 1
        yield draft.name or f"{draft.of.name}-{number:0{width}}"


def _workload(world: World, draft: Draft, name: str) -> Workload:
    each, type_ = draft.of, draft.type
    if each.requires:
        _where_allowed(world, draft, world.rates_of(draft.application))
    # A service has a load generator, so that profiling runs can measure it.
    load_command = (APPLICATION, draft.application, "load") if draft.load else None
    reservation = _reservation(_needed(world, draft), draft.memory_bytes)
    if not each.states_memory:
        reservation = _reservation(reservation.cpu_millicpus, elastic_memory=True)
    return Workload(
        name,
        type_,
        _run((APPLICATION, draft.application), restartable=each.restartable),
        _target(world, draft),
        each.tolerance,
        each.priority,
        _ONE_SERVER if type_ is WorkloadType.SINGLE_NODE else each.scale,
        reservation,
        each.profile,
        _measure(load_command=load_command),
        expected_seconds=draft.expected_seconds,
        adapt=each.adapt,
        requires=((Requirement(SERVER_LABEL, (draft.server,)),) if draft.server else each.requires),
    )


def _target(world: World, draft: Draft) -> Target | None:
    if draft.best_effort or draft.type is WorkloadType.BEST_EFFORT:
        return None
    load = draft.of.load
    if load is not None:
        flat = load.base_per_second if load.base_per_second == load.most_per_second else None
        return Target(draft.of.throughput_per_second or flat, draft.of.latency)
    targets = draft.of.targets or world.scenario.targets
    if targets.of is TargetOf.NONE:
        return None
    rate = _aimed_at(world, draft, targets)
    if targets.kind is TargetKind.RATE:
        return _target_of(rate_per_second=rate)
    return Target(completion_seconds=draft.work / rate + targets.room_seconds)


def _aimed_at(world: World, draft: Draft, targets: Targets) -> float:
    everywhere = world.rates_of(draft.application)
    rates = _where_allowed(world, draft, everywhere)
    platform, share = draft.goal
    rate = max(rates) if targets.of is TargetOf.BEST else _on_a_server(world, rates, platform)
    if draft.seconds:
        rate *= draft.work / draft.seconds / max(everywhere)
    low, high = targets.share.low, targets.share.high
    return rate * (low + share * (high - low))


def _where_allowed(world: World, draft: Draft, rates: Sequence[float]) -> Sequence[float]:
    """Its rates, zero where it may not be placed; ``InvalidInput`` if that is everywhere."""
    requires = draft.of.requires
    if not requires:
        return rates
    pairs = zip(world.groups, rates, strict=True)
    allowed = [rate if are_met(requires, group.labels) else 0.0 for group, rate in pairs]
    if not any(allowed):
        raise InvalidInput(
            f"class {draft.of.name}: no server on which {draft.application!r} runs meets its "
            f"requires ({in_words(requires)}); give spec.servers such labels"
        )
    return allowed


def _on_a_server(world: World, rates: Sequence[float], draw: float) -> float:
    pairs = zip(world.groups, rates, strict=True)
    counts = [group.count if rate else 0 for group, rate in pairs]
    at = draw * sum(counts)
    for rate, count in zip(rates, counts, strict=True):
        if at < count:
            return rate
        at -= count
    return max(rates)


def _whole(scenario: Scenario, cpu_millicpus: float) -> int:
    if scenario.engine.fractional_cpu:
        return max(1, round(cpu_millicpus))
    return 1000 * max(1, ceil(cpu_millicpus / 1000))


def _needed(world: World, draft: Draft) -> int:
    """CPU that it can use on the largest server; of a service of the physics, for its load."""
    usable = min(world.max_cpu_millicpus, _whole(world.scenario, draft.cpu_millicpus))
    if draft.load is None or draft.application not in world.needs:
        return usable
    return min(usable, _for_its_load(world, draft))


def _for_its_load(world: World, draft: Draft) -> int:
    """Whole CPUs that its highest load needs on the cluster's median platform, or all."""
    assert draft.load is not None
    rates = world.rates_of(draft.application)
    runs = [at for at, rate in enumerate(rates) if rate]
    order = sorted(runs, key=rates.__getitem__)
    median = world.groups[order[len(order) // 2]]
    asked, bound = max(draft.load.per_second), draft.of.latency
    queue = world.truth.queue(draft.application)
    for cpu in range(1000, median.cpu_millicpus, 1000):
        resident = TrueResident(draft.application, float(cpu), draft.memory_bytes, asked)
        could, busy = alone_with_cpus(world.truth, median.platform, resident)
        held = queue.held_per_second(could, busy, bound) if bound else could
        if held >= asked:
            return cpu
    return median.cpu_millicpus


def _stated(world: World, drafts: Sequence[Draft]) -> Iterator[Reservation | None]:
    """What each user would reserve, at most what some server has, as clusters refuse more."""
    model, scenario = world.scenario.reservations, world.scenario
    draws = world.streams.of("reservations").random((len(drafts), 3))
    if model is None:
        yield from (None for _ in drafts)
        return
    factors = (column.tolist() for column in misjudged(model, draws))
    for draft, cpu, memory in zip(drafts, *factors, strict=True):
        needs = _needed(world, draft) if draft.load else draft.cpu_millicpus
        wanted = Reservation(_whole(scenario, needs * cpu), round(draft.memory_bytes * memory))
        yield _held_by_one(world, draft, wanted)


def _held_by_one(world: World, draft: Draft, wanted: Reservation) -> Reservation:
    """Cut to one server that can hold what is needed, the one with the most CPU first."""
    sizes = {(group.cpu_millicpus, group.memory_bytes) for group in world.groups}
    large = [size for size in sizes if size[1] >= draft.memory_bytes] or sizes
    cpu_millicpus = min(wanted.cpu_millicpus, max(cpu for cpu, _ in large))
    max_memory = max(memory for cpu, memory in large if cpu >= cpu_millicpus)
    return Reservation(cpu_millicpus, min(wanted.memory_bytes, max_memory))
