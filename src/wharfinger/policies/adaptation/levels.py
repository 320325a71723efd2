"""Whether what runs performs as it did: its own level, and when it has left that.

Page's cumulative sums (CUSUM, Biometrika 1954) in both directions: a deviation counts from an
allowance on, and what it comes to over several measurements is held against a threshold. So noise
is not taken for a change, a large change is seen at once and a small one a little later. A service
is judged by its work per CPU second, which its load does not change (the utilization law).
"""

from dataclasses import replace
from math import exp, hypot, log, sqrt
from statistics import fmean
from typing import Any

from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import WorkloadRecord
from wharfinger.core.tracking import LevelChange, LevelTracking
from wharfinger.model.allocation import cpu_of
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Estimate
from wharfinger.policies.adaptation.phase_settings import LevelSettings
from wharfinger.policies.adaptation.slack import cpu_used, is_recent

_MEMORY = 20
"""Measurements over which noise is learnt."""
LEAST_NOISE = 1e-6
"""Of one measurement, of the logarithm, also where settings say 0: deviations are divided by it."""


def level_of(
    record: WorkloadRecord,
    now: float,
    settings: LevelSettings,
    slowdown: Estimate | None = None,
) -> LevelTracking | None:
    """Its level after its newest measurement; ``None`` = there is none as yet.

    ``slowdown`` is its performance among its neighbors over that alone, as predicted.
    """
    level = _level_of(record, now, settings, slowdown)
    if level is None or level.doubt:
        return level  # What its neighbors were, when it was seen at this level.
    return level if level.slowdown == slowdown else replace(level, slowdown=slowdown)


def _level_of(
    record: WorkloadRecord, now: float, settings: LevelSettings, slowdown: Estimate | None
) -> LevelTracking | None:
    before, probe, told = record.level, record.probe, _performance(record)
    if told is None or not record.placements:
        return None
    if is_recent(record.started_at, now, settings.level_settling_seconds):
        return None
    in_vivo = probe is not None and not probe.placements
    if probe is not None and in_vivo and probe.under_way:
        return before  # A source lowers it.
    if is_unsettled(record, now, settings):
        return before and replace(
            before,
            below=0.0,
            above=0.0,
            away=(),
            away_since=None,
            doubt=_doubt(record, before, now, settings),
        )
    ended = probe.answered_at if probe is not None and in_vivo else None
    if is_recent(ended, now, settings.level_settling_seconds / 2):
        return before
    quantity, seen = told
    cpu = cpu_of(record.placements)
    if before is None:
        return LevelTracking(log(seen), 1, settings.noise, cpu_millicpus=cpu)
    if before.doubt:
        expected, doubt = before.mean, before.doubt
        if doubt >= settings.neighbor_doubt and slowdown and before.slowdown:
            # By what its neighbors are predicted to do, and how sure that is.
            expected += log(slowdown.mean / before.slowdown.mean)
            doubt = hypot(settings.neighbor_doubt, slowdown.std, before.slowdown.std)
        least, most = _by_cpu(record, quantity, before)
        expected += min(max(log(seen) - expected, least), most)
        return _compared(replace(before, doubt=doubt), log(seen), expected, now, settings, cpu)
    return with_measurement(before, log(seen), now, settings)


def is_unsettled(record: WorkloadRecord, now: float, settings: LevelSettings) -> bool:
    """Whether something about it has changed so lately that it has no level."""
    changes = (record.adjusted_at, record.phase_since, record.neighbors_changed_at)
    lately = any(is_recent(at, now, settings.level_settling_seconds) for at in changes)
    return lately or record.phase is not Phase.RUNNING


def _doubt(
    record: WorkloadRecord, level: LevelTracking, now: float, settings: LevelSettings
) -> float:
    doubt = level.doubt or settings.doubt
    if is_recent(record.neighbors_changed_at, now, settings.level_settling_seconds):
        doubt = max(doubt, settings.neighbor_doubt)
    return doubt


