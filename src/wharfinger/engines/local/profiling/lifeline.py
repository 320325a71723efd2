"""The worker's line to the manager: when it breaks the manager is gone, and so must be the copy.

On it come the neighbors that fall below their targets. The worker waits here,
so both are heard of at once.
"""

import select
from collections.abc import Iterator
from contextlib import contextmanager

from wharfinger.monitor.messages import Channel, Message
from wharfinger.profiling.steps import NeighborFell


class ManagerGone(Exception):
    """The manager has died."""


class Lifeline:
    """One channel to the manager."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._injecting = False

    def tell(self, message: Message) -> None:
        """Say something to the manager.

        Raises:
            ManagerGone: It is.
        """
        try:
            self._channel.send(message)
        except BrokenPipeError as error:
            raise ManagerGone from error

    def receive(self) -> Message:
        """The next message.

        Raises:
            ManagerGone: There will be none.
        """
        message = self._channel.receive()
        if message is None:
            raise ManagerGone
        return message

    def wait(self, seconds: float, *descriptors: int) -> bool:
        """Wait; whether one of the descriptors has become readable before the time was over.

        Raises:
            ManagerGone: It is.
            NeighborFell: Within :meth:`injecting`.
        """
        poll = select.poll()
        for descriptor in (self._channel.fileno(), *descriptors):
            poll.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(max(0.0, seconds) * 1000)}
        if self._channel.fileno() in ready:
            fallen = str(self.receive().get("fallen", ""))
            if fallen and self._injecting:  # Else it comes too late: the source is gone.
                raise NeighborFell(fallen)
        return bool(ready.intersection(descriptors))

    @contextmanager
    def injecting(self, *, everywhere: bool) -> Iterator[None]:
        """Within it neighbors may be slowed; those that were before are not counted.

        Args:
            everywhere: On all of this machine, not only on the workload's server.
        """
        self.tell({"injecting": True, "everywhere": everywhere})
        self._injecting = True
        try:
            yield
        finally:
            self._injecting = False
            self.tell({"injecting": False})
