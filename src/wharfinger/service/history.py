"""The event log as the API shows it: as it was logged, but for the values of environment variables.

Called by the routes with entries of the store.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import Field

from wharfinger.core import events as ev
from wharfinger.core.state import ManagerState
from wharfinger.service.models import ApiModel, Timestamp
from wharfinger.store.base import LogEntry, Store

REDACTED = "***"
LOOK_BACK_ENTRIES = 20_000
"""How many events are looked at for one request; the log is read in the manager's loop."""
SERVERS_SHOWN = 5
"""Of a report of many."""
KINDS = tuple(cls.__name__ for cls in get_args(ev.Event))


class EventModel(ApiModel):
    """One entry of the log."""

    name: str = Field(description="What it is about: a workload, a server, or `manager`.")
    sequence: int
    logged_at: Timestamp = Field(validation_alias="time")
    kind: str
    message: str = Field(description="For people; may be empty.")
    data: dict[str, Any] = Field(description="The whole event; values of `env` are `***`.")


class EventFilter:
    """Chooses events of some ``kinds`` (none = all), and not ``without`` those."""

    def __init__(self, kinds: Sequence[str] = (), without: Sequence[str] = ()) -> None:
        self._wanted = set(kinds or KINDS) - set(without)
        self._all = not kinds and not without

    def newest(self, store: Store, limit: int) -> list[LogEntry]:
        """At most ``limit`` of the newest entries, oldest of them first.

        When some kinds are left out, only the newest ``LOOK_BACK_ENTRIES`` are looked at.
        """
        depth = limit
        while True:
            entries = self._chosen(store.tail(depth))
            everything = self._all or depth >= min(LOOK_BACK_ENTRIES, store.last_sequence)
            if len(entries) >= limit or everything:
                return entries[-limit:]
            depth = min(4 * depth, LOOK_BACK_ENTRIES)

    def following(self, store: Store, after: int, limit: int) -> tuple[list[LogEntry], int]:
        """At most ``limit`` entries later than ``after``, and after which to look further on.

        Looks at ``LOOK_BACK_ENTRIES`` at most.
        """
        entries: list[LogEntry] = []
        for entry in store.read(after=after, limit=LOOK_BACK_ENTRIES):
            after = entry.sequence
            entries += self._chosen([entry])
            if len(entries) == limit:
                break
        return entries, after

    def _chosen(self, entries: list[LogEntry]) -> list[LogEntry]:
        return entries if self._all else [one for one in entries if one.kind in self._wanted]


def event(entry: LogEntry, names: Mapping[str, str]) -> EventModel:
    """One entry; ``names`` by uid, with which the keys in the engine's events begin."""
    data = _redacted(json.loads(entry.payload))
    return EventModel.of(entry, name=_subject(data, names), message=_message(data), data=data)


def names_by_uid(state: ManagerState) -> dict[str, str]:
    """Names of workloads by the uids of all runs that are still known."""
    names = {str(run.uid): run.name for run in state.history}
    for name, record in state.workloads.items():
        names |= {str(run.uid): name for run in record.previous} | {str(record.uid): name}
    return names


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
    if names := [each["name"] for each in data.get("servers", ()) if isinstance(each, dict)]:
        shown = ", ".join(names[:SERVERS_SHOWN])
        return shown if len(names) <= SERVERS_SHOWN else f"{len(names)} servers: {shown}, ..."
    if data.get("ready") is not None:
        return "ready" if data["ready"] else f"not ready: {data['reason']}"
    return next((str(data[key]) for key in ("reason", "handle", "report") if data.get(key)), "")
