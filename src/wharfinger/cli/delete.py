"""``wharfinger delete``: stop live workloads, delete the records of ended ones."""

import argparse
import json
from typing import TYPE_CHECKING

from wharfinger.cli.main import FAILED, NOT_AS_EXPECTED, OK, complain
from wharfinger.cli.options import add_common, add_option, add_wait, connect
from wharfinger.cli.output import Record, show
from wharfinger.cli.waiting import wait_for_end
from wharfinger.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from wharfinger.cli.client import Client


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="workloads")
    add_option(parser, "--all", "all, or all in the given phases")
    words = "with --all: only those in this phase, or ended, or live; repeatable"
    add_option(parser, "--phase PHASE ...", words)
    add_wait(parser, "wait until the stopped have ended")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Delete each; what fails does not keep the others."""
    if bool(arguments.names) == arguments.all or (arguments.phase and not arguments.all):
        raise InvalidInput("delete: name workloads, or give --all, with --phase if you like")
    client = connect(arguments)
    names = arguments.names
    if arguments.all:
        listed = client.get("workloads", query={"phase": arguments.phase})
        names = [workload["name"] for workload in listed]
    deletions, failed = _delete(client, list(dict.fromkeys(names)), skip_missing=arguments.all)
    late: list[str] = []
    stopping = {one["name"]: one for one in deletions if one["outcome"] == "stopping"}
    if arguments.wait and stopping:
        for workload in wait_for_end(client, list(stopping), arguments.timeout):
            if workload["ended_at"] is None:
                late.append(workload["name"])
            else:
                stopping[workload["name"]]["outcome"] = "stopped"
    lines = [f"workload/{one['name']} {one['outcome']}" for one in deletions]
    show(deletions, arguments.output, lambda: "\n".join(lines))
    if late:
        complain(f"not ended in time: {', '.join(late[:3])}")
    return FAILED if failed else NOT_AS_EXPECTED if late else OK


def _delete(client: "Client", names: list[str], *, skip_missing: bool) -> tuple[list[Record], bool]:
    deletions, failed = [], False
    for name in names:
        try:
            deletions.append(json.loads(client.call("DELETE", "workloads", name).body))
        except NotFound as error:
            # With --all, another client was quicker, which is as well.
            if not skip_missing:
                complain(error)
                failed = True
    return deletions, failed
