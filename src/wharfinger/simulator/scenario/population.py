"""Draws a population from the classes of a scenario: what each workload is, and how much of it.

``scenario`` calls this, and ``handing_in`` makes the jobs. Each class and each purpose has a stream
of its own, and each workload the same number of draws, so that a change of one number in a scenario
leaves all other draws as they were.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.model.platform import Platform
from wharfinger.model.units import format_cpu
from wharfinger.model.workload import WorkloadType
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.jobs import JobPhase, Load
from wharfinger.simulator.scenario.loads import make_load
from wharfinger.simulator.scenario.scenario_types import MemoryLoad, PopulationClass, Scenario
from wharfinger.simulator.truth.ground_truth import GroundTruth


@dataclass(frozen=True)
class PopulationContext:
    """What a population is drawn for.

    Attributes:
        scenario: All that is stated.
        truth: How fast everything is.
        platforms: Of the cluster, with how many servers each.
        streams: Of the run.
        rates: Of an application alone on each platform, as ``rates_of`` says; kept here.
        needs: Of applications that say it themselves, the CPU that they can use and the memory that
            they take.
        loads: Of these, how much they load memory: by which phases choose.
    """

    scenario: Scenario
    truth: GroundTruth
    platforms: tuple[tuple[Platform, int], ...]
    streams: Streams
    rates: dict[str, tuple[float, ...]]
    needs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def most_cpu_millicpus(self) -> int:
        """Of the largest server."""
        return max(platform.cpu_millicpus for platform, _ in self.platforms)

    @cached_property
    def most_memory_bytes(self) -> int:
        """Likewise."""
        return max(platform.memory_bytes for platform, _ in self.platforms)

    def rates_of(self, application: str) -> tuple[float, ...]:
        """Alone on each platform, in their order.

        Raises:
            InvalidInput: It runs on none of them.
        """
        found = self.rates.get(application)
        if found is None:
            platforms = [platform.name for platform, _ in self.platforms]
            found = tuple(self.truth.most(name, application) for name in platforms)
            if not max(found):
                raise InvalidInput(
                    f"application {application!r} runs on none of the platforms "
                    f"{', '.join(platforms)}; leave it out, or add one on which it does (more "
                    "--servers keep more platforms)"
                )
            self.rates[application] = found
        return found


@dataclass(frozen=True, slots=True)
class Draft:
    """One workload, drawn, but neither named nor handed in.

    Attributes:
        of: Its class.
        application: What the ground truth knows it by.
        cpu_millicpus: The most that it can make use of on one server.
        memory_bytes: That it takes on each.
        work: In the ground truth's unit; infinite for what serves.
        best_effort: Whether it is handed in as such.
        lifetime_seconds: That a service is wanted; infinite for the rest.
        load: What a service is asked.
        goal: Two even draws, for its target: which platform, which share.
        name: That it has already; empty = it is numbered.
        phases: Further parts of its work, by where they begin.
        seconds: That all of it takes, each part alone on its best platform; of a job with phases.
    """

    of: PopulationClass
    application: str
    cpu_millicpus: int
    memory_bytes: int
    work: float
    best_effort: bool = False
    lifetime_seconds: float = inf
    load: Load | None = None
    goal: tuple[float, float] = (0.0, 0.0)
    name: str = ""
    phases: tuple[JobPhase, ...] = ()
    seconds: float = 0.0

    @property
    def type(self) -> WorkloadType:
        """As which it is handed in."""
        return WorkloadType.BEST_EFFORT if self.best_effort else self.of.type


def apportion(weights: Sequence[float], total: int) -> list[int]:
    """Whole numbers in proportion to weights that add up to a total (largest remainder).

    >>> apportion([1.0, 1.0, 1.0], 10)
    [4, 3, 3]
    """
    whole = sum(weights)
    exact = [weight * total / whole for weight in weights]
    counts = [int(value) for value in exact]
    by_rest = sorted(range(len(exact)), key=lambda index: counts[index] - exact[index])
    for index in by_rest[: total - sum(counts)]:
        counts[index] += 1
    return counts


def class_counts(scenario: Scenario, workloads: int | None = None) -> list[int]:
    """How many of each class; ``workloads`` in all, if that is given."""
    counts = [each.count for each in scenario.population]
    if None in counts:
        shares = [each.share for each in scenario.population]
        return apportion(shares, scenario.workloads if workloads is None else workloads)
    listed = [float(count or 0) for count in counts]
    return apportion(listed, int(sum(listed)) if workloads is None else workloads)


def applications_of(scenario: Scenario, each: PopulationClass) -> list[tuple[str, int]]:
    """What those of a class may be in the ground truth, with the CPU that each can use.

    Without tables programs that use different amounts of CPU are different applications.
    """
    names = each.applications or (each.name,)
    if scenario.measured is not None or len(each.cpus_millicpus) == 1:
        return [(name, cpu) for name in names for cpu in each.cpus_millicpus]
    return [(f"{name}-{format_cpu(cpu)}", cpu) for name in names for cpu in each.cpus_millicpus]


def draw_population(world: PopulationContext, workloads: int | None) -> list[Draft]:
    """All of them, in a random order."""
    drafts: list[Draft] = []
    scenario = world.scenario
    for each, count in zip(scenario.population, class_counts(scenario, workloads), strict=True):
        made = _of_class(world, each, count)
        drafts += _in_phases(world, each, made) if each.phases else made
    order = world.streams.of("population/order").permutation(len(drafts))
    return [drafts[index] for index in order.tolist()]


def _of_class(world: PopulationContext, each: PopulationClass, count: int) -> Iterator[Draft]:
    def random(purpose: str) -> np.random.Generator:
        return world.streams.of(f"population/{each.name}/{purpose}")

    choices = applications_of(world.scenario, each)
    chosen = random("applications").integers(0, len(choices), count).tolist()
    memory = random("memory").integers(0, len(each.memory_bytes), count).tolist()
    durations = each.duration.draw(random("durations"), count).tolist()
    lives = each.lifetime.draw(random("lifetimes"), count).tolist() if each.lifetime else ()
    best_effort = (random("best-effort").random(count) < each.best_effort).tolist()
    goals = random("targets").random((count, 2)).tolist()
    for index in range(count):
        application, cpu = choices[chosen[index]]
        cpu, takes = world.needs.get(application, (cpu, each.memory_bytes[memory[index]]))
        life = lives[index] if lives else inf
        serves = each.load is not None
        yield Draft(
            each,
            application,
            cpu,
            takes,
            inf if serves else durations[index] * max(world.rates_of(application)),
            best_effort[index],
            life if serves else inf,
            make_load(each.load, life) if each.load is not None else None,
            tuple(goals[index]),
        )


def _in_phases(
    world: PopulationContext, each: PopulationClass, made: Iterable[Draft]
) -> Iterator[Draft]:
    """Each as a sequence of programs with as many threads, each of which takes as long."""
    random = world.streams.of(f"population/{each.name}/phases")
    for draft in made:
        alike = [name for name in each.applications if world.needs[name][0] == draft.cpu_millicpus]
        names = [
            alike[at]
            for load in each.phases
            for at in [random.choice(_third(alike, world.loads, load))]
        ]
        seconds = draft.work / max(world.rates_of(draft.application))
        begins, phases = 0.0, []
        for name in names:
            phases.append(JobPhase(begins, name))
            begins += seconds / len(names) * max(world.rates_of(name))
        yield replace(
            draft,
            application=names[0],
            memory_bytes=max(world.needs[name][1] for name in names),
            work=begins,
            phases=tuple(phases[1:]),
            seconds=seconds,
        )


def _third(names: Sequence[str], loads: Mapping[str, float], load: MemoryLoad) -> list[int]:
    """Places of those of one third by how much they load memory; at least one."""
    order = sorted(range(len(names)), key=lambda at: loads[names[at]])
    third = list(MemoryLoad).index(load)
    cut = [round(len(order) * part / 3) for part in (third, third + 1)]
    return order[cut[0] : cut[1]] or order[min(cut[0], len(order) - 1) :][:1]


# --- how much it is -------------------------------------------------------------------------


def cpu_seconds(world: PopulationContext, draft: Draft) -> float:
    """CPU time that it takes alone on its best platform."""
    cpus = draft.cpu_millicpus / 1000
    if draft.seconds:
        return cpus * draft.seconds
    best = max(world.rates_of(draft.application))
    if draft.load is None:
        return cpus * draft.work / best
    until = world.scenario.until_seconds
    life = min(draft.lifetime_seconds, inf if until is None else until)
    return cpus * min(1.0, draft.load.mean(life) / best) * life


def mean_gap(world: PopulationContext, drafts: Sequence[Draft], load: float) -> float:
    """Seconds between arrivals at which they take that share of the cluster's CPU time.

    CPU of a platform counts for as much as the workloads get done with it, mean over them.
    """
    if not drafts:
        return 0.0
    demand = sum(cpu_seconds(world, draft) for draft in drafts) / len(drafts)
    counted: dict[str, int] = {}
    for draft in drafts:
        counted[draft.application] = counted.get(draft.application, 0) + 1
    cpus = [platform.cpu_millicpus / 1000 * count for platform, count in world.platforms]
    capacity = sum(
        times * _relative(world.rates_of(application), cpus)
        for application, times in counted.items()
    ) / len(drafts)
    return demand / (load * capacity)


def _relative(rates: Sequence[float], cpus: Sequence[float]) -> float:
    best = max(rates)
    return sum(rate / best * each for rate, each in zip(rates, cpus, strict=True))
