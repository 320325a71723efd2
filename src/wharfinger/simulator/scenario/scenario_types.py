"""A scenario: what an operator writes down of a cluster and of what comes to it.

``scenario_files`` reads one from YAML, or from a name such as ``measured:DIR``; ``scenario.build``
draws one run's world of it, the ``Setup``. Nothing here is drawn yet.
"""

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
    TIME,
    TOLERANCE,
    choice,
    words,
)
from wharfinger.manifest.kinds import constant as constant_word
from wharfinger.manifest.sections import Section, fields_of, section
from wharfinger.model.workload import LatencyBound, Profile, Scale, WorkloadType
from wharfinger.simulator.scenario.arrivals import Arrivals
from wharfinger.simulator.scenario.distributions import Distribution, constant, distribution_fields
from wharfinger.simulator.scenario.loads import LoadModel
from wharfinger.simulator.scenario.scenario_kinds import (
    COUNT,
    CPUS,
    FACTOR,
    FRACTION,
    MEMORIES,
    NUMBER,
    TEXT,
    TEXTS,
    TYPE,
    mapped,
    one_or_list,
)
from wharfinger.simulator.scenario.setup import Costs, Measuring, Outage
from wharfinger.simulator.scenario.swf import SwfTrace
from wharfinger.simulator.scenario.traces import CsvTrace
from wharfinger.simulator.truth.measured import Rule
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import DEFAULT, REGIMES

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """Servers of one platform."""

    platform: Annotated[str, TEXT("Its name, once in the list.")]
    count: Annotated[int, COUNT("How many.")] = 4
    cpu_millicpus: Annotated[int, CPU("Of each.", name="cpus")] = 2000
    memory_bytes: Annotated[int, MEMORY("Of each.")] = 16 * GIB
    speed: Annotated[float, NUMBER("Of work, without tables; 1 = as its duration says.")] = 1.0
    zones: Annotated[int, fields.SERVERS("Failure zones that they are in, in turn.")] = 1


@dataclass(frozen=True, slots=True)
class MeasuredTruth:
    """A ground truth of measured tables."""

    directory: Annotated[str, DIRECTORY("Of the tables, from the scenario's own.", name="measured")]
    rule: Annotated[
        Rule, choice(Rule, "product")("What several neighbors do, where only pairs were measured.")
    ] = Rule.PRODUCT
    unit: Annotated[str, TEXT("Of work, per second of which performance is.")] = "operations"


@dataclass(frozen=True, slots=True)
class PhysicsTruth:
    """A ground truth of hardware and applications (``wharfinger.simulator.truth.physics``)."""


class TruthWord(StrEnum):
    """A ground truth that one word says."""

    UNDISTURBED = "undisturbed"
    PHYSICS = "physics"


TRUTHS = {TruthWord.UNDISTURBED: None, TruthWord.PHYSICS: PhysicsTruth()}


class MemoryLoad(StrEnum):
    """How much a program loads memory, among those of its pool."""

    LOW = "low"
    """The lower third."""
    MEDIUM = "medium"
    HIGH = "high"
    """The upper third."""


class TargetOf(StrEnum):
    """Against which platform's performance targets are stated."""

    BEST = "best"
    """The one on which the workload is fastest."""
    RANDOM_PLATFORM = "random-platform"
    """That of a server drawn at random: what the user has seen somewhere."""
    NONE = "none"
    """No targets, but for services."""


class TargetKind(StrEnum):
    """In which terms."""

    COMPLETION_TIME = "completionTime"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class Share:
    """A share drawn evenly between two ends; they may be one."""

    low: Annotated[float, FRACTION("The least.", name="from")]
    high: Annotated[float, FRACTION("The most.", name="to")]

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidInput("from is more than to; write them the other way round")


@dataclass(frozen=True, slots=True)
class Targets:
    """What is asked of workloads that have work to complete."""

    of: Annotated[
        TargetOf,
        choice(TargetOf, "best")(
            "On which platform: the best, that of a server drawn at random, or no targets."
        ),
    ] = TargetOf.BEST
    share: Annotated[
        Share,
        section(
            Share,
            "Asked of the performance alone, drawn evenly between two ends; `90%` without it.",
            short=mapped(FRACTION, lambda share: Share(share, share)),
        ),
    ] = Share(0.9, 0.9)
    kind: Annotated[TargetKind, choice(TargetKind, "rate")("In which terms.")] = TargetKind.RATE
    room_seconds: Annotated[float, TIME("Added to a completion time, for starting.")] = 0.0

    def __post_init__(self) -> None:
        if not self.share.low:
            raise InvalidInput("a share of 0% asks for nothing; write more, or of: none")
        if self.room_seconds and self.kind is not TargetKind.COMPLETION_TIME:
            raise InvalidInput("room belongs to kind: completionTime")


