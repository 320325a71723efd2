"""``wharfinger experiment``: a paper's table or figure, or a comparison of ours, by one command."""

import argparse
import os
import textwrap
from functools import partial
from pathlib import Path

from wharfinger.cli import comparison
from wharfinger.cli.options import add_option, add_output, refuse
from wharfinger.cli.output import Record, column, show, table
from wharfinger.cli.progress import Progress, ended_in_order
from wharfinger.cli.readers import number, whole
from wharfinger.errors import InvalidInput

_SOME_TAKE = ("--tables", "--servers", "--workloads", "--scale", "--regime")
_RUN_ONLY = ("--out", "--force", "--repeats", "--seed", "--processes", *_SOME_TAKE)
_WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("action", choices=["list", "run"], help="what to do")
    parser.add_argument("name", metavar="NAME", nargs="?", help="run: which experiment")
    add = partial(add_option, parser)
    words = "run: a directory for the numbers, pictures and inputs, and how to repeat it"
    add("--out DIR", words, read=Path)
    add("--force", "run: replace results that are there")
    add("--repeats N", "run: how many seeds (default: the experiment's)", read=whole(1, 1000))
    add("--seed N", "run: the first of them (default: 0)", read=whole(0))
    words = "run: runs at the same time (default: one for each CPU)"
    add("--processes P", words, read=whole(1))
    add("--servers N", "run: of the simulated cluster (default: the experiment's)", read=whole(1))
    add("--workloads N", "run: in one run (default: the experiment's)", read=whole(1))
    words = "run: factor of servers, workloads and arrivals together (default: the experiment's)"
    add("--scale F", words, read=number(0.0001, 1000, "a factor from 0.0001 to 1000"))
    add("--tables DIR", "run: measured tables, for the experiments that need some", read=Path)
    add("--regime R", "run: calibration of the physics (default: the experiment's)")
    add_output(parser)


def run(arguments: argparse.Namespace) -> None:
    """List the experiments, or run one."""
    # Before NumPy is imported, here and in the processes that simulate: each has one thread.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if arguments.action == "list":
        if arguments.name is not None:
            raise InvalidInput(f"{arguments.name!r} is for experiment run; leave it out")
        refuse(arguments, _RUN_ONLY, "is for experiment run")
        _list(arguments)
        return
    if arguments.name is None:
        raise InvalidInput("experiment run needs a NAME; `wharfinger experiment list` has them")
    if arguments.out is None:
        refuse(arguments, ["--force"], "is for --out")
    _run(arguments)


def _list(arguments: argparse.Namespace) -> None:
    from wharfinger.experiments.registry import EXPERIMENTS  # noqa: PLC0415

    keys = ("name", "about", "source", "takes", "repeats")
    rows = [{key: getattr(one, key) for key in keys} for one in EXPERIMENTS.values()]
    rows = [{**row, "takes": sorted(row["takes"])} for row in rows]
    columns = [column("NAME"), column("ABOUT")]
    if arguments.output == "wide":
        takes = column("TAKES", form=lambda names: " ".join(f"--{name}" for name in names))
        columns += [column("SOURCE"), takes, column("SEEDS", "repeats")]
    show(rows, arguments.output, lambda: table(rows, columns))


def _run(arguments: argparse.Namespace) -> None:
    # Here and not above: help needs none of it, and it takes long.
    from wharfinger.experiments.base import Arguments, Context  # noqa: PLC0415
    from wharfinger.experiments.registry import find_experiment  # noqa: PLC0415
    from wharfinger.experiments.results import as_json, write  # noqa: PLC0415
    from wharfinger.experiments.workspace import workspace  # noqa: PLC0415
    from wharfinger.simulator.run import run_in_turn  # noqa: PLC0415

    experiment = find_experiment(arguments.name)
    others = [option for option in _SOME_TAKE if option[2:] not in experiment.takes]
    refuse(arguments, others, f"is not for {experiment.name}")
    some = {option[2:]: getattr(arguments, option[2:]) for option in _SOME_TAKE}
    repeats, seed = arguments.repeats or experiment.repeats, arguments.seed or 0
    chosen = Arguments(repeats=repeats, seed=seed, **some)
    experiment.check(chosen)
    files: list[str] = []
    with ended_in_order(), workspace(arguments.out, force=arguments.force) as space:
        with Progress(experiment.name) as progress:
            context = Context(run_in_turn, chosen, space, arguments.processes, progress.count)
            result = experiment.run(context)
        if arguments.out is not None:
            result, files = write(space, experiment, chosen, result)
    document = as_json(result, [str(arguments.out / name) for name in files])
    show(document, arguments.output, lambda: _text(document, arguments))


def _text(document: Record, arguments: argparse.Namespace) -> str:
    published = any(row["published"] is not None for row in document["results"])
    parts = [
        f"{each['name']}\n{comparison.as_text(each['policies'], arguments.output)}"
        for each in document["comparisons"]
        if each["policies"] and not published
    ]
    if published or not parts:
        parts.append(table(document["results"], _RESULTS))
    parts += [textwrap.fill(note, _WIDTH) for note in document["notes"]]
    if document["files"]:
        parts.append(f"{len(document['files'])} files in {arguments.out}; README.md says which")
    return "\n\n".join(parts)


_RESULTS = [
    column("NAME"),
    *(column(head, form="{:.4g}".format) for head in ("PUBLISHED", "MEASURED", "LOW", "HIGH")),
    column("UNIT"),
]
