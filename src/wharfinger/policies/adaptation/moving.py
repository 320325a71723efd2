"""Whether a migration pays: what is left to do there, and to repeat, against staying.

``by_target`` asks once a placement has named a destination. A job moves where its end comes sooner
with the prediction's confidence, the restart included; a service, whose end nothing tells, where
the time in which it keeps its target grows by more than the time in which it is down.

The destination is the best of several that were predicted, and so the one whose prediction is most
likely too high. The confidence is that none of them deceives: each by itself may do so with its
part of the doubt (Bonferroni).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import log

from wharfinger.classification.prediction import reached_probability
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.decisions import Prediction, Term
from wharfinger.model.performance import Performance, Quantity
from wharfinger.model.profile import Estimate, quantile
from wharfinger.model.view import OffTarget
from wharfinger.model.workload import WorkloadType
from wharfinger.policies.adaptation.slack import TargetSettings


@dataclass(frozen=True, slots=True)
class Gain:
    """What a migration should bring; ``message`` and ``numbers`` go into its decision."""

    pays: bool
    message: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)


_NONE = Gain(pays=False)


def gain_of_move(
    record: WorkloadRecord,
    now: float,
    off: OffTarget,
    predicted: Prediction,
    *,
    keeps_work: bool,
    settings: TargetSettings,
    alternatives: int = 1,
) -> Gain:
    """What it brings to move a running workload to where this is predicted.

    ``keeps_work`` = the engine lets it go on where it was; else it begins anew. ``alternatives`` is
    of how many places with a prediction of their own this was the best.
    """
    predicted = surely(predicted, alternatives)
    performance = record.performance
    left_seconds = None if performance is None else performance.trusted(Quantity.REMAINING)
    if performance is not None and left_seconds is not None:
        return _of_job(record, performance, left_seconds, predicted, keeps_work, settings)
    return _of_service(record, now, off, predicted, keeps_work, settings)


def surely(predicted: Prediction, alternatives: int) -> Prediction:
    """With the lower bounds that hold for the best of so many as the stated ones do for one.

    >>> one = Prediction(1.0, 0.8, 1.25, 0.8)
    >>> [round(surely(one, count).low, 2) for count in (1, 2, 10)]
    [0.8, 0.71, 0.58]
    """
    z = quantile(predicted.confidence)
    if alternatives <= 1 or z <= 0:
        return predicted
    wider = quantile(1 - (1 - predicted.confidence) / alternatives) / z

    def bound(mean: float, low: float) -> float:
        return mean * (low / mean) ** wider if mean > 0 and low > 0 else low

    terms = {
        term: replace(each, low=bound(each.mean, each.low))
        for term, each in predicted.performance.items()
    }
    low = bound(predicted.mean, predicted.low)
    confidence = 1 - (1 - predicted.confidence) / alternatives
    return replace(predicted, low=low, performance=terms, confidence=confidence)


def _of_job(
    record: WorkloadRecord,
    performance: Performance,
    left_seconds: float,
    predicted: Prediction,
    keeps_work: bool,
    settings: TargetSettings,
) -> Gain:
    """By when it should end, here and there."""
    rate, there = performance.trusted(Quantity.RATE), predicted.performance.get(Term.RATE)
    if not rate or there is None or there.low <= 0:
        return _NONE
    work = left_seconds * rate
    if not keeps_work:
        work = max(work, _total(record, performance, work, rate))
    moved_seconds = settings.move_seconds + work / there.low
    numbers = {"left_seconds": left_seconds, "left_if_moved_seconds": moved_seconds}
    message = f"it should end within {moved_seconds:.0f} s, and here in {left_seconds:.0f} s"
    return Gain(moved_seconds < left_seconds, message, numbers)


def _total(record: WorkloadRecord, performance: Performance, left: float, rate: float) -> float:
    """Its work from the beginning: as stated, as measured, else what it should have done by now."""
    known = record.classification.total if record.classification else None
    total = record.workload.measure.progress_total or known
    if total is not None:
        return total
    began = record.started_at if record.started_at is not None else record.submitted_at
    return left + rate * max(0.0, performance.measured_at - began)


def _of_service(
    record: WorkloadRecord,
    now: float,
    off: OffTarget,
    predicted: Prediction,
    keeps_work: bool,
    settings: TargetSettings,
) -> Gain:
    """By how much more of the time to come its target should be kept.

    What has an end that nothing tells loses its work, too.
    """
    wanted = 1 - record.workload.tolerance
    if predicted.mean < wanted or predicted.low <= off.normalized:
        return _NONE
    z = quantile(predicted.confidence)
    std = log(predicted.mean / predicted.low) / z if z > 0 and predicted.low > 0 else 0.0
    there = reached_probability(Estimate(predicted.mean, std), wanted)
    here = reached_probability(Estimate(off.normalized, settings.observation_error), wanted)
    down_seconds, ran_seconds = settings.move_seconds, max(0.0, now - (record.started_at or now))
    if not keeps_work and record.workload.type is not WorkloadType.LATENCY_CRITICAL:
        down_seconds += ran_seconds
    until_next = settings.unmigrated_seconds * 2.0 ** min(record.migrations + 1, 20)
    # What has run for long is taken to have as long to go: it repeats the one, and does the other.
    cost = down_seconds / max(until_next, 2 * ran_seconds)
    numbers = {"kept_here": here, "kept_if_moved": there, "cost_of_move": cost}
    message = f"the target should be kept with {there:.0%} probability, and here with {here:.0%}"
    return Gain(there - here > cost, message, numbers)
