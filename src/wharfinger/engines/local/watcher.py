"""One descriptor for everything that can happen to an engine, and callbacks for each.

Nothing here looks again and again: supervisors tell by pidfd and pipe, the engine's own
reports by an eventfd. One timer runs while there are things that nobody tells of.
"""

import os
import select
import time
from collections.abc import Callable
from contextlib import suppress

from wharfinger.errors import EngineFault

Callback = Callable[[], None]

LOOK_AGAIN_SECONDS = 0.05


class Watcher:
    """An epoll descriptor with what to do when one of its descriptors has news.

    Args:
        look: Called every ``LOOK_AGAIN_SECONDS`` while ``look_again`` is on.
    """

    def __init__(self, look: Callback) -> None:
        self._look = look
        self._callbacks: dict[int, Callback] = {}
        self._epoll: select.epoll | None = None
        self._news = -1
        self._looking = False

    def open(self) -> None:
        """Make the descriptors."""
        self._epoll = select.epoll()
        self._news = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._news, select.EPOLLIN)

    def close(self) -> None:
        """Close the watcher's own descriptors; those that it watches are their owners'."""
        if self._epoll is None:
            return
        self._epoll.close()
        os.close(self._news)
        self._epoll, self._news, self._looking = None, -1, False
        self._callbacks.clear()

    def fileno(self) -> int:
        """Readable while there is news."""
        return self._opened().fileno()

    def add(self, descriptor: int, callback: Callback) -> None:
        """Call back while the descriptor is readable or at its end."""
        self._callbacks[descriptor] = callback
        self._opened().register(descriptor, select.EPOLLIN)

    def remove(self, descriptor: int) -> None:
        """Watch it no more; to be called before it is closed."""
        if self._callbacks.pop(descriptor, None) is not None:
            self._opened().unregister(descriptor)

    def set_news(self, *, present: bool) -> None:
        """Keep the descriptor readable, or not, for something that is told already."""
        with suppress(BlockingIOError):  # It may be so already.
            if present:
                os.eventfd_write(self._news, 1)
            else:
                os.eventfd_read(self._news)

    def wait(self, timeout_seconds: float) -> None:
        """Wait for news up to that long and let the callbacks take it in."""
        deadline = time.monotonic() + timeout_seconds
        for descriptor, _ in self._opened().poll(max(0.0, timeout_seconds)):
            # An earlier callback may have removed it.
            callback = self._callbacks.get(descriptor)
            if callback is not None:
                callback()
        del deadline

    def _opened(self) -> select.epoll:
        if self._epoll is None:
            raise EngineFault("the local engine is not open")
        return self._epoll
