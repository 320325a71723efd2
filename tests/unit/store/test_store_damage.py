"""Injected damage: found, reported with what it cost, and never silently passed over."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.support.store import OpenStore
from wharfinger.errors import StoreDamaged
from wharfinger.store.base import NewEntry
from wharfinger.store.sqlite import SqliteStore


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def fill(store: SqliteStore, count: int = 200) -> SqliteStore:
    store.append([NewEntry(float(n), "Kind", b"payload %d " % n * 20) for n in range(1, count + 1)])
    return store


def crash(store: SqliteStore, state: Path) -> None:
    """Leave the files as a kill would: the WAL is not written back."""
    kept = state.with_name("kept")
    shutil.copytree(state, kept)
    store.close()
    shutil.rmtree(state)
    kept.rename(state)


def alter(state: Path, script: str) -> None:
    connection = sqlite3.connect(state / "manager.db")
    connection.executescript(script)
    connection.close()


def flip(path: Path, marker: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(marker)] ^= 0x20
    path.write_bytes(content)


def sequences(store: SqliteStore) -> list[int]:
    return [entry.sequence for entry in store.read()]


def test_a_removed_wal_is_reported_as_lost_acknowledged_events(
    open_store: OpenStore, state: Path
) -> None:
    store = open_store()
    fill(store, 5)
    store.close()
    store = open_store()
    store.append([NewEntry(9.0, "late", b"")] * 3)
    crash(store, state)
    (state / "manager.db-wal").unlink()
    store = open_store()
    assert store.damage is not None
    assert store.damage.lost_events == (6, 8)
    assert store.damage.last_whole_sequence == 5
    assert store.damage.last_whole_time == 5.0
    assert "acknowledged events 6 to 8" in str(store.damage)
    assert sequences(store) == [1, 2, 3, 4, 5]
    assert store.damage.damaged_copy is not None
    assert store.damage.damaged_copy.exists()


def test_a_truncated_wal_is_reported(open_store: OpenStore, state: Path) -> None:
    store = open_store()
    for n in range(20):
        store.append([NewEntry(float(n), "Kind", b"x" * 3_000)])
    crash(store, state)
    wal = state / "manager.db-wal"
    found = wal.read_bytes()[: wal.stat().st_size // 2]
    wal.write_bytes(found)
    store = open_store()
    assert store.damage is not None
    last = store.last_sequence
    assert 0 < last < 20
    assert store.damage.lost_events == (last + 1, 20)
    assert (state / "manager.db.damaged-1-wal").read_bytes() == found, "kept as it was found"


def test_a_crash_without_damage_is_no_damage(open_store: OpenStore, state: Path) -> None:
    crash(fill(open_store()), state)
    store = open_store()
    assert store.damage is None
    assert store.last_sequence == 200


def test_a_flipped_byte_ends_the_log_at_the_last_whole_event(
    open_store: OpenStore, state: Path
) -> None:
    fill(open_store()).close()
    flip(state / "manager.db", b"payload 150 ")
    damaged = (state / "manager.db").read_bytes()
    store = open_store()
    assert store.damage is not None
    assert store.damage.last_whole_sequence == 149
    assert store.damage.lost_events == (150, 200)
    assert sequences(store) == list(range(1, 150))
    assert (state / "manager.db.damaged-1").read_bytes() == damaged
    assert store.append([NewEntry(1.0, "on", b"it goes")]) == 150


def test_damage_before_a_snapshot_costs_history_only(open_store: OpenStore, state: Path) -> None:
    store = fill(open_store())
    store.save_snapshot(160, 1.0, 1, b"state")
    store.close()
    flip(state / "manager.db", b"payload 150 ")
    store = open_store()
    assert store.damage is not None
    assert store.damage.lost_events is None
    assert store.damage.lost_history == (1, 150)
    snapshot = store.latest_snapshot()
    assert snapshot is not None
    assert snapshot.payload == b"state"
    assert sequences(store) == list(range(151, 201))


@pytest.mark.parametrize(
    ("script", "last"),
    [
        ("DELETE FROM entries WHERE sequence = 77", 76),
        (
            """UPDATE entries SET sequence = -1 WHERE sequence = 50;
            UPDATE entries SET sequence = 50 WHERE sequence = 60;
            UPDATE entries SET sequence = 60 WHERE sequence = -1""",
            49,
        ),
        ("DELETE FROM entries WHERE sequence > 180", 180),
        ("UPDATE entries SET time = time + 1 WHERE sequence = 33", 32),
        ("UPDATE entries SET kind = 'Other' WHERE sequence = 33", 32),
        ("UPDATE entries SET hash = zeroblob(16) WHERE sequence = 33", 32),
    ],
    ids=["deleted", "swapped", "tail", "time", "kind", "hash"],
)
def test_altered_rows_are_found(open_store: OpenStore, state: Path, script: str, last: int) -> None:
    fill(open_store()).close()
    alter(state, script)
    store = open_store()
    assert store.damage is not None
    assert store.damage.last_whole_sequence == last
    assert store.damage.lost_events == (last + 1, 200)
    assert sequences(store) == list(range(1, last + 1))


def test_deleted_rows_at_the_beginning_need_a_snapshot(open_store: OpenStore, state: Path) -> None:
    store = fill(open_store())
    store.save_snapshot(100, 1.0, 1, b"state")
    store.close()
    alter(state, "DELETE FROM entries WHERE sequence <= 20")
    store = open_store()
    assert store.damage is not None
    assert store.damage.lost_events is None
    assert store.damage.lost_history is not None
    assert store.last_sequence == 200


def test_a_damaged_snapshot_falls_back_to_the_one_before(
    open_store: OpenStore, state: Path
) -> None:
    store = fill(open_store())
    store.save_snapshot(100, 1.0, 1, b"the older state")
    store.save_snapshot(200, 1.0, 1, b"the newer state")
    store.compact(keep_entries=10)
    store.close()
    flip(state / "manager.db", b"the newer state")
    store = open_store()
    assert store.damage is not None
    assert "the snapshot at event 200 is not what was written" in str(store.damage)
    assert store.damage.lost_events is None
    snapshot = store.latest_snapshot()
    assert snapshot is not None
    assert snapshot.payload == b"the older state"
    assert sequences(store) == list(range(101, 201))


def test_a_snapshot_outlives_the_log_behind_it(open_store: OpenStore, state: Path) -> None:
    store = fill(open_store())
    store.save_snapshot(200, 1.0, 1, b"state")
    store.close()
    alter(state, "DELETE FROM entries")
    store = open_store()
    assert store.damage is not None
    assert store.damage.lost_events is None
    assert store.last_sequence == 200
    assert store.append([NewEntry(1.0, "on", b"")]) == 201
    assert store.latest_snapshot() is not None


def test_a_damaged_first_page_costs_nothing(open_store: OpenStore, state: Path) -> None:
    store = fill(open_store())
    store.save_snapshot(200, 1.0, 1, b"state")
    store.close()
    database = state / "manager.db"
    database.write_bytes(bytes(4_096) + database.read_bytes()[4_096:])
    store = open_store()
    assert store.damage is not None
    assert store.damage.lost_events is None
    assert sequences(store) == list(range(1, 201))


@pytest.mark.parametrize("pages", [6, 9, 12])
def test_a_truncated_main_file_gives_what_is_left(
    open_store: OpenStore, state: Path, pages: int
) -> None:
    fill(open_store()).close()
    database = state / "manager.db"
    database.write_bytes(database.read_bytes()[: pages * 4_096])
    store = open_store()
    assert store.damage is not None
    last = store.last_sequence
    assert 0 < last < 200
    assert store.damage.lost_events == (last + 1, 200)
    assert sequences(store) == list(range(1, last + 1))


@pytest.mark.parametrize("damage", ["removed", "emptied", "overwritten"])
def test_where_nothing_can_be_saved_it_starts_only_when_told(
    open_store: OpenStore, state: Path, damage: str
) -> None:
    fill(open_store()).close()
    database = state / "manager.db"
    match damage:
        case "removed":
            database.unlink()
        case "emptied":
            database.write_bytes(b"")
        case _:
            database.write_bytes(b"\xaa" * 40_000)
    before = {path.name: path.read_bytes() for path in state.iterdir()}
    with pytest.raises(StoreDamaged, match="nothing of it can be saved") as refused:
        open_store()
    assert "\n" not in str(refused.value)
    for name, content in before.items():
        assert (state / name).read_bytes() == content, "a refusal changes nothing"
    assert not list(state.glob("manager.db.*"))
    store = open_store(accept_loss=True)
    assert store.damage is not None
    assert store.damage.lost_events == (1, 200)
    assert store.append([NewEntry(1.0, "anew", b"")]) == 1


def test_the_report_is_given_until_something_is_appended(
    open_store: OpenStore, state: Path
) -> None:
    fill(open_store()).close()
    alter(state, "DELETE FROM entries WHERE sequence > 180")
    store = open_store()
    told = store.damage
    store.close()
    store = open_store()
    assert store.damage == told
    store.append([NewEntry(1.0, "on", b"")])
    store.close()
    assert open_store().damage is None


def test_damaged_copies_are_never_overwritten(open_store: OpenStore, state: Path) -> None:
    for round_number in (1, 2, 3):
        fill(open_store(), 10).close()
        alter(state, "DELETE FROM entries WHERE sequence = (SELECT max(sequence) FROM entries)")
        store = open_store()
        assert store.damage is not None
        assert store.damage.damaged_copy == state / f"manager.db.damaged-{round_number}"
        store.append([NewEntry(1.0, "on", b"")])
        store.close()
    copies = [state / f"manager.db.damaged-{n}" for n in (1, 2, 3)]
    assert len({copy.read_bytes() for copy in copies}) == 3


@pytest.mark.parametrize("content", [None, b"", b"nonsense", b"\xff" * 64])
def test_a_lost_head_is_told_and_loses_nothing(
    open_store: OpenStore, state: Path, content: bytes | None
) -> None:
    fill(open_store()).close()
    head = state / "manager.head"
    head.unlink() if content is None else head.write_bytes(content)
    store = open_store()
    assert "manager.head" in str(store.damage)
    assert store.last_sequence == 200
    store.close()
    assert open_store().damage is None


def test_a_head_that_lags_is_no_damage(open_store: OpenStore, state: Path) -> None:
    store = fill(open_store())
    head = (state / "manager.head").read_bytes()
    fill(store)
    store.close()
    (state / "manager.head").write_bytes(head)
    store = open_store()
    assert store.damage is None
    assert store.last_sequence == 400


@pytest.mark.parametrize("step", ["wal moved", "database moved"])
def test_a_replacement_that_was_cut_short_is_finished(
    open_store: OpenStore, state: Path, step: str
) -> None:
    store = fill(open_store(), 20)
    crash(store, state)
    flip(state / "manager.db-wal", b"payload 15 ")
    damaged = {name: (state / name).read_bytes() for name in ("manager.db", "manager.db-wal")}
    head = (state / "manager.head").read_bytes()
    store = open_store(accept_loss=True)
    told = store.damage
    store.close()
    # The same, as it would lie there after a crash between two renames.
    (state / "manager.db").rename(state / "manager.db.salvaged-1")
    (state / "manager.head").write_bytes(head)
    if step == "wal moved":
        (state / "manager.db.damaged-1").rename(state / "manager.db")
    store = open_store()
    assert store.damage == told
    assert (state / "manager.db.damaged-1").read_bytes() == damaged["manager.db"]
    assert (state / "manager.db.damaged-1-wal").read_bytes() == damaged["manager.db-wal"]
    assert not (state / "manager.db.damaged-2").exists()


def test_reading_stops_at_damage_done_while_the_store_is_open(open_store: OpenStore) -> None:
    store = fill(open_store())
    # Through the store's own connection: nobody else gets at the open file.
    store._database.connection.execute("UPDATE entries SET payload = x'00' WHERE sequence = 120")
    seen: list[int] = []
    with pytest.raises(StoreDamaged, match="event 120 is not what was written") as stopped:
        seen.extend(entry.sequence for entry in store.read())
    assert seen == list(range(1, 120))
    assert stopped.value.last_whole_sequence == 119


def test_a_snapshot_that_is_damaged_while_the_store_is_open_is_noted(
    open_store: OpenStore,
) -> None:
    store = fill(open_store())
    store.save_snapshot(100, 1.0, 1, b"older")
    store.save_snapshot(200, 1.0, 1, b"newer")
    store._database.connection.execute("UPDATE snapshots SET payload = x'00' WHERE sequence = 200")
    snapshot = store.latest_snapshot()
    assert snapshot is not None
    assert snapshot.sequence == 100
    assert "a snapshot is not what was written" in str(store.damage)


def test_a_flipped_byte_in_the_wal_costs_only_what_it_hit(
    open_store: OpenStore, state: Path
) -> None:
    """SQLite alone would drop everything behind it."""
    store = open_store()
    for n in range(1, 101):
        store.append([NewEntry(float(n), "Kind", b"payload %d " % n * 10)])
    crash(store, state)
    flip(state / "manager.db-wal", b"payload 3 ")
    store = open_store()
    assert store.damage is not None
    assert store.damage.lost_events is None
    assert sequences(store) == list(range(1, 101))


def test_a_damaged_definition_is_found_before_it_is_used(
    open_store: OpenStore, state: Path
) -> None:
    """A flipped letter in a column's name leaves every page whole."""
    fill(open_store(), 5).close()
    flip_to = (b"chain_hash BLOB", b"chain_hbsh BLOB")
    database = state / "manager.db"
    content = database.read_bytes()
    assert content.count(flip_to[0]) == 1
    database.write_bytes(content.replace(*flip_to))
    store = open_store()
    assert "definitions" in str(store.damage)
    assert store.latest_snapshot() is None
    assert sequences(store) == [1, 2, 3, 4, 5]
