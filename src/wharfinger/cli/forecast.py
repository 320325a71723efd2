"""What a workload needs, what was measured for that, and what was done since, in words.

For ``explain`` and ``describe``; each function takes what the API answers and gives lines.
"""

from typing import Any

from wharfinger.cli import human
from wharfinger.cli.output import Column, table

NEED_ROWS = 8
ADJUSTMENT_ROWS = 10
NO_MARK = -1
_TIMED = {"rate_per_second", "throughput_per_second"}


def predicted(workload: dict[str, Any]) -> str:
    """What is predicted, in the target's terms and as a share of it."""
    found = workload["predicted"]
    if found is None:
        return "nothing"
    terms = _terms(found["performance"], workload["target"])
    sure = f"{human.percent(found['low'])} with {human.percent(found['confidence'])} confidence"
    share = f"{human.percent(found['mean'])} of the target, at least {sure}"
    return f"{terms}: {share}" if terms else share


def _terms(performance: dict[str, Any], target: dict[str, Any] | None) -> str:
    known = [term for term in human.stated(target) if performance[term]]
    return ", ".join(human.interval(term, performance[term]) for term in known)


def achieved(workload: dict[str, Any]) -> str:
    """What is achieved, as a share of the target, and against the prediction."""
    if workload["achieved"] is None:
        silent = [one for one in workload["measured"] if one["value"] is None]
        return f"no signal: {silent[0]['source']}" if silent else "not measured yet"
    text = short_achieved(workload["target"], workload["achieved"])
    if workload["pace"] is not None:
        text += f": {human.percent(workload['pace'])} of the target"
    if workload["met"] is not None:
        text += ", which is kept" if workload["met"] else ", which is MISSED"
    return text


def short_achieved(target: dict[str, Any] | None, found: dict[str, Any] | None) -> str:
    """Only what the target states.

    >>> short_achieved(None, None)
    '-'
    """
    if found is None:
        return human.NONE
    known = [term for term in human.stated(target) if found[term] is not None]
    return " ".join(human.term(term, found[term]) for term in known) or human.NONE


def against_prediction(workload: dict[str, Any]) -> str:
    """How far the prediction was off; empty where it could not be checked."""
    found = []
    for error in workload["prediction_errors"]:
        share = error["achieved"] / error["predicted"] - 1
        how = "as predicted" if abs(share) < 0.005 else f"{share:+.0%}"
        inside = "within" if error["within"] else "OUTSIDE"
        found.append(
            f"{human.term(error['name'], error['predicted'])} predicted, "
            f"{human.term(error['name'], error['achieved'])} came ({how}, {inside} the interval)"
        )
    return "; ".join(found)


# --- what it needs ----------------------------------------------------------------------------


