"""The event log as the API shows it: what each entry is about, in words, nothing secret.

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
from wharfinger.store.base import LogEntry, Store

REDACTED = "***"
LOOK_BACK_ENTRIES = 20_000
"""How far back events of some kinds are looked for; the log is read in the manager's loop."""
KINDS = tuple(cls.__name__ for cls in get_args(ev.Event))


def newest(
    store: Store, limit: int, kinds: Sequence[str] = (), without: Sequence[str] = ()
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
        message=_message(entry.kind, data),
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


def _message(kind: str, data: Mapping[str, Any]) -> str:
    """One short sentence, from the event's own words."""
    decision = data.get("decision")
    if isinstance(decision, dict):
        return str(decision["message"])
    match kind:
        case "WorkloadFinished":
            return _how_it_ended(data)
        case "ManagerStarted":
            return f"{data['version']}, {data['policy']}, {data['admission']}, {data['engine']}"
        case "WorkloadQueued":
            return f"in queue {data['queue']}"
        case "AllocationResized":
            return ", ".join(_placement(placement) for placement in data["placements"])
        case "ServerMeasured":
            silent = sum(bool(sample["silent"]) for sample in data["samples"])
            return f"{len(data['samples'])} measured, {silent} of them without a signal"
        case "ProfilingFinished":
            return _what_was_measured(data["measurements"])
        case "WorkloadClassified":
            return _how_it_was_classified(data["classification"])
    words = (data.get(key) for key in ("reason", "handle", "report"))
    return next((str(word) for word in words if word), "")


def _how_it_ended(data: Mapping[str, Any]) -> str:
    if data.get("signal") is not None:
        return f"{data['reason']}, signal {data['signal']}"
    return f"{data['reason']}, exit status {data['exit_code']}"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def _what_was_measured(found: Mapping[str, Any]) -> str:
    allocations = {cpu for row in found["performance"].values() for cpu in row}
    under = ", ".join(f"{cpu}m" for cpu in sorted(allocations, key=int)) or "no allocation"
    sources = ", ".join({**found["tolerated"], **found["caused"]}) or "no source of interference"
    silent = f"; not measured: {', '.join(found['silent'])}" if found["silent"] else ""
    runs = f"{_counted(found['runs'], 'run')} in {found['seconds']:.0f} s"
    return f"{runs}: performance under {under} CPU; {sources}{silent}"


def _how_it_was_classified(known: Mapping[str, Any]) -> str:
    by = f"by {known['estimator']} {known['version']}"
    if not known["measured"]:
        return f"{by}, by its like: nothing of its own was measured"
    return f"{by}, from {known['measured']} measured entries"


def _placement(placement: Mapping[str, Any]) -> str:
    allocation = placement["allocation"]
    mebibytes = allocation["memory_bytes"] // 2**20
    return f"{placement['server']}: {allocation['cpu_millicpus']}m CPU, {mebibytes} MiB"
