"""Decisions in words: for ``explain`` and for a dry run.

Short: the sentence, what would change it, and every server that was looked at with a verdict in
words. Wide: all numbers that were compared, under the names by which the policy recorded them.
"""

from collections.abc import Callable
from typing import Any

from wharfinger.cli import human
from wharfinger.cli.output import Column, indented, table
from wharfinger.cli.tables import CANDIDATES
from wharfinger.cli.terminal import printable

_UNITS: dict[str, Callable[[float], str]] = {
    "_millicpus": lambda v: human.number(v / 1000),
    "_bytes": human.size,
}
_VERDICTS = {
    "too-large": "too small for it, even when empty",
    "no-servers": "takes no new work",
    "servers-excluded": "not tried: it did not start there, or missed its target",
    "off-prediction": "not now: a workload there misses its target",
    "does-not-fit": "would not run beside those who are there",
}
_EQUAL = 1e-9
_NEEDED = "cpu_needed_millicpus"
_SHORT: tuple[tuple[str, str, Callable[[float], str] | None], ...] = (
    ("NEEDS CPU", _NEEDED, None),
    ("FREE CPU", "cpu_free_millicpus", None),
    ("FREE MEMORY", "memory_free_bytes", None),
    ("RESIDENTS", "residents", None),
    ("EXPECTED", "predicted_pace", human.percent),
    ("AT LEAST", "predicted_pace_low", human.percent),
)
"""What the short table shows of a candidate's numbers."""


def decisions_text(decisions: list[dict[str, Any]], *, wide: bool = False) -> str:
    """Every decision with its candidates, as an operator reads them."""
    return "\n".join(indented(decision_text(decision, wide=wide)) for decision in decisions)


def decision_text(decision: dict[str, Any], *, wide: bool = False) -> str:
    """One decision: the verdict, what was compared, what would change it."""
    when = f"{human.clock(decision['decided_at'])}  " if decision["decided_at"] else ""
    lines = [
        printable(
            f"{when}{decision['stage']} by {decision['decided_by']}: {_outcome(decision)}: "
            f"{human.words(decision['message'])}"
        )
    ]
    lines += [f"  {line}" for line in reasons(decision, wide=wide)]
    return "\n".join(lines)


def reasons(decision: dict[str, Any], *, wide: bool = False) -> list[str]:
    """What would change a decision, what it predicts, and who was looked at."""
    lines = []
    if wide and decision["numbers"]:
        lines.append("compared: " + printable(_numbers(decision["numbers"])))
    if decision["would_change"]:
        lines.append(printable(f"what would change it: {human.words(decision['would_change'])}"))
    if decision["predicted"]:
        lines.append(f"predicted: {prediction(decision['predicted'])}")
    if decision["candidates"]:
        lines += (_all_numbers if wide else candidates)(decision).splitlines()
    return lines


def prediction(predicted: dict[str, Any]) -> str:
    """Performance over target, and with which confidence it is at least how much."""
    return (
        f"{human.percent(predicted['mean'])} of the target "
        f"({human.percent(predicted['low'])} to {human.percent(predicted['high'])}, each with "
        f"{human.percent(predicted['confidence'])} confidence)"
    )


def candidates(decision: dict[str, Any]) -> str:
    """Every server that was looked at: what it would take there, and why it is not there."""
    rows = decision["candidates"]
    first, accepted = rows[0], _is_positive(decision)
    columns: list[Column] = [("SERVER", lambda c: c["name"])]
    for header, key, form in _SHORT:
        values = {row["numbers"].get(key) for row in rows} - {None}
        # Best-effort work needs no CPU: a column of zeros says nothing.
        if values and (values != {0.0} or key != _NEEDED):
            columns.append((header, _shown(key, form)))
    columns.append(("VERDICT", lambda c: _verdict(c, first if accepted else None, decision)))
    return table(rows, columns) + _more(decision)


