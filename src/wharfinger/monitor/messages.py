"""What manager and meter say to each other: JSON in sealed memory, passed over a socket.

A message is a descriptor of memory, so that neither its size nor the other's slowness can block
the sender, and secrets of an environment touch neither disk nor command line.
"""

import contextlib
import json
import os
import socket
from typing import Any

from wharfinger.model.performance import NoSignal, Quantity, Reading, Sample

Message = dict[str, Any]


class Channel:
    """One end of the socket."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def fileno(self) -> int:
        """Readable when there is a message, and at the end."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Pass a message on.

        Raises:
            BlockingIOError: The other end takes none, and this end may not wait.
            BrokenPipeError: The other end is gone.
        """
        with contextlib.closing(os.fdopen(os.memfd_create("wharfinger-meter"), "wb")) as memory:
            memory.write(json.dumps(message).encode())
            memory.flush()
            socket.send_fds(self._socket, [b"m"], [memory.fileno()], socket.MSG_NOSIGNAL)

    def receive(self) -> Message | None:
        """The next message; ``None`` = the other end is gone.

        Raises:
            BlockingIOError: There is none.
        """
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, 1, 1)
        except ConnectionError:
            return None
        if not data or not descriptors:
            return None
        with contextlib.closing(os.fdopen(descriptors[0], "rb")) as memory:
            memory.seek(0)
            message: Message = json.load(memory)
        return message

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


def make_pair() -> tuple[socket.socket, socket.socket]:
    """Both ends; they keep messages apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def pack_sample(sample: Sample) -> list[Any]:
    """A sample as JSON can hold it."""
    readings = {
        quantity: [reading.value, reading.source, reading.trusted, reading.correlation]
        for quantity, reading in sample.readings.items()
    }
    silent = {quantity: silence.reason for quantity, silence in sample.silent.items()}
    return [sample.key, readings, silent]


def unpack_sample(plain: list[Any]) -> Sample:
    """The sample again."""
    key, readings, silent = plain
    return Sample(
        key,
        {Quantity(quantity): Reading(*values) for quantity, values in readings.items()},
        {Quantity(quantity): NoSignal(reason) for quantity, reason in silent.items()},
    )
