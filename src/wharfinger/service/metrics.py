"""The manager's metrics in Prometheus' text format, collected from its state at each scrape.

``routes_cluster`` imports this at the first scrape: nothing is registered or counted before.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from wharfinger.core.pipeline import Core
from wharfinger.core.state import AdjustmentKind, WorkloadRecord
from wharfinger.engines.base import Usage
from wharfinger.model.decisions import Term
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.service import cluster, queues
from wharfinger.service.performance import TargetStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SERVER_METRICS = (
    ("cpu_capacity_cpus", "cpus", "CPUs that may be allocated."),
    ("cpu_allocated_cpus", "cpus_allocated", "CPUs promised to workloads."),
    ("cpu_others_cpus", "cpus_others", "CPUs that work of others holds."),
    ("memory_capacity_bytes", "memory_bytes", "Memory that may be allocated."),
    ("memory_allocated_bytes", "memory_allocated_bytes", "Memory promised to workloads."),
    ("memory_others_bytes", "memory_others_bytes", "Memory that work of others holds."),
    ("workloads", "workloads", "Workloads that hold resources."),
)

_QUEUE_METRICS = (
    ("servers", "servers", "Servers of a queue's resource quality."),
    ("free_servers", "free_servers", "Those of them with room for what a workload holds."),
    ("expected_wait_seconds", "expected_wait_seconds", "Median wait of the next that comes."),
    ("expected_wait_low_seconds", "expected_wait_low_seconds", "10th percentile of that wait."),
    ("expected_wait_high_seconds", "expected_wait_high_seconds", "90th percentile of that wait."),
    ("over_slack_probability", "over_slack_probability", "That the next waits beyond its slack."),
    ("load_factor", "load_factor", "Work that comes over what the queue's servers can do."),
)

MAX_WORKLOADS = 200
"""With metrics of their own, lest their number grows with that of the workloads."""

_WorkloadValue = Callable[[WorkloadRecord, TargetStatus, Usage], float | None]
_WORKLOAD_METRICS: tuple[tuple[str, str, _WorkloadValue], ...] = (
    (
        "normalized_performance",
        "Achieved performance over target; 1 = exactly the target.",
        lambda _record, status, _used: status.normalized_performance,
    ),
    (
        "target_met",
        "1 = the target is kept, 0 = it is missed, or the workload is down.",
        lambda _record, status, _used: None if status.met is None else float(status.met),
    ),
    ("ready", "1 = ready.", lambda record, _status, _used: float(record.ready_at is not None)),
    (
        "cpu_allocated_cpus",
        "CPUs promised to it.",
        lambda record, _status, _used: sum(
            p.allocation.cpu_millicpus / MILLICPUS_PER_CPU for p in record.placements
        ),
    ),
    (
        "cpu_seconds_total",
        "CPU time of its newest start.",
        lambda _record, _status, used: used.cpu_seconds,
    ),
    ("memory_bytes", "Memory that it uses.", lambda _record, _status, used: used.memory_bytes),
    (
        "load_forecast_per_second",
        "Load that is forecast to be offered to it.",
        lambda _record, status, _used: status.forecast.mean_per_second if status.forecast else None,
    ),
    (
        "load_forecast_error_log",
        "Mean of |ln(measured / forecast)| of its load.",
        lambda _record, status, _used: status.forecast.error_log if status.forecast else None,
    ),
    (
        "restarts_total",
        "How often its program was started again, in this run and those before.",
        lambda record, _status, _used: float(record.restarts_before + record.restarts),
    ),
)
"""Of each workload: the name, what it says, and its value; no value = unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class ManagerCollector:
    """One manager as a Prometheus collector.

    ``usage`` is by key. The log can still grow by ``room_bytes``; times are seconds since the
    epoch.
    """

    manager: Core
    usage: Mapping[str, Usage]
    last_sequence: int
    room_bytes: int
    start_time: float
    now: float

    def collect(self) -> Iterator[Metric]:
        """Every metric with its values."""
        phases = cluster.phases(self.manager.state.workloads.values())
        yield _labelled("workloads", "Workloads by phase.", "phase", phases)
        yield from self._performance()
        yield from self._each_workload()
        yield from self._runs()
        queued = self.manager.queue_lengths()
        yield _labelled("queue_length", "Workloads waiting.", "queue", queued)
        found = queues.queues(self.manager, self.now)
        for name, field, help_text in _QUEUE_METRICS:
            told = {queue.name: getattr(queue, field) for queue in found}
            known = {queue: value for queue, value in told.items() if value is not None}
            if known:
                yield _labelled(f"queue_{name}", help_text, "queue", known)
        help_text = "Of the load factor, by the queue to which that work was submitted."
        parts = GaugeMetricFamily(
            "wharfinger_queue_load_part", help_text, labels=["queue", "submitted_to"]
        )
        for queue in found:
            for other, part in queue.load_parts.items():
                parts.add_metric([queue.name, other], part)
        if parts.samples:
            yield parts
        servers = cluster.servers(self.manager)
        for name, field, help_text in _SERVER_METRICS:
            values = {server.name: getattr(server, field) for server in servers}
            yield _labelled(f"server_{name}", help_text, "server", values)
        logged = self.last_sequence
        yield CounterMetricFamily("wharfinger_events_logged", "Events in the log.", logged)
        yield _gauge("free_disk_bytes", "Room for the event log.", self.room_bytes)
        yield _gauge("start_time_seconds", "Start, seconds since the epoch.", self.start_time)

    def _performance(self) -> Iterator[Metric]:
        state = self.manager.state
        targets = {"yes": 0, "no": 0, "unknown": 0}
        errors: dict[str, list[float]] = {term.value: [] for term in Term}
        for record in state.workloads.values():
            status = TargetStatus(record, self.now)
            if record.workload.target is not None and (record.on_server or record.ended):
                targets["unknown" if status.met is None else "yes" if status.met else "no"] += 1
            for error in status.prediction_errors():
                errors[error.name].append(abs(error.log_error))
        help_text = "Workloads that run or ran, by whether they keep their target."
        yield _labelled("targets_met", help_text, "met", targets)
        # No value where nothing was predicted and measured: missing is not zero.
        if means := {name: fmean(values) for name, values in errors.items() if values}:
            help_text = "Mean of |ln(achieved / predicted)|."
            yield _labelled("prediction_error_log", help_text, "kind", means)
        checked = {name: len(values) for name, values in errors.items()}
        help_text = "Known workloads whose prediction was measured too."
        yield _labelled("predictions_checked", help_text, "kind", checked)
        help_text = "Adjustments of placed workloads, by what was done."
        adjustments = CounterMetricFamily("wharfinger_adjustments", help_text, labels=["kind"])
        for kind in AdjustmentKind:
            adjustments.add_metric([kind.value], state.adjustment_counts.get(kind, 0))
        yield adjustments
        yield from self._searches()

    def _searches(self) -> Iterator[Metric]:
        counts = self.manager.state.searches
        help_text = "Placements that searched, by how many sources of interference were relaxed."
        searches = CounterMetricFamily("wharfinger_searches", help_text, labels=["relaxed"])
        searches.add_metric(["none"], counts.satisfied)
        searches.add_metric(["one"], counts.one_relaxed)
        searches.add_metric(["several"], counts.several_relaxed)
        yield searches
        help_text = "Tests that no server passed, of all searches."
        yield CounterMetricFamily("wharfinger_search_back_tracks", help_text, counts.back_tracks)
        help_text = "Searches that were ended by their bound."
        yield CounterMetricFamily("wharfinger_search_timeouts", help_text, counts.timed_out)

    def _each_workload(self) -> Iterator[Metric]:
        """Of the newest live workloads, so that their number is bounded."""
        live = [r for r in self.manager.state.workloads.values() if not r.ended]
        newest = sorted(live, key=lambda record: record.uid)[-MAX_WORKLOADS:]
        nothing = Usage(None, None)
        rows = [(r, TargetStatus(r, self.now), self.usage.get(r.key, nothing)) for r in newest]
        for name, help_text, value_of in _WORKLOAD_METRICS:
            make = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = make(f"wharfinger_workload_{name}", help_text, labels=["workload"])
            for record, status, used in rows:
                # No value where it is unknown: missing is not zero.
                if (value := value_of(record, status, used)) is not None:
                    family.add_metric([record.name], value)
            yield family
        help_text = "What is measured of it now, by quantity, whose name has the unit."
        labels = ["workload", "quantity"]
        measured = GaugeMetricFamily("wharfinger_workload_measured", help_text, labels=labels)
        for record, status, _ in rows:
            readings = status.performance.readings if status.performance is not None else {}
            for quantity, reading in readings.items():
                measured.add_metric([record.name, quantity.value], reading.value)
        yield measured
        hidden = len(live) - len(newest)
        help_text = f"Live workloads beyond the newest {MAX_WORKLOADS}, without their own metrics."
        yield _gauge("workloads_without_metrics", help_text, hidden)

    def _runs(self) -> Iterator[Metric]:
        begun = self.manager.state.next_uid - 1
        yield CounterMetricFamily(
            "wharfinger_runs", "Runs of workloads that were submitted.", begun
        )
        help_text = "Programs that were started again in the same run."
        restarts = self.manager.state.restarts
        yield CounterMetricFamily("wharfinger_restarts", help_text, restarts)
        help_text = "Workloads that the engine took off their servers."
        evictions = self.manager.state.evictions
        yield CounterMetricFamily("wharfinger_evictions", help_text, evictions)
        help_text = "Programs and copies of them that ran out of memory."
        kills = self.manager.state.out_of_memory_kills
        yield CounterMetricFamily("wharfinger_out_of_memory_kills", help_text, kills)


def render(collector: ManagerCollector) -> bytes:
    """All metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"wharfinger_{name}", help_text, value)


def _labelled(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"wharfinger_{name}", help_text, labels=[label])
    for label_value, value in values.items():
        family.add_metric([label_value], value)
    return family
