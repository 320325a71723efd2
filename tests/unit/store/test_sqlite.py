import sqlite3
import stat
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.store import OpenStore, entries
from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.store import schema
from wharfinger.store.base import LogEntry, NewEntry, Snapshot
from wharfinger.store.sqlite import SqliteStore


def filled(store: SqliteStore, count: int) -> SqliteStore:
    store.append(entries(count))
    return store


def test_it_is_a_store(open_store: OpenStore) -> None:
    store: SqliteStore = open_store()
    assert store.last_sequence == 0
    assert store.first_sequence == 1
    assert store.damage is None
    assert store.latest_snapshot() is None
    assert list(store.read()) == []


def test_what_was_appended_is_read_again_after_reopening(open_store: OpenStore) -> None:
    store = open_store()
    assert store.append([NewEntry(1.25, "Käse", b"\x00\xff")]) == 1
    assert store.append([NewEntry(-0.0, "b", b""), NewEntry(1e300, "", b"c" * 100_000)]) == 3
    store.close()
    expected = [
        LogEntry(1, 1.25, "Käse", b"\x00\xff"),
        LogEntry(2, 0.0, "b", b""),
        LogEntry(3, 1e300, "", b"c" * 100_000),
    ]
    again = open_store()
    assert list(again.read()) == expected
    assert again.damage is None


def test_appending_nothing_changes_nothing(open_store: OpenStore) -> None:
    store = filled(open_store(), 3)
    assert store.append([]) == 3


@pytest.mark.parametrize("time", [float("nan"), float("inf"), float("-inf")])
def test_a_time_that_is_none_is_refused_with_the_whole_batch(
    open_store: OpenStore, time: float
) -> None:
    store = filled(open_store(), 2)
    with pytest.raises(ValueError, match="not a time"):
        store.append([NewEntry(1.0, "good", b""), NewEntry(time, "bad", b"")])
    assert store.last_sequence == 2
    assert len(list(store.read())) == 2


def test_read_from_the_middle_and_a_limited_number(open_store: OpenStore) -> None:
    store = filled(open_store(), 1_500)
    assert [e.sequence for e in store.read(after=1_497)] == [1_498, 1_499, 1_500]
    assert [e.sequence for e in store.read(after=511, limit=3)] == [512, 513, 514]
    assert len(list(store.read(limit=1_100))) == 1_100
    assert list(store.read(after=1_500)) == list(store.read(after=9_999)) == []
    assert list(store.read(limit=0)) == []


def test_tail_gives_the_newest(open_store: OpenStore) -> None:
    store = filled(open_store(), 20)
    assert [e.sequence for e in store.tail(3)] == [18, 19, 20]
    assert len(store.tail(1_000)) == 20
    assert store.tail(0) == []


def test_appending_and_compacting_go_on_under_an_open_reader(open_store: OpenStore) -> None:
    store = filled(open_store(), 2_000)
    reader = store.read()
    assert next(reader).sequence == 1
    store.append(entries(1))
    store.save_snapshot(1_000, 1.0, 1, b"")
    store.save_snapshot(1_500, 1.0, 1, b"")
    store.compact(keep_entries=0)
    seen = [entry.sequence for entry in reader]
    assert seen[-1] == 2_001
    assert all(later > earlier for earlier, later in pairwise(seen))


def test_the_two_newest_snapshots_are_kept(open_store: OpenStore) -> None:
    store = filled(open_store(), 10)
    for at in (2, 5, 9):
        store.save_snapshot(at, 3.5, 7, b"state at %d" % at)
    assert store.latest_snapshot() == Snapshot(9, 3.5, 7, b"state at 9")
    store.close()
    assert open_store().latest_snapshot() == Snapshot(9, 3.5, 7, b"state at 9")


@pytest.mark.parametrize("sequence", [0, 4])
def test_a_snapshot_of_what_the_log_does_not_hold_is_refused(
    open_store: OpenStore, sequence: int
) -> None:
    store = filled(open_store(), 3)
    with pytest.raises(ValueError, match=f"no event {sequence} "):
        store.save_snapshot(sequence, 1.0, 1, b"")


