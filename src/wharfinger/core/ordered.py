"""A sorted list whose head is cheap to remove: queues, and ended workloads."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Generic, TypeVar

OrderedEntry = TypeVar("OrderedEntry", bound=tuple[Any, ...])

LEAST_REMOVED = 32
"""So many that have gone are taken out together, and as many as are left."""


class Ordered(Generic[OrderedEntry]):
    """Entries in ascending order, each at most once.

    Mostly the first is removed and a new one is the last: neither moves the others.

    >>> line = Ordered([(2, "b"), (1, "a")])
    >>> line.add((3, "c"))
    >>> line.remove((1, "a")), list(line), line[0], line.before((3, "c"))
    (True, [(2, 'b'), (3, 'c')], (2, 'b'), 1)
    """

    def __init__(self, entries: Iterable[OrderedEntry] = ()) -> None:
        self._entries = sorted(entries)
        self._gone = 0

    def __len__(self) -> int:
        return len(self._entries) - self._gone

    def __getitem__(self, at: int) -> OrderedEntry:
        return self._entries[at + self._gone if at >= 0 else at]

    def __iter__(self) -> Iterator[OrderedEntry]:
        return islice(self._entries, self._gone, None)

    def __contains__(self, entry: OrderedEntry) -> bool:
        return self._find(entry) >= 0

    def before(self, entry: OrderedEntry) -> int:
        """How many come before this one, whether it is present or not."""
        entries, gone = self._entries, self._gone
        if entries and entries[-1] < entry:
            return len(entries) - gone
        return bisect_left(entries, entry, gone) - gone

    def add(self, entry: OrderedEntry) -> None:
        """Enter one that is not present."""
        insort(self._entries, entry, self._gone)

    def remove(self, entry: OrderedEntry) -> bool:
        """Remove an entry; whether it was present."""
        at = self._find(entry)
        if at > self._gone:
            del self._entries[at]
        elif at >= 0:
            self._gone += 1
            left = len(self._entries) - self._gone
            if not left or self._gone > max(LEAST_REMOVED, left):
                del self._entries[: self._gone]
                self._gone = 0
        return at >= 0

    def _find(self, entry: OrderedEntry) -> int:
        at = bisect_left(self._entries, entry, self._gone)
        return at if at < len(self._entries) and self._entries[at] == entry else -1
