"""The API's answers as types: the one definition of every key, its meaning and its unit.

``records`` fills them; FastAPI makes the OpenAPI document from them. Times are RFC 3339 in
UTC; ``null`` means unknown, never zero.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class ApiModel(BaseModel):
    """Base of all answers: no unnamed keys, no changes afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def as_json(self) -> dict[str, Any]:
        """The answer as plain values, under the API's keys."""
        return self.model_dump(mode="json", by_alias=True)


class ErrorDetail(ApiModel):
    """What went wrong."""

    code: str = Field(description="Stable word for machines, e.g. `not-found`.")
    message: str = Field(description="One line: the value, the place and the mend.")
    retryable: bool = Field(description="Whether the same call may succeed later.")
    problems: list[str] | None = Field(
        default=None, description="For an invalid manifest: one line per problem."
    )


class ErrorAnswer(ApiModel):
    """The form of every error."""

    error: ErrorDetail


class IntervalModel(ApiModel):
    """A predicted number; `low` and `high` hold each with the stated confidence."""

    mean: float = Field(description="As likely too low as too high.")
    low: float
    high: float


class PredictedPerformance(ApiModel):
    """What is predicted in the target's terms; `null` = not classified, or not asked for."""

    throughput_per_second: IntervalModel | None
    latency_seconds: IntervalModel | None
    rate_per_second: IntervalModel | None
    completion_seconds: IntervalModel | None = Field(description="From being handed in to its end.")


class PredictionModel(ApiModel):
    """Predicted performance over target at a stated confidence; 1 = exactly the target."""

    mean: float = Field(description="As likely too low as too high.")
    low: float = Field(description="Reached with `confidence`; the allocation is sized by it.")
    high: float = Field(description="Not exceeded with `confidence`.")
    confidence: float
    performance: PredictedPerformance = Field(description="The same in the target's terms.")


class PredictionError(ApiModel):
    """What was predicted, held against what came."""

    name: str = Field(description="What was predicted, with its unit, e.g. `rate_per_second`.")
    predicted: float
    achieved: float
    log_error: float = Field(description="ln(achieved / predicted); 0 = exactly as predicted.")
    within: bool = Field(description="Whether it lies within the predicted interval.")


class PlacementModel(ApiModel):
    """An allocation on a server."""

    name: str = Field(description="The server's.")
    cpus: float
    memory_bytes: int
    best_effort: bool = Field(description="It uses what the others leave.")


class AdjustmentModel(ApiModel):
    """One thing that was done about a placed workload, and what became of it."""

    time: str
    kind: str = Field(
        description="resized, suspended, resumed, relieved (a neighbor was suspended for it), "
        "migrated, preempted, unchanged (for the reason given) or reclassified."
    )
    source: list[PlacementModel] = Field(
        alias="from", description="Where it was, with how much; empty = it did not run."
    )
    to: list[PlacementModel] = Field(description="From then on; empty = it does not run.")
    reason: str = Field(description="Stable word.")
    message: str = Field(description="The cause, for people.")
    pace_before: float | None = Field(description="Performance over target; `null` = not known.")
    pace_after: float | None = Field(
        description="Once it had time to show (20 s), or the newest before; `null` = not measured."
    )


class CurvePointModel(ApiModel):
    """Performance with so much CPU, alone."""

    cpus: float
    mean: float = Field(description="As likely too low as too high.")
    low: float = Field(description="Exceeded with the classification's `confidence`.")
    high: float = Field(description="Not exceeded with it.")
    measured: bool = Field(description="Whether it was measured; else it is filled in.")


class CurveModel(ApiModel):
    """How performance follows CPU."""

    name: str = Field(
        description="What it says, with its unit; `relative` = to performance with one CPU."
    )
    points: list[CurvePointModel] = Field(description="By CPU, ascending.")


class ScoreModel(ApiModel):
    """Interference with one shared resource, 0-100; `null` = not known."""

    name: str = Field(description="The shared resource.")
    tolerated: float | None = Field(description="Pressure up to which it keeps its performance.")
    tolerated_std: float | None
    tolerated_measured: bool
    tolerated_censored: bool = Field(description="Never slowed as far as was tried: a lower bound.")
    caused: float | None = Field(description="Pressure that it exerts itself.")
    caused_std: float | None
    caused_measured: bool


class ChangeModel(ApiModel):
    """Performance elsewhere, relative to where the curves hold."""

    name: str = Field(description="The platform, or how many servers.")
    mean: float = Field(description="As likely too low as too high; 1 = the same.")
    low: float = Field(description="Exceeded with the classification's `confidence`.")
    high: float = Field(description="Not exceeded with it.")


