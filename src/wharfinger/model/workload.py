"""What a user submits: a workload and its performance target.

The manifest (``wharfinger.manifest``) makes these from YAML; the core keeps them unchanged. A
target is stated in the user's terms and never as a reservation (Quasar 3.1).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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
    """The allocation by a policy that does not size by target."""

    cpu_millicpus: int = 1000
    memory_bytes: int = 512 * 1024**2


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
    """The running workload itself, under two allocations within its tolerance."""
    NONE = "none"
    """Not at all."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How, and for how long, to profile."""

    mode: ProfileMode = ProfileMode.COPY
    seconds: float = 8.0


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
    """

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    working_directory: str = "/"
    stop_grace_seconds: float = 10.0
    restartable: bool = False


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
class Workload:
    """One workload as its user stated it.

    Attributes:
        name: Unique among the workloads the manager knows; a DNS label.
        target: ``None`` = the user stated none.
        tolerance: The fraction by which the target may be missed and still counts as kept.
        priority: Higher goes first.
        max_cost_per_hour: In the currency of the servers' prices.
    """

    name: str
    type: WorkloadType
    run: Run
    target: Target | None = None
    tolerance: float = 0.05
    priority: int = 0
    scale: Scale = field(default_factory=Scale)
    reservation: Reservation = field(default_factory=Reservation)
    profile: Profile = field(default_factory=Profile)
    measure: Measure = field(default_factory=Measure)
    max_cost_per_hour: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def best_effort(self) -> bool:
        """Whether it has no claim on CPU time beyond what others leave idle."""
        return self.type is WorkloadType.BEST_EFFORT
