"""How well estimators do on a matrix: whole programs held out, a few entries revealed.

Every estimator gets the same splits and revealed entries: between splits the errors of one
estimator vary by a tenth. ``cli/classify_evaluate.py`` calls ``evaluate``.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.estimators.design import Satisfied, next_improvement, variance_design
from wharfinger.estimators.estimator import RowPrediction
from wharfinger.estimators.matrix import Matrix, RowScale
from wharfinger.estimators.recommender import Recommender, fit
from wharfinger.estimators.registry import DEFAULT_ESTIMATOR
from wharfinger.estimators.tasks import Indices, draw_seen, leave_out, masked, number_groups
from wharfinger.model.arrays import Array

FOLDS = 5


class Strategy(StrEnum):
    """Which entries of a new row are revealed.

    ``RANDOM``: any. ``VARIANCE``: those that leave the least posterior variance.
    ``IMPROVEMENT``: the first by variance, each further one by expected improvement. Both designs
    use the default estimator, so that all estimators see the same entries.
    """

    RANDOM = "random"
    VARIANCE = "variance"
    IMPROVEMENT = "improvement"


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """The task for every estimator.

    Attributes:
        reveal: Number of entries of a held-out row that are known.
        pairs: Columns have rows' names: a held-out row's column is unknown with it.
        higher: Higher values are better.
        satisfied: When ``IMPROVEMENT`` stops before ``reveal`` entries; ``None`` = never.
        rows: Limit of known rows, of whole programs drawn for each fold; ``None`` = all that are
            not held out.
    """

    reveal: int = 2
    strategy: Strategy = Strategy.RANDOM
    scale: RowScale = RowScale.AUTO
    pairs: bool = False
    higher: bool = False
    repeats: int = 20
    seed: int = 0
    satisfied: Satisfied | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """``summary`` by estimator; rows predicted in all repeats, and rows with no entry to hide."""

    estimators: dict[str, dict[str, float]]
    rows: int
    rows_passed_over: int
    mean_revealed: float


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Known rows, and held-out rows (rows, columns) of the same columns."""

    training: Matrix
    held: Array
    seed: int


def splits(matrix: Matrix, plan: EvaluationPlan) -> Iterator[Split]:
    """A fifth of the programs held out, in turn, for each repeat."""
    groups = number_groups(matrix.groups)
    for repeat in range(plan.repeats):
        rng = np.random.default_rng([plan.seed, repeat])
        for number, (rest, held) in enumerate(leave_out(groups, FOLDS, rng)):
            of_draw = [plan.seed, repeat, number]
            kept = rest if plan.rows is None else _few(rest, groups, plan.rows, of_draw)
            training, rows = matrix.take(kept), matrix.take(held)
            if plan.pairs:
                names = frozenset(rows.rows) & frozenset(matrix.columns)
                training, rows = training.without_columns(names), rows.without_columns(names)
            if not np.isnan(training.values).all():
                seed = int(rng.integers(2**31)) + number
                yield Split(training, rows.values, seed)


def _few(rows: Indices, groups: Indices, count: int, seed: Sequence[int]) -> Indices:
    """Rows of whole programs, in random order as they fit; at least one program."""
    rng, drawn = np.random.default_rng(seed), rows[:0]
    for group in rng.permutation(np.unique(groups[rows])):
        more = rows[groups[rows] == group]
        if not drawn.size or drawn.size + more.size <= count:
            drawn = np.append(drawn, more)
    return np.sort(drawn)


def revealed(split: Split, plan: EvaluationPlan) -> list[tuple[Array, Array]]:
    """Each held-out row's truth, and the row with only the revealed entries."""
    rng = np.random.default_rng(split.seed)
    rows, seen = draw_seen(split.held, plan.reveal, rng)
    truths = split.held[rows]
    chosen = list(seen)
    if plan.strategy is not Strategy.RANDOM and len(rows):
        guide = fit(DEFAULT_ESTIMATOR, split.training, scale=plan.scale, seed=split.seed)
        if plan.strategy is Strategy.VARIANCE:
            chosen = [_variance(guide, truth, plan.reveal) for truth in truths]
        else:
            chosen = [_improvement(guide, truth, plan) for truth in truths]
    return [(truth, masked(truth, s)) for truth, s in zip(truths, chosen, strict=True)]


def _variance(guide: Recommender, truth: Array, count: int) -> Indices:
    cold = guide.predict(np.full(len(guide.matrix.columns), np.nan)).covariance
    return variance_design(cold, np.flatnonzero(~np.isnan(truth)), count)


def _improvement(guide: Recommender, truth: Array, plan: EvaluationPlan) -> Indices:
    measurable = np.flatnonzero(~np.isnan(truth))
    seen = _variance(guide, truth, min(1, plan.reveal))
    sign = -1.0 if plan.higher else 1.0
    while len(seen) < plan.reveal:
        row = guide.predict(masked(truth, seen))
        mean = sign * row.log_mean
        rest = np.setdiff1d(measurable, seen)
        best = float(mean[seen].min())
        step = next_improvement(mean, row.log_std, best, rest, satisfied=plan.satisfied)
        if step.column is None:
            break
        seen = np.append(seen, step.column)
    return seen


