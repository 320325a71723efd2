"""The hold model: as many events are pending all the time; each that is called schedules the next.

The usual measure of event lists (Vaucher and Duval, A comparison of simulation event list
algorithms, CACM 1975). Every contender calls a Python function for each event; it takes the next
delay, which was drawn before and is exponential with mean 1, and schedules itself. Only how that
is done differs, so all see the same events at the same times.
"""

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import count, cycle

import numpy as np

from benchmarks._harness import Contender
from wharfinger.simulator.kernel.loop import EventLoop

try:
    import simpy
except ImportError:
    simpy = None

HOW_TO_GET_SIMPY = "SimPy is left out, since it is not installed: pip install 'simpy>=4.1'"
EVENTS = 20_000
"""Called in one turn, on the average; the same ones by each contender."""
DRAWS = 1_000_003

Draw = Callable[[], float]


def event_loop(pending: int, draw: Draw) -> Contender:
    """Ours."""
    loop = EventLoop()
    schedule = loop.schedule

    def hold(_argument: object) -> None:
        schedule(loop.now + draw(), hold)

    for _ in range(pending):
        hold(None)
    return lambda: loop.run(loop.now + EVENTS / pending)


def heap_of_tuples(pending: int, draw: Draw) -> Contender:
    """(time, priority, sequence, callback, argument) on ``heapq``, and a while loop."""
    heap: list[tuple[float, int, int, Callable[[object], None], object]] = []
    next_number = count().__next__
    now = 0.0

    def hold(_argument: object) -> None:
        heappush(heap, (now + draw(), 0, next_number(), hold, None))

    def run() -> None:
        nonlocal now
        until = now + EVENTS / pending
        while heap[0][0] <= until:
            now, _, _, callback, argument = heappop(heap)
            callback(argument)
        now = until

    for _ in range(pending):
        hold(None)
    return run


def simpy_callbacks(pending: int, draw: Draw) -> Contender:
    """SimPy without processes, which would add a generator and an event to each of its events."""
    environment = simpy.Environment()
    timeout = environment.timeout

    def hold(_event: object) -> None:
        timeout(draw()).callbacks.append(hold)

    for _ in range(pending):
        hold(None)
    return lambda: environment.run(environment.now + EVENTS / pending)


def calls_alone(_pending: int, draw: Draw) -> Contender:
    """The floor: a function that takes a delay, called as often."""

    def hold(_argument: object) -> None:
        draw()

    def run() -> None:
        for _ in range(EVENTS):
            hold(None)

    return run


def contenders(pending: int, seed: int) -> Mapping[str, Contender]:
    """All that are there, each with as many events pending."""
    makers = {
        "event-loop": event_loop,
        "heapq": heap_of_tuples,
        **({"simpy": simpy_callbacks} if simpy else {}),
        "calls": calls_alone,
    }
    return {name: make(pending, draws(seed)) for name, make in makers.items()}


def draws(seed: int) -> Draw:
    """Goes round and round the same delays, each time from the same beginning."""
    delays: Iterator[float] = cycle(np.random.default_rng(seed).exponential(size=DRAWS).tolist())
    return delays.__next__


def check(pending: int, seed: int) -> None:
    """Ours and heapq take as many delays for the same time, or the comparison means nothing."""
    next_delays = []
    for make in (event_loop, heap_of_tuples):
        draw = draws(seed)
        make(pending, draw)()
        next_delays.append(draw())
    if next_delays[0] != next_delays[1]:
        raise AssertionError(f"the loops differ with {pending} events pending, seed {seed}")
