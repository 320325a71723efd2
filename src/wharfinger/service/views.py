"""The core's state as the API's answers. Reads only; called by the routes, in the loop.

What is decided or measured is never computed here: decisions are shown as they were
recorded, and what nobody measured is ``None``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from wharfinger.core.adaptation import is_off_prediction
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Manager
from wharfinger.core.state import WorkloadRecord
from wharfinger.engines.base import Usage
from wharfinger.manifest import workload_to_manifest
from wharfinger.model import decisions as dec
from wharfinger.model.performance import (
    NOTHING,
    Achieved,
    Performance,
    Quantity,
    achieved,
    meets,
)
from wharfinger.model.platform import Server
from wharfinger.model.view import ClusterView
from wharfinger.model.workload import LatencyBound, Target
from wharfinger.service import forecasts, models
from wharfinger.service.values import (
    cpus,
    placement,
    span_seconds,
    timestamp,
    timestamp_or_none,
)

# --- workloads --------------------------------------------------------------------------------


def workload_fields(record: WorkloadRecord, now: float) -> dict[str, Any]:
    """What ``models.Workload`` says of one workload."""
    workload = record.workload
    end = record.ended_at if record.ended_at is not None else now
    started = record.started_at
    found = _achieved(record, now)
    return {
        "name": workload.name,
        "type": workload.type.value,
        "phase": record.phase.value,
        "target": _target(workload.target),
        "predicted": forecasts.prediction(forecasts.newest_prediction(record)),
        "achieved": _shown(workload.target, found),
        "pace": forecasts.pace_now(record, found, now),
        "prediction_errors": forecasts.prediction_errors(record, found, now),
        "adjustments": forecasts.adjustments(record),
        "suspensions": record.suspensions,
        "measured": _measured(record, now),
        "met": _is_met(record, found, now),
        "servers": [p.server for p in record.placements],
        "cpus": cpus(sum(p.allocation.cpu_millicpus for p in record.placements)),
        "memory_bytes": sum(p.allocation.memory_bytes for p in record.placements),
        "uid": record.uid,
        "key": record.key,
        "starts": record.starts,
        "exit_code": record.exit_code,
        "signal": record.signal,
        "reason": str(record.reason),
        "message": record.message,
        "tolerance": workload.tolerance,
        "priority": workload.priority,
        "queue": record.queue,
        "stopping": record.revoking and not record.ended,
        "wait_seconds": span_seconds(record.submitted_at, end if started is None else started),
        "run_seconds": None if started is None else span_seconds(started, end),
        "cpu_seconds": record.cpu_seconds,
        "submitted_at": timestamp(record.submitted_at),
        "phase_since": timestamp(record.phase_since),
        "started_at": timestamp_or_none(started),
        "ended_at": timestamp_or_none(record.ended_at),
        "handle": record.handle,
        "labels": dict(workload.labels),
    }


def workload(record: WorkloadRecord, now: float) -> models.Workload:
    """One workload as a list shows it."""
    return models.Workload(**workload_fields(record, now))


def workload_detail(
    record: WorkloadRecord, now: float, used: models.Usage | None
) -> models.WorkloadDetail:
    """One workload with all that is known of it."""
    return models.WorkloadDetail(
        **workload_fields(record, now),
        placements=[placement(held) for held in record.placements],
        profiling=forecasts.profiling(record),
        classification=forecasts.classification(record),
        manifest=workload_to_manifest(record.workload, redact=True),
        usage=used,
    )


def _target(target: Target | None) -> models.Target | None:
    if target is None:
        return None
    return models.Target(
        throughput_per_second=target.throughput_per_second,
        latency=_latency(target.latency),
        completion_seconds=target.completion_seconds,
        rate_per_second=target.rate_per_second,
    )


def _latency(bound: LatencyBound | None) -> models.Latency | None:
    if bound is None:
        return None
    return models.Latency(percentile=bound.percentile, below_seconds=bound.below_seconds)


def _held(record: WorkloadRecord, now: float) -> Performance | None:
    """What was measured last and held now, or when it ended."""
    if record.performance is None:
        return None
    return record.performance.at(now if record.ended_at is None else record.ended_at)


def _achieved(record: WorkloadRecord, now: float) -> Achieved:
    """What is known of how it does: measured while it runs, timed when it has ended."""
    performance = _held(record, now)
    found = NOTHING if performance is None else achieved(performance, record.submitted_at)
    if not record.ended:
        return found
    timed = record.phase is Phase.COMPLETED and record.ended_at is not None
    seconds = span_seconds(record.submitted_at, record.ended_at or 0.0) if timed else None
    return replace(found, completion_seconds=seconds)


def _shown(target: Target | None, found: Achieved) -> models.Achieved | None:
    """What of it is in the target's terms; ``None`` where there is nothing."""
    if target is None or found == NOTHING:
        return None
    timed = target.completion_seconds is not None
    shown = models.Achieved(
        completion_seconds=found.completion_seconds if timed else None,
        throughput_per_second=found.throughput_per_second,
        latency_seconds=found.latency_seconds,
        rate_per_second=found.rate_per_second,
    )
    return shown if any(value is not None for value in shown.model_dump().values()) else None


