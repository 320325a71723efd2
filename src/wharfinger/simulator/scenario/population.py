"""The world of one run, and the population drawn in it from the classes of its scenario.

Called by ``build``. Each class and each purpose has its own stream, and each workload the same
number of draws, so that a change of one number in a scenario changes no other draw.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.model.units import format_cpu
from wharfinger.model.workload import WorkloadType
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.jobs import JobPhase, Load
from wharfinger.simulator.scenario.loads import make_load
from wharfinger.simulator.scenario.scenario_types import (
    MemoryLoad,
    PopulationClass,
    Scenario,
    ServerGroup,
)
from wharfinger.simulator.scenario.traces import TraceJob
from wharfinger.simulator.truth.ground_truth import GroundTruth


@dataclass(frozen=True)
class World:
    """A cluster, its ground truth, and all that its workloads are drawn from.

    Attributes:
        scenario: With classes and servers filled in.
        needs: Of the physics: by application, usable thousandths of a CPU on a server, and bytes.
        loads: Of the physics: how much each application loads memory.
        promised: CPU and memory that servers promise over what they have.
    """

    scenario: Scenario
    streams: Streams
    groups: tuple[ServerGroup, ...]
    truth: GroundTruth
    applications: tuple[str, ...]
    trace_jobs: tuple[TraceJob, ...] = ()
    notes: tuple[str, ...] = ()
    needs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)
    promised: tuple[float, float] = (1.0, 1.0)
    _rates: dict[str, tuple[float, ...]] = field(default_factory=dict)

    @cached_property
    def max_cpu_millicpus(self) -> int:
        """Of the largest server."""
        return max(group.cpu_millicpus for group in self.groups)

    def rates_of(self, application: str) -> tuple[float, ...]:
        """Its rates alone on each platform, in their order; ``InvalidInput`` if it runs on none."""
        rates = self._rates.get(application)
        if rates is None:
            names = [group.platform for group in self.groups]
            rates = tuple(self.truth.most(name, application) for name in names)
            if not max(rates):
                raise InvalidInput(
                    f"application {application!r} runs on none of the platforms "
                    f"{', '.join(names)}; leave it out, or add one on which it does (more "
                    "--servers keep more platforms)"
                )
            self._rates[application] = rates
        return rates


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


@dataclass(frozen=True, slots=True)
class Draft:
    """One workload, drawn, but without name, arrival, target and reservation; see also ``Job``.

    Attributes:
        goal: Two even draws, for its target: which platform, which share.
        name: In its trace; empty = it is numbered.
        seconds: Of a job with phases: its duration, each phase alone on its best platform.
        expected_seconds: That its user says it runs; ``None`` = its user says nothing.
        server: On which it is from the start; empty = it arrives, and is placed.
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
    expected_seconds: float | None = None
    server: str = ""

    @property
    def type(self) -> WorkloadType:
        """As it is submitted."""
        return WorkloadType.BEST_EFFORT if self.best_effort else self.of.type


def class_counts(scenario: Scenario, of_all: Callable[[int], int]) -> list[int]:
    """How many workloads of each class, in proportion; ``of_all`` from how many are stated.

    A class that is there as stated is there at any size, while there are as many workloads.
    """
    arriving = [each for each in scenario.population if each.per_server is None]
    shares = [each.share if each in arriving else 0.0 for each in scenario.population]
    total = scenario.workloads if arriving else 0
    if any(each.count is not None for each in arriving):
        shares = [float(each.count or 0) for each in scenario.population]
        total = int(sum(shares))
    if not total:
        return [0] * len(shares)
    stated, counts = apportion(shares, total), apportion(shares, of_all(total))
    _leave_none_out(counts, [at for at, count in enumerate(stated) if count])
    return counts


def _leave_none_out(counts: list[int], wanted: Sequence[int]) -> None:
    """Give each of these that has none one of the largest's, as far as there are any."""
    for at in wanted:
        largest = max(counts)
        if not counts[at] and largest > 1:
            counts[counts.index(largest)] -= 1
            counts[at] = 1


