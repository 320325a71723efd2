"""The core's records as the API's: the only reader of ``WorkloadRecord`` in the service.

Called by the routes, in the loop, and by ``simulate --explain``; reads only. Decisions and
predictions are shown as they were recorded. The table of what a target takes comes from the
recorded classification, by the function with which policies size.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import exp, log
from typing import Any, TypeVar

from wharfinger.classification.prediction import pace_with, parts_of, performance_with
from wharfinger.core import state
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Manager
from wharfinger.core.state import WorkloadRecord
from wharfinger.engines.base import Usage
from wharfinger.manifest import workload_to_manifest
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import (
    Decision,
    Interval,
    Prediction,
    ReasonCode,
    Stage,
    Term,
)
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import (
    NOTHING,
    Achieved,
    Performance,
    Quantity,
    achieved,
    meets,
    pace,
)
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Curve, Entry, Estimate, Measurements, quantile
from wharfinger.model.view import ClusterView
from wharfinger.model.workload import Target
from wharfinger.service import models

INTERVAL_CONFIDENCE = 0.8
SETTLED_SECONDS = 20.0
"""After a start or a change: before, what is measured says little of what was predicted."""
"""Of a classification's intervals where no prediction has stated its own."""
WAITED = "waited_seconds"
"""Under this key a decision keeps how long the workload had waited when it was sized."""
NEEDED = "cpu_needed_millicpus"
"""Under this key a candidate keeps the CPU that the workload would get there."""
"""Tolerated pressure of an empty server."""

M = TypeVar("M", bound=models.ApiModel)


# --- small values -----------------------------------------------------------------------------


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339 in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _timestamp(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)


def _cpus(millicpus: int) -> float:
    return millicpus / MILLICPUS_PER_CPU


def _span_seconds(start: float, end: float) -> float:
    """A clock that was set back makes no negative times."""
    return round(max(0.0, end - start), 3)


def _copied(model: type[M], source: object, **others: Any) -> M:
    """A model whose fields are the source's attributes, but for the ones given."""
    same = {name: getattr(source, name) for name in model.model_fields if name not in others}
    return model(**same, **others)


def _placements(placements: Iterable[Placement]) -> list[models.PlacementModel]:
    return [
        models.PlacementModel(
            name=placement.server,
            cpus=_cpus(placement.allocation.cpu_millicpus),
            memory_bytes=placement.allocation.memory_bytes,
            best_effort=placement.allocation.best_effort,
        )
        for placement in placements
    ]


# --- the target, and how it is met --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """A workload's performance against its target; ``None`` = unknown.

    Attributes:
        achieved: Measured while it runs, timed when it has ended.
        met: Whether the target is kept within the tolerance.
        normalized_performance: Achieved over target.
    """

    achieved: Achieved
    met: bool | None
    normalized_performance: float | None

    @classmethod
    def of(cls, record: WorkloadRecord, now: float) -> "TargetStatus":
        """Of one workload, now or when it ended."""
        found = _achieved(record, now)
        return cls(found, _is_met(record, found, now), _normalized(record, found, now))

    def shown(self, target: Target | None) -> models.AchievedModel | None:
        """What is in the target's terms; ``None`` where there is nothing."""
        timed = target is not None and target.completion_seconds is not None
        told = self.achieved if timed else replace(self.achieved, completion_seconds=None)
        return None if target is None or told == NOTHING else _copied(models.AchievedModel, told)


def _performance(record: WorkloadRecord, now: float) -> Performance | None:
    """What was measured last and holds now, or held when it ended."""
    if record.performance is None:
        return None
    return record.performance.at(now if record.ended_at is None else record.ended_at)


def _achieved(record: WorkloadRecord, now: float) -> Achieved:
    performance = _performance(record, now)
    found = NOTHING if performance is None else achieved(performance, record.submitted_at)
    if not record.ended:
        return found
    timed = record.phase is Phase.COMPLETED and record.ended_at is not None
    seconds = _span_seconds(record.submitted_at, record.ended_at or 0.0) if timed else None
    return replace(found, completion_seconds=seconds)


def _is_met(record: WorkloadRecord, found: Achieved, now: float) -> bool | None:
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


def _normalized(record: WorkloadRecord, found: Achieved, now: float) -> float | None:
    target, performance = record.workload.target, _performance(record, now)
    if target is None:
        return None
    if record.ended and target.completion_seconds is not None:
        took = found.completion_seconds
        return target.completion_seconds / took if took else None
    return None if performance is None else pace(target, performance, record.submitted_at)


