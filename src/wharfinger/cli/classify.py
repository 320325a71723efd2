"""``wharfinger classify``: the estimators, on any matrix in a CSV file; needs no manager.

Here are the options; what each action does with them is in ``classify_evaluate``,
``classify_predict`` and ``classify_measure``.
"""

import argparse
import os
from collections.abc import Sequence
from math import isfinite
from typing import Any

from wharfinger.cli.options import add_output, seconds
from wharfinger.errors import InvalidInput

SCALES = ("arbitrary", "common", "normalised")
STRATEGIES = ("random", "variance", "improvement")
MAX_REPEATS = 10_000
ESTIMATES: dict[str, Any] = {"estimator": None, "scale": "arbitrary", "pairs": False, "seed": 0}
OPTIONS: dict[str, dict[str, Any]] = {
    "evaluate": {
        **ESTIMATES,
        "reveal": 2,
        "strategy": "random",
        "stop": None,
        "direction": "lower",
        "repeats": 20,
        "known": None,
    },
    "predict": {
        **ESTIMATES,
        "rows": None,
        "suggest": None,
        "seconds": None,
        "budget": None,
        "enough": None,
    },
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
    _add_predict(parser)
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
        "--stop",
        type=_share,
        metavar="SHARE",
        help="evaluate: --strategy improvement reveals no more once less than this share of the "
        "best is to be gained, such as 1%%",
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


def _add_predict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", metavar="TEST.csv", help="predict: the rows to fill in")
    parser.add_argument(
        "--suggest",
        metavar="K",
        type=_count,
        help="predict: also name K entries of each row to measure next (all that are left, where "
        "fewer are), and what each is worth",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        metavar="DURATION|FILE.csv",
        help="predict: how long measuring an entry takes, each alike or by FILE.csv with the "
        "header column,seconds: what is suggested is then the gain per second; "
        "measure: at each allocation (default: 1s)",
    )
    parser.add_argument(
        "--budget",
        type=seconds,
        metavar="DURATION",
        help="predict: suggest entries that together take no longer; needs --seconds",
    )
    parser.add_argument(
        "--enough",
        type=_share,
        metavar="SHARE",
        help="predict: suggest no more entries than leave this mean deviation, such as 10%%",
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


def _seconds(text: str) -> float | str:
    """A duration, or the file that tells each column's."""
    return text if text.endswith(".csv") else seconds(text)


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not (isfinite(share) and share > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: write a share above 0, such as 10%")
    return share


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
    from wharfinger.cli.classify_predict import predict  # noqa: PLC0415 - NumPy is heavy

    return predict(arguments)


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
    if arguments.known is not None:
        _check_known(arguments)
    if arguments.action == "predict":
        _check_predict(arguments)
    for name, value in own.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    if arguments.action == "evaluate":
        _check_evaluate(arguments)


def _check_predict(arguments: argparse.Namespace) -> None:
    if arguments.rows is None:
        raise InvalidInput("classify predict needs --rows TEST.csv: the rows to fill in")
    for name in ("seconds", "budget"):
        if getattr(arguments, name) == 0:
            raise InvalidInput(f"--{name}: 0; give a time above 0")
    if arguments.seconds is not None and not suggests(arguments):
        raise InvalidInput("--seconds: nothing is suggested; add --suggest, --budget or --enough")
    if arguments.budget is not None and arguments.seconds is None:
        raise InvalidInput("--budget needs --seconds: how long measuring an entry takes")


def suggests(arguments: argparse.Namespace) -> bool:
    """Whether entries to measure next are asked for."""
    return any(getattr(arguments, name) is not None for name in ("suggest", "budget", "enough"))


def _check_evaluate(arguments: argparse.Namespace) -> None:
    if arguments.reveal < 1:
        raise InvalidInput("--reveal: 0: nothing would be known of a row; write 1 or more")
    if arguments.stop is not None and arguments.strategy != "improvement":
        raise InvalidInput("--stop is for --strategy improvement; leave it out")
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
    from wharfinger.estimators.registry import make_estimator  # noqa: PLC0415 - NumPy is heavy

    names = list(dict.fromkeys(given.split(","))) if given is not None else list(default)
    for name in names:
        make_estimator(name)
    return names
