"""From a scenario and a seed to the ``Setup`` of one run, read from top to bottom."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path

from wharfinger.contention.pairs import completed_pairs
from wharfinger.errors import InvalidInput
from wharfinger.manifest.kinds import closest
from wharfinger.model.platform import MILLICPUS_PER_CPU, Platform, Server
from wharfinger.model.units import format_bytes
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.arrivals import arrival_times, base_gap
from wharfinger.simulator.scenario.others import draw_others
from wharfinger.simulator.scenario.population import (
    Draft,
    World,
    applications_of,
    class_counts,
    cpu_seconds,
    draw_population,
    mean_gap,
)
from wharfinger.simulator.scenario.room import check_room
from wharfinger.simulator.scenario.scenario_types import (
    MeasuredTruth,
    PopulationClass,
    Scenario,
    ServerGroup,
)
from wharfinger.simulator.scenario.setup import Setup, draw_faults
from wharfinger.simulator.scenario.sizes import Size
from wharfinger.simulator.scenario.submission import SERVER_LABEL, submitted_jobs
from wharfinger.simulator.scenario.swf import SwfTrace, read_swf
from wharfinger.simulator.scenario.trace_population import (
    application_of,
    chosen_jobs,
    drafts_of,
    groups_of,
    slug,
)
from wharfinger.simulator.scenario.traces import CsvTrace, Trace, read_csv_trace, tell
from wharfinger.simulator.truth.ground_truth import Undisturbed
from wharfinger.simulator.truth.measured import Measured, log_additive
from wharfinger.simulator.truth.physics.application import Application
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.hardware import Hardware
from wharfinger.simulator.truth.physics.pools import draw_pool, memory_load
from wharfinger.simulator.truth.physics.regimes import Regime, find_regime
from wharfinger.simulator.truth.physics.truth import Physics
from wharfinger.simulator.truth.tables import Tables, read_tables

_MAX_OF_A_SERVER = 0.75  # of the largest server's memory, for a job that holds data
_AFTER = 4.0  # times the longest workload, for which faults are drawn after the last arrival


def build(
    scenario: Scenario,
    seed: int,
    servers: int | None = None,
    workloads: int | None = None,
    scale: float = 1.0,
) -> Setup:
    """All that is drawn for one run: the same for the same arguments, on every machine.

    What replaces the stated numbers is explained at ``Size``.

    Raises:
        InvalidInput: Files that it names are wrong, or it contradicts them.
    """
    streams = Streams(seed)
    size = Size(servers, workloads, scale)
    world = _read(size.of_arrivals(scenario), size, streams)
    _check_memory(world)
    counts = [] if scenario.trace is not None else class_counts(world.scenario, size.of_workloads)
    servers = sum(group.count for group in world.groups)
    stay = [(each.per_server or 0) * servers for each in world.scenario.population]
    check_room(len(world.trace_jobs) + sum(counts) + sum(stay), servers)
    cluster = tuple(_servers(world))
    drafts, times = _population(world, counts)
    drafts, times = _with_those_that_stay(world, cluster, stay, drafts, times)
    scenario, horizon = world.scenario, _horizon(world, drafts, times)
    largest = max(s.cpu_millicpus for s in cluster), max(s.memory_bytes for s in cluster)
    return Setup(
        scenario.name,
        cluster,
        tuple(submitted_jobs(world, drafts, times)),
        world.truth,
        scenario.costs,
        draw_faults(
            scenario.faults,
            [server.name for server in cluster],
            horizon,
            streams.of("faults/outages"),
        ),
        scenario.measuring,
        _training(world),
        scenario.until_seconds,
        scenario.engine,
        max([scenario.max_servers, *(draft.of.scale.max_servers for draft in drafts)]),
        world.notes,
        world.needs,
        draw_others(scenario.others, horizon, largest, streams.of("others")),
        scenario.evictions,
    )


def scale_to(scenario: Scenario, workloads: int) -> float:
    """The factor for at most so many of its workloads; 1 = it has no more.

    Raises:
        InvalidInput: Its trace can't be read.
    """
    if scenario.trace is not None:
        stated = len(_read_trace(scenario.trace).jobs)
    else:
        stated = sum(class_counts(scenario, lambda stated: stated))
    return min(1.0, workloads / stated) if stated else 1.0


def _read(scenario: Scenario, size: Size, streams: Streams) -> World:
    if scenario.trace is not None:
        return _from_trace(scenario, scenario.trace, size, streams)
    if scenario.measured is not None:
        return _from_tables(scenario, scenario.measured, size, streams)
    if scenario.is_physical:
        return _from_physics(scenario, size, streams)
    groups = size.of_groups(_listed_servers(scenario))
    return World(scenario, streams, groups, _undisturbed(scenario, groups), _applications(scenario))


def _servers(world: World) -> Iterator[Server]:
    cpu_promised, memory_promised = world.promised
    pins = any(each.per_server for each in world.scenario.population)
    taken: set[str] = set()
    for group in world.groups:
        cpu, memory, count = group.cpu_millicpus, group.memory_bytes, group.count
        platform = Platform(group.platform, "simulated", "", cpu, memory)
        prefix = slug(group.platform)
        while prefix in taken:
            prefix += "x"
        taken.add(prefix)
        width = len(str(count))
        for number in range(1, count + 1):
            zone = f"zone-{(number - 1) % group.zones + 1}" if group.zones > 1 else ""
            name = f"{prefix}-{number:0{width}}"
            promised = round(cpu * cpu_promised), round(memory * memory_promised)
            labels = {**group.labels, SERVER_LABEL: name} if pins else group.labels
            yield Server(name, platform, *promised, zone, labels=labels)


def _listed_servers(scenario: Scenario) -> tuple[ServerGroup, ...]:
    if not scenario.servers:
        raise InvalidInput(f"scenario {scenario.name}: no servers; list them under spec.servers")
    return scenario.servers


# --- worlds of files ------------------------------------------------------------------------


def _from_tables(scenario: Scenario, stated: MeasuredTruth, size: Size, streams: Streams) -> World:
    tables = read_tables(Path(stated.directory))
    scenario = replace(
        scenario, servers=scenario.servers or tuple(map(ServerGroup, tables.platforms))
    )
    for group in scenario.servers:
        if group.platform not in tables.platforms:
            raise InvalidInput(
                f"scenario {scenario.name}: platform {group.platform!r} is not in the tables of "
                f"{tables.directory}, which have {', '.join(tables.platforms)}"
            )
    groups = size.of_groups(scenario.servers)
    fill = partial(completed_pairs, otherwise=log_additive)
    truth = Measured(tables, rule=stated.rule, unit=stated.unit, fill=fill)
    classes = tuple(_in_tables(scenario.population, tables, truth, groups))
    scenario = replace(scenario, population=classes)
    notes = tuple(_holes(tables, truth))
    return World(scenario, streams, groups, truth, _applications(scenario), notes=notes)


def _in_tables(
    classes: Sequence[PopulationClass],
    tables: Tables,
    truth: Measured,
    groups: Sequence[ServerGroup],
) -> Iterator[PopulationClass]:
    """The classes; those that name no applications have all that run in the cluster."""
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


def _holes(tables: Tables, truth: Measured) -> Iterator[str]:
    total = len(tables.platforms) * len(tables.workloads) ** 2
    if truth.filled_pairs:
        yield f"{truth.filled_pairs} of {total} pairs were not measured and are estimated"
    if truth.filled_isolated:
        yield f"{truth.filled_isolated} runs alone were not measured and are estimated"


def _read_trace(source: CsvTrace | SwfTrace) -> Trace:
    return read_swf(source) if isinstance(source, SwfTrace) else read_csv_trace(source)


def _from_trace(
    scenario: Scenario,
    source: CsvTrace | SwfTrace,
    size: Size,
    streams: Streams,
) -> World:
    trace = _read_trace(source)
    groups = scenario.servers or groups_of(trace.servers, source.window.sample)
    if not groups:
        raise InvalidInput(
            f"scenario {scenario.name}: its trace tells of no servers; list them under spec.servers"
        )
    groups = size.of_groups(groups)
    jobs, skipped = chosen_jobs(trace, source, groups, size.of_workloads, streams)
    cpus = {application_of(job): job.cpu_millicpus for job in jobs}
    span = {application_of(job): job.servers for job in jobs if job.servers > 1}
    truth = _plain(groups, cpus, {}, span)
    notes = (f"rows of the trace that were left out: {tell(skipped)}",) if skipped else ()
    applications = tuple(dict.fromkeys(map(application_of, jobs)))
    return World(scenario, streams, groups, truth, applications, jobs, notes)


def _undisturbed(scenario: Scenario, groups: Sequence[ServerGroup]) -> Undisturbed:
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
    return _plain(groups, cpus, {name: rate for name, (_, rate) in meant.items() if rate}, {})


def _plain(
    groups: Sequence[ServerGroup],
    cpus: dict[str, int],
    per_cpu: dict[str, float],
    span: dict[str, int],
) -> Undisturbed:
    return Undisturbed(
        cpus,
        {group.platform: group.memory_bytes for group in groups},
        per_cpu=per_cpu,
        speed={group.platform: group.speed for group in groups},
        platform_millicpus={group.platform: group.cpu_millicpus for group in groups},
        span=span,
    )


def _applications(scenario: Scenario) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            name for each in scenario.population for name, _ in applications_of(scenario, each)
        )
    )


# --- worlds of the physics ------------------------------------------------------------------


def _from_physics(scenario: Scenario, size: Size, streams: Streams) -> World:
    regime = find_regime(scenario.regime)
    groups = tuple(_of_hardware(scenario))
    hardware = [HARDWARE[group.platform] for group in groups]
    applications: dict[str, Application] = {}
    needs: dict[str, tuple[int, int]] = {}
    classes = []
    for each in scenario.population:
        pool = _pool(each, regime, streams)
        for app in pool:
            needed = _needs(app, each, hardware)
            first = applications.setdefault(app.name, app), needs.setdefault(app.name, needed)
            if first != (app, needed):
                raise InvalidInput(
                    f"class {each.name}: its {app.name} is another than in a class above, by its "
                    "pool or by maxServers; leave it out by applications, or make the two alike"
                )
        names = tuple(app.name for app in pool)
        duration = each.duration.scaled(regime.durations)
        classes.append(replace(each, applications=names, duration=duration))
    return World(
        replace(scenario, population=tuple(classes), servers=groups),
        streams,
        size.of_groups(groups),
        Physics(hardware, applications.values(), regime.constants),
        tuple(needs),
        notes=(f"regime {regime.name}: {regime.about}",),
        needs=needs,
        loads={app.name: memory_load(app) for app in applications.values()},
        promised=(regime.cpu_overcommit, regime.memory_overcommit),
    )


def _of_hardware(scenario: Scenario) -> Iterator[ServerGroup]:
    for group in _listed_servers(scenario):
        hardware = HARDWARE.get(group.platform)
        if hardware is None:
            raise InvalidInput(
                f"scenario {scenario.name}: platform {group.platform!r} is unknown; there are "
                f"{', '.join(HARDWARE)}"
            )
        cpu, memory = hardware.cpu_millicpus, hardware.memory_bytes
        yield replace(group, cpu_millicpus=cpu, memory_bytes=memory, speed=1.0)


def _pool(each: PopulationClass, regime: Regime, streams: Streams) -> tuple[Application, ...]:
    assert each.pool is not None
    drawn = draw_pool(each.pool, regime, streams)[: each.pool_size]
    names = {app.name for app in drawn}
    for name in each.applications:
        if name not in names:
            near = closest(name, sorted(names))
            mend = f"did you mean {near}?" if near else f"it has {len(names)}, e.g. {min(names)}"
            raise InvalidInput(
                f"class {each.name}: application {name!r} is not in pool {each.pool}; {mend}"
            )
    return tuple(app for app in drawn if not each.applications or app.name in each.applications)


def _needs(app: Application, each: PopulationClass, hardware: list[Hardware]) -> tuple[int, int]:
    threads = min(app.threads, max(one.cores for one in hardware))
    largest = max(one.memory_bytes for one in hardware)
    data = app.data_bytes / max(1, each.scale.max_servers)
    memory = min(app.footprint_bytes + data, max(app.footprint_bytes, _MAX_OF_A_SERVER * largest))
    return threads * MILLICPUS_PER_CPU, int(min(memory, largest))


# --- population -----------------------------------------------------------------------------


def _check_memory(world: World) -> None:
    largest = max(group.memory_bytes for group in world.groups)
    for each in world.scenario.population:
        if max(each.memory_bytes) > largest:
            raise InvalidInput(
                f"class {each.name}: {format_bytes(max(each.memory_bytes))} of memory, and the "
                f"largest server has {format_bytes(largest)}; write less, or add a larger server"
            )


def _population(world: World, counts: Sequence[int]) -> tuple[list[Draft], list[float]]:
    if world.scenario.trace is not None:
        drafts = drafts_of(world.trace_jobs, world.streams)
        return drafts, [job.arrives_at for job in world.trace_jobs]
    drafts = draw_population(world, counts)
    arrivals = world.scenario.arrivals
    gap = arrivals.every_seconds or 0.0
    if arrivals.load is not None and drafts:
        gap = base_gap(mean_gap(world, drafts, arrivals.load), arrivals.bursts)
    random = world.streams.of("arrivals")
    return drafts, arrival_times(arrivals, len(drafts), gap, random).tolist()


def _with_those_that_stay(
    world: World,
    cluster: Sequence[Server],
    counts: Sequence[int],
    drafts: Sequence[Draft],
    times: Sequence[float],
) -> tuple[list[Draft], list[float]]:
    """Before all others, and one after another on the servers in their order."""
    if not any(counts):
        return list(drafts), list(times)
    names = [server.name for server in cluster]
    placed = Counter[PopulationClass]()
    stay = []
    for draft in draw_population(world, counts):
        stay.append(replace(draft, server=names[placed[draft.of] % len(names)]))
        placed[draft.of] += 1
    return [*stay, *drafts], [*(0.0 for _ in stay), *times]


def _horizon(world: World, drafts: Sequence[Draft], times: Sequence[float]) -> float:
    if world.scenario.until_seconds is not None:
        return world.scenario.until_seconds
    is_drawn = world.scenario.faults.mtbf_seconds or world.scenario.others
    if not (is_drawn and drafts):
        return 0.0
    longest = max(
        draft.lifetime_seconds
        if draft.lifetime_seconds < inf
        else cpu_seconds(world, draft) / draft.cpu_millicpus * 1000
        for draft in drafts
    )
    return times[-1] + _AFTER * longest


def _training(world: World) -> tuple[str, ...]:
    random, applications = world.streams.of("training"), world.applications
    groups = [applications]
    if world.scenario.is_physical:
        groups = [each.applications for each in world.scenario.population]
    drawn: set[str] = set()
    for names in dict.fromkeys(groups):
        count = round(world.scenario.training * len(names))
        count = count if len(groups) == 1 else max(1, count)
        drawn.update(names[at] for at in random.choice(len(names), count, replace=False).tolist())
    return tuple(name for name in applications if name in drawn)
