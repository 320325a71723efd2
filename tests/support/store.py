"""What the store's tests share."""

from collections.abc import Callable

from wharfinger.store.base import NewEntry
from wharfinger.store.sqlite import SqliteStore

OpenStore = Callable[..., SqliteStore]


def entries(count: int, size_bytes: int = 10) -> list[NewEntry]:
    """Entries that differ."""
    return [NewEntry(1_000.5 + n, "Kind", bytes([n % 256]) * size_bytes) for n in range(count)]
