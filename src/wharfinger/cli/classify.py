"""``wharfinger classify``: the estimators, on any matrix in a CSV file; needs no manager.

Here are the options; what each action does with them is in ``classify_evaluate``,
``classify_predict`` and ``classify_measure``, which are imported by the call that needs them.
"""

import argparse
import importlib
import os
from functools import partial

from wharfinger.cli.main import add_parser
from wharfinger.cli.options import add_option, add_output, refuse
from wharfinger.cli.readers import seconds_above_zero, share, whole
from wharfinger.cli.up import add_slurm
from wharfinger.errors import InvalidInput

SCALES = ("auto", "arbitrary", "common", "normalised")
STRATEGIES = ("random", "variance", "improvement")
MATRIX = (
    "known rows: a name, optionally the column group, a column for each configuration; empty "
    "where not measured"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The actions, each with its options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, add_options, words in (
        ("evaluate", _add_evaluate, "how well estimators predict rows that were held out"),
        ("predict", _add_predict, "fill in rows of which a few entries are known"),
        (
            "measure",
            _add_measure,
            "measure the known programs on this machine, or on a Slurm cluster",
        ),
    ):
        action = add_parser(actions, name, words)
        add_options(action)
        add_output(action)


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("matrix", metavar="MATRIX.csv", nargs="?", help=MATRIX)
    words = "the known programs' matrices, in DIR or as the manager would find them"
    parser.add_argument("--known", metavar="DIR", nargs="?", const="", help=words)
    _add_estimates(parser, "which to compare (default: all)")
    add = partial(add_option, parser)
    add("--reveal K", "known entries of a row", "2", whole(1))
    words = "which entries those are (default: random)"
    parser.add_argument("--strategy", choices=STRATEGIES, default="random", help=words)
    words = "--strategy improvement ends once the expected gain is below this share, such as 1%"
    add("--stop SHARE", words, read=share)
    words = "which values are better (default: lower)"
    parser.add_argument("--direction", choices=["lower", "higher"], help=words)
    add("--repeats N", "how often to divide the programs", "20", whole(1, 10_000))


def _add_predict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("matrix", metavar="MATRIX.csv", help=MATRIX)
    parser.add_argument("--rows", metavar="TEST.csv", required=True, help="the rows to fill in")
    _add_estimates(parser, "which to use")
    add = partial(add_option, parser)
    words = "also name K entries of each row to measure next (or all left), and what each is worth"
    add("--suggest K", words, read=whole(1))
    words = (
        "how long measuring an entry takes, the same for each or by FILE.csv with the header "
        "column,seconds: the gain per second decides what is suggested"
    )
    add("--seconds DURATION|FILE.csv", words, read=_seconds)
    words = "suggest entries that together take no longer; needs --seconds"
    add("--budget DURATION", words, read=seconds_above_zero)
    words = "suggest entries until the mean deviation is at most this, such as 10%"
    add("--enough SHARE", words, read=share)


def _add_estimates(parser: argparse.ArgumentParser, which: str) -> None:
    add_option(parser, "--estimator NAME[,NAME]", which, read=_names)
    words = (
        "what a row's level means: nothing, something (rows share a unit), or it is relative to "
        "its run alone; auto finds out, from rows that it holds out (default: auto)"
    )
    parser.add_argument("--scale", choices=SCALES, help=words)
    words = "columns bear rows' names: the column of a new row is not known either"
    add_option(parser, "--pairs", words)
    add_option(parser, "--seed N", "repeats a run exactly", "0", whole(0))


def _add_measure(parser: argparse.ArgumentParser) -> None:
    add = partial(add_option, parser)
    add("--only NAME[,NAME]", "these programs (default: all that are installed)")
    words = (
        "where to; rows that are there are kept (default: wharfinger/known in the user's XDG "
        "data folder, where the manager looks)"
    )
    add("--out DIR", words)
    add("--seconds DURATION", "at each allocation", "1s", seconds_above_zero)
    add("--list", "show the programs and what they need")
    add("--anew", "forget the rows that are there")
    add("--busy", "go on although others use this machine")
    add("--provisional", "mark the result as fit for tests only")
    words = "where they run: local, this machine; or slurm, a node of each platform of a cluster"
    add("--engine NAME", words, "local")
    add_slurm(parser)


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(text.split(",")))


def _seconds(text: str) -> float | str:
    return text if text.endswith(".csv") else seconds_above_zero(text)


def run(arguments: argparse.Namespace) -> int | None:
    """Check what argparse can't, and act."""
    if arguments.action == "evaluate":
        _check_evaluate(arguments)
    elif arguments.action == "predict":
        _check_predict(arguments)
    # Before NumPy is imported: one thread adds up in one order, and is faster at these sizes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    module = importlib.import_module(f"wharfinger.cli.classify_{arguments.action}")
    status: int | None = module.run(arguments)
    return status


def _check_evaluate(arguments: argparse.Namespace) -> None:
    if arguments.known is None and arguments.matrix is None:
        raise InvalidInput("classify evaluate needs MATRIX.csv")
    if arguments.known is not None:
        if arguments.matrix is not None:
            raise InvalidInput(f"--known reads no file; leave {arguments.matrix!r} out")
        refuse(arguments, ["--scale", "--pairs", "--direction"], "is not for --known")
    if arguments.strategy != "improvement":
        refuse(arguments, ["--stop"], "is for --strategy improvement")


def _check_predict(arguments: argparse.Namespace) -> None:
    if arguments.estimator and len(arguments.estimator) > 1:
        raise InvalidInput(f"--estimator: {','.join(arguments.estimator)}: predict takes one")
    wanted = (arguments.suggest, arguments.budget, arguments.enough)
    if arguments.seconds is not None and wanted == (None, None, None):
        raise InvalidInput("--seconds: nothing is suggested; add --suggest, --budget or --enough")
    if arguments.budget is not None and arguments.seconds is None:
        raise InvalidInput("--budget needs --seconds: how long measuring an entry takes")
