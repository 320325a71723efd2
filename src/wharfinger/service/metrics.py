"""The manager's metrics in Prometheus' text format, collected from its state at each scrape.

``routes_cluster`` imports this at the first scrape: nothing is registered or counted before.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from wharfinger.core.pipeline import Core
from wharfinger.core.state import AdjustmentKind
from wharfinger.model.decisions import Term
from wharfinger.service import cluster
from wharfinger.service.performance import TargetStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SERVER_METRICS = (
    ("cpu_capacity_cpus", "cpus", "CPUs that may be allocated."),
    ("cpu_allocated_cpus", "cpus_allocated", "CPUs promised to workloads."),
    ("memory_capacity_bytes", "memory_bytes", "Memory that may be allocated."),
    ("memory_allocated_bytes", "memory_allocated_bytes", "Memory promised to workloads."),
    ("workloads", "workloads", "Workloads that hold resources."),
)


@dataclass(frozen=True, slots=True)
class ManagerCollector:
    """One manager as a Prometheus collector.

    The log can still grow by ``room_bytes``; times are seconds since the epoch.
    """

    manager: Core
    last_sequence: int
    room_bytes: int
    start_time: float
    now: float

    def collect(self) -> Iterator[Metric]:
        """Every metric with its values."""
        phases = cluster.phases(self.manager.state.workloads.values())
        yield _labelled("workloads", "Workloads by phase.", "phase", phases)
        yield from self._performance()
        queued = self.manager.queue_lengths()
        yield _labelled("queue_length", "Workloads waiting.", "queue", queued)
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
