"""``wharfinger get``: lists of everything, and the manager's status."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from wharfinger.cli import format as fmt
from wharfinger.cli.format import fields, show, table, to_json, to_yaml
from wharfinger.cli.main import OK
from wharfinger.cli.options import add_common, connect
from wharfinger.cli.tables import columns
from wharfinger.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from wharfinger.cli.client import Client


LISTS = ("workloads", "servers", "platforms", "queues", "events")
KINDS = (*LISTS, "status")
MAX_EVENTS = 10_000
FOLLOW_SECONDS = 20.0
MEASUREMENTS = ("ServerMeasured", "TargetsTracked")
"""Kinds of events that are shown when they are asked for: every few seconds one a server."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("kind", metavar="KIND", type=_kind, help=", ".join(KINDS))
    parser.add_argument("names", metavar="NAME", nargs="*", help="only these")
    parser.add_argument(
        "-l",
        "--selector",
        action="append",
        metavar="KEY=VALUE",
        help="workloads with this label; repeatable",
    )
    parser.add_argument(
        "--phase",
        action="append",
        metavar="PHASE",
        help="workloads in this phase, or ended, or live; repeatable",
    )
    parser.add_argument(
        "--limit", type=_limit, metavar="N", help="the newest N events (default: 1000)"
    )
    parser.add_argument("--follow", action="store_true", help="events: go on with new ones")
    parser.add_argument(
        "--kind",
        dest="event_kinds",
        action="append",
        metavar="KIND",
        help="events of this kind, e.g. WorkloadFinished; repeatable",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="events: measurements (ServerMeasured) too, which come every few seconds",
    )
    add_common(parser)


def _kind(text: str) -> str:
    """Any kind, also in the singular."""
    for kind in KINDS:
        if text in (kind, kind.removesuffix("s")) and text != "statu":
            return kind
    raise argparse.ArgumentTypeError(f"{text!r} is not a kind; there are {', '.join(KINDS)}")


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_EVENTS):
        raise argparse.ArgumentTypeError(f"{text!r}: write a number from 1 to {MAX_EVENTS}")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Fetch and print."""
    _check(arguments)
    client = connect(arguments)
    if arguments.kind == "status":
        status = client.get("status")
        show(status, arguments.output, lambda: _status_text(status))
    elif arguments.follow:
        _follow(client, arguments)
    else:
        _list(client, arguments)
    return OK


def _check(arguments: argparse.Namespace) -> None:
    """An option that would be passed over is a wrong call."""
    of = {
        "workloads": (("--selector", arguments.selector), ("--phase", arguments.phase)),
        "events": (
            ("--limit", arguments.limit),
            ("--follow", arguments.follow),
            ("--kind", arguments.event_kinds),
            ("--all", arguments.all),
        ),
    }
    for kind, options in of.items():
        for option, given in options:
            if given and arguments.kind != kind:
                raise InvalidInput(f"get: {option} is for {kind}, not for {arguments.kind}")
    if arguments.kind == "status" and arguments.names:
        raise InvalidInput("get: status takes no names")


def _list(client: "Client", arguments: argparse.Namespace) -> None:
    items = _fetch(client, arguments)
    kind, output = arguments.kind, arguments.output
    show(items, output, lambda: table(items, columns(kind, output)))
    if not items and output in ("table", "wide"):
        print(f"no {kind}", file=sys.stderr)


def _fetch(client: "Client", arguments: argparse.Namespace) -> list[dict[str, Any]]:
    names, kind = arguments.names, arguments.kind
    if kind == "workloads":
        query = {
            "name": names or None,
            "phase": arguments.phase,
            "label": arguments.selector,
        }
        return list(client.get(kind, query=query))
    query = _events_query(arguments) if kind == "events" else {}
    items: list[dict[str, Any]] = client.get(kind, query=query)
    missing = set(names) - {item["name"] for item in items}
    if missing and kind != "events":
        raise NotFound(f"no {kind.removesuffix('s')} {min(missing)!r}")
    return [item for item in items if not names or item["name"] in names]


def _events_query(arguments: argparse.Namespace) -> dict[str, Any]:
    kinds = arguments.event_kinds
    without = None if kinds or arguments.all else list(MEASUREMENTS)
    return {"limit": arguments.limit or 1000, "kind": kinds, "without": without}


def _is_wanted(event: dict[str, Any], arguments: argparse.Namespace) -> bool:
    """Whether an event that came while following is one that was asked for."""
    kinds, kind = arguments.event_kinds, event["kind"]
    asked_for = kind in kinds if kinds else arguments.all or kind not in MEASUREMENTS
    return asked_for and (not arguments.names or event["name"] in arguments.names)


def _follow(client: "Client", arguments: argparse.Namespace) -> None:
    """The newest events and then each new one, until interrupted."""
    # Asked for before the list: an event in between is shown by the first long poll.
    sequence = client.get("status")["last_sequence"]
    events = [event for event in _fetch(client, arguments) if event["sequence"] <= sequence]
    header = arguments.output in ("table", "wide")
    while True:
        wanted = [event for event in events if _is_wanted(event, arguments)]
        if wanted:
            _print_events(wanted, arguments.output, header=header)
            header = False
        query = {"after": sequence, "wait_seconds": FOLLOW_SECONDS}
        events = client.get("events", query=query)
        if events:
            sequence = events[-1]["sequence"]


def _print_events(events: list[dict[str, Any]], output: str, *, header: bool) -> None:
    """JSON and YAML as a stream of single events."""
    if output == "json":
        text = "\n".join(map(to_json, events))
    elif output == "yaml":
        text = "\n".join(f"---\n{to_yaml(event)}" for event in events)
    else:
        lines = table(events, columns("events", output)).splitlines()
        text = "\n".join(lines if header else lines[1:])
    print(text, flush=True)


def _mode(mode: str) -> str:
    return "recommend: it says what it would do, and does nothing" if mode != "act" else mode


def _status_text(status: dict[str, Any]) -> str:
    phases = ", ".join(f"{count} {phase}" for phase, count in status["phases"].items() if count)
    damage = status["damage"]
    return fields(
        [
            ("Version", status["version"]),
            ("Process", f"pid {status['pid']}, since {fmt.clock(status['since'])}"),
            ("State", status["state_directory"]),
            ("Engine", status["engine"] + ("" if status["synced"] else " (not synced yet)")),
            ("Policy", status["policy"]),
            ("Admission", status["admission"]),
            ("Mode", _mode(status["mode"])),
            ("Servers", str(status["servers"])),
            ("Workloads", phases or "none"),
            ("Events", f"{status['first_sequence']} to {status['last_sequence']}"),
            (
                "Free disk",
                fmt.size(status["free_disk_bytes"])
                + ("" if status["accepting"] else ": too little, nothing new is admitted"),
            ),
            ("Damage", damage["message"] if damage else "none"),
            ("Strays", ", ".join(status["strays"]) or "none"),
        ]
    )
