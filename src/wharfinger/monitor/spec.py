"""The meter's instructions for one workload, made by the engine from its manifest."""

import json
from dataclasses import asdict, dataclass, field, replace

import msgspec

from wharfinger.model.performance import Quantity
from wharfinger.model.workload import MetricKind, NumberKind, Probe, Workload, WorkloadType

DEFAULT_PERCENTILE = 99.0
LOAD = "load generator's report"
"""The source of its numbers, for people."""


@dataclass(frozen=True, slots=True)
class WatchSpec:
    """One workload to be measured; an empty string or tuple = there is none.

    Attributes:
        host: Where its ports are.
        supervisor_pid: Root of its processes; 0 = unknown.
        cpu_file, perf_group: Its cgroup's count of CPU time; its cgroup for perf counters.
        throttle_file: Its cgroup's count of the periods in which its quota did not last.
        main: The quantity that a plain number stands for.
        wanted: The quantities that its target needs.
        total: Work when all is done.
        regex, file: For its own lines; where these are, instead of on its output.
        regex_is_counter: Whether the first group is work done so far.
        load_regex, load_runs: For the load generator's lines; prefix of its run directories.
        load_file: The one file of its lines, instead of ``load_runs``.
        metric: In the answer of ``url``; empty = the answer is a number.
        command: Prints a number, in ``env`` and ``working_directory``.
        user: Who commands run as: uid, gid and groups; empty = as we do.
        limits: The target's bounds, with its tolerance; a sample beyond one is reported at once.
        ready, alive: Its probes; their commands run in ``env`` and ``working_directory``.
        reach: A URL whose host must accept connections before there is load; without ``ready``.
    """

    key: str
    run_dir: str
    host: str = "127.0.0.1"
    supervisor_pid: int = 0
    cpu_file: str = ""
    perf_group: str = ""
    throttle_file: str = ""
    main: Quantity = Quantity.RATE
    wanted: tuple[Quantity, ...] = ()
    percentile: float = DEFAULT_PERCENTILE
    total: float | None = None
    regex: str = ""
    regex_is_counter: bool = True
    file: str = ""
    load_runs: str = ""
    load_file: str = ""
    load_regex: str = ""
    url: str = ""
    metric: str = ""
    metric_kind: MetricKind = MetricKind.GAUGE
    command: tuple[str, ...] = ()
    command_is_counter: bool = False
    env: dict[str, str] = field(default_factory=dict)
    working_directory: str = "/"
    user: tuple[int, ...] = ()
    every_seconds: float = 1.0
    limits: dict[Quantity, float] = field(default_factory=dict)
    ready: Probe | None = None
    alive: Probe | None = None
    reach: str = ""

    @property
    def measured(self) -> bool:
        """Whether it has a metric of its own."""
        return bool(self.regex or self.load_regex or self.url or self.command)

    @property
    def runs_commands(self) -> bool:
        """Whether measuring or probing it starts processes."""
        probes = [probe for probe in (self.ready, self.alive) if probe is not None]
        return bool(self.command) or any(probe.command is not None for probe in probes)

    @property
    def reads_histogram(self) -> bool:
        """Whether its latency comes from a histogram."""
        return bool(self.url) and self.metric_kind is MetricKind.HISTOGRAM

    def to_json(self) -> str:
        """As it is sent."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "WatchSpec":
        """As it was sent."""
        return msgspec.convert(json.loads(text), cls)


def spec_of(where: WatchSpec, workload: Workload) -> WatchSpec:
    """A spec that says where to read, with what the manifest says about measuring."""
    measure, http, load_runs = workload.measure, workload.measure.http, where.load_runs
    load_regex = (measure.load_regex or measure.progress_regex or "") if load_runs else ""
    # Without a pattern for the load generator, `progress` describes its report.
    own = bool(measure.progress_regex) and (not load_runs or measure.load_regex is not None)
    return replace(
        where,
        main=main_quantity(workload),
        wanted=wanted_quantities(workload),
        percentile=percentile_of(workload),
        total=measure.progress_total,
        regex=(measure.progress_regex or "") if own else "",
        regex_is_counter=measure.progress_kind is not NumberKind.GAUGE,
        file=measure.progress_file or "",
        load_runs=load_runs if load_regex else "",
        load_regex=load_regex,
        url=http.url if http else "",
        metric=(http.metric or "") if http else "",
        metric_kind=http.kind if http else MetricKind.GAUGE,
        command=measure.command or (),
        command_is_counter=measure.command_kind is NumberKind.COUNTER,
        working_directory=workload.run.working_directory,
        every_seconds=measure.every_seconds,
        limits=limits_of(workload),
        ready=workload.run.ready,
        alive=workload.run.alive,
        reach=http.url if http and load_runs and workload.run.ready is None else "",
    )


def main_quantity(workload: Workload) -> Quantity:
    """The quantity that a plain number stands for: the target's."""
    if workload.type is not WorkloadType.LATENCY_CRITICAL:
        return Quantity.RATE
    target = workload.target
    only_latency = target and target.latency and target.throughput_per_second is None
    return Quantity.LATENCY if only_latency else Quantity.THROUGHPUT


def wanted_quantities(workload: Workload) -> tuple[Quantity, ...]:
    """What has to be measured to check the target."""
    return tuple(_bounds(workload))


def limits_of(workload: Workload) -> dict[Quantity, float]:
    """The target's bounds, tolerance included, without completion time, which changes slowly."""
    kept = 1 - workload.tolerance
    return {
        quantity: bound / kept if quantity is Quantity.LATENCY else bound * kept
        for quantity, bound in _bounds(workload).items()
        if quantity is not Quantity.REMAINING
    }


def _bounds(workload: Workload) -> dict[Quantity, float]:
    target = workload.target
    if target is None:
        return {}
    bounds = {
        Quantity.THROUGHPUT: target.throughput_per_second,
        Quantity.LATENCY: target.latency.below_seconds if target.latency else None,
        Quantity.RATE: target.rate_per_second,
        Quantity.REMAINING: target.completion_seconds,
    }
    return {quantity: bound for quantity, bound in bounds.items() if bound is not None}


def percentile_of(workload: Workload) -> float:
    """The percentile at which a histogram is read."""
    http, target = workload.measure.http, workload.target
    if http and http.percentile is not None:
        return http.percentile
    return target.latency.percentile if target and target.latency else DEFAULT_PERCENTILE