def _target(target: Target | None) -> models.TargetModel | None:
    if target is None:
        return None
    latency = target.latency and _copied(models.LatencyModel, target.latency)
    return _copied(models.TargetModel, target, latency=latency)


def _measured(record: WorkloadRecord, now: float) -> list[models.MeasuredModel]:
    """All numbers; of an ended workload its last ones, among which nothing remains to be done."""
    performance = _performance(record, now)
    if performance is None:
        return []
    common = {"measured_at": timestamp(performance.measured_at), "final": record.ended}
    told = [
        _copied(models.MeasuredModel, reading, name=quantity.value, **common)
        for quantity, reading in performance.readings.items()
    ]
    unmeasured: dict[str, Any] = {"value": None, "trusted": False, "correlation": None, **common}
    told += [
        models.MeasuredModel(name=quantity.value, source=silence.reason, **unmeasured)
        for quantity, silence in performance.silent.items()
    ]
    return [one for one in told if not record.ended or one.name != Quantity.REMAINING.value]


# --- predictions ----------------------------------------------------------------------------


def _is_settled(record: WorkloadRecord, now: float) -> bool:
    changes = (record.started_at, record.adjusted_at, record.phase_since)
    return not any(at is not None and 0 <= now - at < SETTLED_SECONDS for at in changes)


def _newest_prediction(record: WorkloadRecord) -> Prediction | None:
    """For where it is, or was when it ended; for one that waits, the newest that was made."""
    if record.on_server or record.started_at is not None:
        return record.predicted
    made = (timed.decision.predicted for timed in reversed(record.decisions))
    return next((prediction for prediction in made if prediction is not None), None)


def _prediction(made: Prediction | None) -> models.PredictionModel | None:
    if made is None:
        return None
    return _copied(models.PredictionModel, made, performance=_terms(made.performance))


def _terms(terms: Mapping[Term, Interval]) -> models.PredictedPerformance:
    return models.PredictedPerformance(
        **{
            term.value: _copied(models.IntervalModel, terms[term]) if term in terms else None
            for term in Term
        }
    )


def prediction_errors(
    record: WorkloadRecord, found: Achieved, now: float
) -> list[models.PredictionError]:
    """Its predictions that can be held against what was measured.

    A throughput is what it could answer: where it has headroom, the measured one says nothing.

    Args:
        record: Of the workload; while it runs, only once its allocation had time to show.
        found: What it achieves.
        now: Seconds since the epoch.
    """
    predicted = _newest_prediction(record)
    if predicted is None or not (record.ended or (record.on_server and _is_settled(record, now))):
        return []
    values = {
        Term.THROUGHPUT: found.throughput_per_second,
        Term.LATENCY: found.latency_seconds,
        Term.RATE: found.rate_per_second,
        # While it runs it is a prediction itself.
        Term.COMPLETION: found.completion_seconds if record.ended else None,
    }
    return [
        models.PredictionError(
            name=term.value,
            predicted=interval.mean,
            achieved=value,
            log_error=log(value / interval.mean),
            within=interval.low <= value <= interval.high,
        )
        for term, interval in predicted.performance.items()
        if (value := values[term]) is not None
        and value > 0
        and not (term is Term.THROUGHPUT and value < interval.mean and _has_headroom(record))
    ]


def _has_headroom(record: WorkloadRecord) -> bool:
    return record.tracking is not None and record.tracking.headroom is not None


# --- what was measured, and what was made of it -------------------------------------------------


def _profiling(record: WorkloadRecord) -> models.ProfilingModel | None:
    if record.measurements is None and not record.observed:
        return None
    measurements = record.measurements or Measurements()
    return models.ProfilingModel(
        runs=measurements.runs,
        seconds=round(measurements.seconds, 3),
        entries=list(_entries(measurements.performance)),
        observed=list(_entries(record.observed)),
    )


def _entries(rows: Mapping[Quantity, Mapping[int, Entry]]) -> Iterator[models.EntryModel]:
    for quantity, row in rows.items():
        for cpu, entry in sorted(row.items()):
            yield models.EntryModel(
                name=quantity.value,
                cpus=_cpus(cpu),
                value=entry.value,
                error=entry.error,
                origin=entry.origin.value,
                measured_at=_timestamp(entry.measured_at),
            )


