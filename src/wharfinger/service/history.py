"""The event log as the API shows it: what each entry is about, nothing secret.

Called by the routes with entries of the store. The entries are shown as they were logged;
only the values of environment variables are replaced.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from wharfinger.core import events as ev
from wharfinger.errors import InvalidInput
from wharfinger.service import models
from wharfinger.service.records import timestamp
from wharfinger.store.base import LogEntry
from wharfinger.store.sqlite import SqliteStore

REDACTED = "***"
LOOK_BACK_ENTRIES = 20_000
"""How far back events of some kinds are looked for; the log is read in the manager's loop."""
KINDS = tuple(cls.__name__ for cls in get_args(ev.Event))


def newest(
    store: SqliteStore, limit: int, kinds: Sequence[str] = (), without: Sequence[str] = ()
) -> list[LogEntry]:
    """The newest entries, oldest of them first.

    Args:
        store: The log.
        limit: How many at most.
        kinds: Only these; none = all.
        without: But not these. With either, only the newest ``LOOK_BACK_ENTRIES`` are looked at.

    Raises:
        InvalidInput: There is no such kind.
    """
    for kind in (*kinds, *without):
        if kind not in KINDS:
            raise InvalidInput(f"no kind of event {kind!r}; there are {', '.join(KINDS)}")
    if not kinds and not without:
        return store.tail(limit)
    wanted = set(kinds or KINDS) - set(without)
    looked = limit
    while True:
        found = [entry for entry in store.tail(looked) if entry.kind in wanted]
        everything = looked >= min(LOOK_BACK_ENTRIES, store.last_sequence)
        if len(found) >= limit or everything:
            return found[-limit:]
        looked = min(4 * looked, LOOK_BACK_ENTRIES)


def event(entry: LogEntry, names: Mapping[str, str]) -> models.EventModel:
    """One entry.

    Args:
        entry: As the store has it.
        names: A workload's name by its uid: entries of the engine speak of starts, whose
            keys begin with the uid.
    """
    data = redacted(json.loads(entry.payload))
    return models.EventModel(
        name=_subject(data, names),
        sequence=entry.sequence,
        logged_at=timestamp(entry.time),
        kind=entry.kind,
        message=_message(data),
        data=data,
    )


def redacted(value: Any) -> Any:
    """The same with every value of a mapping called ``env`` replaced."""
    if isinstance(value, list):
        return [redacted(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: dict.fromkeys(inner, REDACTED)
        if key == "env" and isinstance(inner, dict)
        else redacted(inner)
        for key, inner in value.items()
    }


def _subject(data: Mapping[str, Any], names: Mapping[str, str]) -> str:
    for kind in ("workload", "server"):
        if isinstance(data.get(kind), dict):
            return str(data[kind]["name"])
    if "name" in data or isinstance(data.get("server"), str):
        return str(data.get("name", data.get("server")))
    key = data.get("key")
    if key is None:
        return "manager"
    return names.get(str(key).partition("-")[0], str(key))


def _message(data: Mapping[str, Any]) -> str:
    """What the event itself says to people, which most do not."""
    if isinstance(data.get("decision"), dict):
        return str(data["decision"]["message"])
    return next((str(data[key]) for key in ("reason", "handle", "report") if data.get(key)), "")
