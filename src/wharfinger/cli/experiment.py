"""``wharfinger experiment``: a paper's table or figure, or a comparison of ours, by one command."""

import argparse
import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wharfinger.cli import format as fmt
from wharfinger.cli.comparison import as_text
from wharfinger.cli.format import Column, show, table
from wharfinger.cli.interrupts import ended_in_order
from wharfinger.cli.main import OK
from wharfinger.cli.options import add_output
from wharfinger.cli.progress import Progress
from wharfinger.errors import InvalidInput

if TYPE_CHECKING:
    from wharfinger.experiments.base import Arguments, ExperimentResult
    from wharfinger.experiments.registry import Experiment
    from wharfinger.experiments.workspace import Workspace

MAX_REPEATS = 1000
_SOME_TAKE = ("tables", "servers", "workloads", "regime")
_RUN_ONLY = ("out", "force", "repeats", "seed", "processes", *_SOME_TAKE)
_WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("action", choices=["list", "run"], help="what to do")
    parser.add_argument("name", metavar="NAME", nargs="?", help="run: which experiment")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="run: a directory for all that belongs to the result: numbers, pictures, inputs, and "
        "how to do it again",
    )
    parser.add_argument(
        "--force", action="store_true", default=None, help="run: replace results that are there"
    )
    for name, metavar, words in (
        ("repeats", "N", "how many seeds (default: the experiment's)"),
        ("seed", "N", "the first of them (default: 0)"),
        ("processes", "P", "runs at the same time (default: one for each CPU)"),
        ("servers", "N", "of the simulated cluster, instead of the experiment's"),
        ("workloads", "N", "in one run, instead of the experiment's"),
    ):
        parser.add_argument(f"--{name}", metavar=metavar, type=_count, help=f"run: {words}")
    parser.add_argument(
        "--tables",
        metavar="DIR",
        type=Path,
        help="run: measured tables, for the experiments that need some",
    )
    parser.add_argument(
        "--regime",
        metavar="R",
        help="run: calibration of the physics, instead of the experiment's",
    )
    add_output(parser)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise argparse.ArgumentTypeError(f"{text!r}: write a whole number from 0")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """List the experiments, or run one."""
    _check(arguments)
    # Before NumPy is imported, here and in the processes that simulate: each has one thread.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if arguments.action == "list":
        return _list(arguments)
    return _run(arguments)


def _check(arguments: argparse.Namespace) -> None:
    """An option that would be passed over is a wrong call."""
    if arguments.action == "list":
        for name in ("name", *_RUN_ONLY):
            if getattr(arguments, name) is not None:
                shown = repr(arguments.name) if name == "name" else f"--{name}"
                raise InvalidInput(f"{shown} is for experiment run; leave it out")
        return
    if arguments.name is None:
        raise InvalidInput("experiment run needs a NAME; `wharfinger experiment list` has them")
    for name in ("repeats", "processes", "servers", "workloads"):
        if getattr(arguments, name) == 0:
            raise InvalidInput(f"--{name}: 0; write 1 or more")
    if (arguments.repeats or 1) > MAX_REPEATS:
        raise InvalidInput(f"--repeats: {arguments.repeats}; write 1 to {MAX_REPEATS}")
    if arguments.force and arguments.out is None:
        raise InvalidInput("--force is for --out; leave it out")


# --- list -----------------------------------------------------------------------------------


def _list(arguments: argparse.Namespace) -> int:
    from wharfinger.experiments.registry import EXPERIMENTS  # noqa: PLC0415 - NumPy is heavy

    rows = [
        {
            "name": each.name,
            "about": each.about,
            "source": each.source,
            "takes": sorted(each.takes),
            "repeats": each.repeats,
        }
        for each in EXPERIMENTS.values()
    ]
    columns = _LIST if arguments.output != "wide" else [*_LIST, *_LIST_WIDE]
    show(rows, arguments.output, lambda: table(rows, columns))
    return OK


_LIST: list[Column] = [
    ("NAME", lambda row: row["name"]),
    ("ABOUT", lambda row: row["about"]),
]
_LIST_WIDE: list[Column] = [
    ("SOURCE", lambda row: row["source"]),
    ("TAKES", lambda row: " ".join(f"--{name}" for name in row["takes"])),
    ("SEEDS", lambda row: str(row["repeats"])),
]


# --- run ------------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    # Here and not above: NumPy is heavy, and `list` simulates nothing.
    from wharfinger.experiments.registry import find_experiment  # noqa: PLC0415
    from wharfinger.experiments.results import as_json, write  # noqa: PLC0415
    from wharfinger.experiments.workspace import workspace  # noqa: PLC0415

    experiment = find_experiment(arguments.name)
    given = _arguments(arguments, experiment)
    experiment.check(given)
    files: list[str] = []
    with ended_in_order(), workspace(arguments.out, force=bool(arguments.force)) as space:
        result = _simulate(experiment, given, arguments.processes, space)
        if arguments.out is not None:
            result, files = write(space, experiment, given, result)
    document = as_json(result, [str(arguments.out / name) for name in files])
    show(document, arguments.output, lambda: _text(document, arguments))
    return OK


def _arguments(arguments: argparse.Namespace, experiment: "Experiment") -> "Arguments":
    from wharfinger.experiments.base import Arguments  # noqa: PLC0415 - as in _run

    for name in _SOME_TAKE:
        if getattr(arguments, name) is not None and name not in experiment.takes:
            raise InvalidInput(f"--{name} is not for {experiment.name}; leave it out")
    return Arguments(
        repeats=arguments.repeats or experiment.repeats,
        seed=arguments.seed or 0,
        tables=arguments.tables,
        servers=arguments.servers,
        workloads=arguments.workloads,
        regime=arguments.regime,
    )


def _simulate(
    experiment: "Experiment", given: "Arguments", processes: int | None, space: "Workspace"
) -> "ExperimentResult":
    from wharfinger.experiments.base import Context  # noqa: PLC0415 - as in _run
    from wharfinger.simulator.run import run as simulate  # noqa: PLC0415 - as in _run

    with Progress(experiment.name) as progress:
        return experiment.run(Context(simulate, given, space, processes, progress.count))


def _text(document: dict[str, Any], arguments: argparse.Namespace) -> str:
    """Published numbers beside ours where there are some, else policies beside one another."""
    published = any(row["published"] is not None for row in document["results"])
    parts = [
        f"{each['name']}\n{as_text(each['policies'], arguments.output)}"
        for each in document["comparisons"]
        if each["policies"] and not published
    ]
    if published or not parts:
        parts.append(table(document["results"], _RESULTS))
    parts += [textwrap.fill(note, _WIDTH) for note in document["notes"]]
    if document["files"]:
        parts.append(f"{len(document['files'])} files in {arguments.out}; README.md says which")
    return "\n\n".join(parts)


def _number(key: str) -> Any:
    return lambda row: fmt.NONE if row[key] is None else f"{row[key]:.4g}"


_RESULTS: list[Column] = [
    ("NAME", lambda row: row["name"]),
    ("PUBLISHED", _number("published")),
    ("MEASURED", _number("measured")),
    ("LOW", _number("low")),
    ("HIGH", _number("high")),
    ("UNIT", lambda row: row["unit"]),
]