def applications_of(scenario: Scenario, each: PopulationClass) -> list[tuple[str, int]]:
    """The applications of a class, with the CPU that each can use.

    Without tables, programs that use different amounts of CPU are different applications.
    """
    names = each.applications or (each.name,)
    if scenario.measured is not None or len(each.cpus_millicpus) == 1:
        return [(name, cpu) for name in names for cpu in each.cpus_millicpus]
    return [(f"{name}-{format_cpu(cpu)}", cpu) for name in names for cpu in each.cpus_millicpus]


def draw_population(world: World, counts: Sequence[int]) -> list[Draft]:
    """So many of each class, in a random order."""
    drafts: list[Draft] = []
    scenario = world.scenario
    for each, count in zip(scenario.population, counts, strict=True):
        made = _of_class(world, each, count)
        made = _in_phases(world, each, made) if each.phases else made
        drafts += _expected(world, each, made) if each.expects_duration else made
    order = world.streams.of("population/order").permutation(len(drafts))
    return [drafts[index] for index in order.tolist()]


def _of_class(world: World, each: PopulationClass, count: int) -> Iterator[Draft]:
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
            each.stated_cpu_millicpus or cpu,
            takes,
            inf if serves else durations[index] * max(world.rates_of(application)),
            best_effort[index],
            life if serves else inf,
            make_load(each.load, life) if each.load is not None else None,
            tuple(goals[index]),
        )


def _in_phases(world: World, each: PopulationClass, made: Iterable[Draft]) -> Iterator[Draft]:
    """Each as a sequence of programs with as many threads and equal durations."""
    random = world.streams.of(f"population/{each.name}/phases")
    for draft in made:
        alike = [name for name in each.applications if world.needs[name][0] == draft.cpu_millicpus]
        thirds = [_third(alike, world.loads, load) for load in each.phases]
        names = [alike[random.choice(third)] for third in thirds]
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


def _expected(world: World, each: PopulationClass, made: Iterable[Draft]) -> Iterator[Draft]:
    """With the durations that their users state; services have none."""
    assert each.expects_duration is not None
    random = world.streams.of(f"population/{each.name}/expected")
    for draft in made:
        times = random.uniform(1.0, each.expects_duration.up_to)
        alone = draft.seconds or draft.work / max(world.rates_of(draft.application))
        yield draft if draft.load else replace(draft, expected_seconds=times * alone)


def _third(names: Sequence[str], loads: Mapping[str, float], load: MemoryLoad) -> list[int]:
    """Places of one third of the names by how much they load memory; at least one."""
    order = sorted(range(len(names)), key=lambda at: loads[names[at]])
    third = list(MemoryLoad).index(load)
    cut = [round(len(order) * part / 3) for part in (third, third + 1)]
    return order[cut[0] : cut[1]] or order[min(cut[0], len(order) - 1) :][:1]


def cpu_seconds(world: World, draft: Draft) -> float:
    """CPU time alone on its best platform."""
    cpus = draft.cpu_millicpus / 1000
    if draft.seconds:
        return cpus * draft.seconds
    best = max(world.rates_of(draft.application))
    if draft.load is None:
        return cpus * draft.work / best
    until = world.scenario.until_seconds
    life = min(draft.lifetime_seconds, inf if until is None else until)
    return cpus * min(1.0, draft.load.mean(life) / best) * life


def mean_gap(world: World, drafts: Sequence[Draft], load: float) -> float:
    """Seconds between arrivals at which they take that share of the cluster's CPU time.

    CPU of a platform is weighted by the workloads' rates there, mean over them.
    """
    if not drafts:
        return 0.0
    demand = sum(cpu_seconds(world, draft) for draft in drafts) / len(drafts)
    cpus = [group.cpu_millicpus / 1000 * group.count for group in world.groups]
    capacity = 0.0
    for application, times in Counter(draft.application for draft in drafts).items():
        rates = world.rates_of(application)
        best = max(rates)
        capacity += times * sum(rate / best * cpu for rate, cpu in zip(rates, cpus, strict=True))
    return demand / (load * (capacity / len(drafts)))
