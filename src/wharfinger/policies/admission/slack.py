"""How long a workload may wait: the constraint of equation 2 (ARQ 3.2 and 3.3).

A wait counts from the submission, so that profiling (P) is part of it. What bounds it is what the
workload states, in this order: ``waiting.within`` of its manifest; a deadline, less the time that
it should take; a target rate, which is the work over the whole time since the submission; else its
tolerance of the time that it should take (CT).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Classification, Measurements
from wharfinger.model.units import format_duration
from wharfinger.model.view import Request
from wharfinger.model.workload import Workload, WorkloadType

LEAST_WAIT = 1e-3
"""Seconds; a shorter wait is none."""
LEAST_RATE = 0.01
"""Share of a target rate that counts, however much is tolerated."""
LEAST_SPARE = 0.1
"""Share of its time that a target rate must spare it to count: less may be the estimate's error."""
KEPT = 4096
"""So many workloads' best rates are kept: their slack is asked for again and again."""
_SERVICE = WorkloadType.LATENCY_CRITICAL


def in_tenths(seconds: float) -> str:
    """To a tenth of a second, and not negative.

    >>> in_tenths(61.46), in_tenths(-0.2)
    ('1m1.5s', '0s')
    """
    return _tenths(int(10 * seconds + 0.5) if seconds > 0 else 0)


@lru_cache(maxsize=4096)
def _tenths(count: int) -> str:
    return format_duration(count / 10)


class WaitingSlack(NamedTuple):
    """How long a workload may wait.

    Attributes:
        left_seconds: From now on; 0 = not at all, or nothing says how long.
        expected_seconds: That it runs; ``None`` = unknown.
        bound: What bounds it; with ``limit_seconds`` a subject, else a clause.
        limit_seconds: That it may wait in all; negative = even without a wait it takes so much
            longer than its target allows. ``None`` = nothing says how long.
        waited_seconds: Of these, so far.
        tolerance: Of its target, where that is what bounds it.
        spare_seconds: From now on, that it may take longer than on its best platform: what is left,
            or more where its manifest bounds its wait, or its tolerance does and its target rate is
            below its best.
    """

    left_seconds: float
    expected_seconds: float | None
    bound: str
    limit_seconds: float | None = None
    waited_seconds: float = 0.0
    tolerance: float | None = None
    spare_seconds: float = 0.0

    @property
    def is_lost(self) -> bool:
        """It should take longer than its target allows."""
        return self.limit_seconds is not None and self.limit_seconds < 0

    def why(self) -> str:
        """What bounds it, as a clause."""
        if self.limit_seconds is None:
            return self.bound
        if self.is_lost:
            taken = self.expected_seconds or 0.0
            allowed = in_tenths(taken + self.limit_seconds)
            return f"it should take {in_tenths(taken)}, and {self.bound} allows {allowed}"
        share = "" if self.tolerance is None else f" of {self.tolerance:.0%}"
        why = f"{self.bound}{share} lets it wait for {in_tenths(self.limit_seconds)}"
        if self.left_seconds > LEAST_WAIT:
            return why
        return f"{why}, and it has waited for {in_tenths(self.waited_seconds)}"


def waiting_slack(
    request: Request, platforms: Sequence[str], others: float | None = None
) -> WaitingSlack:
    """What is left of it.

    ``platforms`` are those of the cluster; ``others`` run for so many seconds, which is taken where
    nothing tells how long this one does.
    """
    workload, waited = request.workload, request.waited_seconds
    waited = waited if waited > 0 else 0.0
    target, known = workload.target, request.measurements
    work = workload.measure.progress_total or (known and known.total)
    told = workload.expected_seconds
    if told is None and work and known is not None:
        rate = best_rate(known, request.classification, platforms)
        told = work / rate if rate > 0 else None
    tolerance: float | None = None
    spare = 0.0
    if workload.waiting_seconds is not None:
        limit, bound = workload.waiting_seconds, "its manifest"
        expected = others if told is None else told
        # How long it may wait does not say how slowly it may run.
        unstated = replace(request, workload=without_wait(workload))
        spare = waiting_slack(unstated, platforms, others).spare_seconds
    elif workload.type is _SERVICE or target is None:
        return WaitingSlack(0.0, told, "nothing says how long it may wait")
    elif told is not None and target.completion_seconds is not None:
        limit, bound, expected = target.completion_seconds - told, "its deadline", told
    elif told is not None and work and target.rate_per_second:
        # work / (wait + time) >= (1 - tolerance) rate
        needed = max(1 - workload.tolerance, LEAST_RATE) * target.rate_per_second
        limit, bound, expected = work / needed - told, "its target rate", told
    else:
        expected = target.completion_seconds if told is None else told
        expected = others if expected is None else expected
        if expected is None:
            return WaitingSlack(0.0, None, "it is not known how long it takes")
        tolerance = workload.tolerance
        limit, bound = tolerance * expected, "its tolerance"
        spare = _spare(request, platforms) * expected - waited
    left = limit - waited if limit > waited else 0.0
    spare = spare if spare > left else left
    return WaitingSlack(left, expected, bound, limit, waited, tolerance, spare)


def without_wait(workload: Workload) -> Workload:
    """The same, which does not say how long it may wait."""
    return replace(workload, waiting_seconds=None)


def _spare(request: Request, platforms: Sequence[str]) -> float:
    """How much longer than on its best platform its target rate lets it take, as a share."""
    target, known = request.workload.target, request.measurements
    if known is None or target is None or not target.rate_per_second:
        return 0.0
    needed = max(1 - request.workload.tolerance, LEAST_RATE) * target.rate_per_second
    spare = best_rate(known, request.classification, platforms) / needed - 1
    return spare if spare > LEAST_SPARE else 0.0


_best_rates: dict[
    tuple[int, int, Sequence[str]], tuple[Measurements, Classification | None, float]
] = {}
"""By the identity of both, which are kept so that no others have it, and the platforms."""


def best_rate(
    known: Measurements, classification: Classification | None, platforms: Sequence[str]
) -> float:
    """Work per second where it runs best, measured or classified; 0 = unknown."""
    key = id(known), id(classification), tuple(platforms)
    kept = _best_rates.get(key)
    if kept is None:
        if len(_best_rates) >= KEPT:
            _best_rates.pop(next(iter(_best_rates)))
        best = _best_rate(known, classification, platforms)
        kept = _best_rates[key] = known, classification, best
    return kept[2]


def _best_rate(
    known: Measurements, classification: Classification | None, platforms: Sequence[str]
) -> float:
    rates = known.performance.get(Quantity.RATE)
    if not rates:
        return 0.0
    best = max(entry.value for entry in rates.values())
    curve = classification.curves.get(Quantity.RATE) if classification is not None else None
    if classification is None or curve is None:
        return best
    there = classification.platforms
    others = [there[name].mean for name in platforms if name in there]
    if not others or classification.platform in platforms:
        others.append(1.0)
    return max(best, max(curve.at(cpu).mean for cpu in rates) * max(others))