class SilenceModel(ApiModel):
    """Something that should have been measured and was not."""

    name: str = Field(description="What, e.g. `tolerated/integer`, or `copy` for all of it.")
    reason: str = Field(description="Why, for people.")


class ClassificationModel(ApiModel):
    """What a workload needs, and how sure that is."""

    estimator: str = Field(description="Which computed it.")
    version: str = Field(description="The estimator's.")
    confidence: float = Field(description="That each `low` and each `high` below holds.")
    entries_measured: int = Field(
        description="How many of its numbers were measured; 0 = a cold start."
    )
    total: float | None = Field(
        description="Work until it is complete, in the unit of its rate; `null` = not known."
    )
    curves: list[CurveModel] = Field(description="Performance by CPU.")
    platform: str | None = Field(description="On which they hold; `null` = not known.")
    platforms: list[ChangeModel] = Field(description="On other platforms, relative to that one.")
    servers: list[ChangeModel] = Field(description="On so many servers together, relative to one.")
    interference: list[ScoreModel]
    silent: list[SilenceModel] = Field(description="What could not be measured, and why.")


class EntryModel(ApiModel):
    """One measured number."""

    name: str = Field(description="What it says, with its unit.")
    cpus: float = Field(description="Under which allocation.")
    value: float
    error: float = Field(description="Standard error, as a share of the value.")
    origin: str = Field(description="offline, profiled, observed or predicted.")
    measured_at: str | None = Field(description="When; `null` = not known.")


class ProfilingModel(ApiModel):
    """What was measured of a workload under known allocations."""

    runs: int = Field(description="How often a copy was started; 0 = no copy was.")
    seconds: float = Field(description="How long that took.")
    entries: list[EntryModel] = Field(
        description="What it is classified by: the copy's runs; once it was reclassified, "
        "also its own, and the copy's moved to the level at which it ran then."
    )
    observed: list[EntryModel] = Field(
        description="How the workload itself did since then, under each allocation that it had."
    )


class NeedPoint(ApiModel):
    """How it should do with so much CPU, alone on a server."""

    cpus: float
    pace: IntervalModel = Field(description="Performance over target; 1 = exactly the target.")
    performance: PredictedPerformance
    reaches: bool = Field(description="The target, with the stated confidence.")
    measured: bool = Field(description="Whether it was measured; else it is filled in.")


class LatencyModel(ApiModel):
    """A bound on a percentile of latency."""

    percentile: float
    below_seconds: float


class TargetModel(ApiModel):
    """The performance to reach; what the user did not state is `null`."""

    throughput_per_second: float | None
    latency: LatencyModel | None
    completion_seconds: float | None
    rate_per_second: float | None


class AchievedModel(ApiModel):
    """What was measured of the target's terms; `null` = not measured."""

    completion_seconds: float | None = Field(
        description="From being handed in to exit status 0; predicted while it runs."
    )
    throughput_per_second: float | None
    latency_seconds: float | None = Field(description="At the target's percentile.")
    rate_per_second: float | None


class MeasuredModel(ApiModel):
    """One number that was measured of a workload, or why it was not."""

    name: str = Field(description="What it says, with its unit, e.g. `rate_per_second`.")
    value: float | None = Field(description="Smoothed; `null` = no signal.")
    source: str = Field(description="Where it comes from; for no signal, why there is none.")
    trusted: bool = Field(description="Whether it stands for the target; a proxy must earn it.")
    correlation: float | None = Field(
        description="Of a proxy with the workload's own metric, by rank; `null` = not known."
    )
    measured_at: str
    final: bool = Field(description="The workload has ended, and this is the last of it.")


