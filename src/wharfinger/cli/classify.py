"""``wharfinger classify``: the estimators, on any matrix in a CSV file; needs no manager.

What each action does beside reading its options: here ``predict``, in ``classify_evaluate`` and
``classify_measure`` the others.
"""

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wharfinger.cli.main import OK
from wharfinger.cli.options import add_output, seconds
from wharfinger.cli.output import Column, show, table
from wharfinger.errors import InvalidInput

if TYPE_CHECKING:
    from wharfinger.learning.base import Prediction
    from wharfinger.learning.matrix import Matrix

SCALES = ("arbitrary", "common", "normalised")
STRATEGIES = ("random", "variance", "improvement")
MAX_REPEATS = 10_000
ESTIMATES: dict[str, Any] = {"estimator": None, "scale": "arbitrary", "pairs": False, "seed": 0}
OPTIONS: dict[str, dict[str, Any]] = {
    "evaluate": {
        **ESTIMATES,
        "reveal": 2,
        "strategy": "random",
        "direction": "lower",
        "repeats": 20,
        "known": None,
    },
    "predict": {**ESTIMATES, "rows": None, "suggest": None},
    "measure": {
        "only": None,
        "out": None,
        "seconds": None,
        "list": False,
        "anew": False,
        "busy": False,
        "provisional": False,
    },
}
"""Options of each action, and what they are when not given."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "action",
        choices=list(OPTIONS),
        help="evaluate: how well estimators predict rows of programs that were held out; "
        "predict: fill in rows of which a few entries are known; "
        "measure: measure the known programs on this machine",
    )
    parser.add_argument(
        "matrix",
        metavar="MATRIX.csv",
        nargs="?",
        help="evaluate, predict: known rows: a name, optionally the column group, a column for "
        "each configuration; empty where not measured",
    )
    _add_shared(parser)
    _add_evaluate(parser)
    parser.add_argument("--rows", metavar="TEST.csv", help="predict: the rows to fill in")
    parser.add_argument(
        "--suggest",
        metavar="K",
        type=_count,
        help="predict: also name K entries of each row to measure next (all that are left, where "
        "fewer are), and what each is worth",
    )
    _add_measure(parser)
    add_output(parser)


def _add_shared(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--estimator",
        metavar="NAME[,NAME]",
        help="evaluate: which to compare (default: all); predict: which to use",
    )
    parser.add_argument(
        "--scale",
        choices=SCALES,
        help="what a row's level says: nothing, something (rows share a unit), or it is "
        "relative to its run alone (default: arbitrary)",
    )
    parser.add_argument(
        "--pairs",
        action="store_true",
        default=None,
        help="columns bear rows' names: the column of a new row is not known either",
    )
    parser.add_argument(
        "--seed", type=_count, metavar="N", help="repeats a run exactly (default: 0)"
    )


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reveal", type=_count, metavar="K", help="evaluate: known entries of a row (default: 2)"
    )
    parser.add_argument(
        "--strategy", choices=STRATEGIES, help="evaluate: which entries those are (default: random)"
    )
    parser.add_argument(
        "--direction",
        choices=["lower", "higher"],
        help="evaluate: which values are better (default: lower)",
    )
    parser.add_argument(
        "--repeats",
        type=_count,
        metavar="N",
        help="evaluate: how often to divide the programs anew (default: 20)",
    )


def _add_measure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--known",
        metavar="DIR",
        nargs="?",
        const="",
        help="evaluate: the known programs' matrices, in DIR or as the manager would find them",
    )
    parser.add_argument(
        "--only",
        metavar="NAME[,NAME]",
        help="measure: these programs (default: all that are installed)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="measure: where to; rows that are there are kept (default: wharfinger/known in the "
        "user's XDG data folder, where the manager looks)",
    )
    parser.add_argument(
        "--seconds",
        type=seconds,
        metavar="DURATION",
        help="measure: at each allocation (default: 1s)",
    )
    for name, words in (
        ("--list", "show the programs and what they need"),
        ("--anew", "forget the rows that are there"),
        ("--busy", "go on although others use this machine"),
        ("--provisional", "mark what is measured as fit for tests only"),
    ):
        parser.add_argument(name, action="store_true", default=None, help=f"measure: {words}")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise argparse.ArgumentTypeError(f"{text!r}: write a whole number from 0")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate or predict, and print."""
    _check(arguments)
    # Before NumPy is imported: one thread adds up in one order, and is faster at these sizes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if arguments.action == "measure":
        from wharfinger.cli.classify_measure import measure  # noqa: PLC0415 - it has an engine

        return measure(arguments)
    if arguments.action == "evaluate":
        from wharfinger.cli.classify_evaluate import evaluate  # noqa: PLC0415 - NumPy is heavy

        return evaluate(arguments)
    _predict(arguments)
    return OK


