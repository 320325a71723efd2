"""What is predicted of a workload, what was measured for it, and how far the two agree.

Reads only. Predictions are shown as they were recorded; what is held against them is what was
measured. The table of what a target takes comes from the recorded classification, by the
function with which policies size.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import exp, log

from wharfinger.classification.prediction import pace_with, parts_of, performance_with
from wharfinger.core import state
from wharfinger.core.adaptation import is_settled
from wharfinger.core.state import WorkloadRecord
from wharfinger.model import decisions as dec
from wharfinger.model.decisions import Term
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Achieved, Quantity, pace
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Curve, Entry, Estimate, Measurements, quantile
from wharfinger.policies.placement.quasar import CONFIDENCE
from wharfinger.policies.placement.resizing import BUSY
from wharfinger.service import models_forecast
from wharfinger.service.values import cpus, placement, timestamp

WAITED = "waited_seconds"
"""Under this key a decision keeps how long the workload had waited when it was sized."""
NEEDED = "cpu_needed_millicpus"
"""Under this key a candidate keeps what the workload would be given there."""


# --- predictions ----------------------------------------------------------------------------


def newest_prediction(record: WorkloadRecord) -> dec.Prediction | None:
    """For where it is, or was when it ended; for one that waits, the newest that was made."""
    if record.on_server or record.started_at is not None:
        return record.predicted
    found = (timed.decision.predicted for timed in reversed(record.decisions))
    return next((prediction for prediction in found if prediction is not None), None)


def prediction(made: dec.Prediction | None) -> models_forecast.Prediction | None:
    """As the API shows it."""
    if made is None:
        return None
    return models_forecast.Prediction(
        mean=made.mean,
        low=made.low,
        high=made.high,
        confidence=made.confidence,
        performance=_performance(made.performance),
    )


def _performance(terms: Mapping[Term, dec.Interval]) -> models_forecast.PredictedPerformance:
    return models_forecast.PredictedPerformance(
        throughput_per_second=_interval(terms.get(Term.THROUGHPUT)),
        latency_seconds=_interval(terms.get(Term.LATENCY)),
        rate_per_second=_interval(terms.get(Term.RATE)),
        completion_seconds=_interval(terms.get(Term.COMPLETION)),
    )


def _interval(given: dec.Interval | None) -> models_forecast.Interval | None:
    if given is None:
        return None
    return models_forecast.Interval(mean=given.mean, low=given.low, high=given.high)


def pace_now(record: WorkloadRecord, found: Achieved, now: float) -> float | None:
    """Performance over target: of what runs now, of what has completed in the end."""
    target = record.workload.target
    if target is None:
        return None
    if record.ended and target.completion_seconds is not None:
        took = found.completion_seconds
        return target.completion_seconds / took if took else None
    if record.performance is None:
        return None
    held = record.performance.at(now if record.ended_at is None else record.ended_at)
    return pace(target, held, record.submitted_at)


@dataclass(frozen=True, slots=True)
class Checked:
    """One prediction and what came of it.

    Attributes:
        log_error: ln(achieved / predicted).
    """

    term: Term
    predicted: dec.Interval
    achieved: float

    @property
    def log_error(self) -> float:
        """0 = exactly as predicted."""
        return log(self.achieved / self.predicted.mean)


def checked(record: WorkloadRecord, found: Achieved, now: float) -> list[Checked]:
    """Its predictions that can be held against what was measured.

    A throughput is what it could answer: where less was asked, that says nothing.

    Args:
        record: Of the workload.
        found: What it achieves.
        now: Of one that runs, only once its allocation had time to show.
    """
    predicted = newest_prediction(record)
    if predicted is None or not (record.ended or (record.on_server and is_settled(record, now))):
        return []
    achieved = {
        Term.THROUGHPUT: found.throughput_per_second,
        Term.LATENCY: found.latency_seconds,
        Term.RATE: found.rate_per_second,
        # While it runs it is a prediction itself.
        Term.COMPLETION: found.completion_seconds if record.ended else None,
    }
    return [
        Checked(term, interval, value)
        for term, interval in predicted.performance.items()
        if (value := achieved[term]) is not None
        and value > 0
        and not (term is Term.THROUGHPUT and value < interval.mean and _is_idle(record))
    ]


def _is_idle(record: WorkloadRecord) -> bool:
    """Whether it has more CPU than it was asked to use."""
    performance = record.performance
    used = None if performance is None else performance.readings.get(Quantity.CPU)
    given = sum(place.allocation.cpu_millicpus for place in record.placements)
    return used is not None and used.value * MILLICPUS_PER_CPU < BUSY * given


def prediction_errors(
    record: WorkloadRecord, found: Achieved, now: float
) -> list[models_forecast.PredictionError]:
    """The same as the API shows it."""
    return [
        models_forecast.PredictionError(
            name=one.term.value,
            predicted=one.predicted.mean,
            achieved=one.achieved,
            log_error=one.log_error,
            within=one.predicted.low <= one.achieved <= one.predicted.high,
        )
        for one in checked(record, found, now)
    ]


# --- what was done about it -------------------------------------------------------------------


def adjustment(made: state.Adjustment) -> models_forecast.Adjustment:
    """One adjustment."""
    return models_forecast.Adjustment(
        **{"from": list(map(placement, made.before))},
        time=timestamp(made.time),
        kind=made.kind.value,
        to=list(map(placement, made.after)),
        reason=made.reason,
        message=made.message,
        pace_before=made.pace_before,
        pace_after=made.pace_after,
    )


def adjustments(record: WorkloadRecord) -> list[models_forecast.Adjustment]:
    """All that are kept, oldest first."""
    return list(map(adjustment, record.adjustments))


# --- what was measured, and what was made of it -------------------------------------------------


def profiling(record: WorkloadRecord) -> models_forecast.Profiling | None:
    """What was measured of it under known allocations."""
    found = record.measurements
    if found is None and not record.observed:
        return None
    found = found or Measurements()
    return models_forecast.Profiling(
        runs=found.runs,
        seconds=round(found.seconds, 3),
        entries=list(_entries(found.performance)),
        observed=list(_entries(record.observed)),
    )


def _entries(rows: Mapping[Quantity, Mapping[int, Entry]]) -> Iterator[models_forecast.Entry]:
    for quantity, row in rows.items():
        for cpu, entry in sorted(row.items()):
            yield models_forecast.Entry(
                name=quantity.value,
                cpus=cpus(cpu),
                value=entry.value,
                error=entry.error,
                origin=entry.origin.value,
                measured_at=None if entry.measured_at is None else timestamp(entry.measured_at),
            )


def classification(record: WorkloadRecord) -> models_forecast.Classification | None:
    """What it needs, with intervals."""
    known = record.classification
    if known is None:
        return None
    found = record.measurements or Measurements()
    confidence = _confidence(record)
    curves = [
        _curve(quantity.value, curve, frozenset(found.performance.get(quantity, ())), confidence)
        for quantity, curve in known.curves.items()
    ]
    if not curves and known.shape is not None:
        curves = [_curve("relative", known.shape, frozenset(), confidence)]
    sources = [s for s in SharedResource if s in known.tolerated or s in known.caused]
    return models_forecast.Classification(
        estimator=known.estimator,
        version=known.version,
        confidence=confidence,
        entries_measured=known.measured,
        total=known.total,
        curves=curves,
        platform=known.platform or None,
        platforms=_elsewhere(known.platforms, confidence),
        servers=_elsewhere({str(n): e for n, e in known.servers.items()}, confidence),
        interference=[
            _score(source, known.tolerated.get(source), known.caused.get(source), found)
            for source in sources
        ],
        silent=[
            models_forecast.Silence(name=name, reason=why) for name, why in found.silent.items()
        ],
    )


def _elsewhere(found: Mapping[str, Estimate], confidence: float) -> list[models_forecast.Change]:
    z = quantile(confidence)
    return [
        models_forecast.Change(
            name=name,
            mean=estimate.mean,
            low=estimate.mean * exp(-z * estimate.std),
            high=estimate.mean * exp(z * estimate.std),
        )
        for name, estimate in found.items()
    ]


def _confidence(record: WorkloadRecord) -> float:
    predicted = newest_prediction(record)
    return CONFIDENCE if predicted is None else predicted.confidence


def _curve(
    name: str, curve: Curve, measured: frozenset[int], confidence: float
) -> models_forecast.Curve:
    z = quantile(confidence)
    return models_forecast.Curve(
        name=name,
        points=[
            models_forecast.CurvePoint(
                cpus=cpus(cpu),
                mean=estimate.mean,
                low=estimate.mean * exp(-z * estimate.std),
                high=estimate.mean * exp(z * estimate.std),
                measured=cpu in measured,
            )
            for cpu, estimate in zip(curve.cpu_millicpus, curve.estimates, strict=True)
        ],
    )


def _score(
    source: SharedResource,
    tolerated: Estimate | None,
    caused: Estimate | None,
    found: Measurements,
) -> models_forecast.Score:
    entry = found.tolerated.get(source)
    return models_forecast.Score(
        name=source.value,
        tolerated=tolerated.mean if tolerated else None,
        tolerated_std=tolerated.std if tolerated else None,
        tolerated_measured=entry is not None,
        tolerated_censored=entry is not None and entry.censored,
        caused=caused.mean if caused else None,
        caused_std=caused.std if caused else None,
        caused_measured=source in found.caused,
    )


def need(record: WorkloadRecord, now: float) -> list[models_forecast.NeedPoint]:
    """What its target takes: performance by CPU, alone, as it was when it was sized last.

    Empty where nothing predicts it.
    """
    known = record.classification
    if known is None:
        return []
    parts = parts_of(record.workload, known, _waited_seconds(record, now))
    if not parts:
        return []
    confidence = _confidence(record)
    z = quantile(confidence)
    columns = {cpu for part in parts for cpu in part.curve.cpu_millicpus}
    columns |= {
        p.allocation.cpu_millicpus for p in record.placements if not p.allocation.best_effort
    }
    columns |= _sized(record)
    found = record.measurements or Measurements()
    measured = {cpu for row in found.performance.values() for cpu in row}
    points = []
    for cpu in sorted(columns):
        estimate = pace_with(parts, cpu, confidence)
        low, high = (estimate.mean * exp(sign * z * estimate.std) for sign in (-1, 1))
        points.append(
            models_forecast.NeedPoint(
                cpus=cpus(cpu),
                pace=models_forecast.Interval(mean=estimate.mean, low=low, high=high),
                performance=_performance(performance_with(parts, cpu, 0.0, 0.0, confidence)),
                reaches=low >= 1,
                measured=cpu in measured,
            )
        )
    return points


def _sized(record: WorkloadRecord) -> set[int]:
    """What it was to get, by the newest decision about its place, in thousandths of a CPU."""
    for timed in reversed(record.decisions):
        if timed.decision.stage is dec.Stage.PLACEMENT:
            candidates = timed.decision.candidates
            return {int(c.numbers[NEEDED]) for c in candidates[:1] if c.numbers.get(NEEDED)}
    return set()


def _waited_seconds(record: WorkloadRecord, now: float) -> float:
    """When it was sized: a completion time counts from being handed in."""
    for timed in reversed(record.decisions):
        if timed.decision.stage is dec.Stage.PLACEMENT and WAITED in timed.decision.numbers:
            return timed.decision.numbers[WAITED]
    return max(0.0, now - record.submitted_at)
