"""What the store's tests share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.store import OpenStore
from wharfinger.store.sqlite import SqliteStore


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[OpenStore]:
    """Opens the store in a directory of its own, without a reserve; closes what is left open."""
    opened: list[SqliteStore] = []

    def open_one(**options: Any) -> SqliteStore:
        settings = {"free_disk_floor_bytes": 0, "reserve_bytes": 0, **options}
        store = SqliteStore.open(tmp_path / "state", **settings)
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()
