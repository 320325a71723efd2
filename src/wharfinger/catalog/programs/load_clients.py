"""The load generator's connections: send one request, know when its answer is whole.

They look at no more of an answer than that, so that they cost a fraction of what the service
does.
"""

import argparse
import asyncio
from dataclasses import dataclass
from typing import Protocol, cast

from wharfinger.catalog.programs import resp
from wharfinger.catalog.programs.steps import sample_text


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        number: Counts all of them.
        intended: When it was to be sent, in the schedule's seconds.
    """

    number: int
    intended: float


class Owner(Protocol):
    """Whoever keeps the connections."""

    def ended(self, client: "LoadClient", request: Request, succeeded: bool) -> None:
        """A request has its answer, or will never have one."""

    def lost(self, client: "LoadClient") -> None:
        """A connection has ended."""


class LoadClient(asyncio.Protocol):
    """One connection with at most one request under way.

    Args:
        owner: Is told what becomes of requests.
        options: The load generator's.
    """

    def __init__(self, owner: Owner, options: argparse.Namespace) -> None:
        self.request: Request | None = None
        self.closed = False
        self._owner = owner
        self._options = options
        self._head = b""
        self._missing_bytes = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where requests go."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """What was under way has failed."""
        self.closed = True
        self._finish(succeeded=False)
        self._owner.lost(self)

    def abort(self) -> None:
        """Hang up."""
        assert self._transport is not None
        self._transport.abort()

    def send(self, request: Request) -> None:
        """Send a request; there must be none under way."""
        assert self._transport is not None
        self.request = request
        self._transport.write(self.encoded(request.number))

    def data_received(self, data: bytes) -> None:
        """Count what comes, until the answer is whole."""
        if self._missing_bytes:
            self._missing_bytes -= len(data)
        else:
            self._head += data
            size = self.answer_bytes(self._head)
            if size is None:
                return
            self._missing_bytes = size - len(self._head)
        if self._missing_bytes <= 0:
            self._missing_bytes = 0
            self._finish(succeeded=self.is_success(self._head))

    def _finish(self, *, succeeded: bool) -> None:
        request, self.request, self._head = self.request, None, b""
        if request is not None:
            self._owner.ended(self, request, succeeded)

    # --- what the protocols say ----------------------------------------------------------------

    def encoded(self, number: int) -> bytes:
        """The bytes of a request."""
        raise NotImplementedError

    def answer_bytes(self, begin: bytes) -> int | None:
        """How long the whole answer is; ``None`` = its beginning does not say yet."""
        raise NotImplementedError

    def is_success(self, begin: bytes) -> bool:
        """Whether the service did what it was asked for."""
        raise NotImplementedError


class HttpClient(LoadClient):
    """``GET /document/N``."""

    def encoded(self, number: int) -> bytes:
        """One document of ``--keys``."""
        return b"GET /document/%d HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n" % (
            number % self._options.keys
        )

    def answer_bytes(self, begin: bytes) -> int | None:
        r"""Head and body.

        >>> HttpClient.answer_bytes(None, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
        43
        """
        head, end, _ = begin.partition(b"\r\n\r\n")
        if not end:
            return None
        _, found, rest = head.lower().partition(b"\r\ncontent-length:")
        return len(head) + 4 + (int(rest.partition(b"\r\n")[0]) if found else 0)

    def is_success(self, begin: bytes) -> bool:
        """Status 200."""
        return begin[9:12] == b"200"


class KeyValueClient(LoadClient):
    """``GET key:N``, and ``SET`` where writes are asked for."""

    def __init__(self, owner: Owner, options: argparse.Namespace) -> None:
        super().__init__(owner, options)
        self._value = sample_text(options.value_bytes) if options.write_every else b""

    def encoded(self, number: int) -> bytes:
        """One key of ``--keys``."""
        key = b"key:%d" % (number % self._options.keys)
        if self._options.write_every and number % self._options.write_every == 0:
            return resp.command(b"SET", key, self._value)
        return resp.command(b"GET", key)

    def answer_bytes(self, begin: bytes) -> int | None:
        r"""A line, and what it announces.

        >>> KeyValueClient.answer_bytes(None, b"$5\r\nab"), KeyValueClient.answer_bytes(None, b"+O")
        (11, None)
        """
        line, end, _ = begin.partition(b"\r\n")
        if not end:
            return None
        size = int(line[1:]) if line.startswith(b"$") else -1
        return len(line) + 2 + (size + 2 if size >= 0 else 0)

    def is_success(self, begin: bytes) -> bool:
        """No error, and not nil: what was asked for is there."""
        return begin[:1] in (b"+", b"$") and not begin.startswith(b"$-1")


CLIENTS: dict[str, type[LoadClient]] = {"http": HttpClient, "redis": KeyValueClient}
"""By the name that ``--protocol`` takes."""
