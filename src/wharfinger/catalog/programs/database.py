"""An SQLite database: inserts with a sync each (I/O bound), or queries in memory (CPU bound).

The table is emptied after each 20,000 rows, so that the file stays small however long it runs.
"""

import sqlite3
import sys
from pathlib import Path

from wharfinger.catalog.programs.steps import Step, run_in_folder

TRANSACTIONS = 30
ROWS = 20
ROWS_KEPT = 20_000
READ_ROWS = 80_000


def inserts(folder: Path) -> Step:
    """Transactions of a few rows, each synced to disk before the next."""
    database = sqlite3.connect(folder / "items.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = DELETE")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, value REAL)")
    database.execute("CREATE INDEX item_name ON item (name)")

    def step(number: int) -> None:
        for transaction in range(TRANSACTIONS):
            first = (number * TRANSACTIONS + transaction) * ROWS
            rows = [(f"item {row * 7919 % 10007}", row / 3) for row in range(first, first + ROWS)]
            with database:
                database.execute("BEGIN")
                if first % ROWS_KEPT == 0:
                    database.execute("DELETE FROM item")
                database.executemany("INSERT INTO item (name, value) VALUES (?, ?)", rows)

    return step


def queries(_folder: Path) -> Step:
    """Grouping and ordering of a table that lies in memory."""
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.execute("CREATE TABLE sale (customer INTEGER, amount REAL)")
    database.executemany(
        "INSERT INTO sale VALUES (?, ?)", ((row % 997, row / 7) for row in range(READ_ROWS))
    )
    query = (
        "SELECT customer, count(*), sum(amount), max(amount) FROM sale "
        "WHERE amount > ? GROUP BY customer ORDER BY sum(amount) DESC LIMIT 20"
    )
    return lambda number: database.execute(query, (number % 100,)).fetchall()


if __name__ == "__main__":
    kinds = {"insert": inserts, "query": queries}
    sys.exit(run_in_folder("database", "Use an SQLite database.", "work", kinds))
