"""Drives one runtime from the asyncio loop in which the API is served, in one thread.

Routes make their requests through ``request`` and wait for events by ``changed``. When a failure
leaves memory and log apart, the manager stops, and the next start begins from the log.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from wharfinger.engines.base import Execution
from wharfinger.errors import Conflict, InvalidInput, NotFound, Unavailable
from wharfinger.runtime.runtime import RETRY_SECONDS, Runtime

log = logging.getLogger(__name__)

_T = TypeVar("_T")

MAX_TIMER_SECONDS = 30.0
"""The longest sleep: a wall clock that is set must not delay the core for long."""

REFUSALS = (InvalidInput, Conflict, NotFound, Unavailable)
"""After these the runtime is as it was."""


class Driver:
    """One runtime in one asyncio loop.

    ``on_end`` is called when the server is to end: the runtime, which is started, can't go on, or
    it was asked to.

    Attributes:
        fault: Why the runtime could not go on.
        stopping: Waiting requests should return.
        closing: It stops all workloads, and ends after the last of them; nothing new is taken in.
        inputs: Commands beside workloads whose input is still to come, by the name for it.
    """

    def __init__(self, runtime: Runtime, on_end: Callable[[], None]) -> None:
        self.runtime = runtime
        self.fault: Exception | None = None
        self.stopping = False
        self.closing = False
        self.inputs: dict[str, Execution] = {}
        self._on_end = on_end
        self._timer: asyncio.TimerHandle | None = None
        self._news = asyncio.Event()
        self._seen = runtime.store.last_sequence

    def attach(self) -> None:
        """Start, in the running loop."""
        for descriptor in self.runtime.descriptors():
            asyncio.get_running_loop().add_reader(descriptor, self._run, self.runtime.pump)
        self._after()

    def detach(self) -> None:
        """Stop, and let all waiting requests return."""
        self.stopping = True
        self._news.set()
        if self._timer is not None:
            self._timer.cancel()
        for descriptor in self.runtime.descriptors():
            asyncio.get_running_loop().remove_reader(descriptor)

    def stop(self) -> None:
        """End the server; what runs goes on."""
        self.detach()
        self._on_end()

    def stop_all(self) -> list[str]:
        """End the server after the end of all workloads; the names of those that are stopped."""
        records = self.runtime.manager.state.workloads.values()
        live = [record for record in records if not record.ended]
        # Those that wait first, lest they are placed where the others leave.
        for record in sorted(live, key=lambda record: record.on_server):
            self.request(partial(self.runtime.stop, record.name))
        self.closing = True
        self._after()
        return [record.name for record in live]

    def request(self, call: Callable[[], _T]) -> _T:
        """The result of a request to the runtime; ``Unavailable`` where it broke the runtime."""
        if self.fault is not None:
            raise Unavailable("the manager is stopping after a fault; start it again")
        if self.closing:
            raise Unavailable("the manager stops all workloads, to end; nothing new is taken in")
        try:
            result = call()
        except REFUSALS:
            self._after()
            raise
        except Exception as error:
            self._fail(error)
            raise Unavailable(f"the manager stops: {error}") from error
        self._after()
        return result

    async def changed(self, after: int, timeout_seconds: float) -> None:
        """Wait until an event later than ``after`` is logged, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while not self.stopping and self.runtime.store.last_sequence <= after:
                    await self._news.wait()

    def _tick(self) -> None:
        self._timer = None
        self._run(self.runtime.tick)

    def _run(self, call: Callable[[], None]) -> None:
        retry_seconds = 0.0
        try:
            call()
        except Unavailable as error:
            log.warning("something that was due has to wait: %s", error)
            retry_seconds = RETRY_SECONDS
        # Memory may be ahead of the log now, and only a new start repairs that.
        except Exception as error:  # noqa: BLE001
            self._fail(error)
            return
        self._after(retry_seconds)

    def _fail(self, error: Exception) -> None:
        if self.fault is not None:
            return
        log.critical("the manager stops, what runs goes on: %s", error, exc_info=error)
        self.fault = error
        self.stop()

    def _after(self, not_before_seconds: float = 0.0) -> None:
        self._schedule(not_before_seconds)
        if self.runtime.store.last_sequence != self._seen:
            self._seen = self.runtime.store.last_sequence
            news, self._news = self._news, asyncio.Event()
            news.set()
        if self.closing and not self.stopping:
            records = self.runtime.manager.state.workloads.values()
            if all(record.ended for record in records):
                self.stop()

    def _schedule(self, not_before_seconds: float) -> None:
        """Keep the earlier timer, lest steady traffic delays a retry without end."""
        due = self.runtime.wake_at()
        delay = MAX_TIMER_SECONDS if due is None else due - self.runtime.now()
        delay = max(not_before_seconds, min(delay, MAX_TIMER_SECONDS))
        loop = asyncio.get_running_loop()
        when = loop.time() + delay
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = loop.call_at(when, self._tick)
