"""Workloads as the API shows them: in a list, one with all its details, and what one uses.

Called by the routes, in the loop; reads only.
"""

from typing import Any, TypeVar

from pydantic import AliasPath, Field

from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.core.state import AdjustmentKind, WorkloadRecord
from wharfinger.engines.base import Usage
from wharfinger.manifest import workload_to_manifest
from wharfinger.model.allocation import cpu_of
from wharfinger.model.workload import WorkloadType
from wharfinger.service import classification as classified
from wharfinger.service.classification import ClassificationModel, ProfilingModel
from wharfinger.service.models import ApiModel, Cpus, Timestamp, former_key, span_seconds
from wharfinger.service.performance import (
    AchievedModel,
    LoadForecastModel,
    MeasuredModel,
    PredictionError,
    PredictionModel,
    TargetModel,
    TargetStatus,
    newest_prediction,
)
from wharfinger.service.runs import RunModel, run

HAS_PROGRAM = frozenset({Phase.RUNNING, Phase.ADJUSTING, Phase.SUSPENDED, Phase.MIGRATING})
"""Phases in which there is a program that may be measured."""

_W = TypeVar("_W", bound="WorkloadModel")


class PlacementModel(ApiModel):
    """An allocation on a server."""

    name: str = Field(validation_alias="server", description="The server's.")
    cpus: Cpus = Field(validation_alias=AliasPath("allocation", "cpu_millicpus"))
    memory_bytes: int = Field(validation_alias=AliasPath("allocation", "memory_bytes"))
    best_effort: bool = Field(
        validation_alias=AliasPath("allocation", "best_effort"),
        description="It uses what the others leave.",
    )
    ceiling_cpus: Cpus | None = Field(
        validation_alias=AliasPath("allocation", "ceiling_millicpus"),
        description="Of best-effort work, the most that it may use for a neighbor's sake; `null` = "
        "all that others leave.",
    )


class AdjustmentModel(ApiModel):
    """A change of a placed workload and its outcome."""

    time: Timestamp
    kind: AdjustmentKind = Field(
        description="`relieved` = a neighbor was throttled or suspended for it; `unchanged` = "
        "nothing was done, for the reason given."
    )
    source: list[PlacementModel] = Field(
        validation_alias="before",
        serialization_alias="from",
        description="Where it was, with how much; empty = it did not run.",
    )
    to: list[PlacementModel] = Field(
        validation_alias="after", description="From then on; empty = it does not run."
    )
    reason: str = Field(description="Stable word.")
    message: str = Field(description="The cause, for people.")
    normalized_performance_before: float | None = Field(
        validation_alias="performance_before",
        description="Performance over target; `null` = unknown.",
    )
    normalized_performance_after: float | None = Field(
        validation_alias="performance_after",
        description="Once it had time to show (20 s), or the newest before; `null` = not measured.",
    )
    pace_before: float | None = former_key("normalized_performance_before", "performance_before")
    pace_after: float | None = former_key("normalized_performance_after", "performance_after")


