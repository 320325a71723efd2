"""Processes of ours that measure, and their channel: JSON in memory, passed as a descriptor.

So neither the size of a message nor a slow receiver can block the sender, and secrets of an
environment are neither on disk nor on a command line. A peer dies with what started it.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.host.descriptors import call_libc

_PR_SET_PDEATHSIG = 1

Message = dict[str, Any]


class Channel:
    """One end of the socket."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def fileno(self) -> int:
        """Readable when there is a message, and at the end."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send a message; raises ``BlockingIOError``, or ``BrokenPipeError`` at the end."""
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


def start_peer(
    module: str,
    *words: object,
    pass_fds: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
    stderr: int | None = None,
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a module; its words begin with the two that it gives ``attach``. Raises ``OSError``."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = (its.fileno(), os.getpid(), *words)
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *map(str, words)],
            pass_fds=(its.fileno(), *pass_fds),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            cwd="/",
            env=env,
        )
    except OSError:
        ours.close()
        raise
    finally:
        its.close()
    return process, ours


def attach(descriptor: str, parent: str) -> Channel:
    """The channel to the process that started us, with which we die; ends us if it is dead."""
    follow_parent()
    if os.getppid() != int(parent):
        sys.exit(0)
    os.set_inheritable(int(descriptor), False)
    return Channel(socket.socket(fileno=int(descriptor)))


def follow_parent(*, follow: bool = True) -> None:
    """Let the kernel kill us when our parent, which must still run, dies; or no more."""
    call_libc("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL if follow else 0)
