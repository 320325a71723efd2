"""``wharfinger delete``: stop live workloads, drop the records of ended ones."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from wharfinger.cli import waiting
from wharfinger.cli.format import show
from wharfinger.cli.main import FAILED, NOT_AS_EXPECTED, OK, complain
from wharfinger.cli.options import add_common, connect, seconds
from wharfinger.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from wharfinger.cli.client import Client


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="workloads")
    parser.add_argument("--all", action="store_true", help="all, or all in the given phases")
    parser.add_argument(
        "--phase",
        action="append",
        metavar="PHASE",
        help="with --all: only those in this phase, or ended, or live; repeatable",
    )
    parser.add_argument("--wait", action="store_true", help="wait until the stopped have ended")
    parser.add_argument(
        "--timeout", type=seconds, metavar="DURATION", help="with --wait: wait no longer, e.g. 1m"
    )
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Delete each; what fails does not keep the others."""
    if bool(arguments.names) == arguments.all or (arguments.phase and not arguments.all):
        raise InvalidInput("delete: name workloads, or give --all, with --phase if you like")
    client = connect(arguments)
    names = arguments.names
    if arguments.all:
        found = client.get("workloads", query={"phase": arguments.phase})
        names = [workload["name"] for workload in found]
    deletions, failed = _delete(client, list(dict.fromkeys(names)), skip_missing=arguments.all)
    stopping = [one["name"] for one in deletions if one["outcome"] == "stopping"]
    late = _wait(client, stopping, arguments.timeout) if arguments.wait and stopping else []
    if arguments.wait:
        deletions = [_outcome(one, late) for one in deletions]
    show(deletions, arguments.output, lambda: _text(deletions))
    if late:
        print(f"wharfinger: not ended in time: {', '.join(late[:3])}", file=sys.stderr)
    return FAILED if failed else NOT_AS_EXPECTED if late else OK


def _delete(
    client: "Client", names: list[str], *, skip_missing: bool
) -> tuple[list[dict[str, Any]], bool]:
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


def _wait(client: "Client", names: list[str], timeout_seconds: float | None) -> list[str]:
    """Wait for their end; the names of those that have not ended in time."""
    workloads = waiting.wait_for_end(client, names, timeout_seconds)
    return [workload["name"] for workload in workloads if workload["ended_at"] is None]


def _outcome(deletion: dict[str, Any], late: list[str]) -> dict[str, Any]:
    ended = deletion["outcome"] == "stopping" and deletion["name"] not in late
    return {**deletion, "outcome": "stopped"} if ended else deletion


def _text(deletions: list[dict[str, Any]]) -> str:
    return "\n".join(f"workload/{one['name']} {one['outcome']}" for one in deletions)