def need_text(need: list[dict[str, Any]], workload: dict[str, Any], *, wide: bool = False) -> str:
    """Performance by CPU, with the target and what was given marked."""
    given = workload["cpus"] if workload["placements"] else None
    least = next((i for i, point in enumerate(need) if point["reaches"]), NO_MARK)
    marked = next((i for i, point in enumerate(need) if point["cpus"] == given), least)
    rows = list(enumerate(need))
    if not wide and len(rows) > NEED_ROWS:
        centre = marked if marked != NO_MARK else len(rows) - 1
        start = max(0, min(centre - NEED_ROWS // 2, len(rows) - NEED_ROWS))
        rows = rows[start : start + NEED_ROWS]

    def note(row: tuple[int, dict[str, Any]]) -> str:
        at, point = row
        notes = ["measured"] if point["measured"] else []
        if given is not None and point["cpus"] == given:
            notes.append("<- given")
        if at == least:
            notes.append("<- reaches the target, alone")
        return " ".join(notes)

    columns: list[Column] = [
        ("CPU", lambda row: human.number(row[1]["cpus"])),
        ("EXPECTED", lambda row: _terms(row[1]["performance"], workload["target"])),
        ("OF TARGET", lambda row: human.percent(row[1]["pace"]["mean"])),
        ("AT LEAST", lambda row: human.percent(row[1]["pace"]["low"])),
        ("", note),
    ]
    return table(rows, columns)


def basis(classification: dict[str, Any]) -> str:
    """On what a classification stands."""
    by = f"{classification['estimator']} {classification['version']}"
    if not classification["entries_measured"]:
        return f"nothing of its own: it is taken to be like known programs ({by})"
    return f"{classification['entries_measured']} entries measured, the others filled in by {by}"


def interference_text(classification: dict[str, Any], *, wide: bool = False) -> list[str]:
    """What it bears of others and does to them, of 100; short: only what was measured."""
    rows = [
        score
        for score in classification["interference"]
        if wide or score["tolerated_measured"] or score["caused_measured"]
    ]
    if not rows:
        return []
    columns: list[Column] = [
        ("SHARED RESOURCE", lambda s: s["name"]),
        ("TOLERATES", lambda s: _score(s, "tolerated")),
        ("CAUSES", lambda s: _score(s, "caused")),
    ]
    return table(rows, columns).splitlines()


def curves_text(classification: dict[str, Any]) -> list[str]:
    """Every point of every curve."""
    sure = human.percent(classification["confidence"])
    columns: list[Column] = [
        ("CPU", lambda p: human.number(p["cpus"])),
        ("EXPECTED", lambda p: human.significant(p["mean"])),
        (f"OVER ({sure})", lambda p: human.significant(p["low"])),
        (f"UNDER ({sure})", lambda p: human.significant(p["high"])),
        ("", lambda p: "measured" if p["measured"] else ""),
    ]
    lines = []
    for curve in classification["curves"]:
        name = curve["name"] if curve["name"] != "relative" else "relative to that with one CPU"
        lines += [f"{name}:", *table(curve["points"], columns).splitlines()]
    return lines


def elsewhere_text(classification: dict[str, Any]) -> list[str]:
    """On other platforms, and on several servers, relative to where the curves hold.

    >>> fast = {"name": "fast", "mean": 1.5, "low": 1.2, "high": 1.9}
    >>> two = {"name": "2", "mean": 1.8, "low": 1.7, "high": 1.9}
    >>> print(*elsewhere_text({"platform": "usual", "platforms": [fast], "servers": [two]}))
    on fast: 1.5 times (1.2 to 1.9) that on usual on 2 servers: 1.8 times (1.7 to 1.9) that on one
    """
    here = classification["platform"]
    lines = [
        f"on {change['name']}: {_times(change)} that on {here}"
        for change in classification["platforms"]
        if change["name"] != here
    ]
    return lines + [
        f"on {change['name']} servers: {_times(change)} that on one"
        for change in classification["servers"]
        if change["name"] != "1"
    ]


def _times(change: dict[str, Any]) -> str:
    low, high = human.significant(change["low"]), human.significant(change["high"])
    return f"{human.significant(change['mean'])} times ({low} to {high})"


def _score(score: dict[str, Any], kind: str) -> str:
    value = score[kind]
    if value is None:
        return human.NONE
    bound = "over " if kind == "tolerated" and score["tolerated_censored"] else ""
    source = "" if score[f"{kind}_measured"] else ", estimated"
    return f"{bound}{value:.0f} of 100 (+-{score[f'{kind}_std']:.0f}{source})"


def measured_text(workload: dict[str, Any]) -> list[str]:
    """What was measured of it before, and what could not be."""
    found, known = workload["profiling"], workload["classification"]
    lines = [basis(known)] if known and not known["entries_measured"] else []
    if found is not None:
        runs = found["runs"]
        if runs:
            times = "once" if runs == 1 else f"{runs} times"
            lines.append(f"a sandboxed copy ran {times}, {human.duration(found['seconds'])} in all")
        lines += _entries("classified by", found["entries"])
        lines += _entries("since then, as it runs", found["observed"])
    if known is not None:
        lines += [f"not measured: {s['name']}: {s['reason']}" for s in known["silent"]]
    return lines


def _entries(words: str, entries: list[dict[str, Any]]) -> list[str]:
    found = (
        f"{human.term(entry['name'], entry['value'])} with {human.number(entry['cpus'])} CPU"
        for entry in entries
    )
    return [f"{words}: {', '.join(found)}"] if entries else []


# --- what was done since ----------------------------------------------------------------------


def adjustments_text(adjustments: list[dict[str, Any]], *, wide: bool = True) -> str:
    """Each adjustment: what changed, what became of the target, and why; short: the newest."""
    shown = adjustments if wide else adjustments[-ADJUSTMENT_ROWS:]
    earlier = len(adjustments) - len(shown)
    columns: list[Column] = [
        ("TIME", lambda a: human.time_of_day(a["time"])),
        ("DONE", lambda a: DONE[a["kind"]]),
        ("CHANGED", change),
        ("OF TARGET", _paces),
        ("WHY", lambda a: human.words(a["message"].removeprefix("classified anew: "))),
    ]
    return table(shown, columns) + (f"\nand {earlier} earlier: -o wide" if earlier else "")


DONE = {
    "resized": "resized",
    "suspended": "suspended",
    "resumed": "resumed",
    "relieved": "relieved",
    "moved": "moved",
    "kept": "nothing",
    "reclassified": "classified anew",
}


def change(adjustment: dict[str, Any]) -> str:
    """From what to what; a dash where its place stayed as it was."""
    before, after = adjustment["from"], adjustment["to"]
    if adjustment["kind"] == "moved":
        return f"{_servers(before)} -> {_servers(after) or '?'}"
    if before == after or not (before and after):
        return human.NONE
    if _servers(before) != _servers(after):
        return f"{_servers(before)} -> {_servers(after)}"
    key, form = ("cpus", human.number)
    if before[0]["cpus"] == after[0]["cpus"]:
        return f"{human.size(before[0]['memory_bytes'])} -> {human.size(after[0]['memory_bytes'])}"
    return f"{form(before[0][key])} -> {form(after[0][key])} CPU"


def _servers(placements: list[dict[str, Any]]) -> str:
    return ",".join(placement["name"] for placement in placements)


def _paces(adjustment: dict[str, Any]) -> str:
    before, after = adjustment["pace_before"], adjustment["pace_after"]
    if after is None or adjustment["kind"] == "kept":
        return human.percent(before)
    return f"{human.percent(before)} -> {human.percent(after)}"
