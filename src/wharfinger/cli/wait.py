"""``wharfinger wait``: return when workloads have ended, run, are ready, or keep their targets."""

import argparse

from wharfinger.cli.choosing import add_choice, chosen
from wharfinger.cli.main import NOT_AS_EXPECTED, OK, complain
from wharfinger.cli.options import add_common, add_option, connect
from wharfinger.cli.output import Record, show, table
from wharfinger.cli.readers import seconds
from wharfinger.cli.tables import columns
from wharfinger.cli.waiting import Awaited, Judge, has_ended, wait_for

_RUNNING = ("running", "adjusting")


def _while_live(holds: bool, workload: Record) -> bool | None:
    """What can come true until it ends."""
    return True if holds else False if has_ended(workload) else None


def _completed(workload: Record | None) -> bool | None:
    return workload is not None and _while_live(workload["phase"] == "completed", workload)


def _running(workload: Record | None) -> bool | None:
    return workload is not None and _while_live(workload["phase"] in _RUNNING, workload)


def _ready(workload: Record | None) -> bool | None:
    return workload is not None and _while_live(bool(workload["ready"]), workload)


def _met(workload: Record | None) -> bool | None:
    return workload is not None and _while_live(bool(workload["met"]), workload)


CONDITIONS: dict[str, Judge] = {
    "completed": _completed,
    "ended": has_ended,
    "running": _running,
    "ready": _ready,
    "met": _met,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_choice(parser)
    words = "what to wait for (default: completed); met = it keeps its target"
    parser.add_argument(
        "--for", dest="condition", choices=CONDITIONS, default="completed", help=words
    )
    add_option(parser, "--timeout DURATION", "wait no longer, e.g. 5m", read=seconds)
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Wait; 3 where it can no longer hold of one, or the time is over."""
    client = connect(arguments)
    client.wait_for_manager()
    names, judge = chosen(client, arguments), CONDITIONS[arguments.condition]
    awaited = wait_for(client, names, judge, arguments.timeout, all_of_them=False)
    found, output = [one.workload for one in awaited if one.workload], arguments.output
    show(found, output, lambda: table(found, columns("workloads", output)))
    # Where it can no longer hold of one, the others were not waited for to the end.
    bad = [_state(one) for one in awaited if one.holds is False]
    bad = bad or [f"{_state(one)} when the time was over" for one in awaited if not one.holds]
    if not bad:
        return OK
    more = f", and {len(bad) - 3} more" if len(bad) > 3 else ""
    complain(f"not {arguments.condition}: {', '.join(bad[:3])}{more}")
    return NOT_AS_EXPECTED


def _state(one: Awaited) -> str:
    return f"{one.name} is {one.workload['phase'] if one.workload else 'gone'}"
