"""The fold's part about probes of what runs: one at a time for each workload.

``fold`` calls ``PROBES`` by the event's class; as there, nothing is decided or computed here.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from wharfinger.core import events as ev
from wharfinger.core.cluster_state import ClusterState, end_probe, hold_probe
from wharfinger.core.tracking import ProbeState
from wharfinger.core.triggers import is_news


def _probe_planned(cluster: ClusterState, time: float, event: ev.ProbePlanned) -> None:
    record = cluster.decided(time, event.name, event.decision)
    end_probe(cluster, record, time)
    number = record.probe.number + 1 if record.probe else 1
    record.probe = ProbeState(
        number,
        time,
        event.cause,
        event.sources,
        event.tolerance,
        event.placements,
        server="" if event.placements else record.placements[0].server,
    )
    hold_probe(cluster, record.probe)
    cluster.probing[record.name] = None
    cluster.touched[record.name] = None


def _probed(cluster: ClusterState, time: float, event: ev.WorkloadProbed) -> None:
    record = cluster.record_of(event.key)
    if record is None or not is_news(cluster, event):
        return
    end_probe(cluster, record, time)
    if record.probe is not None:
        answer = None if event.reason else event.measurements
        record.probe = replace(record.probe, answer=answer, left_level=record.left_level)
        record.left_level = None


PROBES: dict[type, Callable[[ClusterState, float, Any], object]] = {
    ev.ProbePlanned: _probe_planned,
    ev.WorkloadProbed: _probed,
}
"""What each of these events does."""
