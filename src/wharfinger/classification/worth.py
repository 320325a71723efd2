"""What runs of a copy are worth: by how much more surely its target is kept where it is placed.

The knowledge gradient (Frazier, Powell, Dayanik, "A knowledge-gradient policy for sequential
information collection", 2008): performance by platform is drawn from what is known, each draw says
what the runs would show, and the platform that is then the best is worth P(pace ≥ 1 − tolerance)
there. The covariance of the estimator decides: a run tells of other platforms, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from itertools import pairwise, takewhile
from math import exp, inf, log

import numpy as np

from wharfinger.classification.paces import OTHER_ERROR, Paces, paces
from wharfinger.estimators.recommender import Recommender
from wharfinger.model.arrays import Array, normal_below
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Measurements
from wharfinger.model.view import Request, View
from wharfinger.model.workload import Workload, WorkloadType

SETUP_SECONDS = 1.0
"""Of a plan without sources, beside its own: processes and sandboxes."""
TYPICAL_SECONDS = 600.0
"""That a workload takes of which nothing is known."""
DRAWS = 192
LEAST_STD = 0.02
"""Of the logarithm of a performance: nothing is known better than it is measured."""
PERFORMANCE_WEIGHT = 0.3
"""Targets that one unit of the logarithm of performance counts as; as placements trade them."""
DOUBT = 0.5
"""By so much of its doubt without runs more is told by them than is worked out: errors of the
estimator have longer tails than it states."""
LEAST_LEFT = 0.01
MOVE_SECONDS = 10.0
"""That a move is taken to cost, besides work that is repeated: a stop and a start."""
LEAST_GAIN = 0.08
"""Of a target: by so much more must runs beside a workload be worth than those before it, since a
blind start takes a place that others need better, and a move what was not foreseen."""
RIDGE = 1e-6


@dataclass(frozen=True, eq=False)
class Prospects:
    """What is known of one program on the platforms that it could be given.

    Attributes:
        mean: (P,) logarithm of its performance; ``covariance`` (P, P).
        tolerance: How far below its target it may be, as a share of that.
        target: Logarithm of the performance that it needs; ``None`` = as much as the best of the
            platforms gives: before anything is measured it is not known how high a target is.
    """

    mean: Array
    covariance: Array
    tolerance: float
    target: float | None = None

    @cached_property
    def _drawn(self) -> tuple[Array, Array]:
        """(DRAWS, P) performance over what is needed; (DRAWS, P) errors of runs."""
        rng, size = np.random.default_rng(0), (DRAWS // 2, len(self.mean))
        halves = rng.standard_normal(size), rng.standard_normal(size)
        # With its opposite each draw, the mean of all is exact.
        own, errors = (np.concatenate([half, -half]) for half in halves)
        # A factor that is unique: a log is decided again with the same draws elsewhere.
        least = RIDGE * float(self.covariance.diagonal().max()) * np.eye(len(self.mean))
        pace = self.mean + own @ np.linalg.cholesky(self.covariance + least).T
        return pace, OTHER_ERROR * errors

    @cached_property
    def _needed(self) -> Array:
        """(DRAWS, 1) logarithm of the performance that keeps the target."""
        pace = self._drawn[0]
        best = pace.max(axis=1) if self.target is None else np.full(len(pace), self.target)
        return best[:, None] + log(max(1 - self.tolerance, LEAST_LEFT))

    def worth(self, runs: Sequence[int], lost: float = 0.0) -> float:
        """Of having run it on these platforms (indices), where that takes the share ``lost``."""
        return float(self._values(runs, lost).max(axis=1).mean())

    def outcome(
        self, runs: Sequence[int] | None, among: Sequence[int], lost: float | Array = 0.0
    ) -> float:
        """The same, of what then comes true, where it is placed on one of the platforms ``among``.

        ``worth`` is the smoother of the two in what a run adds, this is true to what is left.
        ``None`` = no run even where ``mean`` was measured. ``lost`` may be (P,): what has begun on
        one platform has lost more where it would be moved.
        """
        true = self._true(lost)[:, among]
        if runs is None:
            return float(true.mean(axis=0).max())
        best = self._values(runs, lost)[:, among].argmax(axis=1)
        return float(true[np.arange(len(true)), best].mean())

    def best(self, among: Sequence[int], lost: float = 0.0) -> int:
        """Where it is placed without any run."""
        return list(among)[int(self._true(lost)[:, among].mean(axis=0).argmax())]

    def _true(self, lost: float | Array) -> Array:
        """(DRAWS, P) what comes true on each platform."""
        ahead = self._drawn[0] + _log_left(lost) - self._needed
        return np.asarray((ahead >= 0) + PERFORMANCE_WEIGHT * ahead)

    def _values(self, runs: Sequence[int], lost: float | Array) -> Array:
        """(DRAWS, P) what each platform is then expected to give."""
        pace, errors = self._drawn
        at, covariance, told = list(runs), self.covariance, np.broadcast_to(self.mean, pace.shape)
        if at:
            noise = OTHER_ERROR**2 * np.eye(len(at))
            gain = np.linalg.solve(covariance[np.ix_(at, at)] + noise, covariance[at]).T
            told = self.mean + (pace[:, at] + errors[:, at] - self.mean[at]) @ gain.T
            covariance = covariance - gain @ covariance[at]
        std = np.sqrt(np.maximum(np.diag(covariance), 0.0) + LEAST_STD**2)
        ahead = told + _log_left(lost) - self._needed
        return np.asarray(normal_below(ahead / std) + PERFORMANCE_WEIGHT * ahead)

    def repaying(
        self, candidates: Sequence[int], most: int, price: float, lost: float = 0.0
    ) -> list[int]:
        """The platforms on which a run repays its ``price``, in targets, best first."""
        chosen: list[int] = []
        worth = self.worth(chosen, lost)
        while len(chosen) < min(most, len(candidates)):
            left = [each for each in candidates if each not in chosen]
            gains = [self.worth([*chosen, each], lost) - worth for each in left]
            best = int(np.argmax(gains))
            if gains[best] <= price:
                break
            chosen.append(left[best])
            worth += gains[best]
        return chosen


def _log_left(lost: float | Array) -> Array:
    """Logarithm of what is left of its time; () or (P,)."""
    return np.asarray(np.log(np.maximum(1 - np.asarray(lost), LEAST_LEFT)))


@dataclass(frozen=True, slots=True)
class Stake:
    """What runs of a copy can gain and cost, in shares of a target.

    Attributes:
        tolerance: Of the target.
        target: Logarithm of the performance that keeps it; ``None`` = not known.
        seconds: That the runs take; side by side they take no longer.
        expected_seconds: That the workload takes.
        waited: Share of that which it has waited already; ``lost`` = and will have after the runs.
        moved: The same, where it is moved after runs beside it; ``None`` = it may not be.
        price: Of one run, for others.
        likely: What it may take over that, each as likely: more than one where nothing says it.
    """

    tolerance: float
    target: float | None
    seconds: float
    expected_seconds: float
    waited: float
    lost: float
    moved: float | None
    price: float
    likely: tuple[float, ...] = (1.0,)


def stake(
    request: Request,
    known: Measurements | None,
    seconds: float,
    cpu_millicpus: int,
    idle_millicpus: int,
    view: View,
) -> Stake:
    """Of runs of so many seconds with such an allocation, while so much CPU is idle.

    The price of a run: as many workloads begin while it lasts as run now, times the runs' seconds
    over a workload's (Little's law); each finds the room taken with the share that the run has of
    what is idle, and would have to wait for its end: as much of its tolerance is gone.
    """
    workload, delay = request.workload, SETUP_SECONDS + seconds
    told = expected_seconds(workload, known)
    expected = told or TYPICAL_SECONDS
    likely = () if told else tuple(seconds / expected for seconds in request.run_seconds())
    service = workload.type is WorkloadType.LATENCY_CRITICAL
    waited = 0.0 if service else request.waited_seconds / expected
    arrivals = float(view.residents.sum()) * delay / expected
    taken = min(1.0, cpu_millicpus / max(idle_millicpus, 1))
    missed = min(1.0, delay / max(workload.tolerance * expected, delay))
    return Stake(
        tolerance=workload.tolerance,
        target=_target(workload, known),
        seconds=delay,
        expected_seconds=expected,
        waited=waited,
        lost=waited if service else waited + delay / expected,
        moved=waited + (delay + MOVE_SECONDS) / expected if workload.run.restartable else None,
        price=arrivals * taken * missed,
        likely=likely or (1.0,),
    )


def expected_seconds(workload: Workload, known: Measurements | None) -> float | None:
    """How long it takes: as stated, by its deadline, or by its work; ``None`` = nothing says so."""
    if workload.expected_seconds is not None:
        return workload.expected_seconds
    if workload.target is not None and workload.target.completion_seconds is not None:
        return workload.target.completion_seconds
    rates = known.performance.get(Quantity.RATE, {}) if known else {}
    total = workload.measure.progress_total or (known and known.total)
    return total / max(e.value for e in rates.values()) if rates and total else None


def _target(workload: Workload, known: Measurements | None) -> float | None:
    """In the unit of its entries, where both are rates."""
    target = workload.target
    if known is None or target is None or Quantity.THROUGHPUT in known.performance:
        return None
    rate, total = target.rate_per_second, workload.measure.progress_total
    if rate is None and total and target.completion_seconds:
        rate = total / target.completion_seconds
    return log(rate) if rate and Quantity.RATE in known.performance else None


def first_runs(
    across: Recommender,
    platforms: tuple[str, ...],
    here: str,
    others: tuple[str, ...],
    most: int,
    at_stake: Stake,
) -> list[str]:
    """Of a program of which nothing is known: where it is run beside the platform ``here``.

    ``platforms`` could hold it, ``others`` now.
    """
    order = _in_order(across, platforms, here, at_stake.tolerance, others, most)
    return [name for name, _ in takewhile(lambda each: each[1] > at_stake.price, order)]


class When(Enum):
    """When copies of a workload run."""

    BEFORE = "before"
    """It waits for what they tell."""
    BESIDE = "beside"
    """It runs meanwhile, and is moved where that pays."""
    NEVER = "never"


def best_time(
    across: Recommender,
    platforms: tuple[str, ...],
    here: str,
    others: tuple[str, ...],
    chosen: Sequence[str],
    at_stake: Stake,
) -> When:
    """When these runs tell most beyond what the time that they take from it costs.

    It would be placed ``here`` or on one of the ``others``: the rest of the platforms has no room.
    """
    given, runs = (across, platforms, here, others, at_stake.tolerance), tuple(sorted(chosen))
    before = blind = 0.0
    beside = -inf if at_stake.moved is None else 0.0
    for times in at_stake.likely:
        waited, lost = (_share_of(share, times) for share in (at_stake.waited, at_stake.lost))
        before += _outcome(*given, runs, lost) / len(at_stake.likely)
        if at_stake.moved is not None:
            moved = _share_of(at_stake.moved, times)
            beside += _outcome_beside(*given, runs, waited, moved) / len(at_stake.likely)
        blind += _outcome(*given, None, waited) / len(at_stake.likely)
    doubt = DOUBT * max(0.0, 1 - blind)
    price = (1 + len(chosen)) * at_stake.price
    before += doubt * max(0.0, before) - price
    beside += doubt * max(0.0, beside) - price
    if before >= blind and before >= beside - LEAST_GAIN:
        return When.BEFORE
    return When.BESIDE if beside >= blind else When.NEVER


def _share_of(lost: float, times: float) -> float:
    """Of a time so many times as long; rounded, so that outcomes are found again."""
    return min(1.0, round(lost / times, 2))


def missing_runs(
    across: Recommender,
    platforms: tuple[str, ...],
    entries: Mapping[str, Entry],
    missing: Sequence[str],
    most: int,
    at_stake: Stake,
) -> list[str]:
    """Where a program is run of which entries by platform are known; empty = nowhere."""
    known = paces(across, entries)
    if known is None or not missing:
        return []
    ahead = prospects(known, platforms, at_stake.tolerance, at_stake.target)
    candidates = [platforms.index(name) for name in missing]
    chosen = ahead.repaying(candidates, most, at_stake.price, at_stake.lost)
    repaid = ahead.worth(chosen, at_stake.lost) - len(chosen) * at_stake.price
    return [platforms[at] for at in chosen] if repaid > ahead.worth((), at_stake.waited) else []


def prospects(
    known: Paces, platforms: Sequence[str], tolerance: float, target: float | None = None
) -> Prospects:
    """Of what entries say, on these of the platforms; all of them are columns."""
    at = [known.platforms.index(name) for name in platforms]
    return Prospects(known.mean[at], known.covariance[np.ix_(at, at)], tolerance, target)


@lru_cache(maxsize=512)
def _measured_on(
    across: Recommender, platforms: tuple[str, ...], here: str | None, tolerance: float
) -> Prospects:
    """Of a program that is like others, once it has run on one platform, or on none."""
    told = across.predict({})
    if here is None:
        at = [across.matrix.columns.index(name) for name in platforms]
        return Prospects(told.log_mean[at], told.covariance[np.ix_(at, at)], tolerance)
    typical = float(told.log_mean[across.matrix.columns.index(here)])
    known = paces(across, {here: Entry(exp(typical))})
    assert known is not None
    return prospects(known, platforms, tolerance)


@lru_cache(maxsize=512)
def _in_order(
    across: Recommender,
    platforms: tuple[str, ...],
    here: str,
    tolerance: float,
    others: tuple[str, ...],
    most: int,
) -> tuple[tuple[str, float], ...]:
    """The platforms that are worth most runs, each with what it adds."""
    ahead = _measured_on(across, platforms, here, tolerance)
    chosen = ahead.repaying([platforms.index(name) for name in others], most, 0.0)
    worth = [ahead.worth(chosen[:count]) for count in range(len(chosen) + 1)]
    gains = [after - before for before, after in pairwise(worth)]
    return tuple((platforms[at], gain) for at, gain in zip(chosen, gains, strict=True))


@lru_cache(maxsize=512)
def _outcome(
    across: Recommender,
    platforms: tuple[str, ...],
    here: str,
    others: tuple[str, ...],
    tolerance: float,
    chosen: tuple[str, ...] | None,
    lost: float,
) -> float:
    """After these runs; ``None`` = without any."""
    ahead = _measured_on(across, platforms, None if chosen is None else here, tolerance)
    runs = None if chosen is None else [platforms.index(name) for name in chosen]
    return ahead.outcome(runs, [platforms.index(name) for name in (here, *others)], lost)


@lru_cache(maxsize=512)
def _outcome_beside(
    across: Recommender,
    platforms: tuple[str, ...],
    here: str,
    others: tuple[str, ...],
    tolerance: float,
    chosen: tuple[str, ...],
    lost: float,
    moved: float,
) -> float:
    """After these runs beside it, where it begins on the platform that is best without any."""
    among = [platforms.index(name) for name in (here, *others)]
    begins = _measured_on(across, platforms, None, tolerance).best(among, lost)
    ahead = _measured_on(across, platforms, here, tolerance)
    share = np.full(len(platforms), moved)
    share[begins] = lost
    return ahead.outcome([platforms.index(name) for name in chosen], among, share)
