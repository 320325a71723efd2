"""How well forms predict sets that were held out, from a sample of each degree.

Errors are of contention, (predicted − observed) / observed, where observed is above the floor of
its scale; a prediction beyond the largest bubble counts as that. ``bias`` is Σ (predicted −
observed) / Σ observed. A held-out set is *safe* at a QoS if its performance is no lower; it is
*allowed* if the probability that it is unsafe is at most 1 − confidence.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.interference.form import Form
from wharfinger.interference.measurements import (
    ContentionMeasurements,
    ContentionSetting,
    SetTable,
)
from wharfinger.interference.model import NORMAL_90, InterferenceModel, SetPredictions
from wharfinger.model.arrays import Array

QOS = (0.8, 0.9, 0.95, 0.99)
Metrics = dict[str, float | None]
Sampler = Callable[
    [ContentionMeasurements, float, np.random.Generator],
    tuple[ContentionMeasurements, ContentionMeasurements],
]
"""Divides sets into those to learn from and the others."""


def at_random(
    measurements: ContentionMeasurements, share: float, rng: np.random.Generator
) -> tuple[ContentionMeasurements, ContentionMeasurements]:
    """A random sample of each setting and degree."""
    return measurements.sampled(share, rng)


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """How sets are held out.

    Attributes:
        share: Of the sets of each setting and degree, to learn from.
        confidence: With which a set must be safe to be allowed.
    """

    share: float = 0.05
    repeats: int = 50
    seed: int = 0
    confidence: float = 0.95
    sampler: Sampler = at_random


@dataclass(slots=True)
class HeldOutSets:
    """Predictions of one form at one degree, with what was observed."""

    parts: list[tuple[SetPredictions, SetTable]] = field(default_factory=list)
    services: list[ContentionSetting] = field(default_factory=list)
    fit_seconds: list[float] = field(default_factory=list)
    predict_seconds: float = 0.0

    def errors(self) -> Array:
        """Relative errors of contention, of sets above the floor."""
        observed, predicted, floor = self._contention()
        told = (observed >= floor) & ~np.isnan(predicted)
        return (predicted[told] - observed[told]) / observed[told]

    def _contention(self) -> tuple[Array, Array, Array]:
        columns = []
        for prediction, table in self.parts:
            scale = prediction.scale
            predicted = scale.contention(prediction.drops)
            beyond = np.isnan(predicted) & ~np.isnan(prediction.drops)
            floor = np.full(len(table), max(scale.floor, 1e-300))
            columns.append(
                [scale.contention(table.drops), np.where(beyond, scale.limit, predicted), floor]
            )
        observed, predicted, floor = (np.concatenate(each) for each in zip(*columns, strict=True))
        return observed, predicted, floor

    def metrics(self, confidence: float) -> dict[str, object]:
        """All that docs/contention.md lists."""
        observed, predicted, floor = self._contention()
        told = (observed >= floor) & ~np.isnan(predicted)
        off_by = predicted[told] - observed[told]
        errors = off_by / observed[told]
        drops = np.concatenate([prediction.drops for prediction, _ in self.parts])
        stds = np.concatenate([prediction.stds for prediction, _ in self.parts])
        true = np.concatenate([table.drops for _, table in self.parts])
        noise = np.concatenate([table.errors for _, table in self.parts])
        known = ~np.isnan(drops)
        off = np.abs(drops - true)[known]
        width = NORMAL_90 * np.hypot(stds, noise)[known]
        censored = np.isnan(observed) | np.isnan(predicted)
        return {
            "sets": len(true),
            "median_error": _of(np.median, errors),
            "median_absolute_error": _of(np.median, np.abs(errors)),
            "p95_error": _of(lambda each: np.percentile(each, 95), np.abs(errors)),
            "bias": _of(lambda each: each.sum() / observed[told].sum(), off_by),
            "std_error": _of(np.std, errors),
            "mean_absolute_log_error": _of(np.mean, off),
            "coverage_90": _of(np.mean, (off <= width + 1e-12).astype(np.float64)),
            "censored": float(censored.mean()),
            "unknown": float(1 - known.mean()),
            "fit_seconds": float(np.median(self.fit_seconds)),
            "predict_nanoseconds": 1e9 * self.predict_seconds / len(true),
            "qos": [self._safety(qos, confidence) for qos in QOS],
        }

    def _safety(self, qos: float, confidence: float) -> Metrics:
        """NaN of what no scale tells."""
        safe_parts, allowed_parts = [], []
        for prediction, table in self.parts:
            if prediction.scale.tells_performance:
                safe_parts.append(np.exp(-table.drops) >= qos)
                allowed_parts.append(prediction.unsafe(qos) <= 1 - confidence)
        if not safe_parts:
            return {"qos": qos, "safe_found": None, "unsafe_allowed": None}
        safe, allowed = np.concatenate(safe_parts), np.concatenate(allowed_parts)
        return {
            "qos": qos,
            "safe_found": _of(np.mean, allowed[safe].astype(np.float64)),
            "unsafe_allowed": _of(np.mean, (~safe[allowed]).astype(np.float64)),
        }


def _of(function: Callable[[Array], object], values: Array) -> float | None:
    return float(str(function(values))) if len(values) else None


def judge(
    measurements: ContentionMeasurements,
    forms: Sequence[Form],
    plan: SamplingPlan,
    clock: Callable[[], float],
    progress: Callable[[float], None] = lambda _: None,
) -> dict[str, dict[int, HeldOutSets]]:
    """By form and degree, predictions of what each repeat holds out.

    Raises:
        InvalidInput: Nothing is left to predict.
    """
    judged: dict[str, dict[int, HeldOutSets]] = {
        form.name: defaultdict(HeldOutSets) for form in forms
    }
    steps = plan.repeats * len(forms)
    for repeat in range(plan.repeats):
        rng = np.random.default_rng([plan.seed, repeat])
        learned, held = plan.sampler(measurements, plan.share, rng)
        for number, form in enumerate(forms):
            _predict_all(form, learned, held, judged[form.name], clock)
            progress((repeat * len(forms) + number + 1) / steps)
    if not any(judged[form.name] for form in forms):
        raise InvalidInput("no set of two neighbors or more is left to predict; sample fewer")
    return judged


def _predict_all(
    form: Form,
    learned: ContentionMeasurements,
    held: ContentionMeasurements,
    by_degree: dict[int, HeldOutSets],
    clock: Callable[[], float],
) -> None:
    begin = clock()
    model = InterferenceModel.fit(form, learned)
    seconds = clock() - begin
    for service in held.services:
        predictor = model.predictors[service.setting]
        for degree, table in service.sets.items():
            if not len(table):
                continue
            begin = clock()
            drops, stds = predictor.drops(table.members)
            judged = by_degree[degree]
            judged.predict_seconds += clock() - begin
            judged.fit_seconds.append(seconds)
            judged.parts.append((SetPredictions(drops, stds, service.scale), table))
            judged.services.append(service.setting)
