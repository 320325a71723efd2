"""What a scenario of the physics means: its platforms, its pools, and what they need of a server.

``scenario`` calls this for ``truth: physics``. Applications say themselves what CPU and memory they
can use; a regime scales what the papers leave open.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from wharfinger.errors import InvalidInput
from wharfinger.manifest.kinds import closest
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.scenario_types import PopulationClass, Scenario, ServerGroup
from wharfinger.simulator.truth.physics.application import Application
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.hardware import Hardware
from wharfinger.simulator.truth.physics.pools import draw_pool, memory_load
from wharfinger.simulator.truth.physics.regimes import Regime, find_regime
from wharfinger.simulator.truth.physics.truth import Physics

_MOST_OF_A_SERVER = 0.75
"""Of the largest server's memory: a job that holds data takes no more of one."""


@dataclass(frozen=True, slots=True)
class Physical:
    """A scenario's world of hardware and applications.

    Attributes:
        groups: Its servers, with what their hardware has.
        population: Its classes, with the applications that they draw.
        truth: Of both.
        needs: Thousandths of a CPU that each application can use on a server, and memory that it
            takes.
        loads: How much each loads memory.
        promised: CPU and memory that servers promise over what they have.
        notes: Sentences about it.
    """

    groups: tuple[ServerGroup, ...]
    population: tuple[PopulationClass, ...]
    truth: Physics
    needs: Mapping[str, tuple[int, int]]
    loads: Mapping[str, float]
    promised: tuple[float, float]
    notes: tuple[str, ...]


def physical(scenario: Scenario, streams: Streams) -> Physical:
    """The world that a scenario states.

    Args:
        scenario: With ``truth: physics``.
        streams: From which its pools are drawn.

    Raises:
        InvalidInput: It names a platform of which nothing is known, or no servers.
    """
    regime = find_regime(scenario.regime)
    groups = tuple(_of_hardware(scenario))
    hardware = [HARDWARE[group.platform] for group in groups]
    pools = {each.name: _pool(each, regime, streams) for each in scenario.population}
    applications: dict[str, Application] = {}
    needs: dict[str, tuple[int, int]] = {}
    for each in scenario.population:
        for app in pools[each.name]:
            needed = _needs(app, each, hardware)
            known = applications.setdefault(app.name, app), needs.setdefault(app.name, needed)
            if known != (app, needed):
                raise InvalidInput(
                    f"class {each.name}: its {app.name} is another than in a class above, by its "
                    "pool or by maxServers; leave it out by applications, or make the two alike"
                )
    truth = Physics(hardware, applications.values(), regime.constants)
    classes = tuple(_drawing(each, pools[each.name], regime) for each in scenario.population)
    return Physical(
        groups,
        classes,
        truth,
        needs,
        {app.name: memory_load(app) for app in applications.values()},
        (regime.cpu_overcommit, regime.memory_overcommit),
        (f"regime {regime.name}: {regime.about}",),
    )


def _of_hardware(scenario: Scenario) -> Iterator[ServerGroup]:
    if not scenario.servers:
        raise InvalidInput(f"scenario {scenario.name}: no servers; list them under spec.servers")
    for group in scenario.servers:
        known = HARDWARE.get(group.platform)
        if known is None:
            raise InvalidInput(
                f"scenario {scenario.name}: nothing is known of platform {group.platform!r}; there "
                f"are {', '.join(HARDWARE)}"
            )
        yield replace(
            group, cpu_millicpus=known.cpu_millicpus, memory_bytes=known.memory_bytes, speed=1.0
        )


def _pool(each: PopulationClass, regime: Regime, streams: Streams) -> tuple[Application, ...]:
    assert each.pool is not None
    drawn = draw_pool(each.pool, regime, streams)[: each.pool_size]
    known = {app.name for app in drawn}
    for name in each.applications:
        if name not in known:
            near = closest(name, sorted(known))
            mend = f"did you mean {near}?" if near else f"it has {len(known)}, e.g. {min(known)}"
            raise InvalidInput(
                f"class {each.name}: application {name!r} is not in pool {each.pool}; {mend}"
            )
    return tuple(app for app in drawn if not each.applications or app.name in each.applications)


def _needs(app: Application, each: PopulationClass, hardware: list[Hardware]) -> tuple[int, int]:
    """What it can use of a server, as far as any has so much."""
    threads = min(app.threads, max(one.cores for one in hardware))
    largest = max(one.memory_bytes for one in hardware)
    data = app.data_bytes / max(1, each.scale.max_servers)
    memory = min(app.footprint_bytes + data, max(app.footprint_bytes, _MOST_OF_A_SERVER * largest))
    return threads * MILLICPUS_PER_CPU, int(min(memory, largest))


def _drawing(
    each: PopulationClass, pool: tuple[Application, ...], regime: Regime
) -> PopulationClass:
    return replace(
        each,
        applications=tuple(app.name for app in pool),
        duration=each.duration.scaled(regime.durations),
    )
