"""The compiled event loop, against the same in plain Python: the same calls in the same order."""

from dataclasses import dataclass
from math import inf, isfinite
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.reference_loop import ReferenceLoop
from wharfinger.simulator.kernel.loop import EventLoop

Loop = EventLoop | ReferenceLoop


class CallbackError(Exception):
    """Raised by an event that is to fail."""


@dataclass(frozen=True)
class Event:
    """To be scheduled after a delay; when it is called, it does these things in order."""

    delay: float
    priority: int
    does: tuple["Deed", ...] = ()


@dataclass(frozen=True)
class Cancel:
    """Of the n-th event that was scheduled, counted round; it may be over, or the one that asks."""

    number: int


Deed = Event | Cancel | str

# Few different times and priorities, so that many are equal; and some far apart.
DELAYS = st.sampled_from([0.0, 0.0, 1.0, 1.0, 2.0, 0.5, 1e-9, 1e9, 5e-324])
PRIORITIES = st.sampled_from([0, 0, 0, 1, -1, 2**31 - 1, -(2**31)])
CANCELS = st.builds(Cancel, st.integers(0, 40))
WORDS = st.sampled_from(["stop", "raise", "step", "run", "look"])


def events(deeds: st.SearchStrategy[Deed]) -> st.SearchStrategy[Event]:
    return st.builds(Event, DELAYS, PRIORITIES, st.lists(deeds, max_size=4).map(tuple))


EVENTS = events(st.recursive(CANCELS | WORDS, lambda deeds: deeds | events(deeds), max_leaves=12))
OPERATIONS = st.lists(
    EVENTS
    | EVENTS
    | CANCELS
    | st.sampled_from(["step", "look", "stop"])
    | st.sampled_from([0.0, 0.5, 1.0, 3.0, inf, -1.0]),
    max_size=40,
)


class Script:
    """Does the same with either loop, and writes down what came of it."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.handles: list[int] = []
        self.seen: list[object] = []

    def schedule(self, event: Event) -> None:
        number = len(self.handles)
        at = self.loop.now + event.delay
        self.handles.append(
            self.loop.schedule(at, self.call, (number, event), priority=event.priority)
        )

    def call(self, numbered: tuple[int, Event]) -> str:
        number, event = numbered
        self.seen.append(("called", number, self.loop.now))
        for deed in event.does:
            self.do(deed)
        return "nobody looks at this"

    def do(self, deed: Deed | float) -> None:
        match deed:
            case Event():
                self.schedule(deed)
            case Cancel(number):
                known = self.handles[number % len(self.handles)] if self.handles else 12345
                self.seen.append(self.loop.cancel(known))
            case "stop":
                self.loop.stop()
            case "raise":
                raise CallbackError
            case "step":
                self.attempt(self.loop.step)
            case "run":
                self.attempt(self.loop.run)
            case "look":
                self.look()
            case float():
                self.attempt(lambda: self.loop.run(self.loop.now + deed))

    def attempt(self, what) -> None:
        try:
            self.seen.append(what())
        except (CallbackError, RuntimeError, ValueError) as error:
            self.seen.append(f"{type(error).__name__}: {error}")

    def look(self) -> None:
        loop = self.loop
        self.seen.append((loop.now, loop.executed, len(loop), loop.peek()))


@given(OPERATIONS)
def test_both_loops_do_the_same(operations: list[Deed | float]) -> None:
    scripts = Script(EventLoop()), Script(ReferenceLoop())
    for operation in [*operations, inf]:
        for script in scripts:
            script.attempt(lambda script=script, operation=operation: script.do(operation))
            script.look()
        assert scripts[0].seen == scripts[1].seen


@pytest.mark.parametrize("different_times", [1, 3, 100, 10**9])
@pytest.mark.parametrize("cancelled_share", [0.0, 0.3, 0.9])
def test_thousands_come_in_order(different_times: int, cancelled_share: float) -> None:
    """Enough for every level of the heap, for growing and for compaction."""
    random = Random(different_times)
    seen: list[list[tuple[float, int]]] = []
    chosen = [
        (random.randrange(different_times) / 7, random.randrange(3), random.random())
        for _ in range(5000)
    ]
    for loop in (EventLoop(), ReferenceLoop()):
        calls: list[tuple[float, int]] = []
        handles = [
            loop.schedule(
                at, lambda n, loop=loop, calls=calls: calls.append((loop.now, n)), n, priority
            )
            for n, (at, priority, _) in enumerate(chosen)
        ]
        cancelled = [
            loop.cancel(handle)
            for handle, (*_, chance) in zip(handles, chosen, strict=True)
            if chance < cancelled_share
        ]
        assert all(cancelled)
        assert len(loop) == len(chosen) - len(cancelled)
        assert loop.run() == len(calls) == len(chosen) - len(cancelled)
        seen.append(calls)
    assert seen[0] == seen[1]
    assert isfinite(seen[0][-1][0])


@pytest.mark.slow
@given(st.lists(st.integers(0, 300), min_size=200, max_size=400), st.integers(0, 2**32))
def test_a_changing_population_stays_in_order(delays: list[int], seed: int) -> None:
    """Each event schedules the next, and some are put off, as ends of workloads are."""
    compiled = put_off(EventLoop(), delays, Random(seed))
    assert compiled == put_off(ReferenceLoop(), delays, Random(seed))


def put_off(loop: Loop, delays: list[int], random: Random) -> list[tuple[float, int]]:
    calls: list[tuple[float, int]] = []
    handles: dict[int, int] = {}

    def call(n: int) -> None:
        calls.append((loop.now, n))
        for other in random.sample(range(len(delays)), 3):
            if loop.cancel(handles[other]):
                handles[other] = loop.schedule(loop.now + random.randrange(300), call, other)
        handles[n] = loop.schedule(loop.now + delays[n], call, n)

    for n, delay in enumerate(delays):
        handles[n] = loop.schedule(float(delay), call, n)
    for _ in range(1000):
        loop.step()
    return calls