def _check(arguments: argparse.Namespace) -> None:
    """An option that would be passed over is a wrong call."""
    own = OPTIONS[arguments.action]
    for name in dict.fromkeys(name for options in OPTIONS.values() for name in options):
        if name not in own and getattr(arguments, name) is not None:
            raise InvalidInput(f"--{name} is not for classify {arguments.action}; leave it out")
    wanted = arguments.action != "measure" and arguments.known is None
    if wanted != (arguments.matrix is not None):
        words = "needs MATRIX.csv" if wanted else f"reads no file; leave {arguments.matrix!r} out"
        raise InvalidInput(f"classify {arguments.action} {words}")
    if arguments.action == "predict" and arguments.rows is None:
        raise InvalidInput("classify predict needs --rows TEST.csv: the rows to fill in")
    if arguments.known is not None:
        _check_known(arguments)
    for name, value in own.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    if arguments.action == "evaluate":
        _check_evaluate(arguments)


def _check_evaluate(arguments: argparse.Namespace) -> None:
    if arguments.reveal < 1:
        raise InvalidInput("--reveal: 0: nothing would be known of a row; write 1 or more")
    if not 1 <= arguments.repeats <= MAX_REPEATS:
        raise InvalidInput(f"--repeats: {arguments.repeats}: write 1 to {MAX_REPEATS}")


def _check_known(arguments: argparse.Namespace) -> None:
    for name in ("scale", "pairs", "direction"):
        if getattr(arguments, name) is not None:
            raise InvalidInput(f"--{name}: --known says it for each matrix; leave it out")


def estimators(given: str | None, default: Sequence[str]) -> list[str]:
    """The names in an option, each once.

    Raises:
        InvalidInput: One of them is no estimator's.
    """
    from wharfinger.learning.registry import make_estimator  # noqa: PLC0415 - NumPy is heavy

    names = list(dict.fromkeys(given.split(","))) if given is not None else list(default)
    for name in names:
        make_estimator(name)
    return names


def _predict(arguments: argparse.Namespace) -> None:
    from wharfinger.learning import reading, registry  # noqa: PLC0415
    from wharfinger.learning.matrix import Scale  # noqa: PLC0415
    from wharfinger.learning.recommender import fit  # noqa: PLC0415

    names = estimators(arguments.estimator, [registry.DEFAULT_ESTIMATOR])
    if len(names) > 1:
        raise InvalidInput(f"--estimator: {arguments.estimator!r}: predict takes one; name one")
    training = reading.read_matrix(arguments.matrix)
    tests = reading.read_matrix(arguments.rows)
    _check_columns(tests, training, arguments)
    _check_rows(tests, training, arguments)
    if arguments.pairs:
        training = _without_entries(training, tests.rows)
    model = fit(names[0], training, scale=Scale(arguments.scale), seed=arguments.seed)
    document = [
        _prediction_document(name, model.predict(row), arguments.suggest)
        for name, row in zip(tests.rows, _aligned(tests, training), strict=True)
    ]
    show(document, arguments.output, lambda: _prediction_text(document))


