"""What version 0.1 wrote can be read, and means what it meant.

``state-0.1/local`` is of a real manager with real programs that was stopped, started and killed,
``state-0.1/story`` of a history with every kind of event, ``state-0.1/log.jsonl.gz`` holds
histories as lines of JSON. They are never written anew: only version 0.1 can write them.
"""

import gzip
import json
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.recorded import Line, summary_of
from wharfinger.core.codec import decode_event
from wharfinger.core.pipeline import Core
from wharfinger.policies.registry import make_policy
from wharfinger.runtime.assembly import Options, assemble
from wharfinger.runtime.state_directory import StateDirectory
from wharfinger.store.sqlite import SqliteStore

STATE = Path(__file__).parent / "state-0.1"
EXPECTED: dict[str, Any] = json.loads((STATE / "expected.json").read_text())
KINDS = 33


def _histories() -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = defaultdict(list)
    with gzip.open(STATE / "log.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            payload = json.dumps(line["event"], separators=(",", ":")).encode()
            found[line["history"]].append((line["time"], line["kind"], payload))
    return found


HISTORIES = _histories()


@pytest.fixture(params=["local", "story"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A copy, as a manager keeps it: closed to others."""
    copy = tmp_path / request.param
    shutil.copytree(STATE / request.param, copy)
    for path in (copy, *copy.iterdir()):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return copy


def test_a_state_directory_opens_and_the_manager_is_as_it_was(directory: Path) -> None:
    runtime = assemble(StateDirectory(directory), Options())
    try:
        assert runtime.store.damage is None
        assert summary_of(runtime.manager) == EXPECTED[directory.name]
    finally:
        runtime.store.close()


def test_a_state_directory_has_a_snapshot_and_events_behind_it(directory: Path) -> None:
    store = SqliteStore.open(directory)
    try:
        snapshot = store.latest_snapshot()
        assert snapshot is not None
        assert 0 < snapshot.sequence < store.last_sequence
        whole = [decode_event(entry.kind, entry.payload) for entry in store.read()]
        assert len(whole) == store.last_sequence
    finally:
        store.close()


def test_every_kind_of_event_is_there() -> None:
    assert len({kind for log in HISTORIES.values() for _, kind, _ in log}) == KINDS


@pytest.mark.parametrize("name", HISTORIES)
def test_a_log_folds_to_what_it_meant(name: str) -> None:
    manager = Core(make_policy("least-loaded"))
    for time, kind, payload in HISTORIES[name]:
        manager.apply(time, decode_event(kind, payload))
    assert summary_of(manager) == EXPECTED[name]
