"""Slow calls: their order, batches and repetitions, without a thread; and the thread."""

import select
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import wait_until
from wharfinger.engines.slow import Backoff, CallQueue, Operation, SlowCalls
from wharfinger.errors import EngineFault, InvalidInput, Unavailable


def _operation(name: str = "do", max_batch: int = 1, **more: Any) -> Operation:
    return Operation(name, list, max_batch, **more)


def _keys(queue: CallQueue, now: float = 0.0) -> list[str]:
    return [call.key for call in queue.take_batch(now)]


def test_calls_of_one_operation_are_made_together_up_to_its_limit() -> None:
    queue, many = CallQueue(), _operation(max_batch=3)
    for key in "abcd":
        queue.ask(many, key, key, 0.0)
    assert (_keys(queue), _keys(queue), _keys(queue)) == (["a", "b", "c"], ["d"], [])


def test_another_operation_waits_for_its_turn_and_does_not_split_a_batch() -> None:
    queue, many, other = CallQueue(), _operation(max_batch=9), _operation("other")
    for operation, key in ((many, "a"), (other, "b"), (many, "c")):
        queue.ask(operation, key, None, 0.0)
    assert (_keys(queue), _keys(queue)) == (["a", "c"], ["b"])


def test_a_later_call_of_a_key_waits_for_the_earlier_one() -> None:
    queue, first, second = CallQueue(), _operation("first", 9), _operation("second", 9)
    queue.ask(first, "a", 1, 0.0)
    queue.ask(second, "a", 2, 0.0)
    queue.ask(second, "b", 3, 0.0)
    batch = queue.take_batch(0.0)
    assert [call.key for call in batch] == ["a"]
    assert _keys(queue) == ["b"]
    assert _keys(queue) == []
    queue.finish(batch, [None], 0.0)
    assert _keys(queue) == ["a"]


def test_what_may_succeed_later_is_made_again_and_holds_back_only_its_own_key() -> None:
    queue, operation = CallQueue(), _operation(backoff=Backoff(2.0, 2.0, 60.0))
    for key, argument in (("a", 1), ("a", 2), ("b", 3)):
        queue.ask(operation, key, argument, 0.0)
    batch = queue.take_batch(0.0)
    assert queue.finish(batch, Unavailable("away"), 0.0) == []
    assert _keys(queue) == ["b"]
    assert (_keys(queue, 1.9), queue.wake_at()) == ([], 2.0)
    batch = queue.take_batch(2.0)
    assert [call.argument for call in batch] == [1]
    queue.finish(batch, Unavailable("away"), 2.0)
    assert queue.wake_at() == 6.0
    (outcome,) = queue.finish(queue.take_batch(6.0), ["done"], 6.0)
    assert (outcome.argument, outcome.result, outcome.error) == (1, "done", None)
    assert [call.argument for call in queue.take_batch(6.0)] == [2]


def test_a_failure_is_final_after_the_time_limit_or_where_it_is_no_use() -> None:
    queue, operation = CallQueue(), _operation(give_up_seconds=5.0)
    queue.ask(operation, "a", None, 0.0)
    assert queue.finish(queue.take_batch(0.0), Unavailable("away"), 4.9) == []
    (outcome,) = queue.finish(queue.take_batch(9.0), Unavailable("still away"), 9.0)
    assert str(outcome.error) == "still away"
    queue.ask(operation, "b", None, 9.0)
    (outcome,) = queue.finish(queue.take_batch(9.0), InvalidInput("no"), 9.0)
    assert str(outcome.error) == "no"


def test_one_that_is_refused_does_not_fail_the_others_of_its_batch() -> None:
    queue, many = CallQueue(), _operation(max_batch=9)
    for key in "abc":
        queue.ask(many, key, key, 0.0)
    assert queue.finish(queue.take_batch(0.0), InvalidInput("b is wrong"), 0.0) == []
    outcomes = []
    while batch := queue.take_batch(0.0):
        assert len(batch) == 1
        wrong = batch[0].key == "b"
        outcomes += queue.finish(batch, InvalidInput("b is wrong") if wrong else ["ok"], 0.0)
    assert [(o.key, o.error is None) for o in outcomes] == [("a", True), ("b", False), ("c", True)]


def test_outcomes_of_single_arguments_may_be_errors() -> None:
    queue, many = CallQueue(), _operation(max_batch=9)
    for key in "ab":
        queue.ask(many, key, key, 0.0)
    outcomes = queue.finish(queue.take_batch(0.0), ["ok", InvalidInput("no")], 0.0)
    assert [(o.key, o.result, str(o.error or "")) for o in outcomes] == [
        ("a", "ok", ""),
        ("b", None, "no"),
    ]


def test_what_yields_is_made_when_no_other_is_due() -> None:
    queue, many, last = CallQueue(), _operation(max_batch=9), _operation("last", 9, yields=True)
    for operation, key, delay in ((last, "a", 0.0), (many, "b", 0.0), (last, "c", 0.0)):
        queue.ask(operation, key, None, 0.0, delay)
    queue.ask(many, "d", None, 0.0, 5.0)
    assert (_keys(queue), _keys(queue), _keys(queue)) == (["b"], ["a", "c"], [])
    assert _keys(queue, 5.0) == ["d"]


