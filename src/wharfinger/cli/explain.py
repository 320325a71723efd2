"""``wharfinger explain``: why a workload is where it is, for an operator who read no paper.

Everything it says was recorded when it was decided; only "if it were its
turn now" is asked of the policies at this moment. Decisions, predictions and adjustments are put
in words here for ``describe``, ``submit --dry-run``, ``top`` and ``simulate --explain``. Short: a
decision's sentence, what would change it, and every server that was looked at with a verdict.
Wide: all numbers that were compared, under the names by which the policy recorded them.
"""

import argparse
from collections.abc import Callable, Sequence

from wharfinger.cli import format as fmt
from wharfinger.cli.format import Column, Record, column, printable, section, table
from wharfinger.cli.main import OK
from wharfinger.cli.options import add_common, connect

NEED_ROWS = 8
ADJUSTMENT_ROWS = 10
NO_MARK = -1
_EQUAL = 1e-9
_NEEDED = "cpu_needed_millicpus"
_ENDINGS = {
    "completed": "has completed",
    "failed": "has failed",
    "vanished": "has vanished: it is gone, and how it ended is unknown",
    "revoked": "was stopped because its user wanted it",
    "rejected": "was not let in",
}
_RESUMES = (
    "when no neighbor misses its target, at the earliest after 30 s (twice as long each further "
    "time), at the latest after 16 min"
)
DONE = {
    "resized": "resized",
    "suspended": "suspended",
    "resumed": "resumed",
    "relieved": "relieved",
    "migrated": "migrated",
    "preempted": "preempted",
    "unchanged": "nothing",
    "reclassified": "reclassified",
}
_VERDICTS = {
    "too-large": "too small for it, even when empty",
    "no-servers": "takes no new work",
    "servers-excluded": "not tried: it did not start there, or missed its target",
    "off-prediction": "not now: a workload there misses its target",
    "does-not-fit": "would not run beside the residents",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("name", metavar="NAME", help="a workload")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fetch and print."""
    found = connect(arguments).get("workloads", arguments.name, "explain")
    wide = arguments.output == "wide"
    fmt.show(found, arguments.output, lambda: explanation_text(found, wide=wide))
    return OK


# --- the whole page -----------------------------------------------------------------------------


def explanation_text(explanation: Record, *, wide: bool = False) -> str:
    """The whole story; ``wide``: with every decision and all its numbers."""
    workload, waiting = explanation["workload"], explanation["waiting"]
    known, decisions = workload["classification"], explanation["decisions"]
    sections = [_headline(explanation), _summary(explanation)]
    if waiting:
        if not _only_recommended(explanation):
            sections.append(section("Why it waits", _waits(waiting)))
        sections += [_now(decision, explanation) for decision in waiting["now"]]
    elif workload["phase"] == "admitted" and decisions:
        sections.append(section("Why it waits", _reasons(decisions[-1])))
    elif placed := [d for d in decisions if d["stage"] == "placement" and d["accepted"]]:
        newest = placed[-1]
        when = f"(decided {fmt.clock(newest['decided_at'])} by {newest['decided_by']})"
        lines = [_sentence(newest["message"]), *_reasons(newest)]
        sections.append(section(f"Why there, and not elsewhere {when}", lines))
    if explanation["need"]:
        head = f"What it takes to reach the target ({basis(known)})"
        sections.append(section(head, _need(explanation["need"], workload, wide=wide)))
    measured = measured_text(workload)
    if known:
        measured += interference_text(known, wide=wide) or ([] if measured else [basis(known)])
    if measured:
        sections.append(section("What was measured before", list(map(printable, measured))))
    if workload["adjustments"]:
        adjusted = adjustments_text(workload["adjustments"], wide=wide)
        sections.append(section("What was done since it was placed", adjusted))
    if wide:
        sections.append(section("What it asked for", _asked(workload)))
        if decisions:
            decided = decisions_text(decisions, wide=True)
            sections.append(f"All that was decided, with the numbers\n{decided}")
    return "\n\n".join(sections)


def _sentence(message: str) -> str:
    return printable(fmt.words(message))


def _headline(explanation: Record) -> str:
    workload, waiting = explanation["workload"], explanation["waiting"]
    name, phase = workload["name"], workload["phase"]
    message = fmt.words(workload["message"])
    if _only_recommended(explanation):
        said, message = f"{name} is not started: this manager only recommends", ""
    elif waiting:
        place = fmt.ordinal(waiting["position"])
        said = f"{name} waits: it is {place} of {waiting['length']} in queue {waiting['queue']}"
    elif phase in _ENDINGS:
        said = f"{name} {_ENDINGS[phase]}"
    else:
        stopping = " and being stopped" if workload["stopping"] else ""
        said = f"{name} {_going_on(explanation)}{stopping}"
    return printable(said + (f": {message}" if message else "")) + "."


def _only_recommended(explanation: Record) -> bool:
    """It would be placed, were it not that the manager only says so."""
    recommends = explanation["mode"] == "recommend" and explanation["waiting"]
    return bool(recommends) and explanation["workload"]["reason"] == "recommended"


def _going_on(explanation: Record) -> str:
    """What happens to one that neither waits in a queue nor has ended."""
    workload = explanation["workload"]
    where, phase = ",".join(workload["servers"]), workload["phase"]
    if phase == "profiling":
        planned = [d["message"] for d in explanation["decisions"] if d["stage"] == "profiling"]
        return "is being profiled" + "".join(f": {fmt.words(message)}" for message in planned[-1:])
    return {
        "admitted": "waits to be profiled" if workload["reason"] else "is admitted",
        "placed": f"is being started on {where}",
        "starting": f"is being started on {where}",
        "running": f"runs on {where}",
        "adjusting": f"runs on {where}, and its allocation is being changed",
        "suspended": f"is suspended on {where}",
        "classifying": "is being classified",
        "migrating": f"is being stopped on {where}, to be started elsewhere",
    }.get(phase, f"is {phase}")


def _summary(explanation: Record) -> str:
    """The target, and how it is kept."""
    workload = explanation["workload"]
    kind = "best-effort work and " if workload["type"] == "best-effort" else ""
    pairs = [("Target", f"none: it is {kind}not sized for any")]
    if workload["target"]:
        tolerance = fmt.number(workload["tolerance"] * 100)
        pairs = [
            ("Target", f"{fmt.target(workload['target'])}, tolerance {tolerance}%"),
            ("Predicted", _predicted(explanation)),
            ("Achieved", _achieved(workload)),
            ("Prediction", against_prediction(workload)),
        ]
    usage = workload["usage"]
    beside = (", ".join(usage["co_runners"]) or "none") if usage else ""
    times = fmt.number(workload["suspensions"])
    ended = f", ended {fmt.clock(workload['ended_at'])}" if workload["ended_at"] else ""
    handle = f" ({workload['handle']})" if workload["handle"] else ""
    pairs += [
        ("Place", placements(workload)),
        ("Beside", beside),
        (
            "Suspended",
            f"{times}x for neighbors that missed their targets" if workload["suspensions"] else "",
        ),
        ("Resumes", _RESUMES if workload["phase"] == "suspended" else ""),
        (
            "Started",
            f"{fmt.clock(workload['started_at'])}{ended}{handle}" if workload["started_at"] else "",
        ),
    ]
    return fmt.fields([(name, value) for name, value in pairs if value])


def _predicted(explanation: Record) -> str:
    workload = explanation["workload"]
    if workload["predicted"] is not None:
        return predicted(workload)
    if explanation["need"]:
        where = "for the allocation that it has" if workload["placements"] else "for a place yet"
        return f"nothing {where}; what it takes stands below"
    unmeasured = workload["classification"] is None and workload["started_at"] is None
    return "nothing yet" if unmeasured else "nothing: how it performs by CPU is not known"


def _asked(workload: Record) -> list[str]:
    spec = workload["manifest"]["spec"]
    lines = [f"{workload['type']}, priority {workload['priority']}"]
    if resources := spec.get("resources"):
        lines.append(
            f"for policies that do not size by target: {resources.get('cpu')} CPU, "
            f"{resources.get('memory')} memory"
        )
    return [*lines, "command: " + printable(" ".join(spec["run"]["command"])[:200])]


def _waits(waiting: Record) -> list[str]:
    line = "it is the next to be served, as soon as a server can take it"
    if waiting["position"] > 1:
        message = fmt.words(waiting["first_message"])
        why = f", which waits because {message}" if message else ""
        line = f"ahead of it: {waiting['position'] - 1}, the first is {waiting['first']}{why}"
    later = waiting["not_before"]
    retry = [f"a start failed; it is not tried again before {fmt.clock(later)}"] if later else []
    return list(map(printable, [line, *retry]))


def _now(decision: Record, explanation: Record) -> str:
    """What would be decided for one that waits."""
    lines = [_sentence(decision["message"].removeprefix("recommended: "))]
    recommends = _only_recommended(explanation)
    head = "What is recommended" if recommends else "If it were its turn now"
    if off := explanation["waiting"]["unsettled_by"]:
        lines.append(printable(f"workloads there that miss their targets: {', '.join(off)}"))
    return section(head, lines + _reasons(decision))


def placements(workload: Record) -> str:
    """Where a workload is or was, and with how much."""
    return "; ".join(
        f"{p['name']} ({'what others leave' if p['best_effort'] else fmt.cpus(p['cpus'])}, "
        f"{fmt.size(p['memory_bytes'])} memory)"
        for p in workload["placements"]
    )


# --- predictions --------------------------------------------------------------------------------


def predicted(workload: Record) -> str:
    """What is predicted, in the target's terms and as a share of it."""
    made = workload["predicted"]
    if made is None:
        return "nothing"
    terms = _terms(made["performance"], workload["target"])
    sure = f"{fmt.percent(made['low'])} with {fmt.percent(made['confidence'])} confidence"
    share = f"{fmt.percent(made['mean'])} of the target, at least {sure}"
    return f"{terms}: {share}" if terms else share


def _terms(performance: Record, target: Record | None) -> str:
    known = [term for term in fmt.stated(target) if performance[term]]
    return ", ".join(fmt.interval(term, performance[term]) for term in known)


def _achieved(workload: Record) -> str:
    """What is achieved, as a share of the target."""
    if workload["achieved"] is None:
        silent = [one for one in workload["measured"] if one["value"] is None]
        return f"no signal: {silent[0]['source']}" if silent else "not measured yet"
    said = achieved(workload)
    if workload["normalized_performance"] is not None:
        said += f": {fmt.percent(workload['normalized_performance'])} of the target"
    verdicts = {None: "", True: ", which is kept", False: ", which is MISSED"}
    return said + verdicts[workload["met"]]


def achieved(workload: Record) -> str:
    """Of what is achieved only what the target states."""
    found = workload["achieved"] or {}
    known = [term for term in fmt.stated(workload["target"]) if found.get(term) is not None]
    return " ".join(fmt.term(term, found[term]) for term in known) or fmt.NONE


def against_prediction(workload: Record) -> str:
    """How far the prediction was off; empty where it could not be checked."""
    lines = []
    for error in workload["prediction_errors"]:
        share = error["achieved"] / error["predicted"] - 1
        how = "as predicted" if abs(share) < 0.005 else f"{share:+.0%}"
        inside = "within" if error["within"] else "OUTSIDE"
        made, came = (fmt.term(error["name"], error[key]) for key in ("predicted", "achieved"))
        lines.append(f"{made} predicted, {came} came ({how}, {inside} the interval)")
    return "; ".join(lines)


# --- what it needs ----------------------------------------------------------------------------


def _need(need: list[Record], workload: Record, *, wide: bool) -> str:
    """Performance by CPU, with the target and what was given marked."""
    given = workload["cpus"] if workload["placements"] else None
    least = next((i for i, point in enumerate(need) if point["reaches"]), NO_MARK)
    marked = next((i for i, point in enumerate(need) if point["cpus"] == given), least)
    rows = list(enumerate(need))
    if not wide and len(rows) > NEED_ROWS:
        centre = marked if marked != NO_MARK else len(rows) - 1
        start = max(0, min(centre - NEED_ROWS // 2, len(rows) - NEED_ROWS))
        rows = rows[start : start + NEED_ROWS]

    def notes(row: tuple[int, Record]) -> str:
        at, point = row
        told = (
            (point["measured"], "measured"),
            (given is not None and point["cpus"] == given, "<- given"),
            (at == least, "<- reaches the target, alone"),
        )
        return " ".join(note for holds, note in told if holds)

    columns: list[Column] = [
        ("CPU", lambda row: fmt.number(row[1]["cpus"])),
        ("EXPECTED", lambda row: _terms(row[1]["performance"], workload["target"])),
        ("OF TARGET", lambda row: fmt.percent(row[1]["normalized_performance"]["mean"])),
        ("AT LEAST", lambda row: fmt.percent(row[1]["normalized_performance"]["low"])),
        ("", notes),
    ]
    return table(rows, columns)


def basis(classification: Record) -> str:
    """On what a classification stands."""
    by = f"{classification['estimator']} {classification['version']}"
    if not classification["entries_measured"]:
        return f"a cold start, from known programs of its type ({by})"
    return f"{classification['entries_measured']} entries measured, the others filled in by {by}"


def interference_text(classification: Record, *, wide: bool = False) -> list[str]:
    """What it tolerates of others and causes, of 100; short: only what was measured."""
    rows = [
        score
        for score in classification["interference"]
        if wide or score["tolerated_measured"] or score["caused_measured"]
    ]
    columns: list[Column] = [
        column("SHARED RESOURCE", "name"),
        ("TOLERATES", lambda score: _score(score, "tolerated")),
        ("CAUSES", lambda score: _score(score, "caused")),
    ]
    return table(rows, columns).splitlines()


def _score(score: Record, kind: str) -> str:
    if score[kind] is None:
        return fmt.NONE
    bound = "over " if kind == "tolerated" and score["tolerated_censored"] else ""
    source = "" if score[f"{kind}_measured"] else ", estimated"
    return f"{bound}{score[kind]:.0f} of 100 (+-{score[f'{kind}_std']:.0f}{source})"


def curves_text(classification: Record) -> list[str]:
    r"""Every point of every curve; then other platforms, and several servers.

    >>> times = {"mean": 1.5, "low": 1.2, "high": 1.9}
    >>> platforms = [{"name": "usual", **times}, {"name": "fast", **times}]
    >>> servers = [{"name": "1", **times}, {"name": "2", **times}]
    >>> known = {"platform": "usual", "platforms": platforms, "servers": servers, "confidence": 0.8}
    >>> print("\n".join(curves_text({"curves": [], **known})))
    on fast: 1.5 times (1.2 to 1.9) that on usual
    on 2 servers: 1.5 times (1.2 to 1.9) that on one
    """
    sure = fmt.percent(classification["confidence"])
    columns = [
        column("CPU", "cpus", fmt.number),
        column("EXPECTED", "mean", fmt.significant),
        column(f"OVER ({sure})", "low", fmt.significant),
        column(f"UNDER ({sure})", "high", fmt.significant),
        column("", "measured", lambda measured: "measured" if measured else ""),
    ]
    lines = []
    for curve in classification["curves"]:
        name = curve["name"] if curve["name"] != "relative" else "relative to that with one CPU"
        lines += [f"{name}:", *table(curve["points"], columns).splitlines()]
    here = classification["platform"]
    changes = [(c, c["name"], here) for c in classification["platforms"] if c["name"] != here]
    on_several = (c for c in classification["servers"] if c["name"] != "1")
    changes += [(c, f"{c['name']} servers", "one") for c in on_several]
    for change, where, base in changes:
        mean, low, high = (fmt.significant(change[key]) for key in ("mean", "low", "high"))
        lines.append(f"on {where}: {mean} times ({low} to {high}) that on {base}")
    return lines


def measured_text(workload: Record) -> list[str]:
    """What was measured of it before, and what could not be."""
    profiling, known = workload["profiling"], workload["classification"]
    lines = [basis(known)] if known and not known["entries_measured"] else []
    if profiling is not None:
        runs = profiling["runs"]
        times = "once" if runs == 1 else f"{runs} times"
        took = fmt.duration(profiling["seconds"])
        lines += [f"a sandboxed copy ran {times}, {took} in all"] if runs else []
        lines += _entries("classified by", profiling["entries"])
        lines += _entries("since then, as it runs", profiling["observed"])
    silent = known["silent"] if known else []
    return lines + [f"not measured: {s['name']}: {s['reason']}" for s in silent]


def _entries(head: str, entries: list[Record]) -> list[str]:
    said = (
        f"{fmt.term(entry['name'], entry['value'])} with {fmt.number(entry['cpus'])} CPU"
        for entry in entries
    )
    return [f"{head}: {', '.join(said)}"] if entries else []


# --- what was done since ----------------------------------------------------------------------


def adjustments_text(adjustments: list[Record], *, wide: bool = True) -> str:
    """Each adjustment: what changed, what became of the target, and why; short: the newest."""
    shown = adjustments if wide else adjustments[-ADJUSTMENT_ROWS:]
    earlier = len(adjustments) - len(shown)
    columns: list[Column] = [
        column("TIME", form=lambda time: fmt.clock(time)[11:]),
        column("DONE", "kind", lambda kind: DONE[kind]),
        ("CHANGED", change),
        ("OF TARGET", _paces),
        column("WHY", "message", lambda why: fmt.words(why.removeprefix("reclassified: "))),
    ]
    return table(shown, columns) + (f"\nand {earlier} earlier: -o wide" if earlier else "")


def change(adjustment: Record) -> str:
    """From what to what; a dash where its place stayed as it was."""
    before, after = adjustment["from"], adjustment["to"]
    servers = [",".join(placement["name"] for placement in side) for side in (before, after)]
    if adjustment["kind"] == "migrated":
        return f"{servers[0]} -> {servers[1] or '?'}"
    if before == after or not (before and after):
        return fmt.NONE
    if servers[0] != servers[1]:
        return " -> ".join(servers)
    if before[0]["cpus"] == after[0]["cpus"]:
        return " -> ".join(fmt.size(side[0]["memory_bytes"]) for side in (before, after))
    return " -> ".join(fmt.number(side[0]["cpus"]) for side in (before, after)) + " CPU"


def _paces(adjustment: Record) -> str:
    before, after = (
        adjustment["normalized_performance_before"],
        adjustment["normalized_performance_after"],
    )
    if after is None or adjustment["kind"] == "unchanged":
        return fmt.percent(before)
    return f"{fmt.percent(before)} -> {fmt.percent(after)}"


# --- decisions --------------------------------------------------------------------------------


def decisions_text(decisions: Sequence[Record], *, wide: bool = False) -> str:
    """Every decision with its verdict, its reasons and its candidates."""
    return "\n".join(
        fmt.indented("\n  ".join([_verdict(decision), *_reasons(decision, wide=wide)]))
        for decision in decisions
    )


def _verdict(decision: Record) -> str:
    when = f"{fmt.clock(decision['decided_at'])}  " if decision["decided_at"] else ""
    outcome = "yes" if decision["accepted"] else "no"
    if not _is_positive(decision):
        outcome = f"no ({decision['reason']})"
    head = f"{when}{decision['stage']} by {decision['decided_by']}: {outcome}: "
    return printable(head + fmt.words(decision["message"]))


def _is_positive(decision: Record) -> bool:
    return bool(decision["accepted"]) or decision["reason"] == "recommended"


def _reasons(decision: Record, *, wide: bool = False) -> list[str]:
    """What would change a decision, what it predicts, and which servers were looked at."""
    lines = []
    if wide and decision["numbers"]:
        numbers = (f"{_label(key)} {_value(key, n)}" for key, n in decision["numbers"].items())
        lines.append("compared: " + printable(", ".join(numbers)))
    if decision["would_change"]:
        lines.append(f"what would change it: {_sentence(decision['would_change'])}")
    if made := decision["predicted"]:
        mean, low, high, sure = (
            fmt.percent(made[key]) for key in ("mean", "low", "high", "confidence")
        )
        lines.append(
            f"predicted: {mean} of the target ({low} to {high}, each with {sure} confidence)"
        )
    if decision["candidates"]:
        lines += _candidates(decision, wide=wide).splitlines()
    return lines


_SHORT: tuple[tuple[str, str, Callable[[float], str] | None], ...] = (
    ("NEEDS CPU", _NEEDED, None),
    ("FREE CPU", "cpu_free_millicpus", None),
    ("FREE MEMORY", "memory_free_bytes", None),
    ("RESIDENTS", "residents", None),
    ("EXPECTED", "predicted_pace", fmt.percent),
    ("AT LEAST", "predicted_pace_low", fmt.percent),
)
"""What the short table shows of a candidate's numbers."""


def _candidates(decision: Record, *, wide: bool) -> str:
    """Every server that was looked at: what it would take there, and why it is not there."""
    rows = decision["candidates"]
    columns = [column("SERVER", "name")]
    if wide:
        columns.append(column("SCORE", form=fmt.number))
        keys = dict.fromkeys(key for row in rows for key in row["numbers"])
        columns += [_number(_label(key).upper(), key, None) for key in keys]
    else:
        for header, key, form in _SHORT:
            values = {row["numbers"].get(key) for row in rows} - {None}
            # Best-effort work needs no CPU: a column of zeros says nothing.
            if values and (values != {0.0} or key != _NEEDED):
                columns.append(_number(header, key, form))
    columns.append(("VERDICT", lambda candidate: _candidate_verdict(candidate, decision)))
    more = decision["considered"] - len(rows)
    return table(rows, columns) + (f"\nand {more} more servers" if more > 0 else "")


def _number(header: str, key: str, form: Callable[[float], str] | None) -> Column:
    def cell(candidate: Record) -> str:
        value = candidate["numbers"].get(key)
        return fmt.NONE if value is None else form(value) if form else _value(key, value)

    return header, cell


def _candidate_verdict(candidate: Record, decision: Record) -> str:
    """Why here, or why not there."""
    reason, numbers = candidate["reason"], candidate["numbers"]
    if reason == "ok":
        return _ranked(candidate, decision)
    if reason == "no-room":
        return _short_of(numbers, decision)
    if reason == "interference":
        beyond = numbers.get("interference_beyond_tolerated", 0.0)
        return f"would disturb, or be disturbed: {beyond:.0f} points beyond what is tolerated"
    return _VERDICTS.get(reason, str(reason))


def _ranked(candidate: Record, decision: Record) -> str:
    """One that could take it."""
    if decision["stage"] == "adaptation" and candidate["score"] is None:
        return "has room"
    if not _is_positive(decision):
        too_high = decision["reason"] == "target-too-high"
        return "has room, but is too slow" if too_high else "has room"
    chosen = decision["candidates"][0]
    if candidate is chosen:
        taken = decision["accepted"] and decision["decided_at"]
        return "chosen" if taken else "would be chosen"
    needs, least = (c["numbers"].get(_NEEDED, 0.0) for c in (candidate, chosen))
    if needs > least:
        return f"could be, but takes {_value(_NEEDED, needs - least)} CPU more"
    if (candidate["score"] or 0.0) - (chosen["score"] or 0.0) <= _EQUAL:
        return "just as good; the first is taken"
    return f"could be, but {'suits its neighbors less' if least else 'is fuller'}"


def _short_of(numbers: Record, decision: Record) -> str:
    needed = decision["numbers"].get("memory_needed_bytes", 0.0)
    if needed > numbers.get("memory_free_bytes", needed):
        return f"no room now: {fmt.size(needed)} memory needed"
    cpu = numbers.get(_NEEDED, decision["numbers"].get(_NEEDED, 0.0))
    short = cpu - numbers.get("cpu_free_millicpus", cpu)
    return f"no room now: {_value(_NEEDED, short)} CPU short" if short > 0 else "no room now"


_UNITS: dict[str, Callable[[float], str]] = {
    "_millicpus": lambda value: fmt.number(value / 1000),
    "_bytes": fmt.size,
}


def _label(key: str) -> str:
    for unit in _UNITS:
        key = key.removesuffix(unit)
    return key.replace("_", " ")


def _value(key: str, value: float) -> str:
    form = next((form for unit, form in _UNITS.items() if key.endswith(unit)), fmt.number)
    return form(value)
