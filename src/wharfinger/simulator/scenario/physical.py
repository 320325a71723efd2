"""The world of a scenario with ``truth: physics``: its platforms, its pools, and their needs.

``build`` calls this. Applications state what CPU and memory they can use; a regime scales what the
papers leave open.
"""

from collections.abc import Iterator
from dataclasses import replace

from wharfinger.errors import InvalidInput
from wharfinger.manifest.kinds import closest
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.population import World, listed_servers, scaled
from wharfinger.simulator.scenario.scenario_types import PopulationClass, Scenario, ServerGroup
from wharfinger.simulator.truth.physics.application import Application
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.hardware import Hardware
from wharfinger.simulator.truth.physics.pools import draw_pool, memory_load
from wharfinger.simulator.truth.physics.regimes import Regime, find_regime
from wharfinger.simulator.truth.physics.truth import Physics

_MAX_OF_A_SERVER = 0.75  # of the largest server's memory, for a job that holds data


def physical_world(scenario: Scenario, servers: int | None, streams: Streams) -> World:
    """The world that a scenario states; its pools are drawn from the streams' seed.

    Raises:
        InvalidInput: It names an unknown platform, or no servers.
    """
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
        scaled(groups, servers),
        Physics(hardware, applications.values(), regime.constants),
        tuple(needs),
        notes=(f"regime {regime.name}: {regime.about}",),
        needs=needs,
        loads={app.name: memory_load(app) for app in applications.values()},
        promised=(regime.cpu_overcommit, regime.memory_overcommit),
    )


def _of_hardware(scenario: Scenario) -> Iterator[ServerGroup]:
    for group in listed_servers(scenario):
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
    """CPU and memory that it can use of one server, at most those of the largest."""
    threads = min(app.threads, max(one.cores for one in hardware))
    largest = max(one.memory_bytes for one in hardware)
    data = app.data_bytes / max(1, each.scale.max_servers)
    memory = min(app.footprint_bytes + data, max(app.footprint_bytes, _MAX_OF_A_SERVER * largest))
    return threads * MILLICPUS_PER_CPU, int(min(memory, largest))
