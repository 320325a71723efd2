"""A scenario: a cluster and its workloads as an operator states them, and the table of its fields.

``scenario_files`` reads by ``SCENARIO``, and ``scripts/generate-manifest-docs`` describes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from wharfinger.errors import InvalidInput
from wharfinger.manifest import fields
from wharfinger.manifest.kinds import (
    BOOLEAN,
    CPU,
    DIRECTORY,
    DURATION,
    MEMORY,
    NAME,
    RATE,
    TOLERANCE,
    choice,
    number,
    words,
)
from wharfinger.manifest.requires import LABELS, REQUIRES
from wharfinger.manifest.sections import Section, fields_of, section
from wharfinger.model.requirements import Requires
from wharfinger.model.workload import (
    DEFAULT_TOLERANCE,
    Adapt,
    LatencyBound,
    Profile,
    Scale,
    WorkloadType,
)
from wharfinger.simulator.scenario.arrivals import Arrivals
from wharfinger.simulator.scenario.distributions import Distribution, constant, distribution_fields
from wharfinger.simulator.scenario.loads import LoadModel
from wharfinger.simulator.scenario.others import Evictions, Others
from wharfinger.simulator.scenario.scenario_kinds import (
    COUNT,
    CPUS,
    FRACTION,
    MEMORIES,
    NUMBER,
    TEXT,
    TEXTS,
    TYPE,
    mapped,
    one_or_list,
)
from wharfinger.simulator.scenario.setup import Costs, EngineAbility, Faults, Measuring
from wharfinger.simulator.scenario.swf import SwfTrace
from wharfinger.simulator.scenario.targets import RESERVATIONS, TARGETS, Reservations, Targets
from wharfinger.simulator.scenario.traces import CsvTrace
from wharfinger.simulator.truth.measured import Rule
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import DEFAULT, REGIMES

_GIB = 1024**3


def _refuse_where(class_name: str, *checks: tuple[object, str]) -> None:
    for is_wrong, why in checks:
        if is_wrong:
            raise InvalidInput(f"class {class_name}: {why}")


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """Servers of one platform."""

    platform: Annotated[str, TEXT("Its name, once in the list.")]
    count: Annotated[int, COUNT("How many.")] = 4
    cpu_millicpus: Annotated[int, CPU("Of each.", name="cpus")] = 2000
    memory_bytes: Annotated[int, MEMORY("Of each.")] = 16 * _GIB
    speed: Annotated[float, NUMBER("Of work, without tables; 1 = as its duration says.")] = 1.0
    zones: Annotated[int, fields.SERVERS("Failure zones that they are in, in turn.")] = 1
    labels: Annotated[
        Mapping[str, str], LABELS("Of each, as a population's `requires` asks for them.")
    ] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class MeasuredTruth:
    """A ground truth of measured tables."""

    directory: Annotated[str, DIRECTORY("Of the tables, from the scenario's own.", name="measured")]
    rule: Annotated[
        Rule, choice(Rule, "product")("What several neighbors do, where only pairs were measured.")
    ] = Rule.PRODUCT
    unit: Annotated[str, TEXT("Of work, per second of which performance is.")] = "operations"


class TruthWord(StrEnum):
    """A ground truth that one word states."""

    UNDISTURBED = "undisturbed"
    PHYSICS = "physics"
    """Of hardware and applications (``wharfinger.simulator.truth.physics``)."""


class MemoryLoad(StrEnum):
    """Thirds of the programs of a pool, by how much they load memory."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Expectation:
    """What users say of how long their workloads run (Mu'alem and Feitelson 2001, section 3)."""

    up_to: Annotated[
        float,
        number(1, 1000, 5)("Times the workload's duration; drawn evenly from 1 to this for each."),
    ] = 1.0