def _classification(record: WorkloadRecord) -> models.ClassificationModel | None:
    known = record.classification
    if known is None:
        return None
    measurements = record.measurements or Measurements()
    confidence = _confidence(record)
    z = quantile(confidence)
    curves = [
        _curve(quantity.value, curve, frozenset(measurements.performance.get(quantity, ())), z)
        for quantity, curve in known.curves.items()
    ]
    if not curves and known.shape is not None:
        curves = [_curve("relative", known.shape, frozenset(), z)]
    servers = {str(count): estimate for count, estimate in known.servers.items()}
    return models.ClassificationModel(
        estimator=known.estimator,
        version=known.version,
        confidence=confidence,
        entries_measured=known.measured,
        total=known.total,
        curves=curves,
        platform=known.platform or None,
        platforms=_changes(known.platforms, z),
        servers=_changes(servers, z),
        interference=[
            _score(source, known.tolerated.get(source), known.caused.get(source), measurements)
            for source in SharedResource
            if source in known.tolerated or source in known.caused
        ],
        silent=[
            models.SilenceModel(name=name, reason=reason)
            for name, reason in measurements.silent.items()
        ],
    )


def _confidence(record: WorkloadRecord) -> float:
    predicted = _newest_prediction(record)
    return INTERVAL_CONFIDENCE if predicted is None else predicted.confidence


def _bounds(estimate: Estimate, z: float) -> dict[str, float]:
    """Of an estimate whose deviation is the logarithm's: ``mean``, ``low``, ``high``."""
    mean, std = estimate.mean, estimate.std
    return {"mean": mean, "low": mean * exp(-z * std), "high": mean * exp(z * std)}


def _changes(estimates: Mapping[str, Estimate], z: float) -> list[models.ChangeModel]:
    return [models.ChangeModel(name=name, **_bounds(e, z)) for name, e in estimates.items()]


def _curve(name: str, curve: Curve, measured: frozenset[int], z: float) -> models.CurveModel:
    points = [
        models.CurvePointModel(cpus=_cpus(cpu), **_bounds(estimate, z), measured=cpu in measured)
        for cpu, estimate in zip(curve.cpu_millicpus, curve.estimates, strict=True)
    ]
    return models.CurveModel(name=name, points=points)


def _score(
    source: SharedResource,
    tolerated: Estimate | None,
    caused: Estimate | None,
    measurements: Measurements,
) -> models.ScoreModel:
    entry = measurements.tolerated.get(source)
    return models.ScoreModel(
        name=source.value,
        tolerated=tolerated.mean if tolerated else None,
        tolerated_std=tolerated.std if tolerated else None,
        tolerated_measured=entry is not None,
        tolerated_censored=entry is not None and entry.censored,
        caused=caused.mean if caused else None,
        caused_std=caused.std if caused else None,
        caused_measured=source in measurements.caused,
    )


def _need(record: WorkloadRecord, now: float) -> list[models.NeedPoint]:
    """What its target takes: performance by CPU, alone, as it was when it was sized last.

    Empty where nothing predicts it.
    """
    known = record.classification
    sizing = _newest_sizing(record)
    waited = max(0.0, now - record.submitted_at)
    if sizing is not None:
        waited = sizing.numbers.get(WAITED, waited)
    parts = [] if known is None else parts_of(record.workload, known, waited)
    if not parts:
        return []
    confidence = _confidence(record)
    z = quantile(confidence)
    columns = {cpu for part in parts for cpu in part.curve.cpu_millicpus}
    columns |= {
        p.allocation.cpu_millicpus for p in record.placements if not p.allocation.best_effort
    }
    if sizing is not None:
        first = sizing.candidates[:1]
        columns |= {int(c.numbers[NEEDED]) for c in first if c.numbers.get(NEEDED)}
    measurements = record.measurements or Measurements()
    measured = {cpu for row in measurements.performance.values() for cpu in row}
    points = []
    for cpu in sorted(columns):
        expected = models.IntervalModel(**_bounds(pace_with(parts, cpu, confidence), z))
        points.append(
            models.NeedPoint(
                cpus=_cpus(cpu),
                pace=expected,
                performance=_terms(performance_with(parts, cpu, 0.0, 0.0, confidence)),
                reaches=expected.low >= 1,
                measured=cpu in measured,
            )
        )
    return points


def _newest_sizing(record: WorkloadRecord) -> Decision | None:
    """The newest decision on its placement."""
    decisions = (timed.decision for timed in reversed(record.decisions))
    return next((made for made in decisions if made.stage is Stage.PLACEMENT), None)


# --- workloads ----------------------------------------------------------------------------------


