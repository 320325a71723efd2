"""The event loop: its promises one by one, and what becomes of the objects it is given."""

import gc
import signal
import sys
import weakref
from collections.abc import Callable
from math import inf, nan

import pytest

from tests.support.reference_loop import ReferenceLoop
from wharfinger.simulator.kernel.loop import EventLoop


@pytest.fixture(params=[EventLoop, ReferenceLoop])
def loop(request: pytest.FixtureRequest):
    return request.param()


class Thing:
    """Can be referred to weakly."""


def nothing(_argument: object) -> None:
    pass


def test_a_new_loop_is_at_zero_and_has_nothing_to_do(loop):
    assert (loop.now, loop.executed, len(loop), loop.peek()) == (0.0, 0, 0, None)
    assert loop.step() is False
    assert loop.run() == 0
    assert loop.now == 0.0


def test_time_then_priority_then_sequence_decide(loop):
    called: list[str] = []
    loop.schedule(2.0, called.append, "last")
    loop.schedule(1.0, called.append, "second of equals")
    loop.schedule(1.0, called.append, "third of equals")
    loop.schedule(1.0, called.append, "lower priority number", -5)
    loop.schedule(1, called.append, "higher priority number", priority=5)
    loop.run()
    assert called == [
        "lower priority number",
        "second of equals",
        "third of equals",
        "higher priority number",
        "last",
    ]


def test_minus_zero_is_zero(loop):
    called: list[str] = []
    loop.schedule(0.0, called.append, "first")
    loop.schedule(-0.0, called.append, "second")
    loop.run(until=-0.0)
    assert called == ["first", "second"]


def test_a_callback_without_argument_is_given_none(loop):
    called: list[object] = []
    loop.schedule(0.0, called.append)
    loop.step()
    assert called == [None]


def test_run_stops_at_its_time_and_is_then_at_it(loop):
    called: list[float] = []
    for at in (1.0, 2.0, 3.0):
        loop.schedule(at, called.append, at)
    assert loop.run(2.0) == 2
    assert (called, loop.now, loop.peek()) == ([1.0, 2.0], 2.0, 3.0)
    assert loop.run(2.5) == 0
    assert loop.now == 2.5
    assert loop.run() == 1
    assert loop.now == 3.0


def test_a_stopped_run_stays_where_it_was_stopped(loop):
    loop.schedule(1.0, lambda _: loop.stop())
    loop.schedule(2.0, nothing)
    assert loop.run(5.0) == 1
    assert (loop.now, len(loop)) == (1.0, 1)
    assert loop.run(5.0) == 1
    assert loop.now == 5.0


def test_stopping_a_loop_that_does_not_run_does_nothing(loop):
    loop.schedule(1.0, nothing)
    loop.stop()
    assert loop.run() == 1


def test_a_callback_may_schedule_for_this_moment(loop):
    called: list[str] = []

    def now(_argument: object) -> None:
        loop.schedule(loop.now, called.append, "behind", 0)
        loop.schedule(loop.now, called.append, "before", -1)

    loop.schedule(1.0, now)
    loop.schedule(1.0, called.append, "waiting")
    loop.run()
    assert called == ["before", "waiting", "behind"]
    assert loop.now == 1.0


def test_cancelling_is_told_once(loop):
    called: list[str] = []
    handle = loop.schedule(1.0, called.append, "cancelled")
    loop.schedule(2.0, called.append, "called")
    assert loop.cancel(handle) is True
    assert loop.cancel(handle) is False
    assert (len(loop), loop.peek()) == (1, 2.0)
    assert loop.run() == 1
    assert called == ["called"]


def test_an_event_that_was_called_can_not_be_cancelled(loop):
    told: list[bool] = []
    handle = loop.schedule(1.0, lambda _: told.append(loop.cancel(handle)))
    loop.run()
    told.append(loop.cancel(handle))
    assert told == [False, False]


def test_handles_are_not_used_again(loop):
    handles = [loop.schedule(0.0, nothing) for _ in range(3)]
    for _ in range(1000):
        assert loop.cancel(handles[-1])
        handles.append(loop.schedule(0.0, nothing))
        loop.step()
        handles.append(loop.schedule(0.0, nothing))
    assert len(set(handles)) == len(handles)
    assert 0 not in handles


