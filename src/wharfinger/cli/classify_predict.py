"""``wharfinger classify predict``: rows filled in, and what to measure of them next."""

import argparse
import dataclasses
from collections.abc import Sequence
from math import inf, log1p
from typing import Any

import numpy as np

from wharfinger.cli import human
from wharfinger.cli.classify import estimators, suggests
from wharfinger.cli.main import OK
from wharfinger.cli.output import Column, show, table
from wharfinger.errors import InvalidInput
from wharfinger.estimators.design import DesignLimits, Stop, design
from wharfinger.estimators.estimator import Prediction
from wharfinger.estimators.matrix import Matrix, Scale
from wharfinger.estimators.recommender import fit
from wharfinger.estimators.registry import DEFAULT_ESTIMATOR
from wharfinger.files.matrices import read_matrix, read_seconds
from wharfinger.model.arrays import Array


def predict(arguments: argparse.Namespace) -> int:
    """Fill rows in, and print them."""
    names = estimators(arguments.estimator, [DEFAULT_ESTIMATOR])
    if len(names) > 1:
        raise InvalidInput(f"--estimator: {arguments.estimator!r}: predict takes one; name one")
    training, tests = read_matrix(arguments.matrix), read_matrix(arguments.rows)
    _check_columns(tests, training, arguments)
    _check_rows(tests, training, arguments)
    limits = _limits(arguments, training.columns)
    if arguments.pairs:
        training = _without_entries(training, tests.rows)
    model = fit(names[0], training, scale=Scale(arguments.scale), seed=arguments.seed)
    document = []
    for name, found in zip(tests.rows, model.predict_many(_aligned(tests, training)), strict=True):
        document.append(_prediction_document(name, found))
        if suggests(arguments):
            size = arguments.suggest or len(training.columns)
            document[-1] |= _suggestions(found, size, limits)
    text = _limited_text if limits.enough or limits.budget_seconds < inf else _prediction_text
    show(document, arguments.output, lambda: text(document))
    return OK


def _limits(arguments: argparse.Namespace, columns: Sequence[str]) -> DesignLimits:
    given: Array | None = None
    if isinstance(arguments.seconds, str):
        given = read_seconds(arguments.seconds, columns)
    elif arguments.seconds is not None:
        given = np.full(len(columns), arguments.seconds)
    budget = inf if arguments.budget is None else arguments.budget
    return DesignLimits(given, budget, log1p(arguments.enough or 0.0))


def _check_columns(tests: Matrix, training: Matrix, arguments: argparse.Namespace) -> None:
    known = set(training.columns)
    for column in tests.columns:
        if column not in known:
            raise InvalidInput(
                f"{arguments.rows}: column {column!r} is none of {arguments.matrix}; "
                "name configurations as they are named there"
            )


def _check_rows(tests: Matrix, training: Matrix, arguments: argparse.Namespace) -> None:
    known = set(training.rows)
    for name, values in zip(tests.rows, tests.values, strict=True):
        if name in known:
            raise InvalidInput(
                f"{arguments.rows}: row {name!r} is a known row of {arguments.matrix}; "
                "leave it out of one of the two, or name the new one differently"
            )
        if not suggests(arguments) and np.isnan(values).all():
            raise InvalidInput(
                f"{arguments.rows}: row {name!r} has no entry to predict from; measure one "
                "(--suggest 1 says which)"
            )
    most = len(training.columns)
    if arguments.suggest is not None and not 1 <= arguments.suggest <= most:
        raise InvalidInput(f"--suggest: {arguments.suggest}: write 1 to {most}, the columns there")


def _without_entries(training: Matrix, names: Sequence[str]) -> Matrix:
    """Columns that bear a new row's name were measured with it: none of that is known yet."""
    hidden = np.isin(training.columns, names)
    if not hidden.any():
        return training
    return dataclasses.replace(training, values=np.where(hidden, np.nan, training.values))


