"""The hash chain: what makes a log tell whether it is what was written.

Each entry's hash covers the one before it, so that a changed, missing, moved or inserted
entry breaks the chain. It guards against damage, not against an attacker who may write the
file and can compute BLAKE2b as well as we can.
"""

import struct
from dataclasses import dataclass
from hashlib import blake2b

from wharfinger.store.base import LogEntry, Snapshot

HASH_BYTES = 16
_ENTRY = struct.Struct("<QdI")
_SNAPSHOT = struct.Struct("<QdI")


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the chain: the entry of this sequence, or the beginning, has this hash."""

    sequence: int
    hash: bytes


GENESIS = Position(0, bytes(HASH_BYTES))


def link(previous: bytes, entry: LogEntry) -> bytes:
    """The entry's hash, given that of the entry before it."""
    kind = entry.kind.encode("utf-8", "surrogateescape")
    fixed = _ENTRY.pack(entry.sequence, entry.time, len(kind))
    covered = b"".join((previous, fixed, kind, entry.payload))
    return blake2b(covered, digest_size=HASH_BYTES, person=b"wharfinger-log").digest()


def seal(snapshot: Snapshot, chain_hash: bytes) -> bytes:
    """The snapshot's own hash; ``chain_hash`` is that of the entry it was taken at."""
    digest = blake2b(chain_hash, digest_size=HASH_BYTES, person=b"wharfinger-snap")
    digest.update(_SNAPSHOT.pack(snapshot.sequence, snapshot.time, snapshot.schema))
    digest.update(snapshot.payload)
    return digest.digest()
