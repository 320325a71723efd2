"""``wharfinger classify predict``: rows filled in, and what to measure of them next."""

import argparse
import dataclasses
from collections.abc import Sequence
from math import inf, log1p

import numpy as np

from wharfinger.cli import format as fmt
from wharfinger.cli.format import Record, column, show, table
from wharfinger.cli.main import OK
from wharfinger.errors import InvalidInput
from wharfinger.estimators.design import DesignLimits, Stop, design
from wharfinger.estimators.estimator import RowPrediction
from wharfinger.estimators.matrix import Matrix, RowScale
from wharfinger.estimators.recommender import fit
from wharfinger.estimators.registry import DEFAULT_ESTIMATOR, make_estimator
from wharfinger.files.matrices import read_matrix, read_seconds
from wharfinger.model.arrays import Array


def run(arguments: argparse.Namespace) -> int:
    """Fill rows in, and print them."""
    (name,) = arguments.estimator or [DEFAULT_ESTIMATOR]
    make_estimator(name)  # What is none is said before anything is read.
    training, tests = read_matrix(arguments.matrix), read_matrix(arguments.rows)
    _check_columns(tests, training, arguments)
    _check_rows(tests, training, arguments)
    limits = _limits(arguments, training.columns)
    if arguments.pairs:
        training = _without_entries(training, tests.rows)
    model = fit(name, training, scale=RowScale(arguments.scale or "arbitrary"), seed=arguments.seed)
    document = []
    for row, found in zip(tests.rows, model.predict_many(_aligned(tests, training)), strict=True):
        document.append(_prediction_document(row, found))
        if _suggests(arguments):
            size = arguments.suggest or len(training.columns)
            document[-1] |= _suggestions(found, size, limits)
    text = _limited_text if limits.enough or limits.budget_seconds < inf else _prediction_text
    show(document, arguments.output, lambda: text(document))
    return OK


def _suggests(arguments: argparse.Namespace) -> bool:
    wanted = (arguments.suggest, arguments.budget, arguments.enough)
    return wanted != (None, None, None)


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
    for name in tests.columns:
        if name not in known:
            raise InvalidInput(
                f"{arguments.rows}: column {name!r} is none of {arguments.matrix}; "
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
        if not _suggests(arguments) and np.isnan(values).all():
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


def _prediction_document(name: str, prediction: RowPrediction) -> Record:
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


def _suggestions(prediction: RowPrediction, size: int, limits: DesignLimits) -> Record:
    """What to measure next, what that leaves, and why there is no more."""
    unknown = np.flatnonzero(prediction.log_std > 0)
    found = design(prediction.covariance, unknown, size, limits)
    timed = limits.seconds is not None
    entries = []
    for each in found.suggestions:
        entry: Record = {
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


PREDICTIONS = [
    column("NAME"),
    column("COLUMN"),
    column("MEDIAN", "mean", "{:.4g}".format),
    column("STD", "std", "{:.2g}".format),
    column("LOW 90%", "low_90", "{:.4g}".format),
    column("HIGH 90%", "high_90", "{:.4g}".format),
]
SUGGESTIONS = [
    column("NAME", "row"),
    column("MEASURE NEXT", "name"),
    column("LOG STD BEFORE", "mean_log_std_before", "{:.3f}".format),
    column("AFTER", "mean_log_std_after", "{:.3f}".format),
]
COSTS = [
    column("TAKES", "seconds", fmt.duration),
    column("GAIN PER SECOND", form="{:.2g}".format),
]
STOPPED = {
    Stop.ENOUGH: "known well enough",
    Stop.SIZE: "no more were asked for",
    Stop.BUDGET: "no other fits the budget",
    Stop.NOTHING_LEFT: "nothing else is left to measure",
}


def _prediction_text(document: list[Record]) -> str:
    cells = [
        {"name": row["name"], "column": name, **numbers}
        for row in document
        for name, numbers in row["columns"].items()
    ]
    suggested = [
        {"row": row["name"], **item} for row in document for item in row.get("suggest", ())
    ]
    if not suggested:
        return table(cells, PREDICTIONS)
    columns = SUGGESTIONS + (COSTS if "seconds" in suggested[0] else [])
    return f"{table(cells, PREDICTIONS)}\n\n{table(suggested, columns)}"


def _limited_text(document: list[Record]) -> str:
    """With what each row's suggestions reach, where more than their number limits them."""
    lines = [f"{row['name']}: {_reached(row)}" for row in document]
    return "\n".join([_prediction_text(document), "", *lines])


def _reached(row: Record) -> str:
    takes = "" if row["seconds"] is None else f" after {fmt.duration(row['seconds'])}"
    return f"log std {row['mean_log_std']:.3f}{takes}; {STOPPED[Stop(row['stopped'])]}"
