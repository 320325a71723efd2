"""When something is due for each of many: the first is found without looking at the others.

Queues keep by it when delays end, residency what was measured longest ago.
"""

from heapq import heappop, heappush


class Deadlines:
    """One time a name, in seconds since the epoch.

    A time that was replaced or dropped stays in the heap until it comes to its top: so every
    change costs the logarithm of their number.

    Attributes:
        heap: Empty = nothing is due.
    """

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self.heap: list[tuple[float, str]] = []

    def __contains__(self, name: str) -> bool:
        return name in self._at

    def put(self, name: str, time: float) -> None:
        """Something is due for this one then, and at no other time."""
        if self._at.get(name) != time:
            self._at[name] = time
            heappush(self.heap, (time, name))

    def drop(self, name: str) -> None:
        """Nothing is due for this one any more."""
        self._at.pop(name, None)

    def first(self) -> tuple[float, str] | None:
        """The earliest time, and whose it is; ``None`` = nothing is due."""
        heap, at = self.heap, self._at
        while heap and at.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0] if heap else None
