"""Messages between manager and meter: JSON in memory, passed over a socket as a descriptor.

So neither the size of a message nor a slow receiver can block the sender, and secrets of an
environment are neither on disk nor on a command line.
"""

import contextlib
import json
import os
import socket
from typing import Any

Message = dict[str, Any]


class Channel:
    """One end of the socket."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def fileno(self) -> int:
        """Readable when there is a message, and at the end."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send a message.

        Raises:
            BlockingIOError: The other end accepts none now, and this end may not wait.
            BrokenPipeError: The other end is gone.
        """
        with contextlib.closing(os.fdopen(os.memfd_create("wharfinger-meter"), "wb")) as memory:
            memory.write(json.dumps(message).encode())
            memory.flush()
            socket.send_fds(self._socket, [b"m"], [memory.fileno()], socket.MSG_NOSIGNAL)

    def receive(self) -> Message | None:
        """The next message, ``None`` at the end; ``BlockingIOError`` where there is none yet."""
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
    """Both ends of a socket that keeps message boundaries."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
