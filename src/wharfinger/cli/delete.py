"""``wharfinger delete``: stop workloads, and drop their records and output."""

import argparse
from typing import TYPE_CHECKING

from wharfinger.cli.choosing import chosen
from wharfinger.cli.main import FAILED, NOT_AS_EXPECTED, OK, complain
from wharfinger.cli.options import add_common, add_option, add_wait, connect
from wharfinger.cli.output import Record, show
from wharfinger.cli.selecting import phase
from wharfinger.cli.waiting import wait_for
from wharfinger.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from wharfinger.cli.client import Client


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="workloads, or arrays of them")
    add_option(parser, "-l --selector KEY=VALUE ...", "all with this label; repeatable")
    add_option(parser, "--all", "all, or all in the given phases")
    words = "with --all: only those in this phase, or ended, or live; repeatable"
    add_option(parser, "--phase PHASE ...", words, read=phase)
    add_wait(parser, "wait until those that ran have ended, and are deleted")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Delete each; what fails does not keep the others."""
    ways = [bool(arguments.names), bool(arguments.selector), arguments.all]
    if sum(ways) != 1 or (arguments.phase and not arguments.all):
        mend = "name workloads, or give --all, with --phase if you like, or labels with -l"
        raise InvalidInput(f"delete: {mend}")
    client = connect(arguments)
    if arguments.all:
        listed = client.get("workloads", query={"phase": arguments.phase})
        names = [workload["name"] for workload in listed]
    elif arguments.selector:
        names = [w["name"] for w in client.get("workloads", query={"label": arguments.selector})]
    elif arguments.wait:
        names = chosen(client, arguments)
    else:
        names = list(dict.fromkeys(arguments.names))
    deletions, failed = _delete(client, names, skip_missing=not arguments.names)
    late: list[str] = []
    stopping = {one["name"]: one for one in deletions if one["outcome"] == "stopping"}
    if arguments.wait and stopping:
        for one in wait_for(client, list(stopping), _is_gone, arguments.timeout):
            if one.holds:
                stopping[one.name]["outcome"] = "deleted"
            else:
                late.append(one.name)
    lines = [f"workload/{one['name']} {one['outcome']}" for one in deletions]
    show(deletions, arguments.output, lambda: "\n".join(lines))
    if late:
        complain(f"not ended in time: {', '.join(late[:3])}")
    return FAILED if failed else NOT_AS_EXPECTED if late else OK


def _is_gone(workload: Record | None) -> bool | None:
    # Another of its name may have come since.
    return workload is None or not workload["stopping"] or None


def _delete(client: "Client", names: list[str], *, skip_missing: bool) -> tuple[list[Record], bool]:
    deletions, failed = [], False
    for name in names:
        try:
            deletions.append(client.send("DELETE", "workloads", name))
        except NotFound as error:
            # With --all or -l, another client was quicker, which is as well.
            if not skip_missing:
                complain(error)
                failed = True
    return deletions, failed
