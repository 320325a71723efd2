"""``wharfinger describe``: all that is known of one workload or one server."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from wharfinger.cli import format as fmt
from wharfinger.cli import targets, workload_text
from wharfinger.cli.kinds import find_kind, singular
from wharfinger.cli.options import add_common, connect
from wharfinger.cli.output import (
    Record,
    column,
    fields,
    names_text,
    printable,
    section,
    show,
    table,
    to_yaml,
)
from wharfinger.cli.statuses import server_status
from wharfinger.cli.tables import columns
from wharfinger.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from wharfinger.cli.client import Client

KINDS = ("workloads", "servers")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    words = f"{' or '.join(map(singular, KINDS))}; may be left out where one name means one thing"
    parser.add_argument("kind", metavar="KIND", nargs="?", help=words)
    parser.add_argument("name", metavar="NAME", help="of a workload or a server")
    add_common(parser, templates=True)


def run(arguments: argparse.Namespace) -> None:
    """Fetch and print."""
    given = arguments.kind
    if given is not None and find_kind(given, KINDS) is None:
        there_are = ", ".join(KINDS)
        raise InvalidInput(f"describe: {given!r} is not a kind; there are {there_are}")
    kinds = [find_kind(given, KINDS) or ""] if given else list(KINDS)
    (kind, record), *others = _find(connect(arguments), kinds, arguments.name)
    if others:
        both = f"describe {singular(kind)} {arguments.name}"
        message = f"{arguments.name!r} is a workload and a server; write e.g. {both}"
        raise InvalidInput(f"describe: {message}")
    show(record, arguments.output, lambda: _text(record, kind, arguments.output))


def _text(record: Record, kind: str, output: str) -> str:
    if output == "name":
        return names_text([record], singular(kind))
    return describe_workload(record) if kind == "workloads" else describe_server(record)


def _find(client: "Client", kinds: list[str], name: str) -> list[tuple[str, Record]]:
    """What has this name; ``NotFound`` where nothing has."""
    records, missing = [], []
    for kind in kinds:
        try:
            records.append((kind, client.get(kind, name)))
        except NotFound as error:
            missing.append(error)
    if not records:
        raise missing[0] if len(kinds) == 1 else NotFound(f"no workload or server {name!r}")
    return records


def describe_workload(workload: Record) -> str:
    """A workload for people: its performance, what it uses, and its manifest."""
    sections = [fields(_facts(workload))]
    if made := workload["classification"]:
        lines = [workload_text.basis(made), *workload_text.measured_text(workload)]
        lines += workload_text.curves_text(made)
        lines += workload_text.interference_text(made, wide=True)
        sections.append(section("Classification:", list(map(printable, lines))))
    if workload["adjustments"]:
        adjusted = workload_text.adjustments_text(workload["adjustments"])
        sections.append(section("Adjustments:", adjusted))
    if previous := workload["previous"]:
        sections.append(section("Previous runs:", workload_text.runs_text(previous)))
    manifest = to_yaml(workload["manifest"]).split("\n")
    sections.append(section("Manifest:", list(map(printable, manifest))))
    return "\n\n".join(sections)


def _facts(workload: Record) -> list[tuple[str, str]]:
    reason = workload["reason"]
    message = workload["message"].removeprefix(f"{reason}: ")  # As of what is recommended.
    why = ": ".join(filter(None, (reason, message)))
    ends = [("Signal", workload["signal"]), ("Exit code", workload["exit_code"])]
    usage = workload["usage"] or {}
    cpu_seconds = usage.get("cpu_seconds") or workload["cpu_seconds"]
    return [
        *_cells(workload, "NAME", "TYPE"),
        *_cells(workload, "STATUS", "PHASE", "READY", "RUN", "NEXT"),
        ("Why", fmt.text(why)),
        *((name, str(value)) for name, value in ends if value is not None),
        *([("Last output", last)] if (last := workload["last_output"]) else []),
        ("Servers", fmt.text(workload_text.placements(workload))),
        *_cells(workload, "TARGET", "ACHIEVED", "MET", "OF TARGET"),
        ("Predicted", targets.predicted(workload)),
        ("Prediction", targets.against_prediction(workload) or "not checked yet"),
        *([("Forecast", load)] if (load := targets.forecast(workload)) else []),
        ("Suspended", f"{workload['suspensions']}x"),
        *[
            (head, f"{workload[key]}x")
            for head, key in (("Preempted", "preemptions"), ("Evicted", "evictions"))
            if workload[key]
        ],
        ("Measured", targets.measured(workload["measured"])),
        *_cells(workload, "PRIORITY", "QUEUE", "OWNER", "LABELS", "SUBMITTED"),
        ("Started", fmt.clock(workload["started_at"])),
        ("Ended", fmt.clock(workload["ended_at"])),
        ("Waited", fmt.duration(workload["wait_seconds"])),
        ("Ran", fmt.duration(workload["run_seconds"])),
        ("Starts", str(workload["starts"])),
        ("Restarts", workload_text.restarts(workload)),
        ("Handle", fmt.text(workload["handle"])),
        ("CPU time", fmt.duration(cpu_seconds)),
        ("Memory", fmt.size(usage.get("memory_bytes"))),
        ("Peak memory", fmt.size(workload["memory_peak_bytes"])),
        ("Processes", fmt.number(usage.get("processes"))),
        ("Neighbors", fmt.text(", ".join(usage.get("co_runners", ())))),
    ]


def _cells(workload: Record, *headers: str) -> list[tuple[str, str]]:
    cells = dict(columns("workloads", "wide"))
    return [(header.capitalize(), cells[header](workload)) for header in headers]


def _cordon(server: Record) -> str:
    if not server["cordoned"]:
        return "no"
    return f"yes: {server['cordon_reason']}" if server["cordon_reason"] else "yes"


_PRESSURE = [
    column("SHARED RESOURCE", "name"),
    ("TOLERATED", lambda p: f"{p['tolerated']:.0f} (+-{p['tolerated_std']:.0f})"),
    ("CAUSED", lambda p: f"{p['caused']:.0f} (+-{p['caused_std']:.0f})"),
]
_UNSETTLED = "yes: a workload here runs off its prediction; no new work until it does not"


_MEMORY = ("memory_bytes", "memory_allocated_bytes", "memory_others_bytes")


def _allocated(
    server: Record, form: Callable[[float], str], size: str, allocated: str, others: str
) -> str:
    """What workloads hold of a server, and others, if they hold anything."""
    told = f"{form(server[allocated])} of {form(server[size])} allocated"
    return f"{told}, others hold {form(server[others])}" if server[others] else told


def describe_server(server: Record) -> str:
    """A server for people: its size, what is allocated, its residents."""
    labels = [f"{label}={printable(value)}" for label, value in server["labels"].items()]
    facts = [
        ("Name", server["name"]),
        ("Platform", server["platform"]),
        ("Zone", fmt.text(server["zone"])),
        ("Labels", fmt.text(labels)),
        ("Status", server_status(server)),
        ("Cordoned", _cordon(server)),
        ("CPUs", _allocated(server, fmt.number, "cpus", "cpus_allocated", "cpus_others")),
        ("Memory", _allocated(server, fmt.size, *_MEMORY)),
        ("Profiling", f"{server['copies']} runs"),
        ("Unsettled", _UNSETTLED if server["unsettled"] else "no"),
    ]
    conditions = [f"{c['name']}: {printable(c['message'])}" for c in server["conditions"]]
    pressure = table(server["pressure"], _PRESSURE, empty="unknown, or no residents")
    residents = table(server["residents"], columns("workloads", "table"), empty="none")
    sections = [
        fields(facts),
        section("Conditions:", conditions or "none"),
        section("Interference, 0 to 100:", pressure),
        section("Workloads:", residents),
    ]
    return "\n\n".join(sections)
