"""For engines whose calls take 10 ms to 10 s: one thread makes them, the engine goes on.

An engine *asks* for calls, which takes microseconds, and later *takes* their outcomes; an eventfd
tells when there are any. Calls of one operation that wait are made together, in as few as the
operation allows. Calls with the same key are made one after another, in the order in which they
were asked for. What fails but may succeed later is made again, later and later.

``CallQueue`` holds the rules, without thread or clock; ``SlowCalls`` is the thread around it.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any

from wharfinger.errors import EngineFault, WharfingerError

MAX_WAITING = 20_000
"""Calls that may wait, without internal ones; more is a fault that may be tried again."""
CLOSE_SECONDS = 30.0
"""How long ``close`` waits for the call under way, which has a time limit of its own."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """When what failed is made again: after ``first_seconds``, then each time ``factor`` later."""

    first_seconds: float = 0.5
    factor: float = 2.0
    max_seconds: float = 15.0

    def after(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row, of which there is at least one.

        >>> [Backoff(1.0, 3.0, 20.0).after(failures) for failures in (1, 2, 3, 4, 5000)]
        [1.0, 3.0, 9.0, 20.0, 20.0]
        """
        return min(self.max_seconds, self.first_seconds * self.factor ** min(failures - 1, 64))


@dataclass(frozen=True, slots=True)
class Operation:
    """A kind of call.

    Attributes:
        name: For messages.
        run: Makes one call for several arguments, and returns an outcome for each, in their order.
            It blocks, up to a time limit of its own. It raises a ``WharfingerError`` if the whole
            call failed; where one argument failed, its outcome may be one.
        max_batch: So many arguments at most in one call.
        give_up_seconds: After it was asked for; then a failure is final though it is retryable.
            ``None`` = it is made until it succeeds or fails for good.
        backoff: Between two tries.
        closes: What waits is still made when the calls are closed: it is short, and never asks the
            cluster.
        yields: It is made when no other is due.
    """

    name: str
    run: Callable[[Sequence[Any]], Sequence[Any]]
    max_batch: int = 1
    give_up_seconds: float | None = None
    backoff: Backoff = Backoff()
    closes: bool = False
    yields: bool = False


