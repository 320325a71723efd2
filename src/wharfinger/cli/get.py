"""``wharfinger get``: lists of everything, and the manager's status."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from wharfinger.cli import format as fmt
from wharfinger.cli.decisions import sentence
from wharfinger.cli.following import changes, events_after, last_sequence
from wharfinger.cli.kinds import KINDS, kind_of, singular
from wharfinger.cli.options import add_common, add_option, connect, refuse
from wharfinger.cli.output import (
    GrowingTable,
    Record,
    fields,
    names_text,
    show,
    table,
    to_json_line,
    to_yaml,
)
from wharfinger.cli.readers import whole
from wharfinger.cli.selecting import in_order, phase, selected, selector
from wharfinger.cli.tables import columns, state_of
from wharfinger.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from wharfinger.cli.client import Client

MEASUREMENTS = ("ServerMeasured", "TargetsTracked")
"""Kinds of events that are shown when they are asked for: every few seconds one a server."""
_ONLY_FOR = {
    "workloads": ("--selector", "--phase"),
    "events": ("--limit", "--follow", "--kind", "--all"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    words = f"{', '.join(KINDS)}; short: wl, srv, ev"
    parser.add_argument("what", metavar="KIND", type=kind_of(), help=words)
    parser.add_argument("names", metavar="NAME", nargs="*", help="only these")
    add = partial(add_option, parser)
    words = "workloads with these labels, e.g. a=b,c!=d,e,!f: all of these hold; repeatable"
    add("-l --selector SELECTOR ...", words, read=selector)
    add("--phase PHASE ...", "workloads in this phase, or ended, or live; repeatable", read=phase)
    words = "by this field of the JSON output, e.g. submitted_at; --sort-by=-cpus: downwards"
    add("--sort-by FIELD", words)
    add("-w --watch", "print a line for each change from now on")
    add("--limit N", "the newest N events (default: 1000)", read=whole(1, 10_000))
    add("--follow", "events: go on with new ones, as --watch does")
    add("--kind KIND ...", "events of this kind, e.g. WorkloadFinished; repeatable")
    add("--all", "events: measurements (ServerMeasured) too, which come every few seconds")
    add_common(parser, templates=True)


def run(arguments: argparse.Namespace) -> None:
    """Fetch and print."""
    what = arguments.what
    for kind, options in _ONLY_FOR.items():
        if what != kind:
            refuse(arguments, options, f"is for {kind}, not for {what}")
    if what == "status":
        refuse(arguments, ["--watch", "--sort-by"], "is for lists, not for status")
        if arguments.names:
            raise InvalidInput("get: status takes no names")
    client = connect(arguments)
    if what == "status":
        status = client.get("status")
        show(status, arguments.output, lambda: _status_text(status, arguments.output))
    elif what == "events" and (arguments.follow or arguments.watch):
        _follow(client, arguments)
    elif arguments.watch:
        _watch(client, arguments)
    else:
        items = in_order(_fetch(client, arguments), arguments.sort_by)
        show(items, arguments.output, lambda: text(items, what, arguments.output))
        if not items and arguments.output in ("table", "wide"):
            print(f"no {what}", file=sys.stderr)


def text(items: Sequence[Record], what: str, output: str) -> str:
    """A list as a table, with what is to be said of it, or as names."""
    if output == "name":
        return names_text(items, singular(what))
    told = [sentence(item["warning"]) for item in items if what == "queues" and item["warning"]]
    return "\n".join([table(items, columns(what, output)), *told])


def _fetch(client: "Client", arguments: argparse.Namespace, *, known: bool = True) -> list[Record]:
    """What is asked for; ``known``: ``NotFound`` where one of the names is not."""
    names, kind, query = arguments.names, arguments.what, dict[str, Any]()
    if kind == "workloads":
        # The manager itself refuses names that it does not know.
        query = {"phase": arguments.phase, "name": names or None if known else None}
    elif kind == "events":
        without = None if arguments.kind or arguments.all else list(MEASUREMENTS)
        limit = arguments.limit or 1000
        query = {"limit": limit, "kind": arguments.kind, "without": without}
    items: list[Record] = client.get(kind, query=query)
    missing = set(names) - {item["name"] for item in items}
    if missing and known and kind not in ("workloads", "events"):
        raise NotFound(f"no {singular(kind)} {min(missing)!r}")
    # An array's name stands for its members.
    named = [i for i in items if not names or i["name"] in names or i.get("array") in names]
    return selected(named, arguments.selector)


def _watch(client: "Client", arguments: argparse.Namespace) -> None:
    output, what = arguments.output, arguments.what
    _fetch(client, arguments)
    # A watch outlives what it watches.
    write, look = _printer(what, output), partial(_fetch, client, arguments, known=False)
    for changed, gone in changes(client, look, state_of(what)):
        # One that is merely in another phase now is not gone.
        deleted = [] if arguments.phase else [{**one, "phase": "deleted"} for one in gone]
        write(in_order(changed, arguments.sort_by) + deleted)


def _printer(what: str, output: str) -> Callable[[Sequence[Record]], None]:
    """Prints records as they come: one object a line, documents, or lines of one table."""
    growing = GrowingTable(columns(what, output if output == "wide" else "table"))

    def write(records: Sequence[Record]) -> None:
        if not records:
            return
        if output == "json":
            print("\n".join(map(to_json_line, records)), flush=True)
        elif output == "yaml":
            print("\n".join(f"---\n{to_yaml(one)}" for one in records), flush=True)
        elif output in ("table", "wide"):
            print(growing.text(records), flush=True)
        else:
            for one in records:
                show(one, output, lambda one=one: names_text([one], singular(what)))  # type: ignore[misc] # bound now

    return write


def _follow(client: "Client", arguments: argparse.Namespace) -> None:
    refuse(arguments, ["--sort-by"], "is not for new events, which come in their order")
    write = _printer("events", arguments.output)
    # Asked for before the list: an event in between is shown by the first long poll.
    sequence = last_sequence(client)
    write([event for event in _fetch(client, arguments) if event["sequence"] <= sequence])
    for events in events_after(client, sequence):
        write([event for event in events if _is_wanted(event, arguments)])


def _is_wanted(event: Record, arguments: argparse.Namespace) -> bool:
    kinds, kind = arguments.kind, event["kind"]
    asked_for = kind in kinds if kinds else arguments.all or kind not in MEASUREMENTS
    return asked_for and (not arguments.names or event["name"] in arguments.names)


def _status_text(status: Record, output: str) -> str:
    if output == "name":
        return f"manager/{status['name']}"
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