def achievement(record: WorkloadRecord, now: float) -> tuple[Achieved, bool | None]:
    """What it achieves, and whether that keeps its target; ``None`` = not known."""
    found = _achieved(record, now)
    return found, _is_met(record, found, now)


def _is_met(record: WorkloadRecord, found: Achieved, now: float) -> bool | None:
    """Whether the target is kept; ``None`` where it is not measured or not decided yet."""
    target = record.workload.target
    if target is None:
        return None
    met = meets(target, record.workload.tolerance, found)
    if met is not None or target.completion_seconds is None:
        return met
    allowed = target.completion_seconds * (1 + record.workload.tolerance)
    never = record.ended and found.completion_seconds is None
    late = never or (not record.ended and now - record.submitted_at > allowed)
    return False if late else None


def _measured(record: WorkloadRecord, now: float) -> list[models.Measured]:
    """All numbers; of an ended workload its last ones, and nothing is left to do any more."""
    held = _held(record, now)
    if held is None:
        return []
    at = timestamp(held.measured_at)
    told = [
        models.Measured(
            name=quantity.value,
            value=reading.value,
            source=reading.source,
            trusted=reading.trusted,
            correlation=reading.correlation,
            measured_at=at,
            final=record.ended,
        )
        for quantity, reading in held.readings.items()
    ]
    told += [
        models.Measured(
            name=quantity.value,
            value=None,
            source=silence.reason,
            trusted=False,
            correlation=None,
            measured_at=at,
            final=record.ended,
        )
        for quantity, silence in held.silent.items()
    ]
    return [one for one in told if not record.ended or one.name != Quantity.REMAINING.value]


def usage(
    manager: Manager, record: WorkloadRecord, used: Usage, measured_at_seconds: float, now: float
) -> models.Usage:
    """What one running workload uses, and how it does."""
    newest = record.adjustments[-1] if record.adjustments else None
    found = _achieved(record, now)
    return models.Usage(
        name=record.name,
        phase=record.phase.value,
        servers=[p.server for p in record.placements],
        cpus=cpus(sum(p.allocation.cpu_millicpus for p in record.placements)),
        memory_limit_bytes=sum(p.allocation.memory_bytes for p in record.placements),
        cpu_seconds=used.cpu_seconds,
        memory_bytes=used.memory_bytes,
        processes=used.processes,
        target=_target(record.workload.target),
        achieved=_shown(record.workload.target, found),
        pace=forecasts.pace_now(record, found, now),
        met=_is_met(record, found, now),
        neighbours=manager.neighbours(record),
        last_adjustment=None if newest is None else forecasts.adjustment(newest),
        measured=_measured(record, now),
        measured_at_seconds=measured_at_seconds,
    )


# --- why ----------------------------------------------------------------------------------------


def decision(made: dec.Decision, decided_at: float | None) -> models.Decision:
    """One decision's record."""
    return models.Decision(
        stage=made.stage.value,
        decided_at=timestamp_or_none(decided_at),
        decided_by=made.decided_by,
        accepted=made.accepted,
        reason=made.reason.value,
        message=made.message,
        would_change=made.would_change,
        considered=made.considered,
        numbers=dict(made.numbers),
        predicted=forecasts.prediction(made.predicted),
        candidates=[
            models.Candidate(
                name=candidate.server,
                score=candidate.score,
                reason=candidate.reason.value,
                numbers=dict(candidate.numbers),
            )
            for candidate in made.candidates
        ],
    )


def waiting(manager: Manager, record: WorkloadRecord) -> models.Waiting | None:
    """Who is before a waiting workload, and what would be decided for it now."""
    if record.phase is not Phase.QUEUED:
        return None
    line = queues(manager)[record.queue]
    first = line[0]
    previews = [
        made
        for made in manager.preview(record.workload)
        # Who is before it stands above already.
        if made.stage is not dec.Stage.ADMISSION and made.reason is not dec.ReasonCode.BEHIND_OTHERS
    ]
    return models.Waiting(
        queue=record.queue,
        position=line.index(record) + 1,
        length=len(line),
        first=first.name,
        first_message=first.message,
        not_before=timestamp_or_none(record.not_before),
        unsettled_by=[name for made in previews for name in _unsettled_by(manager, made)],
        now=[decision(made, None) for made in previews],
    )


