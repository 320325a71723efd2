"""``wharfinger describe``: all that is known of one workload or one server."""

import argparse

from wharfinger.cli import format as fmt
from wharfinger.cli import targets, workload_text
from wharfinger.cli.options import add_common, connect
from wharfinger.cli.output import Record, column, fields, printable, section, show, table, to_yaml
from wharfinger.cli.tables import columns


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("kind", choices=["workload", "server"])
    parser.add_argument("name", metavar="NAME")
    add_common(parser)


def run(arguments: argparse.Namespace) -> None:
    """Fetch and print."""
    record = connect(arguments).get(f"{arguments.kind}s", arguments.name)
    text = describe_workload if arguments.kind == "workload" else describe_server
    show(record, arguments.output, lambda: text(record))


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
    manifest = to_yaml(workload["manifest"]).split("\n")
    sections.append(section("Manifest:", list(map(printable, manifest))))
    return "\n\n".join(sections)


def _facts(workload: Record) -> list[tuple[str, str]]:
    why = ": ".join(filter(None, (workload["reason"], workload["message"])))
    ends = [("Signal", workload["signal"]), ("Exit code", workload["exit_code"])]
    usage = workload["usage"] or {}
    cpu_seconds = usage.get("cpu_seconds") or workload["cpu_seconds"]
    return [
        *_cells(workload, "NAME", "TYPE"),
        ("Phase", f"{workload['phase']}{', being stopped' if workload['stopping'] else ''}"),
        ("Why", fmt.text(why)),
        *((name, str(value)) for name, value in ends if value is not None),
        ("Servers", fmt.text(workload_text.placements(workload))),
        *_cells(workload, "TARGET", "ACHIEVED", "MET", "OF TARGET"),
        ("Predicted", targets.predicted(workload)),
        ("Prediction", targets.against_prediction(workload) or "not checked yet"),
        ("Suspended", f"{workload['suspensions']}x"),
        ("Measured", targets.measured(workload["measured"])),
        *_cells(workload, "PRIORITY", "QUEUE", "LABELS", "SUBMITTED"),
        ("Started", fmt.clock(workload["started_at"])),
        ("Ended", fmt.clock(workload["ended_at"])),
        ("Waited", fmt.duration(workload["wait_seconds"])),
        ("Ran", fmt.duration(workload["run_seconds"])),
        ("Starts", str(workload["starts"])),
        ("Handle", fmt.text(workload["handle"])),
        ("CPU time", fmt.duration(cpu_seconds)),
        ("Memory", fmt.size(usage.get("memory_bytes"))),
        ("Processes", fmt.number(usage.get("processes"))),
        ("Neighbors", fmt.text(", ".join(usage.get("co_runners", ())))),
    ]


def _cells(workload: Record, *headers: str) -> list[tuple[str, str]]:
    cells = dict(columns("workloads", "wide"))
    return [(header.capitalize(), cells[header](workload)) for header in headers]


_PRESSURE = [
    column("SHARED RESOURCE", "name"),
    ("TOLERATED", lambda p: f"{p['tolerated']:.0f} (+-{p['tolerated_std']:.0f})"),
    ("CAUSED", lambda p: f"{p['caused']:.0f} (+-{p['caused_std']:.0f})"),
]
_UNSETTLED = "yes: a workload here violates its target; no new work until it is kept again"


def describe_server(server: Record) -> str:
    """A server for people: its size, what is allocated, its residents."""
    cpus = [fmt.number(server[key]) for key in ("cpus_allocated", "cpus")]
    memory = [fmt.size(server[key]) for key in ("memory_allocated_bytes", "memory_bytes")]
    facts = [
        ("Name", server["name"]),
        ("Platform", server["platform"]),
        ("Zone", fmt.text(server["zone"])),
        ("Accepting", fmt.yes_no(server["accepting"])),
        ("CPUs", f"{' of '.join(cpus)} allocated"),
        ("Memory", f"{' of '.join(memory)} allocated"),
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
