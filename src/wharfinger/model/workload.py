"""What a user submits: a workload and its performance target.

The manifest (``wharfinger.manifest``) makes these from YAML; the core keeps them unchanged. A
target is stated in the user's terms and never as a reservation (Quasar 3.1).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from wharfinger.model.requirements import Requires

DEFAULT_TOLERANCE = 0.05
"""By which a target may be missed where a manifest does not say."""


class WorkloadType(StrEnum):
    """Quasar's kinds of workload (3.1); each states its target in its own terms."""

    SINGLE_NODE = "single-node"
    """One server; a rate (instructions or operations per second) or a completion time."""
    BATCH = "batch"
    """Distributed or batch; a completion time or a rate."""
    LATENCY_CRITICAL = "latency-critical"
    """A service; a throughput, a latency bound, or both."""
    BEST_EFFORT = "best-effort"
    """No target; it uses what the others leave and may be evicted."""


@dataclass(frozen=True, slots=True)
class LatencyBound:
    """The ``percentile``-th percentile of latency stays below ``below_seconds``."""

    percentile: float
    below_seconds: float


@dataclass(frozen=True, slots=True)
class Target:
    """The performance to reach; at least one of the fields is given.

    ``completion_seconds`` count from submission; the rate has the unit that ``measure`` reads.
    """

    throughput_per_second: float | None = None
    latency: LatencyBound | None = None
    completion_seconds: float | None = None
    rate_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """The allocation where nothing is sized by target; an elastic part was not stated.

    Attributes:
        elastic_cpu: The CPU is where it begins; it follows what is measured.
        elastic_memory: The same of memory.
    """

    cpu_millicpus: int = 1000
    memory_bytes: int = 512 * 1024**2
    elastic_cpu: bool = False
    elastic_memory: bool = False


class Spread(StrEnum):
    """Over what a workload's servers must be spread."""

    ZONE = "zone"


@dataclass(frozen=True, slots=True)
class Scale:
    """How far a workload may scale out, and under which constraints.

    Attributes:
        stateful: Moving it loses or migrates state.
        gang: All its servers start together or not at all.
        spread: ``None`` = anywhere.
    """

    max_servers: int = 1
    stateful: bool = False
    gang: bool = False
    spread: Spread | None = None


class ProfileMode(StrEnum):
    """How a workload may be profiled before it is placed (Quasar 4.2)."""

    COPY = "copy"
    """A sandboxed copy, whose effects are thrown away."""
    LIVE = "live"
    """The running workload itself, under two allocations and beside sources that reach no other."""
    NONE = "none"
    """Not at all."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How, and for how long, to profile."""

    mode: ProfileMode = ProfileMode.COPY
    seconds: float = 8.0


class RestartPolicy(StrEnum):
    """After which ends a program is started again."""

    NEVER = "never"
    ON_FAILURE = "on-failure"
    """After any but exit status 0."""
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Restart:
    """Whether, when and how often a program that has ended is started again.

    Attributes:
        limit: Most restarts in a row; ``None`` = no limit. A service that ran for ten minutes
            begins to count again.
        backoff_seconds: Before the first restart; it doubles with each in a row.
        never_stated: Its user wrote ``never``: more of the memory that nobody stated is not tried
            either.
    """

    policy: RestartPolicy = RestartPolicy.NEVER
    limit: int | None = 5
    backoff_seconds: float = 1.0
    never_stated: bool = False


@dataclass(frozen=True, slots=True)
class Probe:
    """How to see that a program is ready or alive; exactly one of the first four is given.

    Attributes:
        port: It accepts TCP connections on this port of 127.0.0.1.
        http: It answers a GET of this URL with a status from 200 to 399.
        command: Ends with status 0.
        line: A regular expression; a line of its output matches. For readiness only.
        every_seconds: Between two attempts.
        timeout_seconds: After which an attempt has failed.
        failures: So many in a row, and it is not alive.
    """

    port: int | None = None
    http: str | None = None
    command: tuple[str, ...] | None = None
    line: str | None = None
    every_seconds: float = 1.0
    timeout_seconds: float = 1.0
    failures: int = 3


@dataclass(frozen=True, slots=True)
class Run:
    """The program.

    Attributes:
        command: Program and arguments; the program is looked up in ``env``'s or the
            manager's PATH.
        env: Added to a minimal environment. Values are never shown.
        working_directory: Absolute.
        stop_grace_seconds: Between asking it to stop (SIGTERM) and killing it.
        restartable: It may be stopped and started again from its beginning.
        restart: Whether it is started again when it has ended.
        ready: When a service may be measured and given load; ``None`` = as soon as it runs.
        alive: Without it, its program is stopped as failed; ``None`` = while it runs.
        time_limit_seconds: After its start; then it is stopped as failed.
        stop_signal: Name of the signal that asks it to stop, without SIG.
        user: Name of the user to run as, for managers of root; empty = the manager's.
    """

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    working_directory: str = "/"
    stop_grace_seconds: float = 10.0
    restartable: bool = False
    restart: Restart = field(default_factory=Restart)
    ready: Probe | None = None
    alive: Probe | None = None
    time_limit_seconds: float | None = None
    stop_signal: str = "TERM"
    user: str = ""

    @property
    def restart_unstated(self) -> bool:
        """Whether nobody stated a restart policy, and it is not restarted."""
        return self.restart.policy is RestartPolicy.NEVER and not self.restart.never_stated


class NumberKind(StrEnum):
    """What a number means."""

    COUNTER = "counter"
    """Work done so far; its growth per second is the performance."""
    GAUGE = "gauge"
    """The performance itself."""