class WorkloadModel(ApiModel):
    """A workload and how it fares."""

    name: str
    type: str = Field(description="single-node, batch, latency-critical or best-effort.")
    phase: str = Field(description="Where it is in its life; see docs/architecture.md.")
    target: TargetModel | None = Field(description="`null` = its user stated none.")
    predicted: PredictionModel | None = Field(description="`null` = nothing predicts for it.")
    achieved: AchievedModel | None = Field(description="`null` = nothing was measured yet.")
    pace: float | None = Field(
        description="Achieved performance over target, of its worst part: 1 = exactly kept; "
        "`null` = not known."
    )
    prediction_errors: list[PredictionError] = Field(
        description="`predicted` held against `achieved`; of what runs, once it has settled (20 s)."
    )
    adjustments: list[AdjustmentModel] = Field(
        description="What was done about it since it was placed: the newest, oldest first."
    )
    suspensions: int = Field(description="How often it was suspended for a neighbor.")
    measured: list[MeasuredModel] = Field(
        description="All that was measured of it last; nothing remaining once it has ended."
    )
    met: bool | None = Field(
        description="Whether the target is kept within the tolerance; `null` = not known (yet)."
    )
    servers: list[str] = Field(description="Where it is, or was when it ended.")
    cpus: float = Field(
        description="CPUs guaranteed on all its servers, as a decimal; 0 for best-effort work."
    )
    memory_bytes: int = Field(description="Limit on memory, on all its servers together.")
    uid: int = Field(description="Counts what was handed in; never used again, unlike a name.")
    key: str = Field(
        description="Identity of its newest start, and name of its run directory; empty before."
    )
    starts: int = Field(description="How often its program was started.")
    exit_code: int | None = Field(
        description="`null` = still going, ended by a signal, or unknown."
    )
    signal: int | None = Field(description="The signal that ended it.")
    reason: str = Field(description="Stable word for why it is where it is; may be empty.")
    message: str = Field(description="The same for people.")
    tolerance: float = Field(description="Fraction by which the target may be missed.")
    priority: int = Field(description="Higher goes first.")
    queue: str = Field(description="Where it waits or waited for a place; may be empty.")
    stopping: bool = Field(description="Its user wants it stopped and it has not ended yet.")
    wait_seconds: float = Field(description="From being handed in to its start, or until now.")
    run_seconds: float | None = Field(description="From its start to its end, or until now.")
    cpu_seconds: float | None = Field(description="CPU time of an ended workload's whole tree.")
    submitted_at: str
    phase_since: str
    started_at: str | None
    ended_at: str | None
    handle: str = Field(description="How to find it on the engine, e.g. `pid 4711`.")
    labels: dict[str, str]


class UsageModel(ApiModel):
    """What a running workload uses."""

    name: str
    phase: str
    servers: list[str]
    cpus: float = Field(description="CPUs guaranteed; 0 for best-effort work.")
    memory_limit_bytes: int
    cpu_seconds: float | None = Field(
        description="CPU time since its start; `null` = not measured."
    )
    memory_bytes: int | None = Field(description="Memory now; `null` = not measured.")
    processes: int | None = Field(description="Processes now; `null` = not measured.")
    target: TargetModel | None
    achieved: AchievedModel | None = Field(description="`null` = nothing was measured yet.")
    pace: float | None = Field(description="Performance over target; `null` = not known.")
    met: bool | None = Field(description="`null` = not known (yet).")
    neighbours: list[str] = Field(description="Other workloads that hold resources on its servers.")
    last_adjustment: AdjustmentModel | None = Field(description="`null` = there was none.")
    measured: list[MeasuredModel] = Field(description="All that was measured of it last.")
    measured_at_seconds: float = Field(
        description="A clock that is never set: the difference of two is the time between them."
    )


class WorkloadDetail(WorkloadModel):
    """One workload with all that is known of it."""

    placements: list[PlacementModel]
    profiling: ProfilingModel | None = Field(description="`null` = nothing was measured of it.")
    classification: ClassificationModel | None = Field(description="`null` = not classified.")
    manifest: dict[str, Any] = Field(description="As handed in; values of `env` are `***`.")
    usage: UsageModel | None = Field(description="`null` = it does not run.")


class CandidateModel(ApiModel):
    """One server that was looked at."""

    name: str = Field(description="The server's.")
    score: float | None = Field(description="Lower is better; `null` = filtered out before.")
    reason: str = Field(description="`ok`, or what spoke against it.")
    numbers: dict[str, float] = Field(description="What was compared; units in the keys.")


class DecisionModel(ApiModel):
    """The record of one decision, written when it was made."""

    stage: str
    decided_at: str | None = Field(description="`null` = a preview, nothing was decided.")
    decided_by: str = Field(description="The policy's or admission's name.")
    accepted: bool
    reason: str
    message: str
    would_change: str = Field(description="What would lead to another outcome; may be empty.")
    considered: int = Field(description="How many servers were looked at.")
    numbers: dict[str, float]
    predicted: PredictionModel | None
    candidates: list[CandidateModel] = Field(description="The best ten, best first.")