def _unsettled_by(manager: Manager, made: dec.Decision) -> list[str]:
    """Who misses a target on the servers that take no new work for it."""
    servers = [c.server for c in made.candidates if c.reason is dec.ReasonCode.OFF_PREDICTION]
    return [
        record.name
        for server in servers
        for record in residents(manager, server)
        if is_off_prediction(record)
    ]


def explanation(
    manager: Manager, record: WorkloadRecord, detail: models.WorkloadDetail, now: float
) -> models.Explanation:
    """Why a workload is where it is."""
    return models.Explanation(
        name=record.name,
        workload=detail,
        decisions=[decision(timed.decision, timed.time) for timed in record.decisions],
        need=forecasts.need(record, now),
        waiting=waiting(manager, record),
        mode=manager.mode.value,
    )


# --- the cluster --------------------------------------------------------------------------------


def server_fields(manager: Manager) -> dict[str, dict[str, Any]]:
    """What ``models.Server`` says of each server, by name."""
    view = manager.view
    columns = zip(
        view.cpu_allocated.tolist(),
        view.memory_allocated.tolist(),
        view.residents.tolist(),
        view.copies.tolist(),
        view.unsettled.tolist(),
        (_pressure(view, row) for row in range(len(view.names))),
        strict=True,
    )
    allocated = dict(zip(view.names, columns, strict=True))
    return {
        name: _server(server, *allocated[name]) for name, server in manager.state.servers.items()
    }


def _pressure(view: ClusterView, row: int) -> list[models.Pressure]:
    """Of the residents together; a resource that nobody presses or minds is left out."""
    return [
        models.Pressure(
            name=score.source.value,
            tolerated=score.tolerated.mean,
            tolerated_std=score.tolerated.std,
            caused=score.caused.mean,
            caused_std=score.caused.std,
        )
        for score in (view.contention.scores(row) if view.contention else ())
    ]


def _server(
    server: Server,
    cpu: int,
    memory: int,
    residents: int,
    copies: int,
    unsettled: int,
    pressure: list[models.Pressure],
) -> dict[str, Any]:
    return {
        "name": server.name,
        "platform": server.platform.name,
        "accepting": server.accepting,
        "cpus": cpus(server.cpu_millicpus),
        "cpus_allocated": cpus(cpu),
        "memory_bytes": server.memory_bytes,
        "memory_allocated_bytes": memory,
        "workloads": residents,
        "copies": copies,
        "unsettled": bool(unsettled),
        "pressure": pressure,
        "zone": server.zone,
        "conditions": [
            models.Condition(name=condition.kind.value, message=condition.message)
            for condition in server.conditions
        ],
    }


def residents(manager: Manager, server: str) -> list[WorkloadRecord]:
    """Who holds resources on a server."""
    return [
        record
        for record in manager.state.workloads.values()
        if record.on_server and any(p.server == server for p in record.placements)
    ]


def platforms(manager: Manager) -> list[models.Platform]:
    """Every platform and how many servers are of it."""
    servers = manager.state.servers.values()
    counts = Counter(server.platform.name for server in servers)
    distinct = {server.platform.name: server.platform for server in servers}
    return [
        models.Platform(
            name=name,
            architecture=platform.architecture,
            cpu_model=platform.cpu_model,
            cpus=cpus(platform.cpu_millicpus),
            memory_bytes=platform.memory_bytes,
            servers=counts[name],
        )
        for name, platform in distinct.items()
    ]


def queues(manager: Manager) -> dict[str, list[WorkloadRecord]]:
    """Who waits in each queue, in the order in which they are served."""
    lines: dict[str, list[WorkloadRecord]] = {name: [] for name in manager.queue_lengths()}
    for record in manager.state.workloads.values():
        if record.phase is Phase.QUEUED:
            lines.setdefault(record.queue, []).append(record)
    for line in lines.values():
        line.sort(key=lambda record: (-record.workload.priority, record.uid))
    return lines


def queue(name: str, line: list[WorkloadRecord], now: float) -> models.Queue:
    """One line of waiting workloads."""
    waits = [span_seconds(record.submitted_at, now) for record in line]
    return models.Queue(
        name=name,
        length=len(line),
        first=line[0].name if line else None,
        oldest_wait_seconds=max(waits, default=None),
    )


def phases(records: Iterable[WorkloadRecord]) -> dict[str, int]:
    """Workloads by phase; every phase is named, so that a graph has no holes."""
    counts: Mapping[Phase, int] = Counter(record.phase for record in records)
    return {phase.value: counts.get(phase, 0) for phase in Phase}