def _check_columns(tests: "Matrix", training: "Matrix", arguments: argparse.Namespace) -> None:
    known = set(training.columns)
    for column in tests.columns:
        if column not in known:
            raise InvalidInput(
                f"{arguments.rows}: column {column!r} is none of {arguments.matrix}; "
                "name configurations as they are named there"
            )


def _check_rows(tests: "Matrix", training: "Matrix", arguments: argparse.Namespace) -> None:
    import numpy as np  # noqa: PLC0415 - heavy

    known = set(training.rows)
    for name, values in zip(tests.rows, tests.values, strict=True):
        if name in known:
            raise InvalidInput(
                f"{arguments.rows}: row {name!r} is a known row of {arguments.matrix}; "
                "leave it out of one of the two, or name the new one differently"
            )
        if arguments.suggest is None and np.isnan(values).all():
            raise InvalidInput(
                f"{arguments.rows}: row {name!r} has no entry to predict from; measure one "
                "(--suggest 1 says which)"
            )
    most = len(training.columns)
    if arguments.suggest is not None and not 1 <= arguments.suggest <= most:
        raise InvalidInput(f"--suggest: {arguments.suggest}: write 1 to {most}, the columns there")


def _without_entries(training: "Matrix", names: Sequence[str]) -> "Matrix":
    """Columns that bear a new row's name were measured with it: none of that is known yet."""
    import dataclasses  # noqa: PLC0415 - costs a client's start

    import numpy as np  # noqa: PLC0415

    hidden = np.isin(training.columns, names)
    if not hidden.any():
        return training
    return dataclasses.replace(training, values=np.where(hidden, np.nan, training.values))


def _aligned(tests: "Matrix", training: "Matrix") -> Any:
    """The new rows' values under the known rows' columns."""
    import numpy as np  # noqa: PLC0415

    places = {column: j for j, column in enumerate(training.columns)}
    values = np.full((len(tests.rows), len(training.columns)), np.nan)
    values[:, [places[column] for column in tests.columns]] = tests.values
    return values


def _prediction_document(
    name: str, prediction: "Prediction", suggest: int | None
) -> dict[str, Any]:
    low, high = prediction.interval_90()
    numbers = zip(
        prediction.columns,
        prediction.mean.tolist(),
        prediction.std.tolist(),
        low.tolist(),
        high.tolist(),
        strict=True,
    )
    # In logarithms it is the mean, so of the values it is the median.
    columns = {c: {"median": m, "std": s, "low_90": a, "high_90": b} for c, m, s, a, b in numbers}
    document: dict[str, Any] = {"name": name, "columns": columns}
    if suggest is not None:
        document["suggest"] = _suggestions(prediction, suggest)
    return document


def _suggestions(prediction: "Prediction", size: int) -> list[dict[str, Any]]:
    import numpy as np  # noqa: PLC0415

    from wharfinger.learning.design import suggest  # noqa: PLC0415

    unknown = np.flatnonzero(prediction.log_std > 0)
    return [
        {
            "name": prediction.columns[found.column],
            "mean_log_std_before": found.std_before,
            "mean_log_std_after": found.std_after,
        }
        for found in suggest(prediction.covariance, unknown, size)
    ]


PREDICTIONS: list[Column] = [
    ("NAME", lambda item: item[0]),
    ("COLUMN", lambda item: item[1]),
    ("MEDIAN", lambda item: f"{item[2]['median']:.4g}"),
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


def _prediction_text(document: list[dict[str, Any]]) -> str:
    cells = [(row["name"], c, numbers) for row in document for c, numbers in row["columns"].items()]
    text = table(cells, PREDICTIONS)
    next_ones = [(row["name"], item) for row in document for item in row.get("suggest", [])]
    return f"{text}\n\n{table(next_ones, SUGGESTIONS)}" if next_ones else text
