"""``wharfinger explain``: why a workload is where it is, for an operator who read no paper.

Everything on the page was recorded when it was decided; only "if it were scheduled now" is asked
of the policies at this moment. ``simulate --explain`` prints the same page.
"""

import argparse

from wharfinger.cli import format as fmt
from wharfinger.cli import targets, workload_text
from wharfinger.cli.decisions import decisions_text, reasons, sentence
from wharfinger.cli.options import add_common, connect
from wharfinger.cli.output import Column, Record, fields, printable, section, show, table

NEED_ROWS = 8
_ENDINGS = {
    "completed": "has completed",
    "failed": "has failed",
    "vanished": "has vanished: it is gone, and how it ended is unknown",
    "revoked": "was stopped on request",
    "rejected": "was not admitted",
}
_BEFORE_QUEUES = {"admitted", "profiling", "classifying"}
_NOT_KEPT = {"will-miss", "no-slack"}
_RESUMES = (
    "when no neighbor misses its target, at the earliest after 30 s (twice as long each further "
    "time), at the latest after 16 min"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("name", metavar="NAME", help="a workload")
    add_common(parser)


def run(arguments: argparse.Namespace) -> None:
    """Fetch and print."""
    explanation = connect(arguments).get("workloads", arguments.name, "explain")
    wide = arguments.output == "wide"
    show(explanation, arguments.output, lambda: explanation_text(explanation, wide=wide))


def explanation_text(explanation: Record, *, wide: bool = False) -> str:
    """The whole page; ``wide``: with every decision and all its numbers."""
    workload, waiting = explanation["workload"], explanation["waiting"]
    classification, decisions = workload["classification"], explanation["decisions"]
    sections = [_headline(explanation), _summary(explanation)]
    if waiting and not workload["paused"]:
        if not _only_recommended(explanation):
            sections.append(section("Why it waits", _waits(waiting)))
        sections += [_now(decision, explanation) for decision in waiting["now"]]
    elif workload["phase"] == "admitted" and decisions:
        sections.append(section("Why it waits", reasons(decisions[-1])))
    elif placed := [d for d in decisions if d["stage"] == "placement" and d["accepted"]]:
        newest = placed[-1]
        when = f"(decided {fmt.clock(newest['decided_at'])} by {newest['decided_by']})"
        lines = [sentence(newest["message"]), *reasons(newest)]
        sections.append(section(f"Why there, and not elsewhere {when}", lines))
    if notes := [*_told_on_entry(workload, decisions), *explanation["notes"]]:
        sections.append(section("What else holds for it", list(map(sentence, notes))))
    if explanation["need"]:
        head = f"What it takes to keep the target ({workload_text.basis(classification)})"
        sections.append(section(head, _need(explanation["need"], workload, wide=wide)))
    measured = workload_text.measured_text(workload)
    if classification:
        own = [] if measured else [workload_text.basis(classification)]
        measured += workload_text.interference_text(classification, wide=wide) or own
    if measured:
        sections.append(section("What was measured before", list(map(printable, measured))))
    if workload["adjustments"]:
        adjusted = workload_text.adjustments_text(workload["adjustments"], wide=wide)
        sections.append(section("What was done since it was placed", adjusted))
    if wide:
        sections.append(section("What it asked for", _asked(workload)))
        if decisions:
            decided = decisions_text(decisions, wide=True)
            sections.append(f"All that was decided, with the numbers\n{decided}")
    return "\n\n".join(sections)


def _told_on_entry(workload: Record, decisions: list[Record]) -> list[str]:
    """What was known on its submission not to be kept, until a queue tells it again."""
    if workload["phase"] not in _BEFORE_QUEUES:
        return []
    entry = [d for d in decisions if d["stage"] == "admission"]
    return [d["message"] for d in entry if d["reason"] in _NOT_KEPT]


def _headline(explanation: Record) -> str:
    workload, waiting = explanation["workload"], explanation["waiting"]
    name, phase = workload["name"], workload["phase"]
    message = fmt.words(workload["message"])
    if waiting and workload["paused"]:
        head, message = f"{name} waits: it is suspended by its user", ""
    elif waiting and workload["due_at"] and workload["reason"] == "scheduled":
        head, message = f"{name} waits for its schedule: {fmt.clock(workload['due_at'])}", ""
    elif _only_recommended(explanation):
        head, message = f"{name} is not started: this manager only recommends", ""
    elif waiting:
        place = f"{_ordinal(waiting['position'])} of {waiting['length']}"
        head = f"{name} waits: it is {place} in queue {waiting['queue']}"
    elif phase in _ENDINGS:
        head = f"{name} {_ENDINGS[phase]}"
    else:
        stopping = " and being stopped" if workload["stopping"] else ""
        head = f"{name} {_going_on(explanation)}{stopping}"
    return printable(head + (f": {message}" if message else "")) + "."


def _ordinal(value: int) -> str:
    """A position in a queue.

    >>> [_ordinal(n) for n in (1, 2, 3, 4, 11, 22)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd']
    """
    ending = "th" if value % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(value % 10)
    return f"{value}{ending or 'th'}"


def _only_recommended(explanation: Record) -> bool:
    recommends = explanation["mode"] != "act" and explanation["waiting"]
    return bool(recommends) and explanation["workload"]["reason"] == "recommended"


def _going_on(explanation: Record) -> str:
    workload = explanation["workload"]
    where, phase = ",".join(workload["servers"]), workload["phase"]
    if phase == "profiling":
        planned = [d["message"] for d in explanation["decisions"] if d["stage"] == "profiling"]
        return "is being profiled" + "".join(f": {fmt.words(message)}" for message in planned[-1:])
    return {
        "admitted": "waits to be profiled" if workload["reason"] else "is admitted",
        "placed": f"is being started on {where}",
        "starting": f"is being started on {where}",
        "running": f"runs on {where}"
        + (", but is not ready" if workload["ready"] is False else ""),
        "adjusting": f"runs on {where}, and its allocation is being changed",
        "suspended": f"is suspended on {where}"
        + (" by its user, who can resume it" if workload["paused"] else ""),
        "classifying": "is being classified",
        "migrating": f"is being stopped on {where}, to be started elsewhere",
    }.get(phase, f"is {phase}")


def _summary(explanation: Record) -> str:
    workload = explanation["workload"]
    kind = "best-effort work and " if workload["type"] == "best-effort" else ""
    pairs = [("Target", f"none: it is {kind}not sized for any")]
    if workload["target"]:
        tolerance = fmt.number(workload["tolerance"] * 100)
        pairs = [
            ("Target", f"{targets.target(workload['target'])}, tolerance {tolerance}%"),
            ("Predicted", _predicted(explanation)),
            ("Achieved", _achieved(workload)),
            ("Prediction", targets.against_prediction(workload)),
            ("Forecast", targets.forecast(workload)),
        ]
    usage, times = workload["usage"], workload["suspensions"]
    handle = f" ({workload['handle']})" if workload["handle"] else ""
    ended = f", ended {fmt.clock(workload['ended_at'])}" if workload["ended_at"] else ""
    started = f"{fmt.clock(workload['started_at'])}{ended}{handle}"
    pairs += [
        ("Placement", workload_text.placements(workload)),
        ("Neighbors", (", ".join(usage["co_runners"]) or "none") if usage else ""),
        ("Suspended", f"{times}x for neighbors that missed their targets" if times else ""),
        ("Resumes", _resumes(workload)),
        ("Started", started if workload["started_at"] else ""),
    ]
    return fields([(name, value) for name, value in pairs if value])


def _resumes(workload: Record) -> str:
    if workload["phase"] != "suspended":
        return ""
    return f"wharfinger resume {workload['name']}" if workload["paused"] else _RESUMES


def _predicted(explanation: Record) -> str:
    workload = explanation["workload"]
    if workload["predicted"] is not None:
        return targets.predicted(workload)
    if explanation["need"]:
        what = "for its allocation" if workload["placements"] else "before it is placed"
        return f"nothing {what}; the CPU that it takes is listed below"
    unmeasured = workload["classification"] is None and workload["started_at"] is None
    return "nothing yet" if unmeasured else "nothing: how it performs by CPU is unknown"


def _achieved(workload: Record) -> str:
    if workload["achieved"] is None:
        silent = [one for one in workload["measured"] if one["value"] is None]
        return f"no signal: {silent[0]['source']}" if silent else "not measured yet"
    written = targets.achieved_of_target(workload)
    if workload["normalized_performance"] is not None:
        written += f": {fmt.percent(workload['normalized_performance'])} of the target"
    verdicts = {None: "", True: ", which is kept", False: ", which is MISSED"}
    return written + verdicts[workload["met"]]


def _waits(waiting: Record) -> list[str]:
    line = "it is the next to be placed, as soon as a server can take it"
    if waiting["position"] > 1:
        message = fmt.words(waiting["first_message"])
        why = f", which waits because {message}" if message else ""
        line = f"ahead of it: {waiting['position'] - 1}, the first is {waiting['first']}{why}"
    later, review, queued = (waiting[key] for key in ("not_before", "review_at", "queue_message"))
    more = [f"{waiting['queue']}: {fmt.words(queued)}"] if queued else []
    more += [f"its queue is decided again at {fmt.clock(review)}"] if review else []
    more += [f"it is not started before {fmt.clock(later)}"] if later else []
    return list(map(printable, [line, *more]))


def _now(decision: Record, explanation: Record) -> str:
    lines = [sentence(decision["message"].removeprefix("recommended: "))]
    recommends = _only_recommended(explanation)
    head = "What is recommended" if recommends else "If it were scheduled now"
    if off := explanation["waiting"]["unsettled_by"]:
        lines.append(printable(f"workloads there that run off their predictions: {', '.join(off)}"))
    return section(head, lines + reasons(decision))


def _need(need: list[Record], workload: Record, *, wide: bool) -> str:
    """Performance by CPU, with the target and the allocation marked; short: around these."""
    allocated = workload["cpus"] if workload["placements"] else None
    rows = list(enumerate(need))
    least = next((at for at, point in rows if point["reaches"]), None)
    if not wide and len(rows) > NEED_ROWS:
        otherwise = len(rows) - 1 if least is None else least
        marked = next((at for at, point in rows if point["cpus"] == allocated), otherwise)
        start = max(0, min(marked - NEED_ROWS // 2, len(rows) - NEED_ROWS))
        rows = rows[start : start + NEED_ROWS]

    def notes(row: tuple[int, Record]) -> str:
        at, point = row
        marks = (
            (point["measured"], "measured"),
            (allocated is not None and point["cpus"] == allocated, "<- allocated"),
            (at == least, "<- keeps the target, alone"),
        )
        return " ".join(note for holds, note in marks if holds)

    columns: list[Column] = [
        ("CPU", lambda row: fmt.number(row[1]["cpus"])),
        ("EXPECTED", lambda row: targets.intervals(row[1]["performance"], workload["target"])),
        ("OF TARGET", lambda row: fmt.percent(row[1]["normalized_performance"]["mean"])),
        ("AT LEAST", lambda row: fmt.percent(row[1]["normalized_performance"]["low"])),
        ("", notes),
    ]
    return table(rows, columns)


def _asked(workload: Record) -> list[str]:
    spec = workload["manifest"]["spec"]
    lines = [f"{workload['type']}, priority {workload['priority']}"]
    if resources := spec.get("resources"):
        cpus = fmt.words(f"{resources.get('cpu')} CPU")
        amounts = f"{cpus}, {resources.get('memory')} memory"
        lines.append(f"for policies that do not size by target: {amounts}")
    return [*lines, "command: " + printable(" ".join(spec["run"]["command"])[:200])]