@dataclass(frozen=True, slots=True)
class PopulationClass:
    """Workloads that are alike, except for what is drawn."""

    name: Annotated[str, NAME("Beginning of the workloads' names.", required=True)] = "job"
    share: Annotated[float, NUMBER("Of all workloads, relative to the other classes.")] = 1.0
    count: Annotated[int | None, COUNT("So many instead; then each class has one.")] = None
    per_server: Annotated[
        int | None,
        COUNT("So many on each server, from the start; they stay there.", default="none"),
    ] = None
    type: Annotated[WorkloadType, TYPE("What kind of workload.")] = WorkloadType.BATCH
    pool: Annotated[
        Pool | None,
        choice(Pool, "mixes")(
            "Of the physics: where its applications come from, with what they can use.",
            default="none",
        ),
    ] = None
    pool_size: Annotated[int | None, COUNT("So many of them at most.", default="all")] = None
    phases: Annotated[
        tuple[MemoryLoad, ...],
        one_or_list(choice(MemoryLoad, "medium"), "`low`, `medium` or `high`, or a list of them")(
            "Of the physics: each is a sequence of programs, by how much they load memory.",
            default="one program",
        ),
    ] = ()
    applications: Annotated[
        tuple[str, ...],
        TEXTS(
            "What they are to the ground truth; each is drawn as often.",
            default="all of the tables; without tables one, named as the class",
        ),
    ] = ()
    cpus_millicpus: Annotated[tuple[int, ...], CPUS("Usable on a server; one is drawn.")] = (1000,)
    stated_cpu_millicpus: Annotated[
        int | None,
        CPU("That each states, whatever it can use.", name="statesCpus", default="what it can use"),
    ] = None
    memory_bytes: Annotated[tuple[int, ...], MEMORIES("On each server; one is drawn.")] = (_GIB,)
    duration: Annotated[
        Distribution,
        distribution_fields("Of its work, alone on the best platform; `10m` without it."),
    ] = field(default_factory=lambda: constant(600.0))
    lifetime: Annotated[
        Distribution | None, distribution_fields("How long a service is wanted, from submission.")
    ] = None
    load: Annotated[
        LoadModel | None, section(LoadModel, "What each service is asked, in queries per second.")
    ] = None
    per_cpu: Annotated[
        float, RATE("Without tables: what one CPU of speed 1 answers.", name="ratePerCpu")
    ] = 100.0
    latency: LatencyBound | None = None
    throughput_per_second: float | None = None
    targets: Annotated[Targets | None, TARGETS] = None
    tolerance: Annotated[float, TOLERANCE("By how much a target may be missed.")] = (
        DEFAULT_TOLERANCE
    )
    best_effort: Annotated[float, FRACTION("Share of them without a target.")] = 0.0
    priority: Annotated[int, fields.PRIORITY("Higher goes first.")] = 0
    adapt: Annotated[Adapt, fields.ADAPT("What is done about them once they are placed.")] = (
        Adapt.AUTO
    )
    scale: Annotated[Scale, fields.SCALE] = field(default_factory=Scale)
    restartable: Annotated[bool, BOOLEAN("They may be moved.")] = True
    profile: Annotated[Profile, fields.PROFILE] = field(default_factory=Profile)
    expects_duration: Annotated[
        Expectation | None,
        section(
            Expectation,
            "Users state `expectedDuration`; `true`: as long as alone on the best platform.",
            short=mapped(BOOLEAN, lambda stated: Expectation() if stated else None),
        ),
    ] = None
    requires: Annotated[
        Requires, REQUIRES("By their servers' labels; targets are of platforms that meet it.")
    ] = ()
    states_memory: Annotated[
        bool, BOOLEAN("Users state the memory that they need; else it is by what is measured.")
    ] = True

    def __post_init__(self) -> None:
        serves = self.load is not None
        has_target = self.latency is not None or self.throughput_per_second is not None
        _refuse_where(
            self.name,
            (
                (self.type is WorkloadType.LATENCY_CRITICAL) != serves,
                "latency-critical work has a load, no other has",
            ),
            (
                not serves and (self.lifetime or has_target),
                "lifetime and target belong to latency-critical work; write duration and targets",
            ),
            (serves and not has_target, "write its target, e.g. the latency it keeps"),
            (serves and self.best_effort, "a service is not best-effort work"),
            (
                self.per_server is not None and (self.count is not None or self.requires),
                "what is perServer has no count, and requires no label; remove these",
            ),
            (
                self.type is WorkloadType.SINGLE_NODE and self.scale.max_servers > 1,
                "single-node work has one server; write batch",
            ),
        )


_POPULATION = Section(
    "Classes of workloads that are alike, but for what is drawn.",
    {
        **fields_of(PopulationClass),
        "target": Section(
            "What is asked of a service. Its throughput is the load where that is flat, and not "
            "stated where it is not.",
            fields.SERVICE_TARGET,
        ),
    },
    PopulationClass,
    many=True,
)