def workload(record: WorkloadRecord, now: float) -> models.WorkloadModel:
    """One workload as a list shows it."""
    return models.WorkloadModel(**_workload_fields(record, now))


def workload_detail(
    record: WorkloadRecord, now: float, used: models.UsageModel | None = None
) -> models.WorkloadDetail:
    """One workload with all that is known of it."""
    return models.WorkloadDetail(
        **_workload_fields(record, now),
        placements=_placements(record.placements),
        profiling=_profiling(record),
        classification=_classification(record),
        manifest=workload_to_manifest(record.workload, redact=True),
        usage=used,
    )


def _workload_fields(record: WorkloadRecord, now: float) -> dict[str, Any]:
    workload, started = record.workload, record.started_at
    end = record.ended_at if record.ended_at is not None else now
    status = TargetStatus.of(record, now)
    return {
        **_status_fields(record, status, now),
        "type": workload.type.value,
        "predicted": _prediction(_newest_prediction(record)),
        "prediction_errors": prediction_errors(record, status.achieved, now),
        "adjustments": list(map(_adjustment, record.adjustments)),
        "suspensions": record.suspensions,
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
        "wait_seconds": _span_seconds(record.submitted_at, end if started is None else started),
        "run_seconds": None if started is None else _span_seconds(started, end),
        "cpu_seconds": record.cpu_seconds,
        "submitted_at": timestamp(record.submitted_at),
        "phase_since": timestamp(record.phase_since),
        "started_at": _timestamp(started),
        "ended_at": _timestamp(record.ended_at),
        "handle": record.handle,
        "labels": dict(workload.labels),
    }


def _status_fields(record: WorkloadRecord, status: TargetStatus, now: float) -> dict[str, Any]:
    """What a workload and its usage have in common."""
    target = record.workload.target
    return {
        "name": record.name,
        "phase": record.phase.value,
        "target": _target(target),
        "achieved": status.shown(target),
        "pace": status.normalized_performance,
        "met": status.met,
        "measured": _measured(record, now),
        "servers": [placement.server for placement in record.placements],
        "cpus": _cpus(sum(p.allocation.cpu_millicpus for p in record.placements)),
    }


def usage(
    manager: Manager, record: WorkloadRecord, used: Usage, measured_at_seconds: float, now: float
) -> models.UsageModel:
    """What one running workload uses, and how it does."""
    return models.UsageModel(
        **_status_fields(record, TargetStatus.of(record, now), now),
        memory_limit_bytes=sum(p.allocation.memory_bytes for p in record.placements),
        cpu_seconds=used.cpu_seconds,
        memory_bytes=used.memory_bytes,
        processes=used.processes,
        neighbours=manager.neighbours(record),
        last_adjustment=_adjustment(record.adjustments[-1]) if record.adjustments else None,
        measured_at_seconds=measured_at_seconds,
    )


def _adjustment(made: state.Adjustment) -> models.AdjustmentModel:
    return models.AdjustmentModel(
        **{"from": _placements(made.before)},
        time=timestamp(made.time),
        kind=made.kind.value,
        to=_placements(made.after),
        reason=made.reason,
        message=made.message,
        pace_before=made.performance_before,
        pace_after=made.performance_after,
    )


# --- why ----------------------------------------------------------------------------------------


def decision(made: Decision, decided_at: float | None = None) -> models.DecisionModel:
    """One decision's record; without a time it is a preview."""
    return _copied(
        models.DecisionModel,
        made,
        stage=made.stage.value,
        decided_at=_timestamp(decided_at),
        reason=made.reason.value,
        numbers=dict(made.numbers),
        predicted=_prediction(made.predicted),
        candidates=[
            models.CandidateModel(
                name=candidate.server,
                score=candidate.score,
                reason=candidate.reason.value,
                numbers=dict(candidate.numbers),
            )
            for candidate in made.candidates
        ],
    )


def explanation(
    manager: Manager, record: WorkloadRecord, now: float, used: models.UsageModel | None = None
) -> models.Explanation:
    """Why a workload is where it is."""
    return models.Explanation(
        name=record.name,
        workload=workload_detail(record, now, used),
        decisions=[decision(timed.decision, timed.time) for timed in record.decisions],
        need=_need(record, now),
        waiting=_waiting(manager, record, now) if record.phase is Phase.QUEUED else None,
        mode=manager.mode.value,
    )