def _is_positive(decision: dict[str, Any]) -> bool:
    return bool(decision["accepted"]) or decision["reason"] == "recommended"


def _outcome(decision: dict[str, Any]) -> str:
    if decision["accepted"]:
        return "yes"
    return "no" if decision["reason"] == "recommended" else f"no ({decision['reason']})"


def _shown(key: str, form: Callable[[float], str] | None) -> Callable[[dict[str, Any]], str]:
    def shown(row: dict[str, Any]) -> str:
        if key not in row["numbers"]:
            return human.NONE
        value = row["numbers"][key]
        return form(value) if form else _value(key, value)

    return shown


def _verdict(
    candidate: dict[str, Any], chosen: dict[str, Any] | None, decision: dict[str, Any]
) -> str:
    """Why here, or why not there."""
    reason, numbers = candidate["reason"], candidate["numbers"]
    if reason == "ok":
        return _ranked(candidate, chosen, decision)
    if reason == "no-room":
        return _short_of(numbers, decision)
    if reason == "interference":
        beyond = numbers.get("interference_beyond_tolerated", 0.0)
        return f"would disturb, or be disturbed: {beyond:.0f} points beyond what is tolerated"
    return _VERDICTS.get(reason, str(reason))


def _ranked(
    candidate: dict[str, Any], chosen: dict[str, Any] | None, decision: dict[str, Any]
) -> str:
    """One that could take it."""
    if decision["stage"] == "adaptation" and candidate["score"] is None:
        return "has room"
    if chosen is None:
        too_high = decision["reason"] == "target-too-high"
        return "has room, but is too slow" if too_high else "has room"
    if candidate is chosen:
        taken = decision["accepted"] and decision["decided_at"]
        return "chosen" if taken else "would be chosen"
    needs = [c["numbers"].get(_NEEDED, 0.0) for c in (candidate, chosen)]
    if needs[0] > needs[1]:
        return f"could be, but takes {_value('_millicpus', needs[0] - needs[1])} CPU more"
    if (candidate["score"] or 0.0) - (chosen["score"] or 0.0) <= _EQUAL:
        return "just as good; the first is taken"
    if not needs[1]:
        return "could be, but is fuller"
    return "could be, but suits its neighbours less"


def _short_of(numbers: dict[str, float], decision: dict[str, Any]) -> str:
    needed = decision["numbers"].get("memory_needed_bytes", 0.0)
    if needed > numbers.get("memory_free_bytes", needed):
        return f"no room now: {human.size(needed)} memory needed"
    cpu = numbers.get(_NEEDED, decision["numbers"].get(_NEEDED, 0.0))
    short = cpu - numbers.get("cpu_free_millicpus", cpu)
    return f"no room now: {_value('_millicpus', short)} CPU short" if short > 0 else "no room now"


# --- all numbers ------------------------------------------------------------------------------


def _numbers(numbers: dict[str, float]) -> str:
    return ", ".join(f"{_label(key)} {_value(key, value)}" for key, value in numbers.items())


def _all_numbers(decision: dict[str, Any]) -> str:
    rows = decision["candidates"]
    keys = list(dict.fromkeys(key for row in rows for key in row["numbers"]))
    first = rows[0] if _is_positive(decision) else None
    name, score, _ = CANDIDATES
    columns = [
        name,
        score,
        *((_label(key).upper(), _shown(key, None)) for key in keys),
        ("VERDICT", lambda c: _verdict(c, first, decision)),
    ]
    return table(rows, columns) + _more(decision)


def _more(decision: dict[str, Any]) -> str:
    more = decision["considered"] - len(decision["candidates"])
    return f"\nand {more} more servers" if more > 0 else ""


def _label(key: str) -> str:
    for unit in _UNITS:
        key = key.removesuffix(unit)
    return key.replace("_", " ")


def _value(key: str, value: float) -> str:
    for unit, form in _UNITS.items():
        if key.endswith(unit):
            return form(value)
    return human.number(value)