def evaluate(
    matrix: Matrix,
    names: Sequence[str],
    plan: EvaluationPlan,
    progress: Callable[[float], None] = lambda _: None,
    learn: Callable[..., Recommender] = fit,
    clock: Callable[[], float] = lambda: 0.0,
) -> Evaluation:
    """Hold out, fit, fold in, compare.

    Args:
        matrix: What was measured.
        names: Of estimators.
        plan: The task of each.
        progress: Called with the share that is done.
        learn: As ``recommender.fit``; exchanged for estimators outside of the registry.
        clock: Monotonic seconds, to measure fitting and folding in.

    Raises:
        InvalidInput: Nothing can be held out or hidden.
    """
    _check(matrix, plan)
    outcomes: dict[str, list[RowOutcome]] = {name: [] for name in names}
    fits: dict[str, list[float]] = {name: [] for name in names}
    kept: list[int] = []
    parts = min(FOLDS, len(set(matrix.groups))) * plan.repeats
    for done, split in enumerate(splits(matrix, plan), start=1):
        rows = revealed(split, plan)
        kept += [int((~np.isnan(row)).sum()) for _, row in rows]
        for name in names if rows else ():
            begin = clock()
            model = learn(name, split.training, scale=plan.scale, seed=split.seed)
            fits[name].append(clock() - begin)
            for truth, entries in rows:
                begin = clock()
                predicted = model.predict(entries)
                seconds = clock() - begin
                errors = outcome(predicted, truth, entries, higher=plan.higher, seconds=seconds)
                outcomes[name].append(errors)
        progress(done / parts)
    count = len(outcomes[names[0]])
    if not count:
        raise InvalidInput(
            f"--reveal: no row has more than {plan.reveal} entries; reveal fewer, or measure more"
        )
    summaries = {n: summary(outcomes[n], float(np.median(fits[n]))) for n in names}
    passed_over = len(matrix.rows) * plan.repeats - count
    return Evaluation(summaries, count, passed_over, float(np.mean(kept)))


def _check(matrix: Matrix, plan: EvaluationPlan) -> None:
    groups = len(set(matrix.groups))
    if groups < 2:
        raise InvalidInput(
            f"the matrix has {groups} program in its column 'group', and whole programs are "
            "held out; give at least two"
        )
    if plan.pairs and not set(matrix.rows) & set(matrix.columns):
        raise InvalidInput(
            "--pairs: no column has a row's name; give them the same names, or leave it out"
        )


# --- metrics --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RowOutcome:
    """Errors of one row per hidden entry, and whether its 90% interval covered the truth.

    ``regret`` is how much worse the configuration predicted best is than the best: 0.1 is 10%.
    """

    relative_errors: Array
    log_errors: Array
    covered: Array
    regret: float
    fold_in_seconds: float


def outcome(
    prediction: RowPrediction, truth: Array, revealed: Array, *, higher: bool, seconds: float
) -> RowOutcome:
    """Errors; ``known`` has NaN for hidden entries, ``truth`` where nothing was measured."""
    hidden = ~np.isnan(truth) & np.isnan(revealed)
    mean, (low, high) = prediction.mean, prediction.interval_90()
    true = truth[hidden]
    slack = 1e-9 * np.abs(true)
    return RowOutcome(
        np.abs(mean[hidden] - true) / np.maximum(np.abs(true), 1e-300),
        np.abs(prediction.log_mean[hidden] - prediction.transform.forward(true)),
        ((low[hidden] <= true + slack) & (true - slack <= high[hidden])).astype(np.float64),
        regret(mean, truth, higher=higher),
        seconds,
    )


def regret(predicted: Array, truth: Array, *, higher: bool) -> float:
    """Of choosing the configuration that is predicted best among those that were measured."""
    measured = np.flatnonzero(~np.isnan(truth))
    pick = np.argmax if higher else np.argmin
    chosen = truth[measured[pick(predicted[measured])]]
    best = truth[measured].max() if higher else truth[measured].min()
    if chosen == best:
        return 0.0
    worse, better = (best, chosen) if higher else (chosen, best)
    return math.inf if better == 0 else float(worse / better - 1)


def summary(outcomes: Sequence[RowOutcome], fit_seconds: float) -> dict[str, float]:
    """The numbers that ``classify evaluate`` prints."""
    relative = np.concatenate([o.relative_errors for o in outcomes])
    regrets = np.array([o.regret for o in outcomes])
    return {
        "mean_relative_error": float(relative.mean()),
        "median_relative_error": float(np.median(relative)),
        "p90_relative_error": float(np.quantile(relative, 0.9)),
        "mean_absolute_log_error": float(np.concatenate([o.log_errors for o in outcomes]).mean()),
        "best_within_5pct": float((regrets <= 0.05).mean()),
        "best_within_10pct": float((regrets <= 0.10).mean()),
        "mean_regret": float(regrets.mean()),
        "coverage_90": float(np.concatenate([o.covered for o in outcomes]).mean()),
        "fit_seconds": fit_seconds,
        "fold_in_seconds_median": float(np.median([o.fold_in_seconds for o in outcomes])),
    }