class WorkloadModel(ApiModel):
    """A workload and its performance."""

    name: str
    array: str | None = Field(description="The array that it is a member of.")
    index: int | None = Field(description="Its number in that array.")
    type: WorkloadType
    phase: Phase = Field(description="Where it is in its life; see docs/architecture.md.")
    run: int = Field(description="Counts the runs of this name, from 1; all else is of this one.")
    restarts: int = Field(description="How often its program was started again in this run.")
    restarts_in_row: int = Field(description="The same since it last ran well.")
    ready: bool | None = Field(
        description="Whether its readiness probe succeeds; without one, whether it runs. `null` = "
        "it has no program now."
    )
    ready_at: Timestamp | None = Field(description="Since when it is ready.")
    paused: bool = Field(description="Its user has suspended it.")
    due_at: Timestamp | None = Field(description="When its schedule lets it run.")
    target: TargetModel | None = Field(description="`null` = its user stated none.")
    predicted: PredictionModel | None = Field(description="`null` = nothing predicts for it.")
    achieved: AchievedModel | None = Field(description="`null` = nothing was measured yet.")
    normalized_performance: float | None = Field(description="Achieved / target, worst part.")
    pace: float | None = former_key("normalized_performance")
    prediction_errors: list[PredictionError] = Field(description="Once it has settled (20 s).")
    forecast: LoadForecastModel | None = Field(description="Of its load; `null` = not known.")
    adjustments: list[AdjustmentModel] = Field(description="The newest changes, oldest first.")
    suspensions: int = Field(description="How often it was suspended for a neighbor.")
    preemptions: int = Field(description="How often it was stopped for another's sake.")
    evictions: int = Field(description="How often the engine took it off in this run.")
    measured: list[MeasuredModel] = Field(description="The newest of all that is measured.")
    met: bool | None = Field(
        description="Whether within the tolerance; `false` while it is down or not ready; `null` = "
        "unknown (yet), or no target."
    )
    servers: list[str] = Field(description="Where it is, or was when it ended.")
    cpus: Cpus = Field(description="Guaranteed, on all its servers; 0 for best-effort work.")
    memory_bytes: int = Field(description="Limit on memory, on all its servers together.")
    uid: int = Field(description="Counts submissions; never used again, unlike a name.")
    key: str = Field(description="Of its newest start, and its run directory's name; empty before.")
    starts: int = Field(description="How often its program was started.")
    exit_code: int | None = Field(description="`null` = it runs, a signal ended it, or unknown.")
    signal: int | None = Field(description="The signal that ended it.")
    reason: str = Field(description="Stable word for why it is where it is; may be empty.")
    message: str = Field(description="The same for people.")
    tolerance: float = Field(description="Fraction by which the target may be missed.")
    priority: int = Field(description="Higher goes first.")
    queue: str = Field(description="Where it waits or waited for a place; may be empty.")
    stopping: bool = Field(description="Its user wants it stopped and it has not ended yet.")
    wait_seconds: float = Field(
        description="Until its start, or until now: from its submission, its scheduled time, or "
        "the end of what it is to run after."
    )
    run_seconds: float | None = Field(description="From its start to its end, or until now.")
    cpu_seconds: float | None = Field(description="CPU time of an ended workload's whole tree.")
    memory_peak_bytes: int | None = Field(description="Of its newest start that has ended.")
    last_output: str = Field(description="The last line of its newest start that failed.")
    submitted_at: Timestamp
    phase_since: Timestamp
    not_before: Timestamp | None = Field(description="It is not started (again) before.")
    started_at: Timestamp | None
    ended_at: Timestamp | None
    handle: str = Field(description="How to find it on the engine, e.g. `pid 4711`.")
    labels: dict[str, str]
    owner: str = Field(description="Who handed it in; may be empty.")
    offer: str = Field(description="The engine's handle of it, where it was handed in; or empty.")


class UsageModel(ApiModel):
    """What a running workload uses."""

    name: str
    phase: Phase
    servers: list[str]
    ready: bool | None = Field(description="As in the list of workloads.")
    cpus: Cpus = Field(description="CPUs guaranteed; 0 for best-effort work.")
    memory_limit_bytes: int
    cpu_seconds: float | None = Field(description="Since its start; `null` = not measured.")
    memory_bytes: int | None = Field(description="Memory now; `null` = not measured.")
    processes: int | None = Field(description="Processes now; `null` = not measured.")
    target: TargetModel | None
    achieved: AchievedModel | None = Field(description="`null` = nothing was measured yet.")
    normalized_performance: float | None = Field(description="Achieved / target; `null` = unknown.")
    pace: float | None = former_key("normalized_performance")
    met: bool | None = Field(description="`null` = unknown (yet).")
    co_runners: list[str] = Field(description="Other workloads that hold resources on its servers.")
    neighbours: list[str] = former_key("co_runners")
    last_adjustment: AdjustmentModel | None = Field(description="`null` = there was none.")
    measured: list[MeasuredModel] = Field(description="The newest of all that is measured.")
    measured_at_seconds: float = Field(description="By a clock that is never set.")


