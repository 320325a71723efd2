"""The load generator's connections: send one request, know when its answer is whole.

They look at no more of an answer, so that they cost a fraction of what the service does.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from wharfinger.catalog.programs import resp
from wharfinger.catalog.programs.serving import Connection
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


class LoadClient(Connection):
    """One connection with at most one request under way.

    Args:
        ended: Called with the client, its request and whether that succeeded, once it has its
            answer or will never have one.
        lost: Called when the connection has ended.
        options: The load generator's.
    """

    def __init__(
        self,
        ended: "Callable[[LoadClient, Request, bool], None]",
        lost: "Callable[[LoadClient], None]",
        options: argparse.Namespace,
    ) -> None:
        self.request: Request | None = None
        self.closed = False
        self._ended, self._lost = ended, lost
        self._options = options
        self._written = sample_text(options.value_bytes) if options.write_every else b""
        self._head = b""
        self._missing_bytes = 0

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the request under way as failed."""
        self.closed = True
        self._finish(succeeded=False)
        self._lost(self)

    def send(self, request: Request) -> None:
        """Send a request; there must be none under way."""
        self.request = request
        self.transport.write(self.encoded(request.number))

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
            self._ended(self, request, succeeded)

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

    def encoded(self, number: int) -> bytes:
        """One key of ``--keys``."""
        key = b"key:%d" % (number % self._options.keys)
        if self._options.write_every and number % self._options.write_every == 0:
            return resp.command(b"SET", key, self._written)
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
