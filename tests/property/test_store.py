"""The store against a plain list, and against random damage."""

import os
import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import given, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.store import entries
from wharfinger.errors import StoreDamaged
from wharfinger.store.base import LogEntry, NewEntry, Snapshot
from wharfinger.store.sqlite import SqliteStore

# What is asked here does not hang on the disk, and memory is quicker to sync.
FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

new_entries = st.builds(
    NewEntry,
    time=st.floats(allow_nan=False, allow_infinity=False),
    kind=st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    payload=st.binary(max_size=200) | st.binary(min_size=5_000, max_size=5_100),
)


def open_store(directory: Path, *, accept_loss: bool = False) -> SqliteStore:
    return SqliteStore.open(
        directory, free_disk_floor_bytes=0, reserve_bytes=0, accept_loss=accept_loss
    )


class StoreIsAList(RuleBasedStateMachine):
    """Any interleaving of what a runtime does, compared with a list."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(dir=FAST))
        self.store = open_store(self.directory)
        self.log: list[LogEntry] = []
        self.dropped = 0
        self.snapshots: list[Snapshot] = []

    @rule(batch=st.lists(new_entries, max_size=8), urgent=st.booleans())
    def append(self, batch: list[NewEntry], urgent: bool) -> None:
        for new in batch:
            self.log.append(LogEntry(len(self.log) + 1, new.time, new.kind, new.payload))
        assert self.store.append(batch, urgent=urgent) == len(self.log)

    @precondition(lambda self: len(self.log) > self.dropped)
    @rule(data=st.data(), payload=st.binary(max_size=20_000))
    def save_snapshot(self, data: st.DataObject, payload: bytes) -> None:
        newest = max((s.sequence for s in self.snapshots), default=self.dropped)
        at = data.draw(st.integers(max(newest, 1), len(self.log)))
        self.store.save_snapshot(at, 5.0, 3, payload)
        self.snapshots = [s for s in self.snapshots if s.sequence != at]
        self.snapshots = [*self.snapshots, Snapshot(at, 5.0, 3, payload)][-2:]

    @rule(keep=st.integers(0, 40))
    def compact(self, keep: int) -> None:
        self.store.compact(keep)
        if len(self.snapshots) == 2:
            older = self.snapshots[0].sequence
            self.dropped = max(self.dropped, min(older, len(self.log) - keep))

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.directory)

    @rule()
    def crash(self) -> None:
        copy = Path(tempfile.mkdtemp(dir=FAST))
        shutil.copytree(self.directory, copy, dirs_exist_ok=True)
        self.store.close()
        shutil.rmtree(self.directory)
        self.directory = copy
        self.store = open_store(copy)

    @rule(after=st.integers(0, 60), limit=st.none() | st.integers(0, 60))
    def read_a_part(self, after: int, limit: int | None) -> None:
        expected = [entry for entry in self.log[self.dropped :] if entry.sequence > after]
        assert list(self.store.read(after, limit)) == expected[:limit]

    @invariant()
    def is_the_list(self) -> None:
        assert list(self.store.read()) == self.log[self.dropped :]
        assert self.store.first_sequence == self.dropped + 1
        assert self.store.last_sequence == len(self.log)
        assert self.store.latest_snapshot() == (self.snapshots or [None])[-1]
        assert self.store.damage is None

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.directory)


TestStoreIsAList = StoreIsAList.TestCase


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, int, bool]:
    """How many entries, how many snapshots, and whether the WAL was written back."""
    return draw(st.integers(1, 300)), draw(st.integers(0, 2)), draw(st.booleans())


def write_history(
    directory: Path, count: int, snapshots: int, closed: bool
) -> tuple[list[LogEntry], int]:
    """Everything that was ever appended, and how much of it was dropped by compaction."""
    work = directory / "work"
    store = open_store(work)
    new = entries(count, size_bytes=60)
    for at in range(0, count, 11):
        store.append(new[at : at + 11])
    log = list(store.read())
    for number in range(1, snapshots + 1):
        store.save_snapshot(max(1, count * number // 3), 1.0, 1, b"state" * 2_000)
    store.compact(keep_entries=10)
    dropped = store.first_sequence - 1
    if closed:
        store.close()
    shutil.copytree(work, directory / "state")
    store.close()
    return log, dropped


@given(history=histories(), seed=st.integers(0, 2**32), flips=st.integers(1, 6))
def test_flipped_bytes_never_yield_another_log_and_never_lose_silently(
    history: tuple[int, int, bool], seed: int, flips: int
) -> None:
    count, snapshots, closed = history
    with tempfile.TemporaryDirectory(dir=FAST) as temporary:
        log, dropped = write_history(Path(temporary), count, snapshots, closed)
        state = Path(temporary) / "state"
        flip_bytes(state, random.Random(seed), flips)
        check_honest(state, log, dropped)


@given(history=histories(), seed=st.integers(0, 2**32))
def test_a_cut_off_file_never_loses_silently(history: tuple[int, int, bool], seed: int) -> None:
    count, snapshots, closed = history
    with tempfile.TemporaryDirectory(dir=FAST) as temporary:
        log, dropped = write_history(Path(temporary), count, snapshots, closed)
        state = Path(temporary) / "state"
        chance = random.Random(seed)
        victim = chance.choice(written_files(state))
        victim.write_bytes(victim.read_bytes()[: chance.randrange(victim.stat().st_size)])
        check_honest(state, log, dropped)


def written_files(state: Path) -> list[Path]:
    files = (state / "manager.db", state / "manager.db-wal")
    return [path for path in files if path.exists() and path.stat().st_size]


def flip_bytes(state: Path, chance: random.Random, flips: int) -> None:
    for _ in range(flips):
        victim = chance.choice(written_files(state))
        content = bytearray(victim.read_bytes())
        content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
        victim.write_bytes(content)


def check_honest(state: Path, log: list[LogEntry], dropped: int) -> None:
    """Whatever was done to the files: nothing foreign is read, and no loss goes untold."""
    try:
        store = open_store(state)
    except StoreDamaged as refused:
        note(f"refused: {refused}")
        return
    with store:
        note(f"damage: {store.damage}")
        found = list(store.read())
        written = {entry.sequence: entry for entry in log}
        for entry in found:
            assert written[entry.sequence] == entry
        snapshot = store.latest_snapshot()
        assert snapshot is None or snapshot.payload == b"state" * 2_000
        assert store.first_sequence == 1 or snapshot is not None
        if store.last_sequence < log[-1].sequence:
            assert store.damage is not None
            lost = (store.last_sequence + 1, log[-1].sequence)
            assert store.damage.lost_events == lost
        if store.first_sequence > dropped + 1:
            assert store.damage is not None
            assert store.damage.lost_history is not None
        assert store.append(entries(1)) == store.last_sequence
    with open_store(state) as again:
        assert again.damage is None