def _aligned(tests: Matrix, training: Matrix) -> Array:
    """The new rows' values under the known rows' columns."""
    places = {column: j for j, column in enumerate(training.columns)}
    values = np.full((len(tests.rows), len(training.columns)), np.nan)
    values[:, [places[column] for column in tests.columns]] = tests.values
    return values


def _prediction_document(name: str, prediction: Prediction) -> dict[str, Any]:
    low, high = prediction.interval_90()
    numbers = zip(
        prediction.columns,
        prediction.mean.tolist(),
        prediction.std.tolist(),
        low.tolist(),
        high.tolist(),
        strict=True,
    )
    # Of the logarithm; so it is the median of the value, as likely too high as too low.
    columns = {c: {"mean": m, "std": s, "low_90": a, "high_90": b} for c, m, s, a, b in numbers}
    return {"name": name, "columns": columns}


def _suggestions(prediction: Prediction, size: int, limits: DesignLimits) -> dict[str, Any]:
    """What to measure next, what that leaves, and why there is no more."""
    unknown = np.flatnonzero(prediction.log_std > 0)
    found = design(prediction.covariance, unknown, size, limits)
    timed = limits.seconds is not None
    entries = []
    for each in found.suggestions:
        entry: dict[str, Any] = {
            "name": prediction.columns[each.column],
            "mean_log_std_before": each.std_before,
            "mean_log_std_after": each.std_after,
        }
        if timed:
            entry |= {"seconds": each.seconds, "gain_per_second": each.gain_per_second}
        entries.append(entry)
    return {
        "suggest": entries,
        "mean_log_std": found.std,
        "seconds": found.seconds if timed else None,
        "stopped": str(found.stopped),
    }


PREDICTIONS: list[Column] = [
    ("NAME", lambda item: item[0]),
    ("COLUMN", lambda item: item[1]),
    ("MEDIAN", lambda item: f"{item[2]['mean']:.4g}"),
    ("STD", lambda item: f"{item[2]['std']:.2g}"),
    ("LOW 90%", lambda item: f"{item[2]['low_90']:.4g}"),
    ("HIGH 90%", lambda item: f"{item[2]['high_90']:.4g}"),
]
SUGGESTIONS: list[Column] = [
    ("NAME", lambda item: item[0]),
    ("MEASURE NEXT", lambda item: item[1]["name"]),
    ("LOG STD BEFORE", lambda item: f"{item[1]['mean_log_std_before']:.3f}"),
    ("AFTER", lambda item: f"{item[1]['mean_log_std_after']:.3f}"),
]


COSTS: list[Column] = [
    ("TAKES", lambda item: human.duration(item[1]["seconds"])),
    ("GAIN PER SECOND", lambda item: f"{item[1]['gain_per_second']:.2g}"),
]
STOPPED = {
    Stop.ENOUGH: "known well enough",
    Stop.SIZE: "no more were asked for",
    Stop.BUDGET: "no other fits the budget",
    Stop.NOTHING_LEFT: "nothing else is left to measure",
}


def _prediction_text(document: list[dict[str, Any]]) -> str:
    cells = [(row["name"], c, numbers) for row in document for c, numbers in row["columns"].items()]
    text = table(cells, PREDICTIONS)
    next_ones = [(row["name"], item) for row in document for item in row.get("suggest", [])]
    if not next_ones:
        return text
    columns = SUGGESTIONS + (COSTS if "seconds" in next_ones[0][1] else [])
    return f"{text}\n\n{table(next_ones, columns)}"


def _limited_text(document: list[dict[str, Any]]) -> str:
    """With what each row's suggestions reach, where more than their number limits them."""
    lines = [f"{row['name']}: {_reached(row)}" for row in document]
    return "\n".join([_prediction_text(document), "", *lines])


def _reached(row: dict[str, Any]) -> str:
    takes = "" if row["seconds"] is None else f" after {human.duration(row['seconds'])}"
    return f"log std {row['mean_log_std']:.3f}{takes}; {STOPPED[Stop(row['stopped'])]}"
