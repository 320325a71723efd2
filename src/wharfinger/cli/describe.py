"""``wharfinger describe``: all that is known of one workload or one server."""

import argparse
from collections.abc import Callable
from typing import Any

from wharfinger.cli import forecast, human
from wharfinger.cli.main import OK
from wharfinger.cli.options import add_common, connect
from wharfinger.cli.output import Column, fields, indented, show, table, to_yaml
from wharfinger.cli.tables import columns
from wharfinger.cli.terminal import printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("kind", choices=["workload", "server"])
    parser.add_argument("name", metavar="NAME")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fetch and print."""
    found = connect(arguments).get(f"{arguments.kind}s", arguments.name)
    text = workload_text if arguments.kind == "workload" else server_text
    show(found, arguments.output, lambda: text(found))
    return OK


def workload_text(workload: dict[str, Any]) -> str:
    """A workload for people: how it fares, what it uses, and its manifest."""
    sections = [fields([*_fate(workload), *_times(workload), *_use(workload)])]
    known = workload["classification"]
    if known:
        lines = [forecast.basis(known), *forecast.measured_text(workload)]
        lines += [*forecast.curves_text(known), *forecast.elsewhere_text(known)]
        lines += forecast.interference_text(known, wide=True)
        sections.append("Classification:\n" + indented(printable_lines("\n".join(lines))))
    if workload["adjustments"]:
        adjusted = forecast.adjustments_text(workload["adjustments"])
        sections.append("Adjustments:\n" + indented(adjusted))
    sections.append("Manifest:\n" + indented(printable_lines(to_yaml(workload["manifest"]))))
    return "\n\n".join(sections)


def printable_lines(text: str) -> str:
    """Every line escaped, the line ends kept."""
    return "\n".join(map(printable, text.split("\n")))


def placements(workload: dict[str, Any]) -> str:
    """Where a workload is or was, and with how much."""
    return "; ".join(
        f"{p['name']} ({'what others leave' if p['best_effort'] else human.cpus(p['cpus'])}, "
        f"{human.size(p['memory_bytes'])} memory)"
        for p in workload["placements"]
    )


def _fate(workload: dict[str, Any]) -> list[tuple[str, str]]:
    stopping = ", being stopped" if workload["stopping"] else ""
    why = ": ".join(filter(None, (workload["reason"], workload["message"])))
    pairs = [
        ("Name", workload["name"]),
        ("Type", workload["type"]),
        ("Phase", f"{workload['phase']}{stopping}"),
        ("Why", why or human.NONE),
        ("Servers", placements(workload) or human.NONE),
        ("Target", human.target(workload["target"])),
        ("Achieved", human.achieved(workload["achieved"])),
        ("Met", human.met(workload["met"])),
        ("Of target", human.percent(workload["pace"])),
        ("Predicted", forecast.predicted(workload)),
        ("Prediction", forecast.against_prediction(workload) or "not checked yet"),
        ("Gave way", f"{workload['suspensions']}x"),
        ("Measured", human.measured(workload["measured"])),
        ("Priority", str(workload["priority"])),
        ("Queue", workload["queue"] or human.NONE),
        ("Labels", ", ".join(f"{k}={v}" for k, v in workload["labels"].items()) or human.NONE),
    ]
    if workload["exit_code"] is not None:
        pairs.insert(4, ("Exit code", str(workload["exit_code"])))
    if workload["signal"] is not None:
        pairs.insert(4, ("Signal", str(workload["signal"])))
    return pairs


def _times(workload: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("Submitted", human.clock(workload["submitted_at"])),
        ("Started", human.clock(workload["started_at"])),
        ("Ended", human.clock(workload["ended_at"])),
        ("Waited", human.duration(workload["wait_seconds"])),
        ("Ran", human.duration(workload["run_seconds"])),
        ("Starts", str(workload["starts"])),
        ("Handle", workload["handle"] or human.NONE),
    ]


def _use(workload: dict[str, Any]) -> list[tuple[str, str]]:
    usage = workload["usage"] or {}
    return [
        ("CPU time", human.duration(usage.get("cpu_seconds") or workload["cpu_seconds"])),
        ("Memory", human.size(usage.get("memory_bytes"))),
        ("Processes", human.number(usage.get("processes"))),
        ("Beside", ", ".join(usage.get("neighbours", ())) or human.NONE),
    ]


def server_text(server: dict[str, Any]) -> str:
    """A server for people: its size, what is given away, who is on it."""
    head = fields(
        [
            ("Name", server["name"]),
            ("Platform", server["platform"]),
            ("Zone", server["zone"] or human.NONE),
            ("Accepting", human.met(server["accepting"])),
            (
                "CPUs",
                _share(human.number, server["cpus_allocated"], server["cpus"]),
            ),
            (
                "Memory",
                _share(human.size, server["memory_allocated_bytes"], server["memory_bytes"]),
            ),
            ("Copies", str(server["copies"])),
            ("Unsettled", _unsettled(server)),
        ]
    )
    conditions = "\n".join(
        f"  {c['name']}: {printable(c['message'])}" for c in server["conditions"]
    )
    pressure = table(server["pressure"], PRESSURE, empty="nothing known, or nobody there")
    residents = table(server["residents"], columns("workloads", "table"), empty="none")
    return (
        f"{head}\n\nConditions:\n{conditions or '  none'}\n\n"
        f"Interference, 0 to 100:\n{indented(pressure)}\n\nWorkloads:\n{indented(residents)}"
    )


PRESSURE: list[Column] = [
    ("SHARED RESOURCE", lambda p: p["name"]),
    ("TOLERATED", lambda p: f"{p['tolerated']:.0f} (+-{p['tolerated_std']:.0f})"),
    ("CAUSED", lambda p: f"{p['caused']:.0f} (+-{p['caused_std']:.0f})"),
]


def _unsettled(server: dict[str, Any]) -> str:
    if not server["unsettled"]:
        return "no"
    return "yes: a workload here misses its target; no new work until that is mended"


def _share(form: Callable[[float], str], allocated: float, whole: float) -> str:
    return f"{form(allocated)} of {form(whole)} allocated"
