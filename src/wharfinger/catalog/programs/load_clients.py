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
    """One request, by its number; ``intended`` is when to send it, in the schedule's seconds."""

    number: int
    intended: float


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a protocol asks and answers.

    Attributes:
        encoded: The bytes of a request, by its number.
        answer_bytes: How long the whole answer is, by its beginning; ``None`` = not known yet.
        is_success: Whether the service did what it was asked for, by the answer's beginning.
    """

    encoded: Callable[[int], bytes]
    answer_bytes: Callable[[bytes], int | None]
    is_success: Callable[[bytes], bool]


class LoadClient(Connection):
    """One connection with at most one request under way.

    Args:
        dialect: Of the service.
        ended: Called with the client, its request and whether that succeeded, once it has its
            answer or will never have one.
        lost: Called when the connection has ended.
    """

    def __init__(
        self,
        dialect: Dialect,
        ended: "Callable[[LoadClient, Request, bool], None]",
        lost: "Callable[[LoadClient], None]",
    ) -> None:
        self.request: Request | None = None
        self.closed = False
        self._dialect, self._ended, self._lost = dialect, ended, lost
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
        self.transport.write(self._dialect.encoded(request.number))

    def data_received(self, data: bytes) -> None:
        """Count what comes, until the answer is whole."""
        if self._missing_bytes:
            self._missing_bytes -= len(data)
        else:
            self._head += data
            size = self._dialect.answer_bytes(self._head)
            if size is None:
                return
            self._missing_bytes = size - len(self._head)
        if self._missing_bytes <= 0:
            self._missing_bytes = 0
            self._finish(succeeded=self._dialect.is_success(self._head))

    def _finish(self, *, succeeded: bool) -> None:
        request, self.request, self._head = self.request, None, b""
        if request is not None:
            self._ended(self, request, succeeded)


def http(options: argparse.Namespace) -> Dialect:
    """``GET /document/N`` for one document of ``--keys``; status 200 is success."""
    request = b"GET /document/%d HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n"
    return Dialect(
        lambda number: request % (number % options.keys),
        http_answer_bytes,
        lambda begin: begin[9:12] == b"200",
    )


def http_answer_bytes(begin: bytes) -> int | None:
    r"""Of head and body.

    >>> http_answer_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
    43
    """
    head, end, _ = begin.partition(b"\r\n\r\n")
    if not end:
        return None
    _, stated, rest = head.lower().partition(b"\r\ncontent-length:")
    return len(head) + 4 + (int(rest.partition(b"\r\n")[0]) if stated else 0)


def redis(options: argparse.Namespace) -> Dialect:
    """``GET key:N`` for one key of ``--keys``, and ``SET`` where writes are asked for.

    An error is no success, nor is nil: what was asked for is not there.
    """
    value = sample_text(options.value_bytes) if options.write_every else b""

    def encoded(number: int) -> bytes:
        key = b"key:%d" % (number % options.keys)
        if options.write_every and number % options.write_every == 0:
            return resp.command(b"SET", key, value)
        return resp.command(b"GET", key)

    return Dialect(
        encoded,
        redis_answer_bytes,
        lambda begin: begin[:1] in (b"+", b"$") and not begin.startswith(b"$-1"),
    )


def redis_answer_bytes(begin: bytes) -> int | None:
    r"""Of a line, and what it announces.

    >>> redis_answer_bytes(b"$5\r\nab"), redis_answer_bytes(b"+O")
    (11, None)
    """
    line, end, _ = begin.partition(b"\r\n")
    if not end:
        return None
    size = int(line[1:]) if line.startswith(b"$") else -1
    return len(line) + 2 + (size + 2 if size >= 0 else 0)


DIALECTS = {"http": http, "redis": redis}
"""By the name that ``--protocol`` takes."""
