"""What durability costs: commits and entries per second of the store.

Beside it, in the same run and on the same disk: the floor, a bare write and fdatasync of the
same bytes, and the peer, SQLite with synchronous=FULL and neither chain, head nor floor. The
figures to look at are the ratios; the absolute ones are this disk's.

    python -m benchmarks.store [--commits N] [--repeats N] [--directory DIR]
"""

import argparse
import json
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from wharfinger.store.base import NewEntry
from wharfinger.store.sqlite import SqliteStore

PAYLOAD = b'{"name":"workload-0001","key":"workload-0001.1.abcdef01"}' * 5
BATCHES = (1, 10, 100)

Commit = Callable[[int], None]


@contextmanager
def floor(directory: Path) -> Iterator[Commit]:
    descriptor = os.open(directory / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def commit(batch: int) -> None:
        os.write(descriptor, PAYLOAD * batch)
        os.fdatasync(descriptor)

    yield commit
    os.close(descriptor)


@contextmanager
def peer(directory: Path) -> Iterator[Commit]:
    with closing(sqlite3.connect(directory / "peer.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(
            "CREATE TABLE log (sequence INTEGER PRIMARY KEY, time REAL, kind TEXT, payload BLOB)"
        )

        def commit(batch: int) -> None:
            connection.execute("BEGIN IMMEDIATE")
            rows = [(time.time(), "WorkloadSubmitted", PAYLOAD)] * batch
            connection.executemany("INSERT INTO log VALUES (NULL, ?, ?, ?)", rows)
            connection.execute("COMMIT")

        yield commit


@contextmanager
def store(directory: Path) -> Iterator[Commit]:
    with SqliteStore.open(directory / "store", free_disk_floor_bytes=0) as opened:

        def commit(batch: int) -> None:
            opened.append([NewEntry(time.time(), "WorkloadSubmitted", PAYLOAD)] * batch)

        yield commit


def commits_per_second(commit: Commit, batch: int, commits: int) -> float:
    begin = time.perf_counter()
    for _ in range(commits):
        commit(batch)
    return commits / (time.perf_counter() - begin)


def measure(directory: Path, batch: int, commits: int, repeats: int) -> list[dict[str, object]]:
    """One batch size; the three take turns, so that a slow moment of the disk meets each."""
    rates: dict[str, list[float]] = {"floor": [], "peer": [], "store": []}
    with floor(directory) as bare, peer(directory) as plain, store(directory) as ours:
        for _ in range(repeats):
            for name, commit in (("floor", bare), ("peer", plain), ("store", ours)):
                rates[name].append(commits_per_second(commit, batch, commits))
    of_floor = [ours / bare for ours, bare in zip(rates["store"], rates["floor"], strict=True)]
    of_peer = [ours / plain for ours, plain in zip(rates["store"], rates["peer"], strict=True)]
    return [
        *(result(f"{n}_commits_batch_{batch}", r, "commits/s") for n, r in rates.items()),
        result(f"store_entries_batch_{batch}", [r * batch for r in rates["store"]], "entries/s"),
        result(f"store_to_floor_batch_{batch}", of_floor, "ratio"),
        result(f"store_to_peer_batch_{batch}", of_peer, "ratio"),
    ]


def measure_replay(directory: Path, entries: int, repeats: int) -> list[dict[str, object]]:
    """Opening checks every entry once, reading checks it again."""
    state = directory / "replay"
    with SqliteStore.open(state, free_disk_floor_bytes=0) as opened:
        for _ in range(entries // 100):
            opened.append([NewEntry(1.0, "WorkloadSubmitted", PAYLOAD)] * 100)
    opening, reading = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        with SqliteStore.open(state, free_disk_floor_bytes=0) as opened:
            opening.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            count = sum(1 for _ in opened.read())
            reading.append(count / (time.perf_counter() - begin))
    return [
        result(f"open_{entries}_entries", opening, "s"),
        result("read_verified", reading, "entries/s"),
    ]


def result(name: str, values: list[float], unit: str) -> dict[str, object]:
    return {
        "name": name,
        "measured": round(statistics.median(values), 3),
        "low": round(min(values), 3),
        "high": round(max(values), 3),
        "unit": unit,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="commits per second of the event log")
    parser.add_argument("--commits", type=int, default=200, help="commits per repeat")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--directory", type=Path, help="on the disk to measure; default: $TMPDIR")
    given = parser.parse_args()
    results: list[dict[str, object]] = []
    for batch in BATCHES:
        with tempfile.TemporaryDirectory(dir=given.directory) as directory:
            results += measure(Path(directory), batch, given.commits, given.repeats)
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        results += measure_replay(Path(directory), 20_000, given.repeats)
    report = {
        "name": "store",
        "results": results,
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    json.dump(report, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
