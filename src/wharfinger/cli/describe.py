"""``wharfinger describe``: all that is known of one workload or one server."""

import argparse

from wharfinger.cli import explain
from wharfinger.cli import format as fmt
from wharfinger.cli.format import Column, Record, column, section, table
from wharfinger.cli.main import OK
from wharfinger.cli.options import add_common, connect
from wharfinger.cli.tables import columns


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("kind", choices=["workload", "server"])
    parser.add_argument("name", metavar="NAME")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fetch and print."""
    found = connect(arguments).get(f"{arguments.kind}s", arguments.name)
    text = workload_text if arguments.kind == "workload" else server_text
    fmt.show(found, arguments.output, lambda: text(found))
    return OK


def workload_text(workload: Record) -> str:
    """A workload for people: how it fares, what it uses, and its manifest."""
    sections = [fmt.fields(_facts(workload))]
    if known := workload["classification"]:
        lines = [explain.basis(known), *explain.measured_text(workload)]
        lines += explain.curves_text(known) + explain.interference_text(known, wide=True)
        sections.append(section("Classification:", list(map(fmt.printable, lines))))
    if workload["adjustments"]:
        adjusted = explain.adjustments_text(workload["adjustments"])
        sections.append(section("Adjustments:", adjusted))
    manifest = fmt.to_yaml(workload["manifest"])
    sections.append(section("Manifest:", fmt.printable_lines(manifest)))
    return "\n\n".join(sections)


def _facts(workload: Record) -> list[tuple[str, str]]:
    why = ": ".join(filter(None, (workload["reason"], workload["message"])))
    ends = [("Signal", workload["signal"]), ("Exit code", workload["exit_code"])]
    usage = workload["usage"] or {}
    cpu_seconds = usage.get("cpu_seconds") or workload["cpu_seconds"]
    return [
        ("Name", workload["name"]),
        ("Type", workload["type"]),
        ("Phase", f"{workload['phase']}{', being stopped' if workload['stopping'] else ''}"),
        ("Why", fmt.text(why)),
        *((name, str(value)) for name, value in ends if value is not None),
        ("Servers", fmt.text(explain.placements(workload))),
        ("Target", fmt.target(workload["target"])),
        ("Achieved", fmt.achieved(workload["achieved"])),
        ("Met", fmt.yes_no(workload["met"])),
        ("Of target", fmt.percent(workload["normalized_performance"])),
        ("Predicted", explain.predicted(workload)),
        ("Prediction", explain.against_prediction(workload) or "not checked yet"),
        ("Suspended", f"{workload['suspensions']}x"),
        ("Measured", fmt.measured(workload["measured"])),
        ("Priority", str(workload["priority"])),
        ("Queue", fmt.text(workload["queue"])),
        ("Labels", fmt.text(", ".join(f"{k}={v}" for k, v in workload["labels"].items()))),
        ("Submitted", fmt.clock(workload["submitted_at"])),
        ("Started", fmt.clock(workload["started_at"])),
        ("Ended", fmt.clock(workload["ended_at"])),
        ("Waited", fmt.duration(workload["wait_seconds"])),
        ("Ran", fmt.duration(workload["run_seconds"])),
        ("Starts", str(workload["starts"])),
        ("Handle", fmt.text(workload["handle"])),
        ("CPU time", fmt.duration(cpu_seconds)),
        ("Memory", fmt.size(usage.get("memory_bytes"))),
        ("Processes", fmt.number(usage.get("processes"))),
        ("Beside", fmt.text(", ".join(usage.get("co_runners", ())))),
    ]


PRESSURE: list[Column] = [
    column("SHARED RESOURCE", "name"),
    ("TOLERATED", lambda p: f"{p['tolerated']:.0f} (+-{p['tolerated_std']:.0f})"),
    ("CAUSED", lambda p: f"{p['caused']:.0f} (+-{p['caused_std']:.0f})"),
]


def server_text(server: Record) -> str:
    """A server for people: its size, what is given away, its residents."""
    cpus = [fmt.number(server[key]) for key in ("cpus_allocated", "cpus")]
    memory = [fmt.size(server[key]) for key in ("memory_allocated_bytes", "memory_bytes")]
    facts = [
        ("Name", server["name"]),
        ("Platform", server["platform"]),
        ("Zone", fmt.text(server["zone"])),
        ("Accepting", fmt.yes_no(server["accepting"])),
        ("CPUs", f"{' of '.join(cpus)} allocated"),
        ("Memory", f"{' of '.join(memory)} allocated"),
        ("Copies", str(server["copies"])),
        ("Unsettled", _UNSETTLED if server["unsettled"] else "no"),
    ]
    conditions = [f"{c['name']}: {fmt.printable(c['message'])}" for c in server["conditions"]]
    pressure = table(server["pressure"], PRESSURE, empty="unknown, or no residents")
    residents = table(server["residents"], columns("workloads", "table"), empty="none")
    sections = [
        fmt.fields(facts),
        section("Conditions:", conditions or "none"),
        section("Interference, 0 to 100:", pressure),
        section("Workloads:", residents),
    ]
    return "\n\n".join(sections)


_UNSETTLED = "yes: a workload here violates its target; no new work until it is kept again"