_TRACE = Section(
    "Instead of a population: `csv` or `swf`.",
    {
        "csv": section(CsvTrace, "A trace in CSV files with a line of names.", attribute="trace"),
        "swf": section(SwfTrace, "A trace in the Standard Workload Format.", attribute="trace"),
    },
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster and its workloads."""

    name: str
    description: str = ""
    servers: Annotated[
        tuple[ServerGroup, ...],
        section(
            ServerGroup,
            "The cluster. With tables the default is four servers of each platform, with room for "
            "two workloads; with a trace the servers of the trace.",
            many=True,
        ),
    ] = ()
    truth: Annotated[
        MeasuredTruth | TruthWord,
        section(
            MeasuredTruth,
            "How fast workloads really are: from measured tables; or `physics`, by the hardware of "
            "named platforms and what applications ask of it; or `undisturbed`, where they do not "
            "touch one another and each runs at the speed of the CPU that it has.",
            short=choice(TruthWord, "undisturbed"),
        ),
    ] = TruthWord.UNDISTURBED
    regime: Annotated[
        str, words(list(REGIMES), DEFAULT)("Calibration of the physics; `--regime` picks another.")
    ] = DEFAULT
    population: Annotated[tuple[PopulationClass, ...], _POPULATION] = ()
    trace: Annotated[CsvTrace | SwfTrace | None, _TRACE] = None
    workloads: Annotated[int, COUNT("How many, where classes have shares.")] = 100
    arrivals: Annotated[
        Arrivals,
        section(Arrivals, "When workloads are submitted; `poisson` with a load of 0.7 without it."),
    ] = field(default_factory=lambda: Arrivals(load=0.7))
    targets: Annotated[Targets, TARGETS] = field(default_factory=Targets)
    reservations: Annotated[Reservations | None, RESERVATIONS] = field(default_factory=Reservations)
    training: Annotated[
        float, FRACTION("Share of applications profiled before.", default="a third")
    ] = 1 / 3
    costs: Annotated[Costs, section(Costs, "What takes time besides running.")] = field(
        default_factory=Costs
    )
    measuring: Annotated[Measuring, section(Measuring, "How well performance is seen.")] = field(
        default_factory=Measuring
    )
    faults: Annotated[Faults, section(Faults, "What goes wrong.")] = field(default_factory=Faults)
    others: Annotated[
        Others | None,
        section(Others, "Jobs of others, which come and go on the same servers; none without it."),
    ] = None
    evictions: Annotated[
        Evictions | None,
        section(Evictions, "The engine takes workloads off that run; none without it."),
    ] = None
    until_seconds: Annotated[float | None, DURATION("The end.", default="when all is done")] = None
    engine: Annotated[EngineAbility, section(EngineAbility, "What the engine can do.")] = field(
        default_factory=EngineAbility
    )
    max_servers: Annotated[int, fields.SERVERS("Of one workload.")] = 8

    def __post_init__(self) -> None:
        if bool(self.population) == (self.trace is not None):
            raise InvalidInput("write either a population or a trace")
        if self.trace is not None and self.truth is not TruthWord.UNDISTURBED:
            raise InvalidInput("a trace has a ground truth of its own; remove truth")
        self._check_classes()
        for what, names in (
            ("class", [each.name for each in self.population]),
            ("platform", [group.platform for group in self.servers]),
        ):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise InvalidInput(f"{what} {twice!r} stands twice; put the two together")

    @property
    def measured(self) -> MeasuredTruth | None:
        """The ground truth's tables; ``None`` = it has none."""
        return self.truth if isinstance(self.truth, MeasuredTruth) else None

    @property
    def is_physical(self) -> bool:
        """Whether the ground truth is ``physics``."""
        return self.truth is TruthWord.PHYSICS

    def _check_classes(self) -> None:
        for each in self.population:
            misplaced = (each.pool is not None) != self.is_physical
            _refuse_where(
                each.name, (misplaced, "pools belong to truth: physics, and there each has one")
            )
            _check_pool(each)
        if self.regime != DEFAULT and not self.is_physical:
            raise InvalidInput("a regime belongs to truth: physics; remove it, or write that truth")
        arriving = [each for each in self.population if each.per_server is None]
        counted = [each.name for each in arriving if each.count is not None]
        if counted and len(counted) < len(arriving):
            raise InvalidInput(f"class {counted[0]} has a count and others not; give all one")
        for each in self.population:
            if self.until_seconds is None and each.load is not None and each.lifetime is None:
                raise InvalidInput(f"class {each.name} never ends; write its lifetime, or until")


_SERVICES = frozenset({Pool.MEMCACHED, Pool.WEBSERVER, Pool.CASSANDRA, Pool.PYTHIA_SERVICES})
_PLAIN = PopulationClass()


def _check_pool(each: PopulationClass) -> None:
    if each.pool is None:
        needs_pool = each.phases or each.pool_size is not None
        _refuse_where(each.name, (needs_pool, "phases and poolSize need a pool; write one"))
        return
    stated, plain = ((of.cpus_millicpus, of.memory_bytes) for of in (each, _PLAIN))
    serves, has_load = each.pool in _SERVICES, each.load is not None
    _refuse_where(
        each.name,
        (stated != plain, "its pool says what CPU and memory it can use; remove cpus, memory"),
        (
            serves and not has_load and each.pool is not Pool.PYTHIA_SERVICES,
            f"pool {each.pool} serves; write load and target",
        ),
        (has_load and not serves, f"pool {each.pool} has no requests; remove the load"),
        (has_load and each.phases, "a service has no phases; remove them"),
    )


_METADATA = Section(
    "Which scenario it is.",
    {"name": NAME("Of the scenario."), "description": TEXT("In one line.", default="none")},
    required=True,
)
_SPEC = Section("The cluster, and what comes to it.", fields_of(Scenario), required=True)
SCENARIO = fields.document(
    "Scenario", "A simulated cluster, and what comes to it.", _METADATA, _SPEC, Scenario
)
"""All fields of a scenario's file."""
