"""A scenario: what an operator writes down of a cluster and of what comes to it.

``scenario_files`` reads one from YAML, or from a name such as ``measured:DIR``; ``scenario.build``
draws one run's world of it, the ``Setup``. Nothing here is drawn yet.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from wharfinger.errors import InvalidInput
from wharfinger.model.workload import LatencyBound, Profile, Scale, WorkloadType
from wharfinger.simulator.scenario.arrivals import Arrivals
from wharfinger.simulator.scenario.distributions import Distribution, constant
from wharfinger.simulator.scenario.loads import LoadModel
from wharfinger.simulator.scenario.setup import Costs, Measuring, Outage
from wharfinger.simulator.scenario.swf import SwfTrace
from wharfinger.simulator.scenario.traces import CsvTrace
from wharfinger.simulator.truth.measured import Rule
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import DEFAULT

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """Servers of one platform.

    Attributes:
        platform: Its name, and the beginning of theirs.
        count: How many.
        cpu_millicpus: Of each.
        memory_bytes: Of each.
        speed: Under a ground truth without interference, how fast work is done; 1 = as stated.
        zones: They are spread over so many, in turn.
    """

    platform: str
    count: int = 4
    cpu_millicpus: int = 2000
    memory_bytes: int = 16 * GIB
    speed: float = 1.0
    zones: int = 1


@dataclass(frozen=True, slots=True)
class MeasuredTruth:
    """A ground truth of measured tables.

    Attributes:
        directory: Where they are.
        rule: What several neighbours do to one.
        unit: Of work.
    """

    directory: str
    rule: Rule = Rule.PRODUCT
    unit: str = "operations"


@dataclass(frozen=True, slots=True)
class PhysicsTruth:
    """A ground truth of hardware and applications (``wharfinger.simulator.truth.physics``)."""


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

    low: float
    high: float

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidInput("from is more than to; write them the other way round")


@dataclass(frozen=True, slots=True)
class Targets:
    """What is asked of workloads that have work to complete.

    Attributes:
        of: Against which platform.
        share: Of the performance alone there.
        kind: In which terms; with ``RATE`` the mean counts from being handed in.
        room_seconds: Added to a completion time, for starting.
    """

    of: TargetOf = TargetOf.BEST
    share: Share = Share(0.9, 0.9)
    kind: TargetKind = TargetKind.RATE
    room_seconds: float = 0.0

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
        under_up_to: By at most this factor, of CPU; a program without its memory dies, so nobody
            goes on reserving less of that.
    """

    over: float = 0.7
    over_up_to: float = 10.0
    under: float = 0.2
    under_up_to: float = 5.0

    def __post_init__(self) -> None:
        if self.over + self.under > 1 + 1e-9:
            raise InvalidInput("those who reserve too much and too little are more than 100%")


@dataclass(frozen=True, slots=True)
class FaultModel:
    """What goes wrong.

    Attributes:
        mtbf_seconds: Mean time that a server is there between two failures; ``None`` = it never
            fails. Times are exponentially distributed.
        repair_seconds: Mean time until it is back.
        outages: Besides, those that are listed.
        start_failures: Share of starts that fail and may be tried again.
        lost_answers: Share of the engine's answers that are lost.
        found_seconds: Until the engine looks again.
    """

    mtbf_seconds: float | None = None
    repair_seconds: float = 600.0
    outages: tuple[Outage, ...] = ()
    start_failures: float = 0.0
    lost_answers: float = 0.0
    found_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class PopulationClass:
    """Workloads that are alike, but for what is drawn.

    Attributes:
        name: Beginning of theirs.
        share: Of all workloads, relative to the others' shares.
        count: So many, instead of a share; then all classes have one.
        type: Quasar's kind.
        pool: Of the physics: where its applications come from; ``None`` = no physics.
        pool_size: So many of the pool at most; ``None`` = all.
        phases: Of the physics: each is a sequence of programs that load memory so; empty = one.
        applications: What they are in the ground truth, each drawn as often; empty = all that the
            tables have, or without tables one named as the class.
        cpus_millicpus: What one can make use of on one server; one is drawn.
        memory_bytes: That one takes on each server; one is drawn.
        duration: Seconds of its work alone on the best platform.
        lifetime: Seconds that a service is wanted.
        load: What a service is asked.
        per_cpu: Without tables, queries per second that a service answers with one CPU.
        latency: A service's bound.
        throughput_per_second: A service's target; ``None`` = the load, if that is flat.
        targets: Other than the scenario's; ``None`` = those.
        tolerance: QoS: by how much a target may be missed and still is kept.
        best_effort: Share of them that is handed in as best-effort work.
        priority: Higher goes first.
        scale: How far they may scale out.
        restartable: They may be moved.
        profile: How they may be profiled.
    """

    name: str = "job"
    share: float = 1.0
    count: int | None = None
    type: WorkloadType = WorkloadType.BATCH
    pool: Pool | None = None
    pool_size: int | None = None
    phases: tuple[MemoryLoad, ...] = ()
    applications: tuple[str, ...] = ()
    cpus_millicpus: tuple[int, ...] = (1000,)
    memory_bytes: tuple[int, ...] = (GIB,)
    duration: Distribution = field(default_factory=lambda: constant(600.0))
    lifetime: Distribution | None = None
    load: LoadModel | None = None
    per_cpu: float = 100.0
    latency: LatencyBound | None = None
    throughput_per_second: float | None = None
    targets: Targets | None = None
    tolerance: float = 0.05
    best_effort: float = 0.0
    priority: int = 0
    scale: Scale = field(default_factory=Scale)
    restartable: bool = True
    profile: Profile = field(default_factory=Profile)

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


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster, and what comes to it.

    Attributes:
        name: A name.
        description: In one line.
        servers: By platform; empty = four of each that the tables have, or the trace's.
        truth: Tables, or hardware and applications; ``None`` = workloads do not touch one another.
        regime: Calibration of the physics.
        population: Classes of workloads; empty where a trace has them.
        trace: Where the workloads come from instead.
        workloads: How many, where classes have shares.
        arrivals: When they are handed in, where no trace says it.
        targets: What is asked of them.
        reservations: How users misjudge what they need; ``None`` = nobody does.
        training: Share of applications that were profiled before.
        costs: What takes time.
        measuring: How well performance is seen.
        faults: What goes wrong.
        until_seconds: The end; ``None`` = when all is done.
        fractional_cpu: Whether CPU is given in thousandths; else whole CPUs.
        max_servers: Of one workload.
    """

    name: str
    description: str = ""
    servers: tuple[ServerGroup, ...] = ()
    truth: MeasuredTruth | PhysicsTruth | None = None
    regime: str = DEFAULT
    population: tuple[PopulationClass, ...] = ()
    trace: CsvTrace | SwfTrace | None = None
    workloads: int = 100
    arrivals: Arrivals = field(default_factory=lambda: Arrivals(load=0.7))
    targets: Targets = field(default_factory=Targets)
    reservations: Reservations | None = field(default_factory=Reservations)
    training: float = 1 / 3
    costs: Costs = field(default_factory=Costs)
    measuring: Measuring = field(default_factory=Measuring)
    faults: FaultModel = field(default_factory=FaultModel)
    until_seconds: float | None = None
    fractional_cpu: bool = True
    max_servers: int = 8

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
        raise InvalidInput(f"class {each.name}: pool {each.pool} serves nobody; remove the load")
    if each.phases and each.load is not None:
        raise InvalidInput(f"class {each.name}: a service has no phases; remove them")
