"""A state that a newer version wrote is refused in one line, and nothing of it is moved."""

from pathlib import Path

import pytest

from tests.support.served import Served
from tests.unit.cli.test_main import call
from wharfinger.core.state import SCHEMA
from wharfinger.store.base import NewEntry
from wharfinger.store.sqlite import SqliteStore

STARTED = b'{"nonce":"n","version":"9.1","policy":"","admission":"","engine":"","capabilities":{}}'


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Of a manager that has ended."""
    state = tmp_path / "state"
    assert Served(state).stop()[0] == 0
    return state


def refused(capsys: pytest.CaptureFixture[str], state: Path) -> str:
    before = {path.name for path in state.iterdir()} - {"manager.db-wal", "manager.db-shm"}
    status, _, errors = call(capsys, "up", "--state", str(state), "--log", "none")
    assert (status, errors.count("\n")) == (2, 1), errors
    after = {path.name for path in state.iterdir()} - {"manager.db-wal", "manager.db-shm"}
    assert after == before, "nothing is salvaged, moved or begun"
    return errors


@pytest.mark.long
def test_events_of_an_unknown_kind(state: Path, capsys: pytest.CaptureFixture[str]):
    with SqliteStore.open(state) as store:
        end = store.append(
            [
                NewEntry(1_700_000_000.0, "ManagerStarted", STARTED),
                NewEntry(1_700_000_001.0, "WorkloadTeleported", b"{}"),
            ]
        )
    errors = refused(capsys, state)
    assert (
        "events of the unknown kind 'WorkloadTeleported', as the newer version 9.1 wrote" in errors
    )
    assert "start that version, or name another directory" in errors
    with SqliteStore.open(state) as store:
        assert (store.last_sequence, store.damage) == (end, None)


@pytest.mark.long
def test_a_snapshot_of_a_newer_schema(state: Path, capsys: pytest.CaptureFixture[str]):
    with SqliteStore.open(state) as store:
        end = store.append([NewEntry(1_700_000_000.0, "ManagerStarted", STARTED)])
        store.save_snapshot(end, 1_700_000_000.0, SCHEMA + 1, b'{"version": "10.0"}')
    errors = refused(capsys, state)
    assert f"a snapshot has schema {SCHEMA + 1}, this wharfinger knows {SCHEMA}" in errors
    assert "the newer version 10.0" in errors


def test_a_state_that_can_not_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    # A directory in the lock's place: root may write to what others may not.
    (tmp_path / "lock").mkdir()
    status, _, errors = call(capsys, "up", "--state", str(tmp_path))
    assert (status, errors.count("\n")) == (2, 1)
    assert f"--state: {tmp_path / 'lock'}: Is a directory; name a directory that" in errors
