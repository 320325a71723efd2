"""Errors of predictions: of hidden entries, and of choosing the best configuration by them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wharfinger.estimators.estimator import RowPrediction
from wharfinger.model.arrays import Array


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
    prediction: RowPrediction, truth: Array, known: Array, *, higher: bool, seconds: float
) -> RowOutcome:
    """Errors; ``known`` has NaN for hidden entries, ``truth`` where nothing was measured."""
    hidden = ~np.isnan(truth) & np.isnan(known)
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
    if better == 0:
        return math.inf
    return float(worse / better - 1)


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
