"""The managers of this machine and the CPUs that each gives out, as they tell each other.

Each holds a Unix socket of which only the name is used: it is abstract, so the kernel shows it to
all users of a network namespace (``/proc/net/unix``) and drops it with its process.
"""

import os
import re
import socket
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wharfinger.host.topology import format_cpus, parse_cpus

_PREFIX = "wharfinger-manager"
_MOST_SHOWN_CHARACTERS = 60
_RANGE = r"\d{1,4}(?:-\d{1,4})?"
_NAME = re.compile(rf"@{_PREFIX}/(\d{{1,10}})/([^/]+)/({_RANGE}(?:,{_RANGE})*)")
_SOCKETS = Path("/proc/net/unix")


@dataclass(frozen=True, slots=True)
class OtherManager:
    """Another one, by its process, and the CPUs that it gives out."""

    pid: int
    cpus: frozenset[int]


class Presence:
    """What one manager tells the others; ``identity`` is its own on this machine."""

    def __init__(self, identity: str) -> None:
        self._identity = identity
        self._socket: socket.socket | None = None
        self._name = ""

    def announce(self, cpus: Collection[int]) -> None:
        """Say which CPUs we give out; replaces what was said before."""
        told = format_cpus(cpus).replace("+", ",")
        if len(told) > _MOST_SHOWN_CHARACTERS:
            told = f"{min(cpus)}-{max(cpus)}"
        name = f"\0{_PREFIX}/{os.getpid()}/{self._identity}/{told}"
        if self._socket is not None and name == self._name:
            return
        self.close()
        self._name = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        # Taken: by ourselves, in an engine that was not closed. It says the same.
        with suppress(OSError):
            self._socket.bind(name)

    def others(self) -> tuple[OtherManager, ...]:
        """Those that run now, in a stable order; empty where the kernel does not tell."""
        found = (m for pid, identity, m in _managers() if (pid, identity) != self._own)
        return tuple(sorted(found, key=lambda manager: manager.pid))

    @property
    def _own(self) -> tuple[int, str]:
        return os.getpid(), self._identity

    def close(self) -> None:
        """Say nothing any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _managers() -> Iterator[tuple[int, str, OtherManager]]:
    try:
        lines = _SOCKETS.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        name = line.rpartition(" ")[2]
        # Anybody may take such a name; what is no manager's is passed over.
        if match := _NAME.fullmatch(name):
            pid, identity, cpus = int(match[1]), match[2], match[3]
            yield pid, identity, OtherManager(pid, parse_cpus(cpus))
