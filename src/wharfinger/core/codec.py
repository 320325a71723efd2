"""Events and states to JSON bytes and back, for the store.

Fields that a newer version adds need a default, so that older logs can be read; unknown fields are
ignored. Anything else is a migration, here from version 0.1.
"""

from collections.abc import Callable
from typing import Any, cast, get_args

import msgspec

from wharfinger.core import events as ev
from wharfinger.core.state import ManagerState
from wharfinger.errors import NewerState, StoreDamaged
from wharfinger.model.view import Resize

_EVENTS: dict[str, type] = {cls.__name__: cls for cls in get_args(ev.Event)}
_DECODERS: dict[str, Any] = {kind: msgspec.json.Decoder(cls) for kind, cls in _EVENTS.items()}
_STATE_DECODER: msgspec.json.Decoder[ManagerState] = msgspec.json.Decoder(ManagerState)
# The order of dictionaries is kept: in that order servers joined and workloads came.
_ENCODER = msgspec.json.Encoder()

Fields = dict[str, Any]


def encode_event(event: ev.Event) -> tuple[str, bytes]:
    """The event's kind and payload."""
    return type(event).__name__, _ENCODER.encode(event)


def decode_event(kind: str, payload: bytes) -> ev.Event:
    """The event again, whichever version wrote it.

    Raises:
        NewerState: There is no such kind yet.
        StoreDamaged: The payload does not have its form.
    """
    try:
        legacy = _LEGACY.get(kind)
        if legacy is not None and (told := legacy(msgspec.json.decode(payload))) is not None:
            kind, payload = told[0], _ENCODER.encode(told[1])
        decoder = _DECODERS.get(kind)
        if decoder is None:
            raise NewerState(f"the event log has events of the unknown kind {kind!r}")
        return cast("ev.Event", decoder.decode(payload))
    except msgspec.MsgspecError as error:
        raise StoreDamaged(f"event of kind {kind} can't be read: {error}", -1) from error


def encode_state(state: ManagerState) -> bytes:
    """The state as a snapshot keeps it."""
    return _ENCODER.encode(state)


def decode_state(payload: bytes) -> ManagerState:
    """The state again, whichever version wrote it.

    Raises:
        StoreDamaged: The payload does not have its form.
    """
    try:
        if b'"last_placed":' in payload:
            payload = _ENCODER.encode(_legacy_state(msgspec.json.decode(payload)))
        if b'"resize":true' in payload or b'"resize":false' in payload:
            payload = _ENCODER.encode(_with_resize(msgspec.json.decode(payload)))
        return _STATE_DECODER.decode(payload)
    except msgspec.MsgspecError as error:
        raise StoreDamaged(f"a snapshot can't be read: {error}", -1) from error


def _with_resize(fields: Fields) -> Fields:
    """Before there were three ways, an engine could resize, or not."""
    able = fields.get("capabilities")
    if isinstance(able, dict) and isinstance(able.get("resize"), bool):
        able["resize"] = (Resize.ANY if able["resize"] else Resize.NONE).value
    return fields


def _manager_started(fields: Fields) -> tuple[str, Fields]:
    return "ManagerStarted", _with_resize(fields)


# --- what version 0.1 has written ------------------------------------------------------------


def _renamed(kind: str, **names: str) -> Callable[[Fields], tuple[str, Fields] | None]:
    """Another kind or other names of fields, if the old ones are present."""

    def migrate(fields: Fields) -> tuple[str, Fields] | None:
        if not all(old in fields for old in names):
            return None
        return kind, {names.get(name, name): value for name, value in fields.items()}

    return migrate


def _profiling_planned(fields: Fields) -> tuple[str, Fields] | None:
    """Without a plan it meant a classification without profiling runs."""
    return ("ClassificationPlanned", fields) if fields.get("plan") is None else None


def _classification_planned(fields: Fields) -> tuple[str, Fields] | None:
    """Without a key it was about a running workload."""
    return None if "key" in fields else ("ReclassificationPlanned", fields)


_LEGACY: dict[str, Callable[[Fields], tuple[str, Fields] | None]] = {
    "ManagerStarted": _manager_started,
    "ProfilingPlanned": _profiling_planned,
    "ClassificationPlanned": _classification_planned,
    "WorkloadHeld": _renamed("WorkloadDeferred"),
    "AllocationKept": _renamed("AllocationUnchanged"),
    "WorkloadMoved": _renamed("WorkloadMigrated"),
    "WorkloadSuspended": _renamed("WorkloadSuspended", relieves="suspended_for"),
    "WorkloadResumed": _renamed("WorkloadResumed", in_vain="ineffective"),
}
_KINDS = {"moved": "migrated", "kept": "unchanged"}
"""Of adjustments."""
_RECORD_NAMES = {
    "held": "deferral",
    "company_since": "neighbors_changed_at",
    "classifying": "reclassifying",
    "relieves": "suspended_for",
    "relieved_pace": "suspended_at_performance",
    "in_vain_at": "ineffective_at",
    "moves": "migrations",
}


def _legacy_state(state: Fields) -> Fields:
    last_placed = state.pop("last_placed", "")
    if last_placed:
        state["notes"] = {"placement:round-robin": last_placed}
    counts = state.get("adjustment_counts", {})
    state["adjustment_counts"] = {_KINDS.get(k, k): count for k, count in counts.items()}
    state["workloads"] = {
        name: _legacy_record(record) for name, record in state.get("workloads", {}).items()
    }
    return state


def _legacy_record(record: Fields) -> Fields:
    record = {_RECORD_NAMES.get(name, name): value for name, value in record.items()}
    course = record.pop("course", None)
    if course is not None:
        record["tracking"] = {
            "normalized_performance": course["pace"],
            "status": course["side"],
            "since": course["since"],
            "headroom": course["could"],
            "violating": course["side"] < 0,
        }
    phase = record.get("phase")
    if phase == "profiling" and record.get("profiling") is None:
        record["phase"] = "classifying"
    elif phase == "moving":
        record["phase"] = "migrating"
    elif phase in ("running", "adjusting", "suspended"):
        record["ready_at"] = record.get("started_at")  # There were no probes.
    record["adjustments"] = [_legacy_adjustment(made) for made in record.get("adjustments", [])]
    return record


def _legacy_adjustment(made: Fields) -> Fields:
    names = {"pace_before": "performance_before", "pace_after": "performance_after"}
    made = {names.get(name, name): value for name, value in made.items()}
    return {**made, "kind": _KINDS.get(made["kind"], made["kind"])}