@dataclass(frozen=True, slots=True)
class Reservations:
    """How users misjudge what they need (Quasar, Figure 1d); factors are log-uniform.

    Attributes:
        over: Share of users that reserve too much.
        over_up_to: By at most this factor, of CPU and of memory.
        under: Share of those that reserve too little.
        under_up_to: By at most this factor, of CPU; a program without its memory dies, so no user
            goes on reserving less of that.
    """

    over: float = 0.7
    over_up_to: float = 10.0
    under: float = 0.2
    under_up_to: float = 5.0

    def __post_init__(self) -> None:
        if self.over + self.under > 1 + 1e-9:
            raise InvalidInput("those who reserve too much and too little are more than 100%")


def _misjudged(doc: str, attribute: str) -> Section:
    share = FRACTION("Of the users.", attribute)
    up_to = FACTOR("By at most this factor.", f"{attribute}_up_to")
    return Section(doc, {"share": share, "upTo": up_to})


RESERVATIONS = Section(
    "What users would reserve, for policies that go by it; as in Quasar's Figure 1d without it. "
    "`exact`: what is needed.",
    {
        "tooMuch": _misjudged("Who reserves more than is needed, of CPU and of memory.", "over"),
        "tooLittle": _misjudged(
            "Who reserves less CPU than is needed, and as much memory.", "under"
        ),
    },
    Reservations,
    short=mapped(constant_word("exact"), lambda _: None),
)


@dataclass(frozen=True, slots=True)
class FaultModel:
    """What goes wrong. Times between failures are exponentially distributed."""

    mtbf_seconds: Annotated[float | None, DURATION("Mean time between failures.")] = None
    repair_seconds: Annotated[float, DURATION("Mean time until it is back.")] = 600.0
    outages: Annotated[
        tuple[Outage, ...],
        section(
            Outage, "Those listed besides. Servers are named by platform and number.", many=True
        ),
    ] = ()
    start_failures: Annotated[float, FRACTION("Share of starts that fail.")] = 0.0
    lost_answers: Annotated[float, FRACTION("Share of answers that are lost.")] = 0.0
    found_seconds: Annotated[float, DURATION("Until a lost one is noticed.", name="foundAfter")] = (
        30.0
    )


TARGETS = section(Targets, "What is asked of workloads that complete work.")


@dataclass(frozen=True, slots=True)
class PopulationClass:
    """Workloads that are alike, but for what is drawn."""

    name: Annotated[str, NAME("Beginning of the workloads' names.", required=True)] = "job"
    share: Annotated[float, NUMBER("Of all workloads, relative to the other classes.")] = 1.0
    count: Annotated[int | None, COUNT("So many instead; then each class has one.")] = None
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
    memory_bytes: Annotated[tuple[int, ...], MEMORIES("On each server; one is drawn.")] = (GIB,)
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
    tolerance: Annotated[float, TOLERANCE("By how much a target may be missed.")] = 0.05
    best_effort: Annotated[float, FRACTION("Share of them without a target.")] = 0.0
    priority: Annotated[int, fields.PRIORITY("Higher goes first.")] = 0
    scale: Annotated[Scale, fields.SCALE] = field(default_factory=Scale)
    restartable: Annotated[bool, BOOLEAN("They may be moved.")] = True
    profile: Annotated[Profile, fields.PROFILE] = field(default_factory=Profile)

    def __post_init__(self) -> None:
        if (self.type is WorkloadType.LATENCY_CRITICAL) != (self.load is not None):
            raise InvalidInput(f"class {self.name}: latency-critical work has a load, no other has")
        if self.load is None:
            self._check_work()
        elif self.latency is None and self.throughput_per_second is None:
            raise InvalidInput(f"class {self.name}: write its target, e.g. the latency it keeps")
        elif self.best_effort:
            raise InvalidInput(f"class {self.name}: a service is not best-effort work")
        if self.type is WorkloadType.SINGLE_NODE and self.scale.max_servers > 1:
            raise InvalidInput(f"class {self.name}: single-node work has one server; write batch")

    def _check_work(self) -> None:
        """What only services have."""
        if self.lifetime or self.latency or self.throughput_per_second:
            raise InvalidInput(
                f"class {self.name}: lifetime and target belong to latency-critical work; "
                "write duration and targets"
            )


