"""Decisions in words, from what the policies recorded when they decided.

Used by ``explain`` and ``submit --dry-run``. Short: what would change a decision, and a verdict on
every server that was considered. Wide: all numbers that were compared, under the policy's names.
"""

from collections.abc import Callable, Sequence

from wharfinger.cli import format as fmt
from wharfinger.cli.output import Column, Record, column, indented, printable, table

_EQUAL = 1e-9
_SAME = 0.005
"""Shares that are printed alike."""
_NEEDED = "cpu_needed_millicpus"
_GIVEN = "cpu_given_millicpus"
"""Of one of several servers that were chosen together; what it gives is part of the whole."""
_OF_BEST = "predicted_share_of_best"
"""Of best-effort work: what it should do there over alone on its best platform."""
_UNITS: dict[str, Callable[[float], str]] = {
    "_millicpus": lambda value: fmt.number(value / 1000),
    "_bytes": fmt.size,
}
_VERDICTS = {
    "too-large": "too small for it, even when empty",
    "not-allowed": "has not the labels that it requires",
    "no-servers": "takes no new work",
    "servers-excluded": "not tried: it did not start there, or missed its target",
    "off-prediction": "not now: a workload there runs off its prediction",
    "does-not-fit": "would not run with the workloads there",
}
_SHORT: tuple[tuple[str, str, Callable[[float], str] | None], ...] = (
    ("GIVEN CPU", _GIVEN, None),
    ("GIVES", "predicted_share", fmt.percent),
    ("NEEDS CPU", _NEEDED, None),
    ("FREE CPU", "cpu_free_millicpus", None),
    ("FREE MEMORY", "memory_free_bytes", None),
    ("RESIDENTS", "residents", None),
    ("EXPECTED", "predicted_pace", fmt.percent),
    ("AT LEAST", "predicted_pace_low", fmt.percent),
    ("OF ITS BEST", _OF_BEST, fmt.percent),
)
"""What the short table shows of a candidate's numbers."""


def decisions_text(decisions: Sequence[Record], *, wide: bool = False) -> str:
    """Every decision with its outcome, its reasons and its candidates."""
    return "\n".join(
        indented("\n  ".join([_outcome(decision), *reasons(decision, wide=wide)]))
        for decision in decisions
    )


def sentence(message: str) -> str:
    """A decision's message, fit for a terminal."""
    return printable(fmt.words(message))


def reasons(decision: Record, *, wide: bool = False) -> list[str]:
    """What would change a decision, what it predicts, and which servers were considered."""
    lines = []
    if wide and decision["numbers"]:
        numbers = (f"{_label(key)} {_value(key, n)}" for key, n in decision["numbers"].items())
        lines.append("compared: " + printable(", ".join(numbers)))
    if decision["would_change"]:
        lines.append(f"what would change it: {sentence(decision['would_change'])}")
    if made := decision["predicted"]:
        keys = ("mean", "low", "high", "confidence")
        mean, low, high, sure = (fmt.percent(made[key]) for key in keys)
        bounds = f"{low} to {high}, each with {sure} confidence"
        lines.append(f"predicted: {mean} of the target ({bounds})")
    if decision["candidates"]:
        lines += _candidates(decision, wide=wide).splitlines()
    return lines


def _outcome(decision: Record) -> str:
    when = f"{fmt.clock(decision['decided_at'])}  " if decision["decided_at"] else ""
    outcome = "yes" if decision["accepted"] else "no"
    if not _is_positive(decision):
        outcome = f"no ({decision['reason']})"
    head = f"{when}{decision['stage']} by {decision['decided_by']}: {outcome}: "
    return sentence(head + decision["message"])


def _is_positive(decision: Record) -> bool:
    return bool(decision["accepted"]) or decision["reason"] == "recommended"


def _candidates(decision: Record, *, wide: bool) -> str:
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
    columns.append(("VERDICT", lambda candidate: _verdict(candidate, decision)))
    more = decision["considered"] - len(rows)
    return table(rows, columns) + (f"\nand {more} more servers" if more > 0 else "")


def _number(header: str, key: str, form: Callable[[float], str] | None) -> Column:
    def cell(candidate: Record) -> str:
        value = candidate["numbers"].get(key)
        return fmt.NONE if value is None else form(value) if form else _value(key, value)

    return header, cell


def _verdict(candidate: Record, decision: Record) -> str:
    reason, numbers = candidate["reason"], candidate["numbers"]
    if reason == "ok":
        return _ranked(candidate, decision)
    if reason == "no-room":
        return _short_of(numbers, decision)
    if reason == "interference":
        kept = numbers.get("service_kept_probability")
        if kept is not None:
            return f"too much contention: a service would keep its target with {kept:.0%}"
        beyond = numbers.get("interference_beyond_tolerated", 0.0)
        return f"too much contention: {beyond:.0f} points beyond what is tolerated"
    return _VERDICTS.get(reason, str(reason))


def _ranked(candidate: Record, decision: Record) -> str:
    if decision["stage"] == "adaptation" and candidate["score"] is None:
        return "has room"
    if not _is_positive(decision):
        too_high = decision["reason"] in ("target-too-high", "will-miss")
        return "has room, but is too slow" if too_high else "has room"
    chosen = decision["candidates"][0]
    if candidate is chosen or _GIVEN in candidate["numbers"]:
        taken = decision["accepted"] and decision["decided_at"]
        return "chosen" if taken else "would be chosen"
    likely, most = (_of(one, "kept_probability") for one in (candidate, chosen))
    if likely < most - _SAME:
        return f"could be, but keeps the target with {likely:.0%} probability, not {most:.0%}"
    if decision["reason"] == "will-miss" and (
        _of(candidate, "predicted_pace") < _of(chosen, "predicted_pace") - _SAME
    ):
        return "could be, but performs worse there"
    if _of(candidate, _OF_BEST) < _of(chosen, _OF_BEST) - _SAME:
        return "could be, but should do less there"
    needs, least = (c["numbers"].get(_NEEDED, 0.0) for c in (candidate, chosen))
    if needs > least:
        return f"could be, but takes {_value(_NEEDED, needs - least)} CPU more"
    if (candidate["score"] or 0.0) - (chosen["score"] or 0.0) <= _EQUAL:
        return "just as good; the first is taken"
    return f"could be, but {'suits its neighbors less' if least else 'is fuller'}"


def _of(candidate: Record, number: str) -> float:
    return float(candidate["numbers"].get(number, 0.0))


def _short_of(numbers: Record, decision: Record) -> str:
    needed = decision["numbers"].get("memory_needed_bytes", 0.0)
    if needed > numbers.get("memory_free_bytes", needed):
        return f"no room now: {fmt.size(needed)} memory needed"
    cpu = numbers.get(_NEEDED, decision["numbers"].get(_NEEDED, 0.0))
    short = cpu - numbers.get("cpu_free_millicpus", cpu)
    return f"no room now: {_value(_NEEDED, short)} CPU short" if short > 0 else "no room now"


def _label(key: str) -> str:
    for unit in _UNITS:
        key = key.removesuffix(unit)
    return key.replace("_", " ")


def _value(key: str, value: float) -> str:
    form = next((form for unit, form in _UNITS.items() if key.endswith(unit)), fmt.number)
    return form(value)
