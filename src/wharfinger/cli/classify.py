"""``wharfinger classify``: the estimators, on any matrix in a CSV file; needs no manager.

Here are the options; what each action does with them is in ``classify_evaluate``,
``classify_predict`` and ``classify_measure``, which are imported by the call that needs them.
"""

import argparse
import importlib
import os
from math import isfinite

from wharfinger.cli.options import add_output, seconds
from wharfinger.errors import InvalidInput

SCALES = ("arbitrary", "common", "normalised")
STRATEGIES = ("random", "variance", "improvement")
MAX_REPEATS = 10_000
MATRIX = (
    "known rows: a name, optionally the column group, a column for each configuration; empty "
    "where not measured"
)
ACTIONS = {
    "evaluate": "how well estimators predict rows of programs that were held out",
    "predict": "fill in rows of which a few entries are known",
    "measure": "measure the known programs on this machine",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The actions, each with its options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for (name, words), add in zip(
        ACTIONS.items(), (_add_evaluate, _add_predict, _add_measure), strict=True
    ):
        action = actions.add_parser(
            name,
            help=words,
            description=f"{words[0].upper()}{words[1:]}.",
            allow_abbrev=False,
            formatter_class=parser.formatter_class,
        )
        add(action)
        add_output(action)


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("matrix", metavar="MATRIX.csv", nargs="?", help=MATRIX)
    words = "the known programs' matrices, in DIR or as the manager would find them"
    add("--known", metavar="DIR", nargs="?", const="", help=words)
    _add_estimates(parser, "which to compare (default: all)")
    add("--reveal", type=_count, default=2, metavar="K", help="known entries of a row (default: 2)")
    words = "which entries those are (default: random)"
    add("--strategy", choices=STRATEGIES, default="random", help=words)
    words = (
        "--strategy improvement reveals no more once less than this share of the best is to be "
        "gained, such as 1%%"
    )
    add("--stop", type=_share, metavar="SHARE", help=words)
    words = "which values are better (default: lower)"
    add("--direction", choices=["lower", "higher"], help=words)
    words = "how often to divide the programs (default: 20)"
    add("--repeats", type=_count, default=20, metavar="N", help=words)


def _add_predict(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("matrix", metavar="MATRIX.csv", help=MATRIX)
    add("--rows", metavar="TEST.csv", required=True, help="the rows to fill in")
    _add_estimates(parser, "which to use")
    words = (
        "also name K entries of each row to measure next (all that are left, where fewer are), "
        "and what each is worth"
    )
    add("--suggest", metavar="K", type=_count, help=words)
    words = (
        "how long measuring an entry takes, each alike or by FILE.csv with the header "
        "column,seconds: what is suggested is then the gain per second"
    )
    add("--seconds", type=_seconds, metavar="DURATION|FILE.csv", help=words)
    words = "suggest entries that together take no longer; needs --seconds"
    add("--budget", type=seconds, metavar="DURATION", help=words)
    words = "suggest no more entries than leave this mean deviation, such as 10%%"
    add("--enough", type=_share, metavar="SHARE", help=words)


def _add_estimates(parser: argparse.ArgumentParser, which: str) -> None:
    add = parser.add_argument
    add("--estimator", metavar="NAME[,NAME]", type=_names, help=which)
    words = (
        "what a row's level says: nothing, something (rows share a unit), or it is relative to "
        "its run alone (default: arbitrary)"
    )
    add("--scale", choices=SCALES, help=words)
    words = "columns bear rows' names: the column of a new row is not known either"
    add("--pairs", action="store_true", help=words)
    add("--seed", type=_count, default=0, metavar="N", help="repeats a run exactly (default: 0)")


def _add_measure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    words = "these programs (default: all that are installed)"
    add("--only", metavar="NAME[,NAME]", help=words)
    words = (
        "where to; rows that are there are kept (default: wharfinger/known in the user's XDG "
        "data folder, where the manager looks)"
    )
    add("--out", metavar="DIR", help=words)
    add("--seconds", type=seconds, metavar="DURATION", help="at each allocation (default: 1s)")
    add("--list", action="store_true", help="show the programs and what they need")
    add("--anew", action="store_true", help="forget the rows that are there")
    add("--busy", action="store_true", help="go on although others use this machine")
    add("--provisional", action="store_true", help="mark what is measured as fit for tests only")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise argparse.ArgumentTypeError(f"{text!r}: write a whole number from 0")
    return int(text)


def _names(text: str) -> list[str]:
    """Each once."""
    return list(dict.fromkeys(text.split(",")))


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
    """Check what argparse can't, and act."""
    if arguments.action == "evaluate":
        _check_evaluate(arguments)
    elif arguments.action == "predict":
        _check_predict(arguments)
    # Before NumPy is imported: one thread adds up in one order, and is faster at these sizes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    module = importlib.import_module(f"wharfinger.cli.classify_{arguments.action}")
    status: int = module.run(arguments)
    return status


def _check_evaluate(arguments: argparse.Namespace) -> None:
    known, matrix = arguments.known is not None, arguments.matrix
    if known == (matrix is not None):
        words = f"--known reads no file; leave {matrix!r} out" if known else "needs MATRIX.csv"
        raise InvalidInput(f"classify evaluate {words}")
    for name in ("scale", "pairs", "direction"):
        if known and getattr(arguments, name):
            raise InvalidInput(f"--{name}: --known says it for each matrix; leave it out")
    if arguments.reveal < 1:
        raise InvalidInput("--reveal: 0: nothing would be known of a row; write 1 or more")
    if arguments.stop is not None and arguments.strategy != "improvement":
        raise InvalidInput("--stop is for --strategy improvement; leave it out")
    if not 1 <= arguments.repeats <= MAX_REPEATS:
        raise InvalidInput(f"--repeats: {arguments.repeats}: write 1 to {MAX_REPEATS}")


def _check_predict(arguments: argparse.Namespace) -> None:
    if arguments.estimator and len(arguments.estimator) > 1:
        raise InvalidInput(f"--estimator: {','.join(arguments.estimator)}: predict takes one")
    for name in ("seconds", "budget"):
        if getattr(arguments, name) == 0:
            raise InvalidInput(f"--{name}: 0; give a time above 0")
    wanted = (arguments.suggest, arguments.budget, arguments.enough)
    if arguments.seconds is not None and wanted == (None, None, None):
        raise InvalidInput("--seconds: nothing is suggested; add --suggest, --budget or --enough")
    if arguments.budget is not None and arguments.seconds is None:
        raise InvalidInput("--budget needs --seconds: how long measuring an entry takes")
