"""``wharfinger explain``: why a workload is where it is, for an operator who read no paper.

Everything it says was recorded when it was decided; only what stands under "if it were its
turn now" is asked of the policies at this moment.
"""

import argparse
from typing import Any

from wharfinger.cli import human
from wharfinger.cli.decisions import decisions_text
from wharfinger.cli.describe import placements
from wharfinger.cli.main import OK
from wharfinger.cli.options import add_common, connect
from wharfinger.cli.output import indented, show
from wharfinger.cli.terminal import printable

_ENDINGS = {
    "completed": "has completed",
    "failed": "has failed",
    "vanished": "has vanished: it is gone, and nobody saw how it ended",
    "revoked": "was stopped because its user wanted it",
    "rejected": "was not let in",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("name", metavar="NAME", help="a workload")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fetch and print."""
    found = connect(arguments).get("workloads", arguments.name, "explain")
    show(found, arguments.output, lambda: explanation_text(found))
    return OK


def explanation_text(explanation: dict[str, Any]) -> str:
    """The whole story."""
    workload, waiting = explanation["workload"], explanation["waiting"]
    sections = [_headline(workload, waiting), "What it asked for\n" + indented(_asked(workload))]
    if waiting:
        sections.append("Why it waits\n" + indented(_waits(waiting)))
        sections.append("If it were its turn now\n" + decisions_text(waiting["now"]))
    if workload["servers"]:
        sections.append("Where it is or was\n" + indented(_where(workload)))
    if explanation["decisions"]:
        sections.append("What was decided, and why\n" + decisions_text(explanation["decisions"]))
    return "\n\n".join(sections)


def _headline(workload: dict[str, Any], waiting: dict[str, Any] | None) -> str:
    name, phase = workload["name"], workload["phase"]
    if waiting:
        place = human.ordinal(waiting["position"])
        text = f"{name} waits: it is {place} of {waiting['length']} in queue {waiting['queue']}"
    elif phase in _ENDINGS:
        text = f"{name} {_ENDINGS[phase]}"
    else:
        text = f"{name} is {phase}" + (" and being stopped" if workload["stopping"] else "")
    return printable(text + (f": {workload['message']}" if workload["message"] else "")) + "."


def _asked(workload: dict[str, Any]) -> str:
    spec = workload["manifest"]["spec"]
    lines = [f"{workload['type']}, priority {workload['priority']}"]
    if workload["target"]:
        tolerance = human.number(workload["tolerance"] * 100)
        met = {True: "; it is met", False: "; it is NOT met", None: ""}[workload["met"]]
        lines.append(f"target: {human.target(workload['target'])}, tolerance {tolerance}%{met}")
    else:
        lines.append("no target")
    resources = spec.get("resources")
    if resources:
        lines.append(
            f"for policies that do not size by target: {resources.get('cpu')} CPU, "
            f"{resources.get('memory')} memory"
        )
    lines.append("command: " + printable(" ".join(spec["run"]["command"])[:200]))
    return "\n".join(lines)


def _waits(waiting: dict[str, Any]) -> str:
    lines = []
    if waiting["position"] == 1:
        lines.append("it is the next to be served, as soon as a server can take it")
    else:
        why = (
            f", which waits because {waiting['first_message']}" if waiting["first_message"] else ""
        )
        lines.append(
            f"in line before it: {waiting['position'] - 1}, the first is {waiting['first']}{why}"
        )
    if waiting["not_before"]:
        lines.append(
            f"a start failed; it is not tried again before {human.clock(waiting['not_before'])}"
        )
    return "\n".join(map(printable, lines))


def _where(workload: dict[str, Any]) -> str:
    lines = [placements(workload)]
    if workload["started_at"]:
        ended = f", ended {human.clock(workload['ended_at'])}" if workload["ended_at"] else ""
        lines.append(f"started {human.clock(workload['started_at'])}{ended} ({workload['handle']})")
    return "\n".join(map(printable, lines))