def _waiting(manager: Manager, record: WorkloadRecord, now: float) -> models.WaitingModel:
    """What is served before a waiting workload, and what would be decided for it now."""
    queue = _waiting_by_queue(manager)[record.queue]
    previews = [
        made
        for made in manager.preview(record.workload, now)
        # What is before it stands above already.
        if made.stage is not Stage.ADMISSION and made.reason is not ReasonCode.BEHIND_OTHERS
    ]
    return models.WaitingModel(
        queue=record.queue,
        position=queue.index(record) + 1,
        length=len(queue),
        first=queue[0].name,
        first_message=queue[0].message,
        not_before=_timestamp(record.not_before),
        unsettled_by=[
            resident.name
            for made in previews
            for candidate in made.candidates
            if candidate.reason is ReasonCode.OFF_PREDICTION
            for resident in _residents(manager, candidate.server)
            if resident.tracking is not None and resident.tracking.violating
        ],
        now=list(map(decision, previews)),
    )


# --- the cluster --------------------------------------------------------------------------------


def servers(manager: Manager) -> list[models.ServerModel]:
    """Every server, in the order in which they joined."""
    view = manager.view
    rows = {name: row for row, name in enumerate(view.names)}
    return [
        models.ServerModel(
            name=name,
            platform=server.platform.name,
            accepting=server.accepting,
            cpus=_cpus(server.cpu_millicpus),
            cpus_allocated=_cpus(int(view.cpu_allocated[rows[name]])),
            memory_bytes=server.memory_bytes,
            memory_allocated_bytes=int(view.memory_allocated[rows[name]]),
            workloads=int(view.residents[rows[name]]),
            copies=int(view.copies[rows[name]]),
            unsettled=bool(view.unsettled[rows[name]]),
            pressure=_pressure(view, rows[name]),
            zone=server.zone,
            conditions=[
                models.ConditionModel(name=condition.kind.value, message=condition.message)
                for condition in server.conditions
            ],
        )
        for name, server in manager.state.servers.items()
    ]


def server_detail(manager: Manager, name: str, now: float) -> models.ServerDetail | None:
    """One server and its residents; ``None`` where there is none of that name."""
    found = next((server for server in servers(manager) if server.name == name), None)
    if found is None:
        return None
    residents = [workload(record, now) for record in _residents(manager, name)]
    return models.ServerDetail(**dict(found), residents=residents)


def _pressure(view: ClusterView, row: int) -> list[models.PressureModel]:
    """Of the residents together, resource by resource, where there is any."""
    return [
        models.PressureModel(
            name=score.source.value,
            tolerated=score.tolerated.mean,
            tolerated_std=score.tolerated.std,
            caused=score.caused.mean,
            caused_std=score.caused.std,
        )
        for score in (view.contention.scores(row) if view.contention else ())
    ]


def _residents(manager: Manager, server: str) -> list[WorkloadRecord]:
    return [
        record
        for record in manager.state.workloads.values()
        if record.on_server and any(p.server == server for p in record.placements)
    ]


def platforms(manager: Manager) -> list[models.PlatformModel]:
    """Every platform and how many servers are of it."""
    servers = manager.state.servers.values()
    counts = Counter(server.platform.name for server in servers)
    distinct = {server.platform.name: server.platform for server in servers}
    return [
        _copied(
            models.PlatformModel,
            platform,
            cpus=_cpus(platform.cpu_millicpus),
            servers=counts[name],
        )
        for name, platform in distinct.items()
    ]


def _waiting_by_queue(manager: Manager) -> dict[str, list[WorkloadRecord]]:
    """The workloads of each queue, in the order in which they are served."""
    queues: dict[str, list[WorkloadRecord]] = {name: [] for name in manager.queue_lengths()}
    for record in manager.state.workloads.values():
        if record.phase is Phase.QUEUED:
            queues.setdefault(record.queue, []).append(record)
    for queue in queues.values():
        queue.sort(key=lambda record: (-record.workload.priority, record.uid))
    return queues


def queues(manager: Manager, now: float) -> list[models.QueueModel]:
    """Every queue, in the order in which they are served."""
    return [
        models.QueueModel(
            name=name,
            length=len(queue),
            first=queue[0].name if queue else None,
            oldest_wait_seconds=max(
                (_span_seconds(record.submitted_at, now) for record in queue), default=None
            ),
        )
        for name, queue in _waiting_by_queue(manager).items()
    ]


def phases(records: Iterable[WorkloadRecord]) -> dict[str, int]:
    """Workloads by phase; every phase is named, so that a graph has no holes."""
    counts: Mapping[Phase, int] = Counter(record.phase for record in records)
    return {phase.value: counts.get(phase, 0) for phase in Phase}
