"""One time per name; the earliest is at hand without looking at the others."""

from heapq import heappop, heappush


class Deadlines:
    """One time per name, in seconds since the epoch.

    A time that was replaced or dropped stays in the heap until it reaches the top: every change
    costs the logarithm of their number. An empty ``heap`` = there is none.
    """

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self.heap: list[tuple[float, str]] = []

    def __contains__(self, name: str) -> bool:
        return name in self._at

    def put(self, name: str, time: float) -> None:
        """Set the time of this name."""
        if self._at.get(name) != time:
            self._at[name] = time
            heappush(self.heap, (time, name))

    def drop(self, name: str) -> None:
        """Remove the time of this name."""
        self._at.pop(name, None)

    def first(self) -> tuple[float, str] | None:
        """The earliest time and its name; ``None`` = there is none."""
        heap, at = self.heap, self._at
        while heap and at.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0] if heap else None
