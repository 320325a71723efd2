"""Tells a state that a newer version wrote from a damaged one: it is refused, and nothing is moved.

Called by ``assembly``. Of the events themselves, the codec says which it does not know.
"""

import json

from wharfinger.core.state import SCHEMA
from wharfinger.errors import NewerState
from wharfinger.store.base import Store


def refuse_newer_snapshot(store: Store) -> None:
    """Raise ``NewerState`` where the newest snapshot is of a schema that is not known yet."""
    snapshot = store.latest_snapshot()
    if snapshot is not None and snapshot.schema > SCHEMA:
        raise NewerState(f"a snapshot has schema {snapshot.schema}, this wharfinger knows {SCHEMA}")


def newest_version(store: Store) -> str:
    """The version that led the log last, in words."""
    version = ""
    snapshot = store.latest_snapshot()
    if snapshot is not None:
        version = json.loads(snapshot.payload).get("version", "")
    for entry in store.read(after=0 if snapshot is None else snapshot.sequence):
        if entry.kind == "ManagerStarted":
            version = json.loads(entry.payload)["version"]
    return f"the newer version {version}" if version else "a newer version"
