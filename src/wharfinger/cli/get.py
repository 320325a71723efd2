"""``wharfinger get``: lists of everything, and the manager's status."""

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from wharfinger.cli import format as fmt
from wharfinger.cli.options import add_common, add_option, connect, refuse
from wharfinger.cli.output import Record, fields, show, table, to_json, to_yaml
from wharfinger.cli.readers import whole
from wharfinger.cli.tables import columns
from wharfinger.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from wharfinger.cli.client import Client

KINDS = ("workloads", "servers", "platforms", "queues", "events", "status")
FOLLOW_SECONDS = 20.0
MEASUREMENTS = ("ServerMeasured", "TargetsTracked")
"""Kinds of events that are shown when they are asked for: every few seconds one a server."""
_ONLY_FOR = {
    "workloads": ("--selector", "--phase"),
    "events": ("--limit", "--follow", "--kind", "--all"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("what", metavar="KIND", type=_what, help=", ".join(KINDS))
    parser.add_argument("names", metavar="NAME", nargs="*", help="only these")
    add = partial(add_option, parser)
    add("-l --selector KEY=VALUE ...", "workloads with this label; repeatable")
    add("--phase PHASE ...", "workloads in this phase, or ended, or live; repeatable")
    add("--limit N", "the newest N events (default: 1000)", read=whole(1, 10_000))
    add("--follow", "events: go on with new ones")
    add("--kind KIND ...", "events of this kind, e.g. WorkloadFinished; repeatable")
    add("--all", "events: measurements (ServerMeasured) too, which come every few seconds")
    add_common(parser)


def _what(text: str) -> str:
    for kind in KINDS:
        if text in (kind, kind.removesuffix("s")) and text != "statu":
            return kind
    raise argparse.ArgumentTypeError(f"{text!r} is not a kind; there are {', '.join(KINDS)}")


def run(arguments: argparse.Namespace) -> None:
    """Fetch and print."""
    what = arguments.what
    for kind, options in _ONLY_FOR.items():
        if what != kind:
            refuse(arguments, options, f"is for {kind}, not for {what}")
    if what == "status" and arguments.names:
        raise InvalidInput("get: status takes no names")
    client = connect(arguments)
    if what == "status":
        status = client.get("status")
        show(status, arguments.output, lambda: _status_text(status))
    elif arguments.follow:
        _follow(client, arguments)
    else:
        items = _fetch(client, arguments)
        show(items, arguments.output, lambda: table(items, columns(what, arguments.output)))
        if not items and arguments.output in ("table", "wide"):
            print(f"no {what}", file=sys.stderr)


def _fetch(client: "Client", arguments: argparse.Namespace) -> list[Record]:
    names, kind, query = arguments.names, arguments.what, dict[str, Any]()
    if kind == "workloads":
        query = {"name": names or None, "phase": arguments.phase, "label": arguments.selector}
        return list(client.get(kind, query=query))
    if kind == "events":
        without = None if arguments.kind or arguments.all else list(MEASUREMENTS)
        limit = arguments.limit or 1000
        query = {"limit": limit, "kind": arguments.kind, "without": without}
    items: list[Record] = client.get(kind, query=query)
    missing = set(names) - {item["name"] for item in items}
    if missing and kind != "events":
        raise NotFound(f"no {kind.removesuffix('s')} {min(missing)!r}")
    return [item for item in items if not names or item["name"] in names]


def _follow(client: "Client", arguments: argparse.Namespace) -> None:
    # Asked for before the list: an event in between is shown by the first long poll.
    sequence = client.get("status")["last_sequence"]
    events = [event for event in _fetch(client, arguments) if event["sequence"] <= sequence]
    header = True
    while True:
        wanted = [event for event in events if _is_wanted(event, arguments)]
        if wanted:
            _print_events(wanted, arguments.output, header=header)
            header = False
        query = {"after": sequence, "wait_seconds": FOLLOW_SECONDS}
        events = client.get("events", query=query)
        if events:
            sequence = events[-1]["sequence"]


def _is_wanted(event: Record, arguments: argparse.Namespace) -> bool:
    kinds, kind = arguments.kind, event["kind"]
    asked_for = kind in kinds if kinds else arguments.all or kind not in MEASUREMENTS
    return asked_for and (not arguments.names or event["name"] in arguments.names)


def _print_events(events: list[Record], output: str, *, header: bool) -> None:
    if output == "json":
        lines = [to_json(event) for event in events]
    elif output == "yaml":
        lines = [f"---\n{to_yaml(event)}" for event in events]
    else:
        lines = table(events, columns("events", output)).splitlines()[0 if header else 1 :]
    print("\n".join(lines), flush=True)


def _status_text(status: Record) -> str:
    phases = ", ".join(f"{count} {phase}" for phase, count in status["phases"].items() if count)
    damage, mode = status["damage"], status["mode"]
    full = "" if status["accepting"] else ": too little, nothing new is admitted"
    pairs = [
        ("Version", status["version"]),
        ("Process", f"pid {status['pid']}, since {fmt.clock(status['since'])}"),
        ("State", status["state_directory"]),
        ("Engine", status["engine"] + ("" if status["synced"] else " (not synced yet)")),
        ("Policy", status["policy"]),
        ("Admission", status["admission"]),
        ("Mode", mode if mode == "act" else f"{mode}: it says what it would do, and does nothing"),
        ("Servers", str(status["servers"])),
        ("Workloads", phases or "none"),
        ("Events", f"{status['first_sequence']} to {status['last_sequence']}"),
        ("Free disk", fmt.size(status["free_disk_bytes"]) + full),
        ("Damage", damage["message"] if damage else "none"),
        ("Strays", ", ".join(status["strays"]) or "none"),
    ]
    return fields(pairs)
