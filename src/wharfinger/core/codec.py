"""Events and states to bytes and back, for the store. JSON, so that an operator can read it.

Fields that a newer version adds need a default, so that older logs can be read; fields
that are unknown are passed over. Anything else is a migration.
"""

from typing import Any, cast, get_args

import msgspec

from wharfinger.core import events as ev
from wharfinger.core.state import ManagerState
from wharfinger.errors import StoreDamaged

_EVENTS: dict[str, type] = {cls.__name__: cls for cls in get_args(ev.Event)}
_DECODERS: dict[str, Any] = {kind: msgspec.json.Decoder(cls) for kind, cls in _EVENTS.items()}
_STATE_DECODER: msgspec.json.Decoder[ManagerState] = msgspec.json.Decoder(ManagerState)
# The order of dictionaries is kept: in that order servers joined and workloads came.
_ENCODER = msgspec.json.Encoder()


def encode_event(event: ev.Event) -> tuple[str, bytes]:
    """The event's kind and payload."""
    return type(event).__name__, _ENCODER.encode(event)


def decode_event(kind: str, payload: bytes) -> ev.Event:
    """The event again.

    Raises:
        StoreDamaged: The kind is unknown or the payload is not of its form.
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise StoreDamaged(f"unknown kind of event {kind!r}: written by a newer version?", -1)
    try:
        return cast("ev.Event", decoder.decode(payload))
    except msgspec.MsgspecError as error:
        raise StoreDamaged(f"event of kind {kind} can't be read: {error}", -1) from error


def encode_state(state: ManagerState) -> bytes:
    """The state as a snapshot keeps it."""
    return _ENCODER.encode(state)


def decode_state(payload: bytes) -> ManagerState:
    """The state again.

    Raises:
        StoreDamaged: The payload is not of its form.
    """
    try:
        return _STATE_DECODER.decode(payload)
    except msgspec.MsgspecError as error:
        raise StoreDamaged(f"a snapshot can't be read: {error}", -1) from error
