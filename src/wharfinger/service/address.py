"""Reaching a Unix socket whose path may be longer than the kernel's 107 bytes.

Imported by the server and by every client command, so it imports next to nothing. A path
that is too long is reached through its directory: opened, and named by the descriptor.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_PATH_BYTES = 107
"""``sun_path`` is 108 bytes, and the kernel wants a NUL at its end."""


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """A name for the socket at ``path`` that ``bind`` and ``connect`` take.

    Raises:
        OSError: The directory can't be opened.
    """
    if len(os.fsencode(path)) <= MAX_PATH_BYTES:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def connect(path: Path, timeout_seconds: float) -> socket.socket:
    """A connection to the socket at ``path``.

    Raises:
        OSError: No process listens there.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_seconds)
        with reachable(path) as name:
            connection.connect(name)
    except BaseException:
        connection.close()
        raise
    return connection
