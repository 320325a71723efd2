"""Commands that ask one thing of each workload or server: ``stop``, ``restart``, ``drain``, ..."""

import argparse
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wharfinger.cli.choosing import add_choice, chosen
from wharfinger.cli.main import FAILED, NOT_AS_EXPECTED, OK, complain
from wharfinger.cli.options import add_common, add_wait, connect
from wharfinger.cli.output import Record, show
from wharfinger.cli.waiting import has_ended, until, wait_for
from wharfinger.errors import Conflict, NotFound

if TYPE_CHECKING:
    from wharfinger.cli.client import Client


@dataclass(frozen=True, slots=True)
class Verb:
    """What a command asks for.

    Attributes:
        outcome: What it says where the manager does not say more.
        server: It is about servers, not workloads.
        path: The last part of its path, if not its own name.
        drain: It asks for the server to be drained.
        reasons: An operator may say why.
        waits: What ``--wait`` waits for; empty = there is none.
    """

    outcome: str
    server: bool = False
    path: str = ""
    drain: bool = False
    reasons: bool = False
    waits: str = ""


VERBS = {
    "stop": Verb("stopping", waits="until they have ended"),
    "restart": Verb("restarting"),
    "suspend": Verb("suspended"),
    "resume": Verb("resumed"),
    "cordon": Verb("cordoned", server=True, reasons=True),
    "uncordon": Verb("uncordoned", server=True),
    "drain": Verb(
        "draining",
        server=True,
        path="cordon",
        drain=True,
        reasons=True,
        waits="until no workload is left there but suspended ones that stay",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command that the parser is named after."""
    verb = VERBS[parser.prog.rpartition(" ")[2]]
    if verb.server:
        parser.add_argument("names", metavar="SERVER", nargs="+", help="servers")
    else:
        add_choice(parser)
    if verb.reasons:
        parser.add_argument("--reason", metavar="TEXT", default="", help="shown with the server")
    if verb.waits:
        add_wait(parser, f"wait {verb.waits}")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ask for each; what fails does not keep the others."""
    verb, client = VERBS[arguments.command], connect(arguments)
    names = list(dict.fromkeys(arguments.names)) if verb.server else chosen(client, arguments)
    asked, failed = _ask(client, arguments, names)
    late = ""
    if verb.waits and arguments.wait and asked:
        late = (_drained if verb.server else _ended)(client, asked, arguments.timeout)
    lines = [f"{'server' if verb.server else 'workload'}/{a['name']} {a['outcome']}" for a in asked]
    show(asked, arguments.output, lambda: "\n".join(lines))
    if late:
        complain(late)
    return FAILED if failed else NOT_AS_EXPECTED if late else OK


def _ask(
    client: "Client", arguments: argparse.Namespace, names: list[str]
) -> tuple[list[Record], bool]:
    verb, what = VERBS[arguments.command], arguments.command
    body = None
    if verb.reasons:
        body = json.dumps({"drain": verb.drain, "reason": arguments.reason}).encode()
    asked, failed = [], False
    for name in names:
        path = ("servers" if verb.server else "workloads", name, verb.path or what)
        try:
            answer = client.send("POST", *path, body=body, content_type="application/json")
            asked.append({"name": name, "outcome": answer.get("outcome", verb.outcome)})
        except (NotFound, Conflict) as error:
            complain(error)
            failed = True
    return asked, failed


def _ended(client: "Client", asked: list[Record], timeout_seconds: float | None) -> str:
    awaited = wait_for(client, [one["name"] for one in asked], has_ended, timeout_seconds)
    for one, seen in zip(asked, awaited, strict=True):
        one["outcome"] = "stopped" if seen.holds else one["outcome"]
    late = [seen.name for seen in awaited if not seen.holds]
    return f"not ended in time: {', '.join(late[:3])}" if late else ""


def _drained(client: "Client", asked: list[Record], timeout_seconds: float | None) -> str:
    """Wait, and say once for each reason what for; in the end, why one is not drained."""
    left: dict[str, list[Record]] = {}
    told: set[tuple[str, str]] = set()

    def look() -> bool:
        for one in asked:
            server = client.get("servers", one["name"])
            if not server["draining"]:
                raise Conflict(f"server {one['name']!r} is drained no more: it was uncordoned")
            left[one["name"]] = server["staying"]
        leaving = {name: [one for one in there if one["leaves"]] for name, there in left.items()}
        for why, line in _by_reason(leaving).items():
            if why not in told:
                complain(f"waiting for {line}")
                told.add(why)
        return not any(leaving.values())

    until(client, look, timeout_seconds)
    for one in asked:
        one["outcome"] = one["outcome"] if left[one["name"]] else "drained"
    return f"not drained: {'; '.join(_by_reason(left).values())}" if any(left.values()) else ""


def _by_reason(staying: dict[str, list[Record]]) -> dict[tuple[str, str], str]:
    """By server and reason, a line with the first of those that stay there for it."""
    names: dict[tuple[str, str], list[str]] = {}
    for server, there in staying.items():
        for one in there:
            names.setdefault((server, one["message"]), []).append(one["name"])
    return {
        (server, message): f"{_first(those)} on {server} ({message})"
        for (server, message), those in names.items()
    }


def _first(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"
