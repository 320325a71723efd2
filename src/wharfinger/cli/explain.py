"""``wharfinger explain``: why a workload is where it is, for an operator who read no paper.

Everything it says was recorded when it was decided; only what stands under "if it were its
turn now" is asked of the policies at this moment.
"""

import argparse
from typing import Any

from wharfinger.cli import forecast, human
from wharfinger.cli.decisions import decisions_text, reasons
from wharfinger.cli.describe import placements
from wharfinger.cli.main import OK
from wharfinger.cli.options import add_common, connect
from wharfinger.cli.output import fields, indented, show
from wharfinger.cli.terminal import printable

_ENDINGS = {
    "completed": "has completed",
    "failed": "has failed",
    "vanished": "has vanished: it is gone, and nobody saw how it ended",
    "revoked": "was stopped because its user wanted it",
    "rejected": "was not let in",
}
_GOES_ON = (
    "when no neighbour misses its target, 30 s after it gave way at the earliest (twice as long "
    "each further time), after 16 min at the latest"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("name", metavar="NAME", help="a workload")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fetch and print."""
    found = connect(arguments).get("workloads", arguments.name, "explain")
    wide = arguments.output == "wide"
    show(found, arguments.output, lambda: explanation_text(found, wide=wide))
    return OK


def explanation_text(explanation: dict[str, Any], *, wide: bool = False) -> str:
    """The whole story; ``wide``: with every decision and all its numbers."""
    workload, waiting = explanation["workload"], explanation["waiting"]
    known = workload["classification"]
    sections = [_headline(explanation), _summary(explanation)]
    if waiting:
        if not _only_recommended(explanation):
            sections.append("Why it waits\n" + indented(_waits(waiting)))
        sections += [_now(decision, explanation) for decision in waiting["now"]]
    elif workload["phase"] == "admitted" and explanation["decisions"]:
        newest = explanation["decisions"][-1]
        sections.append("Why it waits\n" + indented("\n".join(reasons(newest))))
    elif why := _newest_placement(explanation["decisions"]):
        sections.append(_why_there(why))
    if explanation["need"]:
        need = forecast.need_text(explanation["need"], workload, wide=wide)
        head = f"What it takes to reach the target ({forecast.basis(known)})"
        sections.append(f"{head}\n{indented(need)}")
    measured = forecast.measured_text(workload)
    if known:
        measured += forecast.interference_text(known, wide=wide)
    if measured or known:
        lines = measured or [forecast.basis(known)]
        sections.append("What was measured before\n" + indented("\n".join(map(printable, lines))))
    if workload["adjustments"]:
        adjusted = forecast.adjustments_text(workload["adjustments"], wide=wide)
        sections.append("What was done since it was placed\n" + indented(adjusted))
    if wide:
        sections.append("What it asked for\n" + indented(_asked(workload)))
        if explanation["decisions"]:
            decided = decisions_text(explanation["decisions"], wide=True)
            sections.append("All that was decided, with the numbers\n" + decided)
    return "\n\n".join(sections)


def _headline(explanation: dict[str, Any]) -> str:
    workload, waiting = explanation["workload"], explanation["waiting"]
    name, phase = workload["name"], workload["phase"]
    message = human.words(workload["message"])
    if _only_recommended(explanation):
        text, message = f"{name} is not started: this manager only recommends", ""
    elif waiting:
        place = human.ordinal(waiting["position"])
        text = f"{name} waits: it is {place} of {waiting['length']} in queue {waiting['queue']}"
    elif phase in _ENDINGS:
        text = f"{name} {_ENDINGS[phase]}"
    else:
        text = f"{name} {_going_on(explanation)}" + (
            " and being stopped" if workload["stopping"] else ""
        )
    return printable(text + (f": {message}" if message else "")) + "."


def _only_recommended(explanation: dict[str, Any]) -> bool:
    """It would be placed, were it not that the manager only says so."""
    recommends = explanation["mode"] == "recommend" and explanation["waiting"]
    return bool(recommends) and explanation["workload"]["reason"] == "recommended"


def _going_on(explanation: dict[str, Any]) -> str:
    """What happens to one that neither waits in line nor has ended."""
    workload = explanation["workload"]
    where, phase = ",".join(workload["servers"]), workload["phase"]
    match phase:
        case "admitted":
            return "waits to be profiled" if workload["reason"] else "is admitted"
        case "profiling":
            planned = [d for d in explanation["decisions"] if d["stage"] == "profiling"]
            what = f": {human.words(planned[-1]['message'])}" if planned else ""
            return f"is being profiled{what}"
        case "placed" | "starting":
            return f"is being started on {where}"
        case "running" | "adjusting":
            changing = ", and its allocation is being changed" if phase == "adjusting" else ""
            return f"runs on {where}{changing}"
        case "suspended":
            return f"is suspended on {where}"
        case "moving":
            return f"is being stopped on {where}, to be started elsewhere"
    return f"is {phase}"


def _summary(explanation: dict[str, Any]) -> str:
    """The target, and how it is kept."""
    workload = explanation["workload"]
    tolerance = human.number(workload["tolerance"] * 100)
    target = human.target(workload["target"])
    pairs = [
        (
            "Target",
            f"{target}, tolerance {tolerance}%"
            if workload["target"]
            else f"none: it is {'best-effort work and ' * (workload['type'] == 'best-effort')}"
            "not sized for any",
        )
    ]
    if workload["target"]:
        pairs.append(("Predicted", _predicted(explanation)))
        pairs.append(("Achieved", forecast.achieved(workload)))
        if checked := forecast.against_prediction(workload):
            pairs.append(("Prediction", checked))
    if workload["placements"]:
        pairs.append(("Place", placements(workload)))
    if workload["usage"]:
        beside = ", ".join(workload["usage"]["neighbours"]) or "nobody"
        pairs.append(("Beside", beside))
    if workload["suspensions"]:
        times = human.number(workload["suspensions"])
        pairs.append(("Gave way", f"{times}x to neighbours that missed their targets"))
    if workload["phase"] == "suspended":
        pairs.append(("Goes on", _GOES_ON))
    if workload["started_at"]:
        ended = f", ended {human.clock(workload['ended_at'])}" if workload["ended_at"] else ""
        handle = f" ({workload['handle']})" if workload["handle"] else ""
        pairs.append(("Started", f"{human.clock(workload['started_at'])}{ended}{handle}"))
    return fields(pairs)


def _predicted(explanation: dict[str, Any]) -> str:
    workload = explanation["workload"]
    if workload["predicted"] is not None:
        return forecast.predicted(workload)
    if explanation["need"]:
        where = "for the allocation that it has" if workload["placements"] else "for a place yet"
        return f"nothing {where}; what it takes stands below"
    unmeasured = workload["classification"] is None and workload["started_at"] is None
    return "nothing yet" if unmeasured else "nothing: how it performs by CPU is not known"


def _asked(workload: dict[str, Any]) -> str:
    spec = workload["manifest"]["spec"]
    lines = [f"{workload['type']}, priority {workload['priority']}"]
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
        message = human.words(waiting["first_message"])
        why = f", which waits because {message}" if message else ""
        lines.append(
            f"in line before it: {waiting['position'] - 1}, the first is {waiting['first']}{why}"
        )
    if waiting["not_before"]:
        lines.append(
            f"a start failed; it is not tried again before {human.clock(waiting['not_before'])}"
        )
    return "\n".join(map(printable, lines))


def _now(decision: dict[str, Any], explanation: dict[str, Any]) -> str:
    """What would be decided for one that waits."""
    recommends = _only_recommended(explanation)
    head = "What is recommended" if recommends else "If it were its turn now"
    lines = [printable(human.words(decision["message"])), *reasons(decision)]
    if off := explanation["waiting"]["unsettled_by"]:
        lines.insert(1, printable(f"it waits for the sake of: {', '.join(off)}"))
    if recommends:
        lines.insert(1, "what would change it: a manager that acts: wharfinger up --mode act")
    return f"{head}\n" + indented("\n".join(lines))


def _newest_placement(decisions: list[dict[str, Any]]) -> dict[str, Any] | None:
    found = [d for d in decisions if d["stage"] == "placement" and d["accepted"]]
    return found[-1] if found else None


def _why_there(decision: dict[str, Any]) -> str:
    when = f" (decided {human.clock(decision['decided_at'])} by {decision['decided_by']})"
    lines = [printable(human.words(decision["message"])), *reasons(decision)]
    return f"Why there, and not elsewhere{when}\n" + indented("\n".join(lines))