class WorkloadDetail(WorkloadModel):
    """One workload with all that is known of it."""

    previous: list[RunModel] = Field(description="Its earlier runs, oldest first; the newest 20.")
    placements: list[PlacementModel]
    profiling: ProfilingModel | None = Field(description="`null` = nothing was measured of it.")
    classification: ClassificationModel | None = Field(description="`null` = not classified.")
    manifest: dict[str, Any] = Field(description="As submitted; values of `env` are `***`.")
    usage: UsageModel | None = Field(description="`null` = it does not run.")


def workload(record: WorkloadRecord, now: float) -> WorkloadModel:
    """One workload as a list shows it."""
    return _workload(WorkloadModel, record, now)


def workload_detail(
    record: WorkloadRecord, now: float, used: UsageModel | None = None
) -> WorkloadDetail:
    """One workload with all that is known of it."""
    return _workload(
        WorkloadDetail,
        record,
        now,
        previous=list(map(run, record.previous)),
        profiling=classified.profiling(record),
        classification=classified.classification(record),
        manifest=workload_to_manifest(record.workload, redact=True),
        usage=used,
    )


def _workload(model: type[_W], record: WorkloadRecord, now: float, **others: object) -> _W:
    status, started = TargetStatus(record, now), record.started_at
    end = record.ended_at if record.ended_at is not None else now
    array = record.workload.array
    return model.of(
        record,
        record.workload,
        status,
        **_shared(record, status),
        array=None if array is None else array.name,
        index=None if array is None else array.index,
        predicted=newest_prediction(record),
        prediction_errors=status.prediction_errors(),
        memory_bytes=_memory_bytes(record),
        stopping=record.revoking and not record.ended,
        wait_seconds=wait_seconds(record, end if started is None else started),
        run_seconds=None if started is None else span_seconds(started, end),
        **others,
    )


def wait_seconds(record: WorkloadRecord, until: float) -> float:
    """How long it could have run and did not; 0 before its time, or that of what it is after."""
    if record.workload.after is not None:
        # It is admitted when it may begin, and ``submitted_at`` is that time then.
        begun = record.phase is not Phase.SUBMITTED and bool(record.queue or record.attempts)
        return span_seconds(record.submitted_at, until) if begun else 0.0
    if record.workload.schedule is not None:
        return span_seconds(until if record.due_at is None else record.due_at, until)
    return span_seconds(record.submitted_at, until)


def usage(
    manager: Core, record: WorkloadRecord, used: Usage, measured_at_seconds: float, now: float
) -> UsageModel:
    """What one running workload uses, and its performance."""
    status = TargetStatus(record, now)
    return UsageModel.of(
        used,
        record,
        record.workload,
        status,
        **_shared(record, status),
        memory_limit_bytes=_memory_bytes(record),
        co_runners=manager.neighbors(record),
        last_adjustment=record.adjustments[-1] if record.adjustments else None,
        measured_at_seconds=measured_at_seconds,
    )


def residents(manager: Core, server: str) -> list[WorkloadRecord]:
    """The workloads that hold resources on a server."""
    return [
        record
        for record in manager.state.workloads.values()
        if record.on_server and any(p.server == server for p in record.placements)
    ]


def _shared(record: WorkloadRecord, status: TargetStatus) -> dict[str, object]:
    return {
        "ready": record.ready_at is not None if record.phase in HAS_PROGRAM else None,
        "achieved": status.in_targets_terms(),
        "measured": status.measured(),
        "servers": [placement.server for placement in record.placements],
        "cpus": cpu_of(record.placements),
    }


def _memory_bytes(record: WorkloadRecord) -> int:
    return sum(p.allocation.memory_bytes for p in record.placements)
