"""Which records of a list are shown, and in which order: label selectors and ``--sort-by``."""

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from wharfinger.cli.jsonpath import find
from wharfinger.cli.output import Record
from wharfinger.errors import InvalidInput

Selector = Callable[[Record], bool]
_TERM = re.compile(r"(!?)([^=!,\s]+)\s*(?:(==|=|!=)\s*([^=!,]*?))?")


def phases() -> list[str]:
    """What ``--phase`` takes."""
    from wharfinger.core.lifecycle import Phase  # noqa: PLC0415 - only where it is needed

    return ["ended", "live", *(phase.value for phase in Phase)]


def phase(text: str) -> str:
    """A reader of a phase for argparse."""
    if text not in (known := phases()):
        message = f"{text!r} is no phase; give one of {', '.join(known)}"
        raise argparse.ArgumentTypeError(message)
    return text


def selector(text: str) -> Selector:
    """A reader of ``a=b,c!=d,e,!f`` for argparse: all of these must hold.

    ``e`` = there is such a label, ``!f`` = there is none; ``c!=d`` holds where there is no ``c``.

    >>> chosen, web = selector("team=web,tier!=test"), {"team": "web"}
    >>> chosen({"labels": web}), chosen({"labels": web | {"tier": "test"}})
    (True, False)
    """
    terms = [_term(part.strip(), text) for part in text.split(",")]
    return lambda record: all(term(record["labels"]) for term in terms)


def _term(part: str, text: str) -> Callable[[dict[str, str]], bool]:
    match = _TERM.fullmatch(part)
    if match is None or (match[1] and match[3]):
        mend = "write e.g. team=web, team=web,tier!=test, team or !team"
        raise argparse.ArgumentTypeError(f"{text!r} is not a selector of labels; {mend}")
    absent, key, operator, value = match.groups()
    if operator is None:
        return lambda labels: (key in labels) is not bool(absent)
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def selected(records: Iterable[Record], selectors: Sequence[Selector] | None) -> list[Record]:
    """The records of which all selectors hold."""
    return [record for record in records if all(chosen(record) for chosen in selectors or ())]


def in_order(records: list[Record], field: str | None) -> list[Record]:
    """By a field such as ``submitted_at`` or ``target.rate_per_second``; with ``-``: downwards.

    Records in which it is unknown come last. ``InvalidInput`` where there is no such field.

    >>> rows = [{"name": "a", "cpus": 1}, {"name": "b", "cpus": 2}, {"name": "c", "cpus": None}]
    >>> [row["name"] for row in in_order(rows, "-cpus")]
    ['b', 'a', 'c']
    """
    if not field or not records:
        return records
    # All at once: a field that only some have is no mistake.
    find(field.removeprefix("-"), records)
    keys = [_key(field.removeprefix("-"), record) for record in records]
    known = [at for at, key in enumerate(keys) if key is not None]
    known.sort(key=lambda at: keys[at] or (), reverse=field.startswith("-"))
    return [records[at] for at in known] + [
        r for r, key in zip(records, keys, strict=True) if key is None
    ]


def _key(path: str, record: Record) -> tuple[Any, ...] | None:
    """Numbers before words; ``None`` = unknown."""
    try:
        values = [value for value in find(path, record) if value not in (None, [], {})]
    except InvalidInput:
        return None
    if not values:
        return None
    return tuple(
        (isinstance(v, str), v if isinstance(v, int | float | str) else str(v)) for v in values
    )