def test_compaction_keeps_what_the_older_snapshot_needs(open_store: OpenStore) -> None:
    store = filled(open_store(), 100)
    store.save_snapshot(40, 1.0, 1, b"older")
    store.compact(keep_entries=0)
    assert store.first_sequence == 1, "one snapshot alone might be damaged"
    store.save_snapshot(90, 1.0, 1, b"newer")
    store.compact(keep_entries=70)
    assert store.first_sequence == 31
    store.compact(keep_entries=5)
    assert store.first_sequence == 41
    store.close()
    again = open_store()
    assert [e.sequence for e in again.read()] == list(range(41, 101))
    assert again.damage is None
    assert again.append(entries(1)) == 101


def test_compaction_gives_room_back_to_the_file_system(
    open_store: OpenStore, tmp_path: Path
) -> None:
    store = open_store()
    store.append(entries(500, size_bytes=8_000))
    store.save_snapshot(499, 1.0, 1, b"")
    store.save_snapshot(500, 1.0, 1, b"")
    store.close()
    database = tmp_path / "state" / "manager.db"
    before = database.stat().st_size
    store = open_store()
    store.compact(keep_entries=1)
    store.close()
    assert database.stat().st_size < before / 10


def test_files_are_closed_to_others_and_no_wal_stays(open_store: OpenStore, tmp_path: Path) -> None:
    store = filled(open_store(reserve_bytes=4_096), 3)
    state = tmp_path / "state"
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in state.iterdir()} == {0o600}
    store.close()
    assert {path.name for path in state.iterdir()} == {
        "manager.db",
        "manager.head",
        "manager.reserve",
    }


def test_the_wal_stays_small(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    largest = 0
    for _ in range(40):
        store.append(entries(50, size_bytes=8_000))
        largest = max(largest, (tmp_path / "state" / "manager.db-wal").stat().st_size)
    assert largest < 8 << 20, "16 MB were written"


@pytest.mark.slow
def test_a_second_process_is_refused_in_one_line(open_store: OpenStore, tmp_path: Path) -> None:
    filled(open_store(), 3)
    with pytest.raises(Unavailable, match="another process holds it") as refused:
        SqliteStore.open(tmp_path / "state", free_disk_floor_bytes=0, reserve_bytes=0)
    assert "\n" not in str(refused.value)


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="file"):
        SqliteStore.open(tmp_path / "file" / "state")


# --- migrations ------------------------------------------------------------------------------


def test_a_newer_schema_is_refused_in_one_line(open_store: OpenStore, tmp_path: Path) -> None:
    filled(open_store(), 3).close()
    database = tmp_path / "state" / "manager.db"
    newer = sqlite3.connect(database)
    newer.executescript("PRAGMA user_version = 7; UPDATE log_state SET schema_version = 7;")
    newer.close()
    with pytest.raises(InvalidInput, match=r"schema 7, this wharfinger knows 1: start the newer"):
        open_store()
    newer = sqlite3.connect(database)
    newer.executescript("PRAGMA user_version = 1; UPDATE log_state SET schema_version = 1;")
    newer.close()
    assert len(list(open_store().read())) == 3, "the refused file is as it was"


SECOND = ("ALTER TABLE entries ADD COLUMN note TEXT", "UPDATE entries SET note = 'migrated'")


def database_of_version_one(path: Path) -> sqlite3.Connection:
    path.touch()
    connection = schema.connect(path)
    schema.migrate(connection)
    connection.execute("INSERT INTO entries VALUES (1, 1.0, 'a', x'', x'')")
    return connection


def test_an_older_schema_is_migrated(tmp_path: Path) -> None:
    connection = database_of_version_one(tmp_path / "db")
    schema.migrate(connection, (*schema.MIGRATIONS, SECOND))
    assert schema.version(connection) == 2
    assert connection.execute("SELECT note FROM entries").fetchall() == [("migrated",)]
    assert connection.execute("SELECT schema_version FROM log_state").fetchone() == (2,)
    connection.close()


def test_a_migration_that_fails_leaves_the_old_schema(tmp_path: Path) -> None:
    connection = database_of_version_one(tmp_path / "db")
    with pytest.raises(sqlite3.OperationalError):
        schema.migrate(connection, (*schema.MIGRATIONS, SECOND, ("no SQL at all",)))
    assert schema.version(connection) == 1
    assert connection.execute("SELECT * FROM entries").fetchall() == [(1, 1.0, "a", b"", b"")]
    connection.close()


def test_a_database_that_was_only_just_made_is_opened(
    open_store: OpenStore, tmp_path: Path
) -> None:
    """As a crash between making the file and its tables leaves it."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "manager.db").touch()
    assert open_store().append(entries(1)) == 1