@dataclass(slots=True, eq=False)
class Call:
    """One call that was asked for; ``failures`` so far, and not made again before ``due_at``."""

    operation: Operation
    key: str
    argument: Any
    asked_at: float
    failures: int = 0
    due_at: float = 0.0
    alone: bool = False
    internal: bool = False


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What became of a call: ``result``, or the error that was final."""

    operation: Operation
    key: str
    argument: Any
    result: Any = None
    error: WharfingerError | None = None


@dataclass(slots=True)
class CallQueue:
    """The calls that wait, and which are made next. Times are seconds of any one clock."""

    max_waiting: int = MAX_WAITING
    _waiting: dict[int, Call] = field(default_factory=dict)
    _under_way: set[str] = field(default_factory=set)
    _next: int = 0
    _counted: int = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(
        self,
        operation: Operation,
        key: str,
        argument: Any,
        now: float,
        delay_seconds: float = 0.0,
        *,
        internal: bool = False,
    ) -> None:
        """Let a call wait for its turn; ``EngineFault``, retryable, where too many do.

        ``internal``: it follows from what was taken on already, so it does not count.
        """
        if not internal and self._counted >= self.max_waiting:
            raise EngineFault(
                f"{self._counted} calls wait for the cluster's controller", retryable=True
            )
        call = Call(operation, key, argument, now, due_at=now + delay_seconds, internal=internal)
        self._waiting[self._next] = call
        self._next += 1
        self._counted += not internal

    def hasten(self, key: str, at: float) -> None:
        """Let the calls of a key that were delayed be due by then; what failed waits on."""
        for call in self._waiting.values():
            if call.key == key and not call.failures:
                call.due_at = min(call.due_at, at)

    def keep_closing(self) -> None:
        """Drop what is not still made on closing; the rest is due at once."""
        self._waiting = {n: c for n, c in self._waiting.items() if c.operation.closes}
        for call in self._waiting.values():
            call.due_at = -inf
        self._counted = sum(not call.internal for call in self._waiting.values())

    def take_batch(self, now: float) -> list[Call]:
        """The calls to be made next, together; empty = none is due. ``finish`` must follow.

        The first that is due decides the operation; others of it join, in their order, unless an
        earlier call of their key waits.
        """
        taken = self._choose(now, yielding=False) or self._choose(now, yielding=True)
        batch = [self._waiting.pop(number) for number in taken]
        self._under_way.update(call.key for call in batch)
        self._counted -= sum(not call.internal for call in batch)
        return batch

    def _choose(self, now: float, *, yielding: bool) -> list[int]:
        first: Call | None = None
        taken: list[int] = []
        blocked = set(self._under_way)
        for number, call in self._waiting.items():
            if call.key in blocked:
                continue
            blocked.add(call.key)
            if call.due_at > now or call.operation.yields != yielding:
                continue
            if first is not None and not _joins(call, first):
                continue
            first = first or call
            taken.append(number)
            if call.alone or len(taken) >= call.operation.max_batch:
                break
        return taken

    def finish(
        self, batch: Sequence[Call], results: Sequence[Any] | WharfingerError, now: float
    ) -> list[CallOutcome]:
        """The final outcomes of a batch; what is to be made again waits for that.

        A call for several that fails for good is made for each of them alone: one must not fail
        for another.
        """
        self._under_way.difference_update(call.key for call in batch)
        if isinstance(results, WharfingerError):
            if len(batch) > 1 and not results.retryable:
                self._put_back(batch, alone=True)
                return []
            results = [results] * len(batch)
        outcomes: list[CallOutcome] = []
        again: list[Call] = []
        for call, result in zip(batch, results, strict=True):
            if not isinstance(result, WharfingerError):
                outcomes.append(CallOutcome(call.operation, call.key, call.argument, result))
            elif result.retryable and not _is_over(call, now):
                call.failures += 1
                call.due_at = now + call.operation.backoff.after(call.failures)
                again.append(call)
            else:
                outcomes.append(CallOutcome(call.operation, call.key, call.argument, error=result))
        self._put_back(again)
        return outcomes

    def wake_at(self) -> float | None:
        """When the next call is due, as far as none is under way; ``None`` = none waits."""
        due: dict[str, float] = {}
        for call in self._waiting.values():
            if call.key not in self._under_way:
                due.setdefault(call.key, call.due_at)
        return min(due.values(), default=None)

    def _put_back(self, batch: Sequence[Call], *, alone: bool = False) -> None:
        # Before all others: later calls of their keys wait for them.
        if not batch:
            return
        first = next(iter(self._waiting), self._next) - len(batch)
        back = {first + offset: call for offset, call in enumerate(batch)}
        for call in batch:
            call.alone |= alone
        self._counted += sum(not call.internal for call in batch)
        self._waiting = {**back, **self._waiting}


def _joins(call: Call, first: Call) -> bool:
    return call.operation is first.operation and not call.alone


def _is_over(call: Call, now: float) -> bool:
    limit = call.operation.give_up_seconds
    return limit is not None and now - call.asked_at >= limit


class SlowCalls:
    """A thread that makes the calls.

    Args:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._queue = CallQueue()
        self._outcomes: list[CallOutcome] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._event = -1
        self._began_at: float | None = None

    def open(self) -> None:
        """Make the eventfd and start the thread."""
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="slow-calls", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait for the call that is under way; those that wait are dropped (``closes`` apart).

        Raises ``EngineFault`` if it does not end: then it may still have its effect.
        """
        thread = self._thread
        if thread is None:
            return
        with self._changed:
            self._closing = True
            self._queue.keep_closing()
            self._changed.notify()
        thread.join(CLOSE_SECONDS)
        if thread.is_alive():
            raise EngineFault(f"a call to the cluster has not ended in {CLOSE_SECONDS:g} s")
        os.close(self._event)
        self._thread, self._event = None, -1
        self._queue, self._outcomes = CallQueue(), []

    def fileno(self) -> int:
        """Readable while there are outcomes to take."""
        return self._event

    def ask(
        self,
        operation: Operation,
        key: str,
        argument: Any = None,
        *,
        delay_seconds: float = 0.0,
        internal: bool = False,
    ) -> None:
        """Let a call be made, not before the delay; may be called by what a call runs, too.

        Raises ``EngineFault``, retryable, where too many wait; never of what is ``internal``: what
        follows from a call that was taken on.
        """
        with self._changed:
            now = self._clock()
            self._queue.ask(operation, key, argument, now, delay_seconds, internal=internal)
            self._changed.notify()

    def hasten(self, key: str, delay_seconds: float = 0.0) -> None:
        """Let the calls of a key that were delayed longer be made after this delay."""
        with self._changed:
            self._queue.hasten(key, self._clock() + delay_seconds)
            self._changed.notify()

    def wake(self) -> None:
        """Make the descriptor readable, until the next ``take``."""
        os.eventfd_write(self._event, 1)

    def take(self) -> list[CallOutcome]:
        """The outcomes since the last call, in the order in which the calls ended."""
        with self._changed:
            outcomes, self._outcomes = self._outcomes, []
            with suppress(BlockingIOError):
                os.eventfd_read(self._event)
        return outcomes

    @property
    def busy_seconds(self) -> float:
        """How long the call under way has taken; 0 = none is."""
        began_at = self._began_at
        return 0.0 if began_at is None else self._clock() - began_at

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            try:
                results: Any = batch[0].operation.run([call.argument for call in batch])
            except WharfingerError as error:
                results = error
            except Exception as error:  # noqa: BLE001 - the thread must outlive any one call
                results = EngineFault(f"{batch[0].operation.name}: {error!r}")
            with self._changed:
                self._began_at = None
                outcomes = self._queue.finish(batch, results, self._clock())
                self._outcomes.extend(outcomes)
                if self._closing:
                    self._queue.keep_closing()  # What a call asks for while it is closed, too.
                elif outcomes:
                    os.eventfd_write(self._event, 1)

    def _next_batch(self) -> list[Call] | None:
        with self._changed:
            while True:
                now = self._clock()
                if batch := self._queue.take_batch(now):
                    self._began_at = now
                    return batch
                if self._closing:
                    return None
                due_at = self._queue.wake_at()
                self._changed.wait(None if due_at is None else max(0.0, due_at - now))