NAMED_NUMBERS = {
    "done": ("done", 1.0),
    "rate": ("rate", 1.0),
    "throughput": ("throughput", 1.0),
    "offered": ("offered", 1.0),
    "latency_s": ("latency", 1.0),
    "latency_ms": ("latency", 1e-3),
    "latency_us": ("latency", 1e-6),
}
"""What the named groups of an expression may be called, and a command's lines: what each says,
and what one of it is in that quantity's unit."""


class MetricKind(StrEnum):
    """What a metric of an endpoint means; the first two as in ``NumberKind``."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    """A Prometheus histogram of latencies: a percentile of them, and how many there are."""


@dataclass(frozen=True, slots=True)
class HttpMeasure:
    """An endpoint to read: a Prometheus metric, or without one a number as the whole answer.

    A histogram's ``percentile`` is the target's if ``None``.
    """

    url: str
    metric: str | None = None
    kind: MetricKind = MetricKind.GAUGE
    percentile: float | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """How the workload's performance is read. See docs/measure.md.

    Attributes:
        progress_regex: Its first group is a number, or its named groups are.
        load_command: A load generator run with a service, whose report is the measure.
        progress_file: Where the lines are; ``None`` = the program's output.
        progress_total: Work done when it is complete, in the number's unit.
        progress_kind: What the first group means; ``None`` = a counter.
        command: Prints a number.
        command_kind: What that number means; ``None`` = a gauge.
        load_regex: As ``progress_regex``, for the load generator; ``None`` = the same.
        every_seconds: Between two samples.
    """

    progress_regex: str | None = None
    load_command: tuple[str, ...] | None = None
    progress_file: str | None = None
    progress_total: float | None = None
    progress_kind: NumberKind | None = None
    http: HttpMeasure | None = None
    command: tuple[str, ...] | None = None
    command_kind: NumberKind | None = None
    load_regex: str | None = None
    every_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class ArrayMember:
    """One of the workloads that an array stands for.

    Attributes:
        name: The array's.
        index: Its own number.
        at_once: How many of the array may be on servers at the same time; ``None`` = all.
    """

    name: str
    index: int
    at_once: int | None = None


@dataclass(frozen=True, slots=True)
class After:
    """The workloads or arrays that it waits for; each by name.

    Attributes:
        completed: These have ended with exit status 0; one that ends otherwise rejects it.
        ended: These have ended in any way.
        ready: These services run and are ready.
    """

    completed: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()


class MissedRun(StrEnum):
    """What happens to a scheduled run whose time came while there was no manager."""

    RUN = "run"
    """One run begins as soon as there is a manager, however many were missed."""
    SKIP = "skip"


class OnMiss(StrEnum):
    """What happens to a workload whose target is expected to be missed wherever it may run."""

    RUN = "run"
    """It runs where the target is most likely to be kept."""
    REJECT = "reject"


class Adapt(StrEnum):
    """What is done about a workload after it was placed, to keep targets."""

    OFF = "off"
    """Nothing: it is neither resized, suspended, moved nor probed, but for what its user changes
    and memory that it needs."""
    RECOMMEND = "recommend"
    """What would be done is told, and not done."""
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a new run of a workload begins.

    Attributes:
        cron: Five fields: minute, hour, day of month, month, day of week.
        time_zone: Of the IANA database.
    """

    cron: str
    time_zone: str = "UTC"
    missed: MissedRun = MissedRun.RUN


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload as its user stated it.

    Attributes:
        name: Unique among the workloads the manager knows; a DNS label.
        target: ``None`` = the user stated none.
        tolerance: The fraction by which the target may be missed and still counts as kept.
        priority: Higher goes first.
        max_cost_per_hour: In the currency of the servers' prices.
        expected_seconds: How long its user expects it to run; ``None`` = not stated.
        ttl_after_finished_seconds: How long its record and output are kept after its end; ``None``
            = as long as there is room for them.
        on_miss: What happens where its target is expected to be missed wherever it may run.
        waiting_seconds: How long it may wait for a server that suits it; ``None`` = not stated.
        adapt: What is done about it after it was placed.
        requires: Of the labels of servers where it is placed.
        owner: Who handed it in; empty = unknown.
    """

    name: str
    type: WorkloadType
    run: Run
    target: Target | None = None
    tolerance: float = DEFAULT_TOLERANCE
    priority: int = 0
    scale: Scale = field(default_factory=Scale)
    reservation: Reservation = field(default_factory=Reservation)
    profile: Profile = field(default_factory=Profile)
    measure: Measure = field(default_factory=Measure)
    max_cost_per_hour: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    expected_seconds: float | None = None
    array: ArrayMember | None = None
    after: After | None = None
    schedule: Schedule | None = None
    ttl_after_finished_seconds: float | None = None
    on_miss: OnMiss = OnMiss.RUN
    waiting_seconds: float | None = None
    adapt: Adapt = Adapt.AUTO
    requires: Requires = ()
    owner: str = ""

    def has_same_program(self, other: "Workload") -> bool:
        """Whether what another runs, and how that is measured, tells about this one, too."""
        a, b = self.run, other.run
        own = (a.command, a.env, a.working_directory, a.user, self.type, self.measure)
        return own == (b.command, b.env, b.working_directory, b.user, other.type, other.measure)

    def is_measured_as(self, other: "Workload") -> bool:
        """Whether measurements of both mean the same, however often they are made."""
        return self.measure == replace(other.measure, every_seconds=self.measure.every_seconds)

    @property
    def best_effort(self) -> bool:
        """Whether it has no claim on CPU time beyond what others leave idle."""
        return self.type is WorkloadType.BEST_EFFORT
