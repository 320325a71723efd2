"""``wharfinger classify predict``: rows filled in, and what to measure of them next."""

import argparse
import dataclasses
from collections.abc import Sequence
from math import inf, log1p

import numpy as np

from wharfinger.cli import format as fmt
from wharfinger.cli.output import Record, column, show, table
from wharfinger.errors import InvalidInput
from wharfinger.estimators.design import DesignLimits, Stop, design
from wharfinger.estimators.estimator import RowPrediction
from wharfinger.estimators.matrix import Matrix, RowScale
from wharfinger.estimators.recommender import fit
from wharfinger.estimators.registry import DEFAULT_ESTIMATOR, make_estimator
from wharfinger.files.matrices import read_matrix, read_seconds
from wharfinger.model.arrays import Array


def run(arguments: argparse.Namespace) -> None:
    """Fill rows in, and print them."""
    (name,) = arguments.estimator or [DEFAULT_ESTIMATOR]
    make_estimator(name)  # An unknown name is refused before anything is read.
    training, tests = read_matrix(arguments.matrix), read_matrix(arguments.rows)
    suggests = (arguments.suggest, arguments.budget, arguments.enough) != (None, None, None)
    _check(tests, training, arguments, suggests=suggests)
    limits = _limits(arguments, training.columns)
    if arguments.pairs:
        training = _without_entries(training, tests.rows)
    model = fit(
        name, training, scale=RowScale(arguments.scale or RowScale.AUTO), seed=arguments.seed
    )
    document = []
    predictions = model.predict_many(_aligned(tests, training))
    for row, prediction in zip(tests.rows, predictions, strict=True):
        document.append(_prediction_document(row, prediction))
        if suggests:
            size = arguments.suggest or len(training.columns)
            document[-1] |= _suggestions(prediction, size, limits)
    limited = limits.enough or limits.budget_seconds < inf
    show(document, arguments.output, lambda: _text(document, limited=bool(limited)))


def _check(
    tests: Matrix, training: Matrix, arguments: argparse.Namespace, *, suggests: bool
) -> None:
    columns, rows = set(training.columns), set(training.rows)
    for name in tests.columns:
        if name not in columns:
            where = f"{arguments.rows}: column {name!r} is none of {arguments.matrix}"
            raise InvalidInput(f"{where}; name configurations as they are named there")
    for name, values in zip(tests.rows, tests.values, strict=True):
        row = f"{arguments.rows}: row {name!r}"
        if name in rows:
            mend = "leave it out of one of the two, or name the new one differently"
            raise InvalidInput(f"{row} is a known row of {arguments.matrix}; {mend}")
        if not suggests and np.isnan(values).all():
            mend = "measure one (--suggest 1 says which)"
            raise InvalidInput(f"{row} has no entry to predict from; {mend}")
    most = len(training.columns)
    if arguments.suggest is not None and arguments.suggest > most:
        raise InvalidInput(f"--suggest: {arguments.suggest}: write 1 to {most}, the columns there")


def _limits(arguments: argparse.Namespace, columns: Sequence[str]) -> DesignLimits:
    seconds: Array | None = None
    if isinstance(arguments.seconds, str):
        seconds = read_seconds(arguments.seconds, columns)
    elif arguments.seconds is not None:
        seconds = np.full(len(columns), arguments.seconds)
    budget = inf if arguments.budget is None else arguments.budget
    return DesignLimits(seconds, budget, log1p(arguments.enough or 0.0))


def _without_entries(training: Matrix, names: Sequence[str]) -> Matrix:
    """Columns that bear a new row's name were measured with it: none of that is known yet."""
    hidden = np.isin(training.columns, names)
    if not hidden.any():
        return training
    return dataclasses.replace(training, values=np.where(hidden, np.nan, training.values))


def _aligned(tests: Matrix, training: Matrix) -> Array:
    places = {column: at for at, column in enumerate(training.columns)}
    values = np.full((len(tests.rows), len(places)), np.nan)
    values[:, [places[column] for column in tests.columns]] = tests.values
    return values


def _prediction_document(name: str, prediction: RowPrediction) -> Record:
    low, high = prediction.interval_90()
    # The mean is of the logarithm; so it is the median of the value.
    numbers = {"mean": prediction.mean, "std": prediction.std, "low_90": low, "high_90": high}
    rows = zip(*(values.tolist() for values in numbers.values()), strict=True)
    cells = [dict(zip(numbers, row, strict=True)) for row in rows]
    return {"name": name, "columns": dict(zip(prediction.columns, cells, strict=True))}


def _suggestions(prediction: RowPrediction, size: int, limits: DesignLimits) -> Record:
    unknown = np.flatnonzero(prediction.log_std > 0)
    designed = design(prediction.covariance, unknown, size, limits)
    timed = limits.seconds is not None
    entries = []
    for each in designed.suggestions:
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
        "mean_log_std": designed.std,
        "seconds": designed.seconds if timed else None,
        "stopped": str(designed.stopped),
    }


_PREDICTIONS = [
    *map(column, ("NAME", "COLUMN")),
    column("MEDIAN", "mean", "{:.4g}".format),
    column("STD", "std", "{:.2g}".format),
    column("LOW 90%", "low_90", "{:.4g}".format),
    column("HIGH 90%", "high_90", "{:.4g}".format),
]
_SUGGESTIONS = [
    column("NAME", "row"),
    column("MEASURE NEXT", "name"),
    column("LOG STD BEFORE", "mean_log_std_before", "{:.3f}".format),
    column("AFTER", "mean_log_std_after", "{:.3f}".format),
]
_COSTS = [column("TAKES", "seconds", fmt.duration), column("GAIN PER SECOND", form="{:.2g}".format)]
_STOPPED = {
    Stop.ENOUGH: "known well enough",
    Stop.SIZE: "no more were asked for",
    Stop.BUDGET: "no other fits the budget",
    Stop.NOTHING_LEFT: "nothing else is left to measure",
}


def _text(document: list[Record], *, limited: bool) -> str:
    """``limited``: with what each row's suggestions reach, where not their number ends them."""
    cells = [
        {"name": row["name"], "column": name, **numbers}
        for row in document
        for name, numbers in row["columns"].items()
    ]
    parts = [table(cells, _PREDICTIONS)]
    suggested = [
        {"row": row["name"], **item} for row in document for item in row.get("suggest", ())
    ]
    if suggested:
        columns = _SUGGESTIONS + (_COSTS if "seconds" in suggested[0] else [])
        parts.append(table(suggested, columns))
    if limited:
        parts.append("\n".join(f"{row['name']}: {_reached(row)}" for row in document))
    return "\n\n".join(parts)


def _reached(row: Record) -> str:
    takes = "" if row["seconds"] is None else f" after {fmt.duration(row['seconds'])}"
    return f"log std {row['mean_log_std']:.3f}{takes}; {_STOPPED[Stop(row['stopped'])]}"
