"""The numbers of one reader, smoothed, and why it says nothing."""

from collections.abc import Callable
from math import inf

from wharfinger.model.performance import Quantity, Reading
from wharfinger.model.workload import NAMED_NUMBERS
from wharfinger.monitor.patterns import NUMBER
from wharfinger.monitor.smoothing import Counter, Level
from wharfinger.monitor.spec import WatchSpec

LINES, HTTP, COMMAND = "progress lines", "HTTP endpoint", "command"

Hear = Callable[[str, Quantity, float, float, bool], None]
"""Gets each number as it was read: source, quantity, time, number, whether it counts work done."""

BUFFERED = "if it buffers its output, run it under stdbuf -oL"
"""Follows why nothing came from lines, where they come in lumps or a busy program prints none."""

_QUANTITIES = {
    "rate": Quantity.RATE,
    "throughput": Quantity.THROUGHPUT,
    "offered": Quantity.OFFERED,
    "latency": Quantity.LATENCY,
}
_LEVELS: dict[Quantity, Callable[[], Level]] = {
    Quantity.LATENCY: Level.of_latency,
    Quantity.OFFERED: Level.of_offered,
}


class ReaderError(Exception):
    """A reader gave no number; the message says why."""


class ReadingSource:
    """What one reader has said, smoothed; ``trouble`` is why it reads nothing now.

    ``has_lines``: it has read lines, whether or not they match. ``tells_offered``: it has said
    what load is offered, or tried to.
    """

    def __init__(self, name: str, spec: WatchSpec, hear: Hear | None = None) -> None:
        self.name = name
        self._hear = hear
        self.levels: dict[Quantity, Level] = {}
        self.done = Counter()
        self.trouble = ""
        self.has_lines = False
        self.tells_offered = False
        self._heard_at: float | None = None
        self._spec = spec

    def forget(self) -> None:
        """Begin anew: what it said is no performance of now."""
        self.levels, self.done, self.trouble, self.has_lines = {}, Counter(), "", False
        self._heard_at = None

    @property
    def said_at(self) -> float | None:
        """When it gave its newest number, also one that can't be; ``None`` = it gave none."""
        times = [level.seen_at for level in self.levels.values()]
        counted = self.done.last[0] if self.done.last else None
        return max((at for at in (*times, counted, self._heard_at) if at is not None), default=None)

    def observe(self, now: float, numbers: dict[str, float], *, is_counter: bool) -> None:
        """Take in numbers by the names of their groups."""
        if numbers:
            self.trouble, self._heard_at = "", now
        for name, value in numbers.items():
            plain = ("done" if is_counter else "", 1.0)
            self.tells_offered |= name == "offered"
            word, scale = plain if name == NUMBER else NAMED_NUMBERS[name]
            if word == "done" and value < 0:
                self.trouble = f"{self.name}: {value:g} is no work done so far; {self._mend}"
            elif word == "offered" and not 0 <= value < inf:
                self.trouble = f"{self.name}: {value:g} is no load; name what clients send offered"
            elif word == "done":
                self.done.observe(now, value)
                self.levels[self._counted] = self.done.rate
                self._tell(self._counted, now, value, counts=True)
            else:
                self.observe_level(_QUANTITIES.get(word, self._spec.main), now, value * scale)

    def observe_level(self, quantity: Quantity, now: float, value: float) -> None:
        """Take in a number that is a performance."""
        if quantity not in self.levels:
            self.levels[quantity] = _LEVELS.get(quantity, Level)()
        self.levels[quantity].observe(now, value)
        self._tell(quantity, now, value, counts=False)

    def _tell(self, quantity: Quantity, now: float, value: float, *, counts: bool) -> None:
        if self._hear is not None:
            self._hear(self.name, quantity, now, value, counts)

    @property
    def has_value(self) -> bool:
        """Whether it has said anything that is a performance."""
        return any(level.seen_at is not None for level in self.levels.values())

    @property
    def _counted(self) -> Quantity:
        """The quantity of a counter's growth: for a service its throughput."""
        main = self._spec.main
        return Quantity.THROUGHPUT if main is Quantity.LATENCY else main

    @property
    def _mend(self) -> str:
        field = "commandKind" if self.name == COMMAND else "kind"
        return f"if it is a performance, write {field}: gauge, or name it rate"

    def readings(self, now: float, *, smoothed: bool = True) -> dict[Quantity, Reading]:
        """What it says now, without what is stale."""
        readings = {
            quantity: Reading(level.value if smoothed else level.newest, self.name)
            for quantity, level in self.levels.items()
            if level.is_fresh(now)
        }
        total, rate = self._spec.total, readings.get(self._counted)
        if total is not None and self.done.last and rate and rate.value > 0:
            told_at, done = self.done.last
            left_seconds = max(0.0, total - done) / rate.value - (now - told_at)
            readings[Quantity.REMAINING] = Reading(max(0.0, left_seconds), self.name)
        return readings

    def why_silent(self, now: float, quantity: Quantity) -> str:
        """Why it does not say a quantity."""
        if self.trouble:
            return self.trouble
        if quantity is Quantity.REMAINING:
            return self._why_no_end(now)
        level = self.levels.get(quantity)
        silence = None if level is None else level.silent_seconds(now)
        counted = self.done.last if quantity in (self._counted, Quantity.RATE) else None
        if counted and self.done.fell_from is not None:
            fall = f"fell from {self.done.fell_from:g} to {counted[1]:g}"
            return f"{self.name}: the count of work done {fall}; {self._mend}"
        if silence is not None:
            return f"nothing new from {self.name} for {silence:.0f} s"
        if counted:
            return f"{self.name}: one number only, a rate needs two"
        if self.has_value and quantity is Quantity.LATENCY and not self._spec.reads_histogram:
            return f"{self.name}: no latency; a number named latency_ms or a histogram tells it"
        nothing = f"nothing from {self.name} yet"
        return f"{nothing}: no line of its output matches the regex" if self.has_lines else nothing

    def _why_no_end(self, now: float) -> str:
        if self._spec.total is None:
            return "no total is stated, so its end is not known: write measure.progress.total"
        rate = self.readings(now).get(self._counted)
        return "it makes no progress" if rate else self.why_silent(now, self._counted)
