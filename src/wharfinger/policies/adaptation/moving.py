"""Whether a migration pays: what is left to do there, and to repeat, against staying.

``by_target`` asks once a placement has named a destination. A job moves where its end comes sooner
with the prediction's confidence, the restart included; a service, whose end nothing tells, where
the time in which it keeps its target grows by more than the time in which it is down.

The destination is the best of several that were predicted, and so the one whose prediction is most
likely too high. The confidence is that none of them deceives: each by itself may do so with its
part of the doubt (Bonferroni).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log

from wharfinger.classification.prediction import estimate_of, reached_probability
from wharfinger.classification.worth import LEAST_LEFT, PERFORMANCE_WEIGHT
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
LEAST_POINTS = 10.0
"""Tolerated scores below it are extrapolated: no ramp tries less."""


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
    work, repeated = left_seconds * rate, 0.0
    if not keeps_work:
        whole = max(work, _total(record, performance, work, rate))
        work, repeated = whole, whole - work
    moved_seconds = settings.move_seconds + work / there.low
    numbers = {"left_seconds": left_seconds, "left_if_moved_seconds": moved_seconds}
    message = f"it should end within {moved_seconds:.0f} s, and here in {left_seconds:.0f} s"
    # What is done again there is taken from others.
    worth = left_seconds * (1 - settings.moves_for_share) - repeated / rate
    return Gain(moved_seconds < worth, message, numbers)


def _total(record: WorkloadRecord, performance: Performance, left: float, rate: float) -> float:
    """Its work from the beginning: as stated, as measured, else what it should have done by now."""
    known = record.classification.total if record.classification else None
    total = record.workload.measure.progress_total or known
    if total is not None:
        return total
    began = record.started_at if record.started_at is not None else record.submitted_at
    return left + rate * max(0.0, performance.measured_at - began)


def gain_of_first_move(
    record: WorkloadRecord,
    now: float,
    here: Prediction,
    there: Prediction,
    run_seconds: Sequence[float],
    *,
    keeps_work: bool,
    settings: TargetSettings,
) -> Gain:
    """What it brings to move what has begun without a profile, once its copies have told.

    In targets: by how much more probable it is that its own is kept, and performance as placements
    weigh it. ``run_seconds`` are equally likely times that it takes from its start. Elsewhere it
    has waited for as long as it has run here, if its work is not kept.
    """
    wanted = 1 - record.workload.tolerance
    began = now if record.started_at is None else record.started_at
    waited, moved = began - record.submitted_at, now + settings.move_seconds - record.submitted_at
    if keeps_work:
        moved = waited + settings.move_seconds
    stays = goes = 0.0
    for seconds in run_seconds:
        stays += _worth(here, wanted, waited / seconds) / len(run_seconds)
        goes += _worth(there, wanted, moved / seconds) / len(run_seconds)
    numbers = {"worth_here": stays, "worth_if_moved": goes}
    message = f"there it should give {there.mean:.0%} of its target, and here {here.mean:.0%}"
    return Gain(goes - stays > settings.moves_for_targets, message, numbers)


def _worth(predicted: Prediction, wanted: float, lost: float) -> float:
    """Of running as predicted with a share of its time lost, in targets."""
    left = max(LEAST_LEFT, 1 - lost)
    kept = reached_probability(estimate_of(predicted), wanted / left)
    return kept + PERFORMANCE_WEIGHT * log(max(LEAST_LEFT, min(1.0, predicted.mean * left)))


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
    there = reached_probability(estimate_of(predicted), wanted)
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


def shares_of_pressure(
    record: WorkloadRecord, neighbors: Sequence[WorkloadRecord]
) -> list[tuple[WorkloadRecord, float]]:
    """The neighbors that slow it, most first, each with its share of what all of them do.

    By what each causes over what the workload tolerates, of the source where that is most.
    """
    classified = record.classification
    if classified is None:
        return []
    pressed = []
    for neighbor in neighbors:
        caused = neighbor.classification.caused if neighbor.classification else {}
        ratios = [
            score.mean / max(LEAST_POINTS, classified.tolerated[source].mean)
            for source, score in caused.items()
            if source in classified.tolerated
        ]
        pressed.append((neighbor, max(ratios, default=0.0)))
    total = sum(pressure for _, pressure in pressed)
    pressed.sort(key=lambda each: (-each[1], each[0].uid))
    return [(neighbor, pressure / total) for neighbor, pressure in pressed if pressure > 0]


def gain_of_isolation(
    record: WorkloadRecord,
    relief: Estimate,
    neighbor: WorkloadRecord,
    predicted: Prediction | None,
    now: float,
    *,
    keeps_work: bool,
    settings: TargetSettings,
) -> Gain:
    """What it brings a workload that one neighbor goes to where this is predicted of it.

    The time that the workload saves must be more than the neighbor loses; both together must keep
    more targets than before: the neighbor keeps its own.

    ``relief`` is what that neighbor leaves of the workload's performance.
    """
    if predicted is None:
        return _NONE
    wanted = min(1.0, 1 - neighbor.workload.tolerance)
    if predicted.low < wanted:
        return _NONE
    z = quantile(predicted.confidence)
    lifted = max(0.0, -log(relief.mean) - z * relief.std)
    saved_seconds = left_seconds(record, now) * (1 - exp(-lifted))
    lost_seconds = settings.move_seconds
    if not keeps_work and neighbor.workload.type is not WorkloadType.LATENCY_CRITICAL:
        lost_seconds += ran_seconds(neighbor, now)
    lost_seconds += left_seconds(neighbor, now) * max(0.0, _slower_there(neighbor, predicted))
    numbers = {"saved_seconds": saved_seconds, "lost_seconds": lost_seconds}
    message = f"it should save {saved_seconds:.0f} s, and the other lose {lost_seconds:.0f} s"
    return Gain(saved_seconds > lost_seconds, message, numbers)


def ran_seconds(record: WorkloadRecord, now: float) -> float:
    """For how long it has run since its newest start."""
    return max(0.0, now - (now if record.started_at is None else record.started_at))


def left_seconds(record: WorkloadRecord, now: float) -> float:
    """What it has to go here; what has run for long is taken to have as long to go."""
    told = record.performance.trusted(Quantity.REMAINING) if record.performance else None
    return told if told is not None else ran_seconds(record, now)


def _slower_there(record: WorkloadRecord, predicted: Prediction) -> float:
    """By how much longer the rest takes, as a share; below 0 = it is faster there."""
    if record.tracking is None or predicted.mean <= 0:
        return 0.0
    return min(record.tracking.normalized_performance, 1.0) / min(predicted.mean, 1.0) - 1
