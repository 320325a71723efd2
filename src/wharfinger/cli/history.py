"""``wharfinger history``: runs that have ended, and what each took, for accounting."""

import argparse
import sys

from wharfinger.cli import format as fmt
from wharfinger.cli.options import add_common, add_option, connect
from wharfinger.cli.output import Column, Record, column, show, table
from wharfinger.cli.readers import whole
from wharfinger.cli.statuses import phase_in_words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="only of this workload or array")
    add_option(parser, "--limit N", "the newest N runs", "100", whole(1, 10_000))
    add_common(parser)


def run(arguments: argparse.Namespace) -> None:
    """Fetch and print."""
    query = {"name": arguments.name, "limit": int(arguments.limit)}
    runs = connect(arguments).get("history", query=query)
    show(runs, arguments.output, lambda: table(runs, _columns(wide=arguments.output == "wide")))
    if not runs and arguments.output in ("table", "wide"):
        print("no runs have ended", file=sys.stderr)


def _exit(run: Record) -> str:
    return fmt.text(run["exit_code"]) if run["signal"] is None else f"signal {run['signal']}"


def _columns(*, wide: bool) -> list[Column]:
    columns = [
        column("NAME"),
        column("RUN", form=str),
        column("STATUS", "phase", phase_in_words),
        ("EXIT", _exit),
        column("STARTED", "started_at", fmt.clock),
        column("RAN", "run_seconds", fmt.duration),
        column("CPU TIME", "cpu_seconds", fmt.duration),
        column("PEAK MEMORY", "memory_peak_bytes", fmt.size),
        column("RESTARTS", form=str),
        column("PREDICTED", form=fmt.percent),
        column("ACHIEVED", form=fmt.percent),
        column("MET", form=fmt.yes_no),
    ]
    if wide:
        columns += [
            column("CPUS", form=fmt.number),
            column("MEMORY", "memory_bytes", fmt.size),
            column("SERVERS", form=fmt.text),
            column("SUBMITTED", "submitted_at", fmt.clock),
            column("ENDED", "ended_at", fmt.clock),
            column("WHY", "message", lambda why: fmt.text(fmt.words(why))),
        ]
    return columns
