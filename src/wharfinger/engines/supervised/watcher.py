"""One descriptor for everything that can happen to an engine, and a callback for each.

Nothing polls: supervisors tell by pidfd, pipe or a record that appears, the engine's own reports by
an eventfd. Only what the disk had no room for is tried again by the clock.
"""

import os
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from wharfinger.errors import EngineFault
from wharfinger.host.descriptors import Alarm, DirectoryWatch

Callback = Callable[[], None]

SPARE_DESCRIPTORS = 8
"""Held back: a record that can't be opened must never pass for one that is not there."""
RETRY_SECONDS = 0.5
"""Between two tries of what there was no room for."""


class Watcher:
    """An epoll descriptor, and what to do when one of its descriptors has news."""

    def __init__(self) -> None:
        self._callbacks: dict[int, Callback] = {}
        self._epoll: select.epoll | None = None
        self._news = -1
        self._alarm: Alarm | None = None
        self._later: list[Callback] = []
        self._directories: DirectoryWatch | None = None
        self._awaited: dict[Path, tuple[int, Callback]] = {}
        self._spare: list[int] = []

    def open(self) -> None:
        """Make the descriptors."""
        self._epoll = select.epoll()
        self._news = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._news, select.EPOLLIN)
        self._alarm = Alarm()
        self.add(self._alarm.fileno(), partial(self._rang, self._alarm))
        self._take_spare()

    def close(self) -> None:
        """Close the watcher's own descriptors; those that it watches are their owners'."""
        if self._epoll is None:
            return
        if self._directories is not None:
            self._directories.close()
        if self._alarm is not None:
            self._alarm.close()
        self._release_spare()
        self._epoll.close()
        os.close(self._news)
        self._epoll, self._news, self._directories, self._alarm = None, -1, None, None
        self._later.clear()
        self._callbacks.clear()
        self._awaited.clear()

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

    def await_entry(self, directory: Path, callback: Callback) -> None:
        """Call back when an entry has appeared in the directory; raises ``OSError``."""
        if self._directories is None:
            self._directories = DirectoryWatch()
            self.add(self._directories.fileno(), partial(self._entries_appeared, self._directories))
        self._awaited[directory] = (self._directories.add(directory), callback)

    def await_no_more(self, directory: Path) -> None:
        """Stop waiting for entries there."""
        watch, _ = self._awaited.pop(directory, (-1, None))
        if watch >= 0 and self._directories is not None:
            self._directories.remove(watch)

    def try_later(self, callback: Callback) -> None:
        """Call back once, a little later."""
        if self._alarm is not None and callback not in self._later:
            self._later.append(callback)
            self._alarm.set(RETRY_SECONDS)

    def _rang(self, alarm: Alarm) -> None:
        alarm.drain()
        due, self._later = self._later, []
        for callback in due:
            callback()

    def set_news(self, *, present: bool) -> None:
        """Make the descriptor readable, or no more."""
        with suppress(BlockingIOError):  # It may be so already.
            if present:
                os.eventfd_write(self._news, 1)
            else:
                os.eventfd_read(self._news)

    def wait(self, timeout_seconds: float) -> None:
        """Wait up to that long for news, and call back."""
        ready = [fd for fd, _ in self._opened().poll(max(0.0, timeout_seconds))]
        if not ready:
            return
        callbacks = [(fd, self._callbacks.get(fd)) for fd in ready]
        with self.spare_descriptors():
            for descriptor, callback in callbacks:
                # An earlier callback may have removed it, and another may have got its number.
                if callback is not None and self._callbacks.get(descriptor) is callback:
                    callback()

    @contextmanager
    def spare_descriptors(self) -> Iterator[None]:
        """Within it there are descriptors for reading a record, however many are in use."""
        self._release_spare()
        try:
            yield
        finally:
            self._take_spare()

    def has_room(self) -> bool:
        """Whether one more start can be launched and watched without the spare descriptors."""
        free: list[int] = []
        with suppress(OSError):
            while len(free) < SPARE_DESCRIPTORS:
                free.append(os.dup(self._news))
        for descriptor in free:
            os.close(descriptor)
        return len(self._spare) + len(free) == 2 * SPARE_DESCRIPTORS

    def _take_spare(self) -> None:
        with suppress(OSError):  # None are left: then what is released next time has to do.
            while len(self._spare) < SPARE_DESCRIPTORS:
                self._spare.append(os.dup(self._news))

    def _release_spare(self) -> None:
        while self._spare:
            os.close(self._spare.pop())

    def _entries_appeared(self, directories: DirectoryWatch) -> None:
        directories.drain()
        # There are few: only what an earlier manager left in the middle of its start.
        for _, callback in list(self._awaited.values()):
            callback()

    def _opened(self) -> select.epoll:
        if self._epoll is None:
            raise EngineFault("the engine is not open")
        return self._epoll
