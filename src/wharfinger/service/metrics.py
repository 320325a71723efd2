"""The manager's metrics in Prometheus' text format, by hand: so few lines need no library."""

from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean
from typing import Any

from wharfinger.core.pipeline import Manager
from wharfinger.core.state import AdjustmentKind
from wharfinger.model.decisions import Term
from wharfinger.service import views
from wharfinger.service.forecasts import checked
from wharfinger.service.views import phases, server_fields

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SERVER_METRICS = (
    ("cpu_capacity_cpus", "cpus", "CPUs that may be allocated."),
    ("cpu_allocated_cpus", "cpus_allocated", "CPUs promised to workloads."),
    ("memory_capacity_bytes", "memory_bytes", "Memory that may be allocated."),
    ("memory_allocated_bytes", "memory_allocated_bytes", "Memory promised to workloads."),
    ("workloads", "workloads", "Workloads that hold resources."),
)


def render(
    manager: Manager, *, last_sequence: int, room_bytes: int, start_time: float, now: float
) -> str:
    """All metrics as one text."""
    records = manager.state.workloads.values()
    parts = (
        _family("workloads", "gauge", "Workloads by phase.", "phase", phases(records)),
        *_performance(manager, now),
        _family("queue_length", "gauge", "Workloads waiting.", "queue", manager.queue_lengths()),
        *_servers(server_fields(manager)),
        _single("events_logged_total", "counter", "Events in the log.", last_sequence),
        _single("free_disk_bytes", "gauge", "Room for the event log.", room_bytes),
        _single("start_time_seconds", "gauge", "Start, seconds since the epoch.", start_time),
    )
    return "".join(f"{line}\n" for part in parts for line in part)


def _performance(manager: Manager, now: float) -> Iterator[Iterable[str]]:
    """How targets are kept, how right predictions were, how much was adjusted."""
    verdicts = dict.fromkeys(("yes", "no", "unknown"), 0)
    errors: dict[str, list[float]] = {term.value: [] for term in Term}
    for record in manager.state.workloads.values():
        found, met = views.achievement(record, now)
        if record.workload.target is not None and (record.on_server or record.ended):
            verdicts["unknown" if met is None else ("yes" if met else "no")] += 1
        for one in checked(record, found, now):
            errors[one.term.value].append(abs(one.log_error))
    yield _family(
        "targets_met", "gauge", "Workloads that run or ran, by whether they keep their target.",
        "met", verdicts,
    )  # fmt: skip
    means = {name: fmean(found) for name, found in errors.items() if found}
    # No number where nothing was predicted and measured: missing is not zero.
    if means:
        yield _family(
            "prediction_error_log", "gauge", "Mean of |ln(achieved / predicted)|.", "kind", means
        )
    yield _family(
        "predictions_checked", "gauge", "Known workloads whose prediction was measured too.",
        "kind", {name: len(found) for name, found in errors.items()},
    )  # fmt: skip
    counts = manager.state.adjustment_counts
    yield _family(
        "adjustments_total", "counter", "Adjustments of placed workloads, by what was done.",
        "kind", {kind.value: counts.get(kind, 0) for kind in AdjustmentKind},
    )  # fmt: skip


def _servers(servers: Mapping[str, Mapping[str, Any]]) -> Iterator[Iterable[str]]:
    for name, field, words in _SERVER_METRICS:
        values = {server: fields[field] for server, fields in servers.items()}
        yield _family(f"server_{name}", "gauge", words, "server", values)


def _family(
    name: str, kind: str, words: str, label: str, values: Mapping[str, float]
) -> Iterator[str]:
    yield from _head(name, kind, words)
    for value, number in values.items():
        yield f'wharfinger_{name}{{{label}="{_escaped(value)}"}} {_number(number)}'


def _single(name: str, kind: str, words: str, number: float) -> Iterator[str]:
    yield from _head(name, kind, words)
    yield f"wharfinger_{name} {_number(number)}"


def _head(name: str, kind: str, words: str) -> Iterator[str]:
    yield f"# HELP wharfinger_{name} {words}"
    yield f"# TYPE wharfinger_{name} {kind}"


def _number(number: float) -> str:
    """All digits: a rounded byte count or sequence looks like no progress."""
    return repr(number)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
