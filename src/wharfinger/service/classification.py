"""What was measured of a workload under known allocations, and what was estimated from it.

Called by ``workloads`` for one workload with all its details.
"""

from collections.abc import Mapping
from math import exp

from pydantic import Field

from wharfinger.core.state import WorkloadRecord
from wharfinger.model import profile
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Curve, Entry, Estimate, Measurements, quantile
from wharfinger.service.models import ApiModel, Cpus, Timestamp
from wharfinger.service.performance import newest_prediction

DEFAULT_CONFIDENCE = 0.8
"""Of a classification's intervals where no prediction has stated its own."""


class CurvePointModel(ApiModel):
    """Performance with so much CPU, alone."""

    cpus: Cpus
    mean: float = Field(description="As likely too low as too high.")
    low: float = Field(description="Exceeded with the classification's `confidence`.")
    high: float = Field(description="Not exceeded with it.")
    measured: bool = Field(description="Whether it was measured; else it is an estimate.")


class CurveModel(ApiModel):
    """How performance follows CPU."""

    name: str = Field(description="What, with its unit; `relative` = to that with one CPU.")
    points: list[CurvePointModel] = Field(description="By CPU, ascending.")


class ScoreModel(ApiModel):
    """Interference with one shared resource, 0-100; `null` = unknown."""

    name: str = Field(description="The shared resource.")
    tolerated: float | None = Field(description="Pressure up to which it keeps its performance.")
    tolerated_std: float | None
    tolerated_measured: bool
    tolerated_censored: bool = Field(description="Not slowed by any that was tried: a lower bound.")
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
    entries_measured: int = Field(validation_alias="measured", description="0 = a cold start.")
    total: float | None = Field(description="In the unit of its rate; `null` = unknown.")
    curves: list[CurveModel] = Field(description="Performance by CPU.")
    platform: str | None = Field(description="On which they hold; `null` = unknown.")
    platforms: list[ChangeModel] = Field(description="On other platforms, relative to that one.")
    servers: list[ChangeModel] = Field(description="On so many servers together, relative to one.")
    interference: list[ScoreModel]
    silent: list[SilenceModel] = Field(description="What could not be measured, and why.")


class EntryModel(ApiModel):
    """One measured number."""

    name: str = Field(description="What it says, with its unit.")
    cpus: Cpus = Field(description="Under which allocation.")
    value: float
    error: float = Field(description="Standard error, as a share of the value.")
    origin: str = Field(description="offline, profiled, observed or predicted.")
    measured_at: Timestamp | None = Field(description="When; `null` = unknown.")


class ProfilingModel(ApiModel):
    """What was measured of a workload under known allocations."""

    runs: int = Field(description="How often a profiling run was started; 0 = never.")
    seconds: float = Field(description="How long that took.")
    entries: list[EntryModel] = Field(description="What it is classified by.")
    observed: list[EntryModel] = Field(description="Its own since then, by allocation.")


def profiling(record: WorkloadRecord) -> ProfilingModel | None:
    """What was measured of a workload; ``None`` = nothing."""
    if record.measurements is None and not record.observed:
        return None
    measurements = record.measurements or Measurements()
    return ProfilingModel(
        runs=measurements.runs,
        seconds=round(measurements.seconds, 3),
        entries=_entries(measurements.performance),
        observed=_entries(record.observed),
    )


def _entries(rows: Mapping[Quantity, Mapping[int, Entry]]) -> list[EntryModel]:
    return [
        EntryModel.of(entry, name=quantity, cpus=cpu)
        for quantity, row in rows.items()
        for cpu, entry in sorted(row.items())
    ]


def classification(record: WorkloadRecord) -> ClassificationModel | None:
    """What a workload needs, as an estimator said; ``None`` = it is not classified."""
    classified = record.classification
    if classified is None:
        return None
    measurements = record.measurements or Measurements()
    confidence = confidence_of(record)
    z = quantile(confidence)
    curves = [
        _curve(quantity, curve, frozenset(measurements.performance.get(quantity, ())), z)
        for quantity, curve in classified.curves.items()
    ]
    if not curves and classified.shape is not None:
        curves = [_curve("relative", classified.shape, frozenset(), z)]
    return ClassificationModel.of(
        classified,
        confidence=confidence,
        curves=curves,
        platform=classified.platform or None,
        platforms=_changes(classified.platforms, z),
        servers=_changes(classified.servers, z),
        interference=[
            _score(source, classified, measurements)
            for source in SharedResource
            if source in classified.tolerated or source in classified.caused
        ],
        silent=[SilenceModel(name=name, reason=why) for name, why in measurements.silent.items()],
    )


def confidence_of(record: WorkloadRecord) -> float:
    """The confidence of a workload's intervals."""
    predicted = newest_prediction(record)
    return DEFAULT_CONFIDENCE if predicted is None else predicted.confidence


def bounds(estimate: Estimate, z: float) -> dict[str, float]:
    """``mean``, ``low`` and ``high`` of an estimate whose deviation is the logarithm's."""
    mean, std = estimate.mean, estimate.std
    return {"mean": mean, "low": mean * exp(-z * std), "high": mean * exp(z * std)}


def _changes(
    estimates: Mapping[str, Estimate] | Mapping[int, Estimate], z: float
) -> list[ChangeModel]:
    return [ChangeModel(name=str(name), **bounds(e, z)) for name, e in estimates.items()]


def _curve(name: str, curve: Curve, measured: frozenset[int], z: float) -> CurveModel:
    points = [
        CurvePointModel(cpus=cpu, **bounds(estimate, z), measured=cpu in measured)
        for cpu, estimate in zip(curve.cpu_millicpus, curve.estimates, strict=True)
    ]
    return CurveModel(name=name, points=points)


def _score(
    source: SharedResource, classified: profile.Classification, measurements: Measurements
) -> ScoreModel:
    tolerated, caused = classified.tolerated.get(source), classified.caused.get(source)
    entry = measurements.tolerated.get(source)
    return ScoreModel(
        name=source.value,
        tolerated=tolerated.mean if tolerated else None,
        tolerated_std=tolerated.std if tolerated else None,
        tolerated_measured=entry is not None,
        tolerated_censored=entry is not None and entry.censored,
        caused=caused.mean if caused else None,
        caused_std=caused.std if caused else None,
        caused_measured=source in measurements.caused,
    )