@pytest.mark.parametrize("handle", [0, -1, 1234, 2**40 + 1, 2**63 - 1])
def test_a_handle_of_nobody_cancels_nothing(loop, handle):
    assert loop.cancel(handle) is False
    loop.schedule(0.0, nothing)
    assert loop.cancel(handle) is False
    assert len(loop) == 1


@pytest.mark.parametrize(
    ("time", "message"),
    [
        (nan, "time is nan: it must be finite"),
        (inf, "time is inf: it must be finite"),
        (-inf, "time is -inf: it must be finite"),
        (0.5, "time is 0.5 s: it must be 1.0 s, which is now, or later"),
    ],
)
def test_a_time_that_can_not_come_is_refused(loop, time, message):
    loop.run(1.0)
    with pytest.raises(ValueError, match=rf"^{message}$"):
        loop.schedule(time, nothing)
    assert len(loop) == 0


@pytest.mark.parametrize("until", [nan, 0.5, -inf])
def test_running_back_is_refused(loop, until):
    loop.run(1.0)
    with pytest.raises(
        ValueError, match=r"^until is .* s: it must be 1.0 s, which is now, or later$"
    ):
        loop.run(until)
    assert loop.now == 1.0


def test_what_can_not_be_called_or_counted_is_refused(loop):
    with pytest.raises(TypeError, match=r"^callback 5 can't be called$"):
        loop.schedule(0.0, 5)
    with pytest.raises(TypeError):
        loop.schedule("soon", nothing)
    with pytest.raises(TypeError):
        loop.schedule(0.0, nothing, None, 0.5)
    with pytest.raises(TypeError):
        loop.cancel(1.5)
    with pytest.raises(ValueError, match=r"^priority is 2147483648: it must fit in 32 bits$"):
        loop.schedule(0.0, nothing, None, 2**31)
    assert len(loop) == 0


def test_what_a_callback_raises_leaves_the_loop_in_order(loop):
    def fail(_argument: object) -> None:
        loop.schedule(3.0, nothing)
        raise KeyError("on purpose")

    loop.schedule(1.0, fail)
    loop.schedule(2.0, nothing)
    with pytest.raises(KeyError, match="on purpose"):
        loop.run(10.0)
    assert (loop.now, loop.executed, len(loop)) == (1.0, 1, 2)
    assert loop.run(10.0) == 2
    assert (loop.now, loop.executed) == (10.0, 3)


@pytest.mark.parametrize("again", ["run", "step"])
def test_a_callback_can_not_run_the_loop(loop, again):
    loop.schedule(1.0, lambda _: getattr(loop, again)())
    loop.schedule(2.0, nothing)
    with pytest.raises(RuntimeError, match="a callback can't run it too"):
        loop.run()
    assert loop.run() == 1


def test_signals_are_seen_when_no_callback_is_in_python(loop):
    def interrupt(*_arguments: object) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        loop.schedule(0.0, signal.raise_signal, signal.SIGUSR1)
        for _ in range(10_000):
            loop.schedule(1.0, [].append)
        with pytest.raises(InterruptedError):
            loop.run()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(loop) > 0


def test_attributes_are_read_only(loop):
    for name in ("now", "executed"):
        with pytest.raises(AttributeError):
            setattr(loop, name, 1)


# --- the objects -------------------------------------------------------------------------------


def gone_after(loop: EventLoop, act: Callable[[EventLoop, int], object]) -> bool:
    """Whether a callback and an argument that only the loop held are gone after this."""
    callback, argument = Thing(), Thing()
    kept = weakref.ref(callback), weakref.ref(argument)
    handle = loop.schedule(1.0, lambda _, held=callback: None, argument)
    del callback, argument
    assert None not in [reference() for reference in kept]
    act(loop, handle)
    return [reference() for reference in kept] == [None, None]


def test_the_loop_lets_go_what_it_called_or_what_was_cancelled(loop):
    assert gone_after(loop, lambda loop, _: loop.run())
    loop = EventLoop()
    assert gone_after(loop, lambda loop, handle: loop.cancel(handle))


