"""What the compiled event loop does, in plain Python; the tests hold the two to each other."""

import heapq
from collections.abc import Callable
from math import inf, isfinite
from operator import index

Callback = Callable[[object], object]
PRIORITIES = range(-(2**31), 2**31)


class ReferenceLoop:
    """As ``EventLoop``; its handles are other numbers, and it compacts nothing."""

    def __init__(self) -> None:
        self._now = 0.0
        self._executed = 0
        self._heap: list[tuple[float, int, int]] = []
        self._pending: dict[int, tuple[Callback, object]] = {}
        self._sequence = 0
        self._running = False
        self._stopping = False

    @property
    def now(self) -> float:
        """Seconds."""
        return self._now

    @property
    def executed(self) -> int:
        """How many callbacks were called."""
        return self._executed

    def __len__(self) -> int:
        """How many events are pending."""
        return len(self._pending)

    def schedule(
        self, time: float, callback: Callback, argument: object = None, priority: int = 0
    ) -> int:
        """Has ``callback(argument)`` called at a time; returns the handle."""
        time += 0.0  # an integer becomes a float, and what is no number is refused
        if not isfinite(time):
            raise ValueError(f"time is {time}: it must be finite")
        if time < self._now:
            raise ValueError(f"time is {time} s: it must be {self._now} s, which is now, or later")
        if index(priority) not in PRIORITIES:
            raise ValueError(f"priority is {priority}: it must fit in 32 bits")
        if not callable(callback):
            raise TypeError(f"callback {callback!r} can't be called")
        self._sequence += 1
        heapq.heappush(self._heap, (time, priority, self._sequence))
        self._pending[self._sequence] = callback, argument
        return self._sequence

    def cancel(self, handle: int) -> bool:
        """Takes an event back; False where it is not pending."""
        return self._pending.pop(index(handle), None) is not None

    def peek(self) -> float | None:
        """The time of the next event."""
        while self._heap and self._heap[0][2] not in self._pending:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def step(self) -> bool:
        """Calls the next event; False where there is none."""
        self._begin()
        try:
            return self._call_next(inf)
        finally:
            self._running = False

    def run(self, until: float = inf) -> int:
        """Calls events up to ``until``; returns how many."""
        if not self._now <= until:
            raise ValueError(
                f"until is {until} s: it must be {self._now} s, which is now, or later"
            )
        before = self._executed
        self._begin()
        try:
            while not self._stopping and self._call_next(until):
                pass
        finally:
            self._running = False
        if isfinite(until) and not self._stopping:
            self._now = until
        return self._executed - before

    def stop(self) -> None:
        """Ends ``run`` behind this callback."""
        self._stopping = True

    def _begin(self) -> None:
        if self._running:
            raise RuntimeError("the loop is running: a callback can't run it too")
        self._running, self._stopping = True, False

    def _call_next(self, until: float) -> bool:
        time = self.peek()
        if time is None or time > until:
            return False
        callback, argument = self._pending.pop(heapq.heappop(self._heap)[2])
        self._now = time
        self._executed += 1
        callback(argument)
        return True