def test_what_is_delayed_waits_for_its_time_or_is_hastened() -> None:
    queue, operation = CallQueue(), _operation()
    queue.ask(operation, "a", None, 0.0, 5.0)
    assert (_keys(queue, 4.9), queue.wake_at()) == ([], 5.0)
    queue.hasten("other", 1.0)
    assert queue.wake_at() == 5.0
    queue.hasten("a", 1.0)
    assert _keys(queue, 1.0) == ["a"]


def test_on_closing_only_what_says_so_is_made() -> None:
    queue = CallQueue()
    queue.ask(_operation(), "a", None, 0.0)
    queue.ask(_operation("last", closes=True), "a", None, 0.0, 60.0)
    queue.keep_closing()
    assert [call.operation.name for call in queue.take_batch(0.0)] == ["last"]


def test_too_many_calls_are_a_fault_that_may_be_tried_again() -> None:
    queue = CallQueue(max_waiting=1)
    queue.ask(_operation(), "a", None, 0.0)
    with pytest.raises(EngineFault) as caught:
        queue.ask(_operation(), "b", None, 0.0)
    assert caught.value.retryable


def test_what_follows_from_what_was_taken_is_never_too_many() -> None:
    queue = CallQueue(max_waiting=1)
    queue.ask(_operation(), "a", None, 0.0)
    queue.ask(_operation(), "b", None, 0.0, 9.0, internal=True)
    assert len(queue) == 2
    with pytest.raises(EngineFault):
        queue.ask(_operation(), "c", None, 0.0)
    batch = queue.take_batch(0.0)
    queue.ask(_operation(), "c", None, 0.0)
    queue.finish(batch, EngineFault("away", retryable=True), 0.0)
    with pytest.raises(EngineFault):  # What is made again waits, too.
        queue.ask(_operation(), "d", None, 0.0)


@given(
    asked=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from((0, 1))), max_size=30),
    fails=st.lists(st.sampled_from((0, 1, 2)), max_size=40),
)
def test_order_is_kept_per_key_and_nothing_is_lost_or_made_twice(
    asked: Sequence[tuple[str, int]], fails: Sequence[int]
) -> None:
    queue, operations = CallQueue(), (_operation("one", 4), _operation("other", 2))
    for number, (key, which) in enumerate(asked):
        queue.ask(operations[which], key, number, 0.0)
    now, outcomes, failures = 0.0, [], iter(fails)
    while len(queue):
        batch = queue.take_batch(now)
        if not batch:
            due = queue.wake_at()
            assert due is not None and due > now
            now = due
            continue
        keys = [call.key for call in batch]
        assert len(set(keys)) == len(keys)
        results = {
            0: [call.argument for call in batch],
            1: Unavailable("later"),
            2: InvalidInput("never"),
        }[next(failures, 0)]
        outcomes += queue.finish(batch, results, now)  # type: ignore[arg-type]
    assert sorted(outcome.argument for outcome in outcomes) == list(range(len(asked)))
    for key in "abc":
        told = [outcome.argument for outcome in outcomes if outcome.key == key]
        assert told == sorted(told)


def _take(calls: SlowCalls, number: int) -> list[Any]:
    outcomes: list[Any] = []
    while len(outcomes) < number:
        assert select.select([calls], [], [], 60.0)[0]
        outcomes += calls.take()
    return outcomes


def test_the_thread_makes_calls_tells_of_outcomes_and_survives_faults() -> None:
    def run(arguments: Sequence[Any]) -> Sequence[Any]:
        return [1 // argument for argument in arguments]

    calls, entered, go_on = SlowCalls(), threading.Event(), threading.Event()

    def wait(arguments: Sequence[Any]) -> Sequence[Any]:
        entered.set()
        go_on.wait(60.0)
        return arguments

    calls.open()
    try:
        calls.ask(Operation("wait", wait), "w")
        assert entered.wait(60.0)
        assert calls.take() == []
        assert not select.select([calls], [], [], 0)[0]
        calls.ask(Operation("divide", run), "zero", 0)
        calls.ask(Operation("divide", run), "one", 1)
        go_on.set()
        outcomes = {outcome.key: outcome for outcome in _take(calls, 3)}
        assert outcomes["one"].result == 1
        assert "ZeroDivisionError" in str(outcomes["zero"].error)
        assert not select.select([calls], [], [], 0)[0]
    finally:
        calls.close()


def test_closing_waits_for_the_call_under_way_and_drops_the_others() -> None:
    calls, entered, go_on = SlowCalls(), threading.Event(), threading.Event()
    made: list[Any] = []

    def wait(arguments: Sequence[Any]) -> Sequence[Any]:
        entered.set()
        go_on.wait(60.0)
        made.extend(arguments)
        return arguments

    calls.open()
    operation = Operation("wait", wait)
    calls.ask(operation, "a", 1)
    calls.ask(operation, "b", 2)
    assert entered.wait(60.0)
    closing = threading.Thread(target=calls.close)
    closing.start()
    wait_until(lambda: calls._closing, what="it is being closed")
    go_on.set()
    closing.join(60.0)
    assert made == [1]
    before = len(list(Path("/proc/self/fd").iterdir()))
    calls.open()
    calls.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before  # Others may be collected.