def test_a_loop_that_ends_lets_go_all():
    thing = Thing()
    count = sys.getrefcount(thing)
    loop = EventLoop()
    handles = [loop.schedule(float(n), nothing, thing) for n in range(1000)]
    assert sys.getrefcount(thing) == count + 1000
    for handle in handles[::2]:
        loop.cancel(handle)
    assert sys.getrefcount(thing) == count + 500
    loop.run(100.0)
    assert sys.getrefcount(thing) == count + 450
    del loop
    assert sys.getrefcount(thing) == count


def test_counts_of_references_stay_as_they_are():
    argument, failing, loop = Thing(), Thing(), EventLoop()

    def fail(_argument: object) -> None:
        raise KeyError

    def everything() -> None:
        loop.schedule(loop.now, nothing, argument)
        loop.cancel(loop.schedule(loop.now, nothing, argument))
        loop.run()
        loop.schedule(loop.now, fail, failing)
        with pytest.raises(KeyError):
            loop.step()
        with pytest.raises(ValueError, match="or later"):
            loop.schedule(-1.0, nothing, argument)

    everything()
    watched = argument, failing, nothing, fail, None
    before = [sys.getrefcount(each) for each in watched]
    for _ in range(200):
        everything()
    after = [sys.getrefcount(each) for each in watched]
    # The interpreter itself takes and leaves a few references to None.
    assert after[:-1] == before[:-1]
    assert abs(after[-1] - before[-1]) < 100


@pytest.mark.slow
def test_a_cycle_through_the_loop_is_collected():
    loop, thing = EventLoop(), Thing()
    thing.loop = loop
    loop.schedule(1.0, lambda _, loop=loop: loop.step(), thing)
    kept = weakref.ref(loop), weakref.ref(thing)
    gc.collect()
    assert None not in [reference() for reference in kept]
    del loop, thing
    gc.collect()
    assert [reference() for reference in kept] == [None, None]


def test_what_is_called_when_an_object_ends_may_use_the_loop():
    loop, seen = EventLoop(), []

    class Last:
        def __del__(self) -> None:
            seen.append(len(loop))
            loop.cancel(loop.schedule(loop.now, nothing))
            loop.schedule(loop.now, nothing)

    loop.schedule(1.0, nothing, Last())
    loop.cancel(loop.schedule(2.0, nothing, Last()))
    assert seen == [1]
    loop.step()
    loop.step()
    assert (seen, len(loop), loop.run()) == ([1, 0], 1, 1)


def test_a_collection_may_schedule_while_the_loop_grows():
    """Growing allocates; the collector may run then, and end what schedules."""
    loop = EventLoop()

    class Last:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            for _ in range(100):
                loop.schedule(loop.now, nothing)

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(500):
            Last()
            loop.schedule(loop.now, nothing)
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert len(loop) == loop.run() == 500 * 101


def test_a_loop_of_which_the_collector_took_the_events_says_so():
    loop = EventLoop()
    loop.schedule(1.0, nothing)
    (payloads,) = (each for each in gc.get_referents(loop) if isinstance(each, list))
    payloads.clear()
    for act in (loop.peek, loop.run, loop.step, lambda: loop.schedule(1.0, nothing)):
        with pytest.raises(RuntimeError, match="garbage collector"):
            act()


def test_memory_is_bounded_when_nearly_all_is_cancelled():
    loop, sizes = EventLoop(), []
    kept = [loop.schedule(1e9, nothing) for _ in range(10)]
    for n in range(100_000):
        loop.cancel(loop.schedule(1.0 + n, nothing))
        if n in (1_000, 99_999):
            sizes.append(sys.getsizeof(loop))
    assert sizes[0] == sizes[1]
    assert len(loop) == len(kept) == loop.run()


def test_size_grows_with_what_is_pending():
    loop = EventLoop()
    empty = sys.getsizeof(loop)
    for n in range(10_000):
        loop.schedule(float(n), nothing)
    # Two arrays of 8 and 16 bytes, and two numbers of 4, at the next power of two.
    assert 10_000 * 32 <= sys.getsizeof(loop) - empty <= 2 * 10_000 * 32