POPULATION = Section(
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


TRACE = Section(
    "Instead of a population: `csv` or `swf`.",
    {
        "csv": section(CsvTrace, "A trace in CSV files with a line of names.", attribute="trace"),
        "swf": section(SwfTrace, "A trace in the Standard Workload Format.", attribute="trace"),
    },
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster, and what comes to it."""

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
        MeasuredTruth | PhysicsTruth | None,
        section(
            MeasuredTruth,
            "How fast workloads really are: from measured tables; or `physics`, by the hardware of "
            "named platforms and what applications ask of it; or `undisturbed`, where they do not "
            "touch one another and each runs at the speed of the CPU that it has.",
            short=mapped(choice(TruthWord, "undisturbed"), lambda word: TRUTHS[word]),
        ),
    ] = None
    regime: Annotated[
        str, words(list(REGIMES), DEFAULT)("Calibration of the physics; `--regime` picks another.")
    ] = DEFAULT
    population: Annotated[tuple[PopulationClass, ...], POPULATION] = ()
    trace: Annotated[CsvTrace | SwfTrace | None, TRACE] = None
    workloads: Annotated[int, COUNT("How many, where classes have shares.")] = 100
    arrivals: Annotated[
        Arrivals,
        section(Arrivals, "When workloads are submitted; `poisson` with a load of 0.7 without it."),
    ] = field(default_factory=lambda: Arrivals(load=0.7))
    targets: Annotated[Targets, TARGETS] = Targets()
    reservations: Annotated[Reservations | None, RESERVATIONS] = Reservations()
    training: Annotated[
        float, FRACTION("Share of applications profiled before.", default="a third")
    ] = 1 / 3
    costs: Annotated[Costs, section(Costs, "What takes time besides running.")] = field(
        default_factory=Costs
    )
    measuring: Annotated[Measuring, section(Measuring, "How well performance is seen.")] = field(
        default_factory=Measuring
    )
    faults: Annotated[FaultModel, section(FaultModel, "What goes wrong.")] = FaultModel()
    until_seconds: Annotated[float | None, DURATION("The end.", default="when all is done")] = None
    fractional_cpu: Annotated[bool, BOOLEAN("Else whole CPUs are given.")] = True
    max_servers: Annotated[int, fields.SERVERS("Of one workload.")] = 8

    def __post_init__(self) -> None:
        if bool(self.population) == (self.trace is not None):
            raise InvalidInput("write either a population or a trace")
        if self.trace is not None and self.truth is not None:
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
        """Where the ground truth's tables are; ``None`` = it has none."""
        return self.truth if isinstance(self.truth, MeasuredTruth) else None

    @property
    def is_physical(self) -> bool:
        """Whether the ground truth is one of hardware and applications."""
        return isinstance(self.truth, PhysicsTruth)

    def _check_classes(self) -> None:
        for each in self.population:
            if (each.pool is not None) != self.is_physical:
                raise InvalidInput(
                    f"class {each.name}: pools belong to truth: physics, and there each has one"
                )
            _check_pool(each)
        if self.regime != DEFAULT and not self.is_physical:
            raise InvalidInput("a regime belongs to truth: physics; remove it, or write that truth")
        counted = [each.name for each in self.population if each.count is not None]
        if counted and len(counted) < len(self.population):
            raise InvalidInput(f"class {counted[0]} has a count and others not; give all one")
        if self.until_seconds is None:
            for each in self.population:
                if each.load is not None and each.lifetime is None:
                    raise InvalidInput(
                        f"class {each.name} never ends; write its lifetime, or until"
                    )


_SERVICES = frozenset({Pool.MEMCACHED, Pool.WEBSERVER, Pool.CASSANDRA, Pool.PYTHIA_SERVICES})
_PLAIN = PopulationClass()


def _check_pool(each: PopulationClass) -> None:
    """What a class states that its pool does not know, or says itself."""
    if each.pool is None:
        if each.phases or each.pool_size is not None:
            raise InvalidInput(f"class {each.name}: phases and poolSize need a pool; write one")
        return
    if (each.cpus_millicpus, each.memory_bytes) != (_PLAIN.cpus_millicpus, _PLAIN.memory_bytes):
        raise InvalidInput(
            f"class {each.name}: its pool says what CPU and memory it can use; remove cpus, memory"
        )
    if each.pool in _SERVICES and each.load is None:
        raise InvalidInput(f"class {each.name}: pool {each.pool} serves; write load and target")
    if each.pool not in _SERVICES and each.load is not None:
        raise InvalidInput(f"class {each.name}: pool {each.pool} has no requests; remove the load")
    if each.phases and each.load is not None:
        raise InvalidInput(f"class {each.name}: a service has no phases; remove them")
