"""Decisions in words: for ``explain`` and for a dry run."""

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
    "ok": "has room",
    "no-room": "no room now",
    "too-large": "too small, even when empty",
    "no-servers": "takes no new work",
    "servers-excluded": "failed to start it before",
}


def decisions_text(decisions: list[dict[str, Any]]) -> str:
    """Every decision with its candidates, as an operator reads them."""
    return "\n".join(indented(decision_text(decision)) for decision in decisions)


def decision_text(decision: dict[str, Any]) -> str:
    """One decision: the verdict, what was compared, what would change it."""
    when = f"{human.clock(decision['decided_at'])}  " if decision["decided_at"] else ""
    verdict = "yes" if decision["accepted"] else f"no ({decision['reason']})"
    lines = [
        printable(
            f"{when}{decision['stage']} by {decision['decided_by']}: {verdict}: "
            f"{decision['message']}"
        )
    ]
    if decision["numbers"]:
        lines.append("  compared: " + printable(_numbers(decision["numbers"])))
    if decision["would_change"]:
        lines.append(printable(f"  what would change it: {decision['would_change']}"))
    if decision["predicted"]:
        lines.append(f"  predicted: {_prediction(decision['predicted'])}")
    if decision["candidates"]:
        lines.append(indented(_candidates(decision)))
    return "\n".join(lines)


def _numbers(numbers: dict[str, float]) -> str:
    return ", ".join(f"{_label(key)} {_value(key, value)}" for key, value in numbers.items())


def _prediction(prediction: dict[str, float]) -> str:
    return (
        f"{human.number(prediction['mean'])} of the target "
        f"({human.number(prediction['low'])} to {human.number(prediction['high'])} "
        f"at {human.number(prediction['confidence'] * 100)}%)"
    )


def _candidates(decision: dict[str, Any]) -> str:
    candidates = decision["candidates"]
    keys = list(dict.fromkeys(key for c in candidates for key in c["numbers"]))
    name, score, _ = CANDIDATES
    columns = [name, score, *map(_number_column, keys), ("VERDICT", _verdict)]
    text = table(candidates, columns)
    more = decision["considered"] - len(candidates)
    return text + (f"\nand {more} more servers" if more > 0 else "")


def _number_column(key: str) -> Column:
    return (
        _label(key).upper(),
        lambda c: _value(key, c["numbers"][key]) if key in c["numbers"] else human.NONE,
    )


def _verdict(candidate: dict[str, Any]) -> str:
    return _VERDICTS.get(candidate["reason"], str(candidate["reason"]))


def _label(key: str) -> str:
    for unit in _UNITS:
        key = key.removesuffix(unit)
    return key.replace("_", " ")


def _value(key: str, value: float) -> str:
    for unit, form in _UNITS.items():
        if key.endswith(unit):
            return form(value)
    return human.number(value)
