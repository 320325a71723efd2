"""Why a workload is where it is: the decisions on it, what its target takes, what it waits for.

Called by the routes and by ``simulate --explain``. Decisions are shown as they were recorded; what
a target takes comes from the recorded classification, by the function with which policies size.
"""

from pydantic import Field

from wharfinger.classification.prediction import normalized_with, parts_of, performance_with
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core, Mode
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.profile import Measurements, quantile
from wharfinger.service.classification import bounds, confidence_of
from wharfinger.service.models import ApiModel, Cpus, Timestamp, former_key
from wharfinger.service.notes import notes
from wharfinger.service.performance import IntervalModel, PredictedPerformance, PredictionModel
from wharfinger.service.queues import waiting_by_queue
from wharfinger.service.workloads import UsageModel, WorkloadDetail, residents, workload_detail

WAITED = "waited_seconds"
"""Under this key a decision keeps how long the workload had waited when it was sized."""
NEEDED = "cpu_needed_millicpus"
"""Under this key a candidate keeps the CPU that the workload would get there."""


class CandidateModel(ApiModel):
    """One server that was looked at."""

    name: str = Field(validation_alias="server", description="The server's.")
    score: float | None = Field(description="Lower is better; `null` = filtered out before.")
    reason: str = Field(description="`ok`, or what spoke against it.")
    numbers: dict[str, float] = Field(description="What was compared; units in the keys.")


class DecisionModel(ApiModel):
    """The record of one decision, written when it was made."""

    stage: Stage
    decided_at: Timestamp | None = Field(description="`null` = a preview, nothing was decided.")
    decided_by: str = Field(description="The policy's or admission's name.")
    accepted: bool
    reason: ReasonCode
    message: str
    would_change: str = Field(description="What would lead to another outcome; may be empty.")
    considered: int = Field(description="How many servers were looked at.")
    numbers: dict[str, float]
    predicted: PredictionModel | None
    candidates: list[CandidateModel] = Field(description="The best ten, best first.")


class NeedPoint(ApiModel):
    """Expected performance with so much CPU, alone on a server."""

    cpus: Cpus
    normalized_performance: IntervalModel = Field(description="1 = exactly the target.")
    pace: IntervalModel = former_key("normalized_performance")
    performance: PredictedPerformance
    reaches: bool = Field(description="The target less its tolerance, with the stated confidence.")
    measured: bool = Field(description="Whether it was measured; else it is an estimate.")


class WaitingModel(ApiModel):
    """What is served before a waiting workload, and what would be decided for it now."""

    queue: str
    position: int = Field(description="1 = first in its queue.")
    length: int
    queue_message: str = Field(
        description="Why its admission put it there, and for how long; may be empty."
    )
    review_at: Timestamp | None = Field(description="When its admission looks at it again.")
    first: str = Field(description="The first in its queue.")
    first_message: str = Field(description="Why the first one waits; may be empty.")
    not_before: Timestamp | None = Field(description="Not before, as a start failed.")
    unsettled_by: list[str] = Field(
        description="They run off their predictions and so keep servers closed."
    )
    now: list[DecisionModel] = Field(description="What would be decided if it were its turn now.")


class Explanation(ApiModel):
    """Why a workload is where it is."""

    name: str
    workload: WorkloadDetail
    decisions: list[DecisionModel] = Field(description="The first and the newest, oldest first.")
    need: list[NeedPoint] = Field(description="Performance by CPU; empty = nothing predicts it.")
    waiting: WaitingModel | None = Field(description="`null` = it does not wait for a place.")
    notes: list[str] = Field(
        description="What else holds for it, for people: readiness, restarts, schedule, "
        "dependencies, its array's limit, pauses, cordoned servers."
    )
    mode: Mode = Field(description="`recommend`: the manager only says what it would do.")


def decision(made: Decision, decided_at: float | None = None) -> DecisionModel:
    """One decision's record; without a time it is a preview."""
    return DecisionModel.of(made, decided_at=decided_at)


def explanation(
    manager: Core, record: WorkloadRecord, now: float, used: UsageModel | None = None
) -> Explanation:
    """Why a workload is where it is."""
    return Explanation(
        name=record.name,
        workload=workload_detail(record, now, used),
        decisions=[decision(timed.decision, timed.time) for timed in record.decisions],
        need=_need(record, now, manager.state.capabilities.quota_period_seconds),
        waiting=_waiting(manager, record, now) if record.phase is Phase.QUEUED else None,
        notes=notes(manager, record),
        mode=manager.mode,
    )


def _need(record: WorkloadRecord, now: float, quota_period_seconds: float) -> list[NeedPoint]:
    """Performance by CPU, alone, as it was when it was sized last; empty = nothing predicts it."""
    classified = record.classification
    made = (timed.decision for timed in reversed(record.decisions))
    sizing = next((decision for decision in made if decision.stage is Stage.PLACEMENT), None)
    waited = max(0.0, now - record.submitted_at)
    if sizing is not None:
        waited = sizing.numbers.get(WAITED, waited)
    parts = []
    if classified is not None:
        parts = parts_of(record.workload, classified, waited, quota_period_seconds)
    if not parts:
        return []
    confidence = confidence_of(record)
    columns = {cpu for part in parts for cpu in part.curve.cpu_millicpus}
    placed = (placement.allocation for placement in record.placements)
    columns |= {allocation.cpu_millicpus for allocation in placed if not allocation.best_effort}
    if sizing is not None:
        first = sizing.candidates[:1]
        columns |= {int(c.numbers[NEEDED]) for c in first if c.numbers.get(NEEDED)}
    measurements = record.measurements or Measurements()
    measured = {cpu for row in measurements.performance.values() for cpu in row}
    points = []
    for cpu in sorted(columns):
        expected = bounds(normalized_with(parts, cpu, confidence), quantile(confidence))
        points.append(
            NeedPoint.of(
                cpus=cpu,
                normalized_performance=expected,
                performance=performance_with(parts, cpu, 0.0, 0.0, confidence),
                reaches=expected["low"] >= 1 - record.workload.tolerance,
                measured=cpu in measured,
            )
        )
    return points


def _waiting(manager: Core, record: WorkloadRecord, now: float) -> WaitingModel:
    queue = waiting_by_queue(manager)[record.queue]
    # The first decision admitted it, before there was a queue.
    queued = [
        timed.decision.message
        for timed in record.decisions[1:]
        if timed.decision.stage is Stage.ADMISSION and timed.decision.accepted
    ]
    previews = [
        made
        for made in manager.preview(record.workload, now)
        # What is before it stands above already.
        if made.stage is not Stage.ADMISSION and made.reason is not ReasonCode.BEHIND_OTHERS
    ]
    return WaitingModel.of(
        record,
        position=queue.index(record) + 1,
        length=len(queue),
        queue_message=queued[-1] if queued else "",
        first=queue[0].name,
        first_message=queue[0].message,
        unsettled_by=[
            resident.name
            for made in previews
            for candidate in made.candidates
            if candidate.reason is ReasonCode.OFF_PREDICTION
            for resident in residents(manager, candidate.server)
            if resident.tracking is not None and resident.tracking.violating
        ],
        now=list(map(decision, previews)),
    )
