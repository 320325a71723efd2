"""From a scenario and a seed to one run's world, the ``Setup``.

Reads from top to bottom: what is on disk, the servers, the ground truth, the population, its
arrivals, what goes wrong. Whatever is drawn comes from a stream of its own, by purpose.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from wharfinger.contention.pairs import completed_pairs
from wharfinger.errors import InvalidInput
from wharfinger.model.arrays import Array
from wharfinger.model.platform import Platform, Server
from wharfinger.model.units import format_bytes
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.arrivals import Arrivals, Pattern, arrival_times, base_gap
from wharfinger.simulator.scenario.faults import draw_faults
from wharfinger.simulator.scenario.physical import physical
from wharfinger.simulator.scenario.population import (
    Draft,
    PopulationContext,
    applications_of,
    apportion,
    cpu_seconds,
    draw_population,
    mean_gap,
)
from wharfinger.simulator.scenario.scenario_types import PopulationClass, Scenario, ServerGroup
from wharfinger.simulator.scenario.setup import Setup
from wharfinger.simulator.scenario.submission import hand_in
from wharfinger.simulator.scenario.trace_population import (
    application_of,
    chosen_jobs,
    drafts_of,
    groups_of,
    read_trace,
    slug,
)
from wharfinger.simulator.scenario.traces import TraceJob, tell
from wharfinger.simulator.truth.ground_truth import GroundTruth, Undisturbed
from wharfinger.simulator.truth.measured import Measured, log_additive
from wharfinger.simulator.truth.tables import Tables, read_tables

_AFTER = 4.0  # faults are drawn for so many times the longest workload after the last arrival


def build(
    scenario: Scenario, seed: int, servers: int | None = None, workloads: int | None = None
) -> Setup:
    """One run's world: the same for the same arguments, on every machine.

    Args:
        scenario: What is stated.
        seed: Of all that is drawn.
        servers: So many instead of what is stated, in the same proportions.
        workloads: Likewise.

    Raises:
        InvalidInput: Files that it names are wrong, or it contradicts them.
    """
    streams = Streams(seed)
    contents = _read(scenario, servers, workloads, streams)
    scenario, truth = contents.scenario, contents.truth
    platforms = tuple(_platforms(contents.groups))
    world = PopulationContext(
        scenario, truth, platforms, streams, {}, contents.needs, contents.loads
    )
    _check_memory(contents)
    drafts, times = _population(world, contents, workloads)
    jobs = tuple(hand_in(world, drafts, times))
    there = tuple(_servers(contents.groups, *contents.promised))
    return Setup(
        scenario.name,
        there,
        jobs,
        truth,
        scenario.costs,
        draw_faults(
            scenario.faults,
            [server.name for server in there],
            _horizon(world, drafts, times),
            streams.of("faults/outages"),
        ),
        scenario.measuring,
        _training(contents, scenario.training, streams),
        scenario.until_seconds,
        scenario.fractional_cpu,
        max([scenario.max_servers, *(draft.of.scale.max_servers for draft in drafts)]),
        contents.notes,
        contents.needs,
    )


@dataclass(frozen=True, slots=True)
class _Contents:
    """A scenario with what the files that it names hold.

    Attributes:
        scenario: With classes and servers filled in.
        groups: Of servers, as many as run.
        truth: How fast everything is.
        applications: All that may come.
        trace_jobs: What comes, where a trace says it.
        notes: What a reader of results should know.
        needs: CPU and memory of applications that say so themselves.
        loads: Of these, how much they load memory.
        promised: CPU and memory that servers promise over what they have.
    """

    scenario: Scenario
    groups: tuple[ServerGroup, ...]
    truth: GroundTruth
    applications: tuple[str, ...]
    trace_jobs: tuple[TraceJob, ...] = ()
    notes: tuple[str, ...] = ()
    needs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)
    promised: tuple[float, float] = (1.0, 1.0)


def _read(
    scenario: Scenario, servers: int | None, workloads: int | None, streams: Streams
) -> _Contents:
    if scenario.trace is not None:
        return _from_trace(scenario, servers, workloads, streams)
    if scenario.measured is not None:
        return _from_tables(scenario, servers)
    if scenario.is_physical:
        return _from_physics(scenario, servers, streams)
    groups = _scaled(_listed(scenario), servers)
    return _Contents(scenario, groups, _undisturbed(scenario, groups), _applications(scenario))


# --- servers --------------------------------------------------------------------------------


def _listed(scenario: Scenario) -> tuple[ServerGroup, ...]:
    if not scenario.servers:
        raise InvalidInput(f"scenario {scenario.name}: no servers; list them under spec.servers")
    return scenario.servers


def _scaled(groups: Sequence[ServerGroup], servers: int | None) -> tuple[ServerGroup, ...]:
    """So many servers in all, in the same proportions; platforms that get none are left out."""
    if servers is None:
        return tuple(groups)
    counts = apportion([float(group.count) for group in groups], servers)
    pairs = zip(groups, counts, strict=True)
    return tuple(replace(group, count=count) for group, count in pairs if count)


def _platforms(groups: Sequence[ServerGroup]) -> Iterator[tuple[Platform, int]]:
    for group in groups:
        yield (
            Platform(group.platform, "simulated", "", group.cpu_millicpus, group.memory_bytes),
            group.count,
        )


def _servers(
    groups: Sequence[ServerGroup], cpu_promised: float, memory_promised: float
) -> Iterator[Server]:
    """Named by platform and number."""
    taken: set[str] = set()
    for group, (platform, count) in zip(groups, _platforms(groups), strict=True):
        prefix = slug(group.platform)
        while prefix in taken:
            prefix += "x"
        taken.add(prefix)
        width = len(str(count))
        for number in range(1, count + 1):
            zone = f"zone-{(number - 1) % group.zones + 1}" if group.zones > 1 else ""
            name = f"{prefix}-{number:0{width}}"
            cpu = round(group.cpu_millicpus * cpu_promised)
            yield Server(name, platform, cpu, round(group.memory_bytes * memory_promised), zone)


# --- what is on disk ------------------------------------------------------------------------


def _from_tables(scenario: Scenario, servers: int | None) -> _Contents:
    stated = scenario.measured
    assert stated is not None
    tables = read_tables(Path(stated.directory))
    scenario = replace(
        scenario, servers=scenario.servers or tuple(map(ServerGroup, tables.platforms))
    )
    _check_platforms(scenario, tables)
    groups = _scaled(scenario.servers, servers)
    truth = Measured(tables, rule=stated.rule, unit=stated.unit, fill=_filled)
    scenario = replace(
        scenario, population=tuple(_known(scenario.population, tables, truth, groups))
    )
    notes = tuple(_holes(tables, truth))
    return _Contents(scenario, groups, truth, _applications(scenario), notes=notes)


def _check_platforms(scenario: Scenario, tables: Tables) -> None:
    for group in scenario.servers:
        if group.platform not in tables.platforms:
            raise InvalidInput(
                f"scenario {scenario.name}: platform {group.platform!r} is not in the tables of "
                f"{tables.directory}, which have {', '.join(tables.platforms)}"
            )


def _known(
    classes: Sequence[PopulationClass],
    tables: Tables,
    truth: Measured,
    groups: Sequence[ServerGroup],
) -> Iterator[PopulationClass]:
    """Classes that name no applications have all that run somewhere in the cluster."""
    runs = tuple(
        name for name in tables.workloads if any(truth.most(g.platform, name) for g in groups)
    )
    for each in classes:
        unknown = [name for name in each.applications if name not in tables.workloads]
        if unknown:
            raise InvalidInput(
                f"class {each.name}: application {unknown[0]!r} is not in the tables of "
                f"{tables.directory}; write one that is"
            )
        if not runs:
            raise InvalidInput(f"{tables.directory}: no workload fits on any of the platforms")
        yield replace(each, applications=each.applications or runs)


def _from_physics(scenario: Scenario, servers: int | None, streams: Streams) -> _Contents:
    made = physical(scenario, streams)
    groups = _scaled(made.groups, servers)
    scenario = replace(scenario, population=made.population, servers=made.groups)
    return _Contents(
        scenario,
        groups,
        made.truth,
        tuple(made.needs),
        notes=made.notes,
        needs=made.needs,
        loads=made.loads,
        promised=made.promised,
    )


def _filled(ratios: Array) -> Array:
    return completed_pairs(ratios, log_additive)


def _holes(tables: Tables, truth: Measured) -> Iterator[str]:
    total = len(tables.platforms) * len(tables.workloads) ** 2
    if truth.filled_pairs:
        yield f"{truth.filled_pairs} of {total} pairs were not measured and are estimated"
    if truth.filled_isolated:
        yield f"{truth.filled_isolated} runs alone were not measured and are estimated"


def _from_trace(
    scenario: Scenario, servers: int | None, workloads: int | None, streams: Streams
) -> _Contents:
    source = scenario.trace
    assert source is not None
    trace = read_trace(source)
    groups = scenario.servers or groups_of(trace.servers, source.window.sample)
    if not groups:
        raise InvalidInput(
            f"scenario {scenario.name}: its trace tells of no servers; list them under spec.servers"
        )
    groups = _scaled(groups, servers)
    jobs, skipped = chosen_jobs(trace, source, groups, workloads, streams)
    cpus = {application_of(job): job.cpu_millicpus for job in jobs}
    span = {application_of(job): job.servers for job in jobs if job.servers > 1}
    truth = _plain(groups, cpus, span=span)
    notes = (f"rows of the trace that were left out: {tell(skipped)}",) if skipped else ()
    applications = tuple(dict.fromkeys(map(application_of, jobs)))
    return _Contents(scenario, groups, truth, applications, jobs, notes)


def _undisturbed(scenario: Scenario, groups: Sequence[ServerGroup]) -> Undisturbed:
    """The ground truth of classes, whose applications must mean one thing."""
    meant: dict[str, tuple[int, float | None]] = {}
    for each in scenario.population:
        per_cpu = None if each.load is None else each.per_cpu
        for name, cpu in applications_of(scenario, each):
            if meant.setdefault(name, (cpu, per_cpu)) != (cpu, per_cpu):
                raise InvalidInput(
                    f"class {each.name}: application {name!r} has other cpus or another ratePerCpu "
                    "in a class above; give it another name"
                )
    cpus = {name: cpu for name, (cpu, _) in meant.items()}
    return _plain(groups, cpus, {name: rate for name, (_, rate) in meant.items() if rate})


def _plain(
    groups: Sequence[ServerGroup],
    cpus: dict[str, int],
    per_cpu: dict[str, float] | None = None,
    span: dict[str, int] | None = None,
) -> Undisturbed:
    return Undisturbed(
        cpus,
        {group.platform: group.memory_bytes for group in groups},
        per_cpu=per_cpu,
        speed={group.platform: group.speed for group in groups},
        platform_millicpus={group.platform: group.cpu_millicpus for group in groups},
        span=span,
    )


# --- who comes, and when --------------------------------------------------------------------


def _applications(scenario: Scenario) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            name for each in scenario.population for name, _ in applications_of(scenario, each)
        )
    )


def _population(
    world: PopulationContext, contents: _Contents, workloads: int | None
) -> tuple[list[Draft], list[float]]:
    if contents.scenario.trace is not None:
        drafts = drafts_of(contents.trace_jobs, world.streams)
        return drafts, [job.arrives_at for job in contents.trace_jobs]
    drafts = draw_population(world, workloads)
    arrivals = contents.scenario.arrivals
    gap = _gap(world, drafts, arrivals)
    random = world.streams.of("arrivals")
    return drafts, arrival_times(arrivals, len(drafts), gap, random).tolist()


def _check_memory(contents: _Contents) -> None:
    """Refuse a class of which some could never be placed."""
    most = max(group.memory_bytes for group in contents.groups)
    for each in contents.scenario.population:
        if max(each.memory_bytes) > most:
            raise InvalidInput(
                f"class {each.name}: {format_bytes(max(each.memory_bytes))} of memory, and the "
                f"largest server has {format_bytes(most)}; write less, or add a larger server"
            )


def _gap(world: PopulationContext, drafts: Sequence[Draft], arrivals: Arrivals) -> float:
    if arrivals.pattern is Pattern.AT_ONCE or arrivals.recorded or not drafts:
        return 0.0
    if arrivals.every_seconds is not None:
        return arrivals.every_seconds
    return base_gap(mean_gap(world, drafts, arrivals.load or 1.0), arrivals.bursts)


def _horizon(world: PopulationContext, drafts: Sequence[Draft], times: Sequence[float]) -> float:
    """How long faults are drawn for."""
    if world.scenario.until_seconds is not None:
        return world.scenario.until_seconds
    if world.scenario.faults.mtbf_seconds is None or not drafts:
        return 0.0
    longest = max(
        draft.lifetime_seconds
        if draft.lifetime_seconds < inf
        else cpu_seconds(world, draft) / draft.cpu_millicpus * 1000
        for draft in drafts
    )
    return times[-1] + _AFTER * longest


def _training(contents: "_Contents", share: float, streams: Streams) -> tuple[str, ...]:
    """Those that were profiled before, in the order of all; of each pool of the physics some."""
    random, applications = streams.of("training"), contents.applications
    groups = [applications]
    if contents.scenario.is_physical:
        groups = [each.applications for each in contents.scenario.population]
    drawn: set[str] = set()
    for names in dict.fromkeys(groups):
        count = round(share * len(names))
        count = count if len(groups) == 1 else max(1, count)
        drawn.update(names[at] for at in random.choice(len(names), count, replace=False).tolist())
    return tuple(name for name in applications if name in drawn)
