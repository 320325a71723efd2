"""The event log as the API shows it: as it was logged, but for the values of environment variables.

Called by the routes with entries of the store.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import Field

from wharfinger.core import events as ev
from wharfinger.errors import InvalidInput
from wharfinger.service.models import ApiModel, Timestamp
from wharfinger.store.base import LogEntry, Store

REDACTED = "***"
LOOK_BACK_ENTRIES = 20_000
"""How far back events of some kinds are looked for; the log is read in the manager's loop."""
KINDS = tuple(cls.__name__ for cls in get_args(ev.Event))


class EventModel(ApiModel):
    """One entry of the log."""

    name: str = Field(description="What it is about: a workload, a server, or `manager`.")
    sequence: int
    logged_at: Timestamp = Field(validation_alias="time")
    kind: str
    message: str = Field(description="For people; may be empty.")
    data: dict[str, Any] = Field(description="The whole event; values of `env` are `***`.")


def newest(
    store: Store, limit: int, kinds: Sequence[str] = (), without: Sequence[str] = ()
) -> list[LogEntry]:
    """At most ``limit`` of the newest entries, oldest of them first.

    Only those of ``kinds`` (none = all), and not ``without`` those; with either, only the newest
    ``LOOK_BACK_ENTRIES`` are looked at. ``InvalidInput`` where there is no such kind.
    """
    for kind in (*kinds, *without):
        if kind not in KINDS:
            raise InvalidInput(f"no kind of event {kind!r}; there are {', '.join(KINDS)}")
    if not kinds and not without:
        return store.tail(limit)
    wanted = set(kinds or KINDS) - set(without)
    depth = limit
    while True:
        entries = [entry for entry in store.tail(depth) if entry.kind in wanted]
        everything = depth >= min(LOOK_BACK_ENTRIES, store.last_sequence)
        if len(entries) >= limit or everything:
            return entries[-limit:]
        depth = min(4 * depth, LOOK_BACK_ENTRIES)


def event(entry: LogEntry, names: Mapping[str, str]) -> EventModel:
    """One entry; ``names`` by uid, with which the keys in the engine's events begin."""
    data = _redacted(json.loads(entry.payload))
    return EventModel.of(entry, name=_subject(data, names), message=_message(data), data=data)


def _redacted(value: Any) -> Any:
    if isinstance(value, list):
        return [_redacted(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: dict.fromkeys(inner, REDACTED)
        if key == "env" and isinstance(inner, dict)
        else _redacted(inner)
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
    if isinstance(data.get("decision"), dict):
        return str(data["decision"]["message"])
    return next((str(data[key]) for key in ("reason", "handle", "report") if data.get(key)), "")