def _by_cpu(
    record: WorkloadRecord, quantity: Quantity, level: LevelTracking
) -> tuple[float, float]:
    """Between which the CPU that it has now moves its level: not at all, by its curve, in ratio.

    Per CPU second it is the same.
    """
    cpu, before, count = cpu_of(record.placements), level.cpu_millicpus, len(record.placements)
    if quantity is not Quantity.RATE or not before or cpu <= 0:
        return 0.0, 0.0
    curve = record.classification.curves.get(quantity) if record.classification else None
    by_curve = log(curve.at(cpu // count).mean / curve.at(before // count).mean) if curve else 0.0
    moved = (0.0, by_curve, log(cpu / before))
    return min(moved), max(moved)


def _compared(
    level: LevelTracking,
    seen: float,
    expected: float,
    now: float,
    settings: LevelSettings,
    cpu_millicpus: int,
) -> LevelTracking:
    """After something about it has changed: the first measurement, against what was expected."""
    there = replace(
        level, mean=seen, samples=1, below=0.0, above=0.0, away=(), away_since=None, doubt=0.0,
        cpu_millicpus=cpu_millicpus,
    )  # fmt: skip
    if abs(seen - expected) <= settings.clear * hypot(level.noise, level.doubt):
        return there
    return replace(there, changed_at=now, changes_since=now, shift=seen - expected)


def with_measurement(
    level: LevelTracking, seen: float, now: float, settings: LevelSettings
) -> LevelTracking:
    """After one more measurement, a logarithm: at its level, or found at another."""
    error = max(LEAST_NOISE, level.noise) * sqrt(1 + 1 / level.samples)
    if level.samples < settings.warm_up:
        return _with(level, seen, settings)
    off = (seen - level.mean) / error
    below = max(0.0, level.below - off - settings.allowance)
    above = max(0.0, level.above + off - settings.allowance)
    away = (*level.away, seen) if below or above else ()
    since = (now if level.away_since is None else level.away_since) if away else None
    if max(below, above) <= settings.threshold:
        # What may be the beginning of a change is not taken into the level.
        if not away:
            return _with(level, seen, settings, below=below, above=above, away=(), away_since=since)
        return replace(level, below=below, above=above, away=away[-_MEMORY:], away_since=since)
    # Where it is now: by those that are nearer to the newest one than to the level.
    there = [each for each in away if abs(each - seen) < abs(each - level.mean)]
    mean = fmean(there or [seen])
    samples = max(1, len(there))
    moved = replace(
        level, mean=mean, samples=samples, below=0.0, above=0.0, away=(), away_since=None
    )
    if abs(mean - level.mean) < settings.min_shift:
        return moved
    return replace(moved, changed_at=now, changes_since=since, shift=mean - level.mean)


def _with(
    level: LevelTracking, seen: float, settings: LevelSettings, **others: Any
) -> LevelTracking:
    """One measurement more at this level, and what else has changed."""
    samples = level.samples + 1
    weight = 1 / min(samples, _MEMORY)
    off = seen - level.mean
    variance = (1 - weight) * level.noise**2 + weight * off**2 * (samples - 1) / samples
    noise = max(settings.noise, sqrt(variance))
    mean = level.mean + off / samples
    return replace(level, mean=mean, samples=samples, noise=noise, **others)


def has_just_changed(record: WorkloadRecord, measured_at: float) -> bool:
    """Whether its newest measurement has shown that it left its level."""
    return record.level is not None and record.level.changed_at == measured_at


def describe(change: LevelTracking | LevelChange) -> str:
    """By how much it performs otherwise than before."""
    return f"it performs {exp(change.shift) - 1:+.0%} of what it did"


def _performance(record: WorkloadRecord) -> tuple[Quantity, float] | None:
    """More is better; ``None`` = it says nothing."""
    performance = record.performance
    if performance is None:
        return None
    rate = performance.trusted(Quantity.RATE)
    if rate is not None:
        return (Quantity.RATE, rate) if rate > 0 else None
    answered, used = performance.trusted(Quantity.THROUGHPUT), cpu_used(record)
    return (Quantity.THROUGHPUT, answered / used) if answered and used > 0 else None
