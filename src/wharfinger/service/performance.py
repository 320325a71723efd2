"""Targets, predictions and measurements as the API shows them, and how they compare.

Called by ``workloads`` and ``explanations`` for each workload, and by ``metrics``.
"""

from dataclasses import replace
from math import log
from types import SimpleNamespace

from pydantic import ConfigDict, Field

from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import WorkloadRecord
from wharfinger.core.tracking import LoadForecast
from wharfinger.model.allocation import cpu_of
from wharfinger.model.decisions import Prediction, Term
from wharfinger.model.performance import (
    NOTHING,
    Achieved,
    Quantity,
    achieved,
    meets,
    normalized_performance,
)
from wharfinger.service.models import ApiModel, Timestamp, span_seconds

SETTLED_SECONDS = 20.0
"""After a start or a change: before, what is measured says little of what was predicted."""


class IntervalModel(ApiModel):
    """A predicted number; `low` and `high` hold each with the stated confidence."""

    mean: float = Field(description="As likely too low as too high.")
    low: float
    high: float


class PredictedPerformance(ApiModel):
    """What is predicted in the target's terms; `null` = not classified, or not asked for."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    throughput_per_second: IntervalModel | None = None
    latency_seconds: IntervalModel | None = None
    rate_per_second: IntervalModel | None = None
    completion_seconds: IntervalModel | None = Field(default=None, description="From submission.")


class PredictionModel(IntervalModel):
    """Predicted performance over target, 1 = exactly the target; `low` sizes the allocation."""

    confidence: float = Field(description="That `low` is reached, and that `high` is not exceeded.")
    performance: PredictedPerformance = Field(description="The same in the target's terms.")


class PredictionError(ApiModel):
    """A prediction compared with what was measured."""

    name: str = Field(description="What was predicted, with its unit, e.g. `rate_per_second`.")
    predicted: float
    achieved: float
    log_error: float = Field(description="ln(achieved / predicted); 0 = exactly as predicted.")
    within: bool = Field(description="Whether it lies within the predicted interval.")


class LoadForecastModel(ApiModel):
    """The load that will be offered to a service, by its level, its trend and its seasons."""

    mean_per_second: float = Field(description="As likely too low as too high.")
    low_per_second: float = Field(description="With the confidence that is set, no less comes.")
    high_per_second: float = Field(description="Likewise, no more.")
    horizon_seconds: float = Field(description="After `made_at`, for which it is.")
    made_at: Timestamp
    season_seconds: float | None = Field(description="After which it repeats itself; `null` = not.")
    error_log: float = Field(description="Mean of |ln(measured / forecast)|, of those before.")


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

    completion_seconds: float | None = Field(description="To exit status 0; predicted before.")
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
        description="Of a proxy with the workload's own metric, by rank; `null` = unknown."
    )
    measured_at: Timestamp
    final: bool = Field(description="The workload has ended, and this is the last of it.")


class TargetStatus:
    """A workload's performance against its target, now or when it ended; ``None`` = unknown.

    Attributes:
        performance: What was measured last, without what says nothing of that time any more.
        achieved: Measured while it runs, timed when it has ended.
    """

    def __init__(self, record: WorkloadRecord, now: float) -> None:
        self.record = record
        self.now = now if record.ended_at is None else record.ended_at
        self.performance = record.performance and record.performance.at(self.now)
        self.achieved = NOTHING
        if self.performance is not None:
            self.achieved = achieved(self.performance, record.submitted_at, self._cpu_millicpus)
        if record.ended:
            timed = record.phase is Phase.COMPLETED and record.ended_at is not None
            seconds = span_seconds(record.submitted_at, self.now) if timed else None
            self.achieved = replace(self.achieved, completion_seconds=seconds)

    @property
    def forecast(self) -> LoadForecast | None:
        """Of the load, until its time has come; ``None`` = there is none."""
        made = self.record.demand.forecast if self.record.demand is not None else None
        if made is None or self.record.ended or self.now > made.made_at + made.horizon_seconds:
            return None
        return made

    @property
    def is_down(self) -> bool:
        """Whether it failed, or is to be started again after it did, or is not ready."""
        record = self.record
        if record.phase in (Phase.FAILED, Phase.VANISHED):
            return True
        if record.phase is Phase.RUNNING and record.workload.run.ready is not None:
            return record.ready_at is None
        return record.restarts_in_row > 0 and not record.ended and not record.on_server

    @property
    def _cpu_millicpus(self) -> int:
        return cpu_of(self.record.placements)

    @property
    def met(self) -> bool | None:
        """Whether the target is kept within the tolerance."""
        record, target = self.record, self.record.workload.target
        if target is None:
            return None
        if self.is_down:
            return False
        met = meets(target, record.workload.tolerance, self.achieved)
        if met is not None or target.completion_seconds is None:
            return met
        allowed = target.completion_seconds * (1 + record.workload.tolerance)
        if record.ended:
            return False if self.achieved.completion_seconds is None else None
        return False if self.now - record.submitted_at > allowed else None

    @property
    def normalized_performance(self) -> float | None:
        """Achieved performance over target."""
        record, target = self.record, self.record.workload.target
        if target is None:
            return None
        if target.completion_seconds is not None:
            # Of the whole time, as what is achieved; what is left of it is for the adaptation.
            took = self.achieved.completion_seconds
            return target.completion_seconds / took if took else None
        if self.performance is None:
            return None
        return normalized_performance(
            target, self.performance, record.submitted_at, self._cpu_millicpus
        )

    def in_targets_terms(self) -> Achieved | None:
        """What is achieved of what the target states; ``None`` = nothing."""
        target = self.record.workload.target
        timed = target is not None and target.completion_seconds is not None
        told = self.achieved if timed else replace(self.achieved, completion_seconds=None)
        return None if target is None or told == NOTHING else told

    def measured(self) -> list[MeasuredModel]:
        """All numbers; of an ended workload its last ones, without the remaining time."""
        performance, ended = self.performance, self.record.ended
        if performance is None:
            return []
        readings = {
            **performance.readings,
            **{
                quantity: SimpleNamespace(
                    value=None, source=silence.reason, trusted=False, correlation=None
                )
                for quantity, silence in performance.silent.items()
            },
        }
        return [
            MeasuredModel.of(
                reading, name=quantity, measured_at=performance.measured_at, final=ended
            )
            for quantity, reading in readings.items()
            if not (ended and quantity is Quantity.REMAINING)
        ]

    def prediction_errors(self) -> list[PredictionError]:
        """The predictions that can be compared with what was measured.

        While the workload runs, only once its allocation had time to show. A predicted throughput
        is what it could answer: where it has headroom, the measured one says nothing.
        """
        record, predicted = self.record, newest_prediction(self.record)
        changes = (record.started_at, record.adjusted_at, record.phase_since)
        settled = not any(at is not None and 0 <= self.now - at < SETTLED_SECONDS for at in changes)
        if predicted is None or not (record.ended or (record.on_server and settled)):
            return []
        headroom = record.tracking is not None and record.tracking.headroom is not None
        headroom = headroom or self.achieved.answers_all
        errors = []
        for term, interval in predicted.performance.items():
            value = getattr(self.achieved, term)
            # While it runs, its completion time is a prediction itself.
            foretold = term is Term.COMPLETION and not record.ended
            unloaded = term is Term.THROUGHPUT and headroom
            if not value or foretold or (unloaded and value < interval.mean):
                continue
            errors.append(
                PredictionError(
                    name=term.value,
                    predicted=interval.mean,
                    achieved=value,
                    log_error=log(value / interval.mean),
                    within=interval.low <= value <= interval.high,
                )
            )
        return errors


def newest_prediction(record: WorkloadRecord) -> Prediction | None:
    """For where it is, or was when it ended; for one that waits, the newest that was made.

    ``None`` where it was for another target or allocation than it has now.
    """
    target = record.workload.target
    if record.on_server or record.started_at is not None:
        placements = record.planned or record.placements
        cpu = cpu_of(placements) or None
        predicted = record.predicted
        return predicted if predicted is not None and predicted.is_of(target, cpu) else None
    made = (timed.decision.predicted for timed in reversed(record.decisions))
    newest = next((prediction for prediction in made if prediction is not None), None)
    return newest if newest is not None and newest.is_of(target) else None