class WaitingModel(ApiModel):
    """What is served before a waiting workload, and what would be decided for it now."""

    queue: str
    position: int = Field(description="1 = first in line.")
    length: int
    first: str = Field(description="The first in its queue.")
    first_message: str = Field(description="Why the first one waits; may be empty.")
    not_before: str | None = Field(description="A start failed; it is not tried again before.")
    unsettled_by: list[str] = Field(
        description="Workloads that miss their targets: meanwhile their servers take no new work."
    )
    now: list[DecisionModel] = Field(description="What would be decided if it were its turn now.")


class Explanation(ApiModel):
    """Why a workload is where it is."""

    name: str
    workload: WorkloadDetail
    decisions: list[DecisionModel] = Field(description="The first and the newest, oldest first.")
    need: list[NeedPoint] = Field(
        description="Performance by CPU, from its classification; empty = nothing predicts it."
    )
    waiting: WaitingModel | None = Field(description="`null` = it does not wait for a place.")
    mode: str = Field(
        description="`act`, or `recommend`: the manager does nothing of what it says."
    )


class Submission(ApiModel):
    """What became of one workload that was handed in."""

    name: str
    created: bool = Field(description="`false` = the same was handed in before.")
    decisions: list[DecisionModel] | None = Field(
        default=None, description="For a dry run: what would be decided, as if it came alone."
    )


class Deletion(ApiModel):
    """What a deletion did."""

    name: str
    outcome: str = Field(
        description="`stopping`: it is being stopped, its record stays. `deleted`: record gone."
    )


class ConditionModel(ApiModel):
    """One thing an operator should know of a server."""

    name: str
    message: str


class PressureModel(ApiModel):
    """What a server's residents bear and exert on one shared resource, 0-100."""

    name: str = Field(description="The shared resource.")
    tolerated: float = Field(description="The least that any resident does; 100 = all of it.")
    tolerated_std: float
    caused: float = Field(description="The sum over the residents.")
    caused_std: float


class ServerModel(ApiModel):
    """A server, and what of it is given away."""

    name: str
    platform: str
    accepting: bool = Field(description="Whether new work may be placed.")
    cpus: float = Field(description="CPUs that may be allocated.")
    cpus_allocated: float
    memory_bytes: int = Field(description="Memory that may be allocated.")
    memory_allocated_bytes: int
    workloads: int = Field(description="How many hold resources here.")
    copies: int = Field(description="How many profiling copies run here.")
    unsettled: bool = Field(
        description="A resident violates its target: no new work here until it is kept again, or a "
        "minute has passed."
    )
    pressure: list[PressureModel] = Field(
        description="By shared resource, what is known of its residents together."
    )
    zone: str
    conditions: list[ConditionModel]


class ServerDetail(ServerModel):
    """A server and its residents."""

    residents: list[WorkloadModel]


class PlatformModel(ApiModel):
    """A server configuration."""

    name: str
    architecture: str
    cpu_model: str
    cpus: float = Field(description="Of one whole server.")
    memory_bytes: int = Field(description="Of one whole server.")
    servers: int = Field(description="How many servers are of it.")


class QueueModel(ApiModel):
    """A line of waiting workloads."""

    name: str
    length: int
    first: str | None = Field(description="The next to be served; `null` = none waits.")
    oldest_wait_seconds: float | None = Field(description="The longest wait; `null` = none waits.")


class EventModel(ApiModel):
    """One entry of the log."""

    name: str = Field(description="What it is about: a workload, a server, or `manager`.")
    sequence: int
    logged_at: str
    kind: str
    message: str = Field(description="For people; may be empty.")
    data: dict[str, Any] = Field(description="The whole event; values of `env` are `***`.")


class DamageModel(ApiModel):
    """What was found damaged when this manager opened its log."""

    message: str
    last_whole_sequence: int


class StatusModel(ApiModel):
    """The manager itself."""

    name: str
    version: str
    pid: int
    state_directory: str
    engine: str
    policy: str
    admission: str
    mode: str = Field(description="`act`, or `recommend`: it says what it would do, no more.")
    since: str
    uptime_seconds: float
    synced: bool = Field(description="Whether the engine has reported what it found.")
    phases: dict[str, int] = Field(description="Workloads by phase.")
    servers: int
    last_sequence: int = Field(description="The newest event's.")
    first_sequence: int = Field(description="The oldest event's that `events` can show.")
    free_disk_bytes: int = Field(description="How much the event log can still grow.")
    accepting: bool = Field(description="Whether there is room on disk for new work.")
    strays: list[str] = Field(
        description="Keys of starts that the engine knows and the log does not; left alone."
    )
    damage: DamageModel | None
