"""The HTTP protocol that ``server.py`` gives to uvicorn: who may connect, checked before reading.

On the Unix socket the kernel says whose process it is; on TCP the request must carry the token.
Silent TCP clients are disconnected and their number is bounded, so that a stranger can't use up the
manager's descriptors.
"""

import asyncio
import hmac
import os
import socket
import struct
from collections.abc import Callable
from typing import Any

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from wharfinger.service.routing import answer

_CREDENTIALS = struct.Struct("3i")
"""``struct ucred``: pid, uid, gid."""

MAX_TCP_CONNECTIONS = 256
TCP_REQUEST_SECONDS = 10.0
"""How long a TCP client may take to send the head of its first request."""


def peer_uid(connection: socket.socket) -> int:
    """The user whose process is at the other end of a Unix socket."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(raw)[1])


class TokenGuard:
    """An ASGI app that lets only requests with the ASCII token through to another.

    ``on_success`` is called with each of these.
    """

    def __init__(self, app: ASGIApp, token: str, on_success: Callable[[], None]) -> None:
        self._app = app
        self._expected = token.encode()
        self._on_success = on_success

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, or let the other app answer."""
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) == 1 and self._is_right(given[0]):
            self._on_success()
            await self._app(scope, receive, send)
            return
        refusal = answer(
            401,
            "unauthorized",
            "this address needs the manager's token: send Authorization: Bearer TOKEN",
            headers={"www-authenticate": "Bearer", "connection": "close"},
        )
        await refusal(scope, receive, send)

    def _is_right(self, credentials: bytes) -> bool:
        scheme, _, token = credentials.partition(b" ")
        # Compared in constant time, so that answers do not tell how much was right.
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._expected)


def make_protocol(token: str | None) -> Callable[..., asyncio.Protocol]:
    """The protocol class for uvicorn's connections; without a token TCP is closed."""
    return type("Protocol", (GuardedProtocol,), {"tcp_token": token, "strangers": {}, "known": {}})


class GuardedProtocol(H11Protocol):
    """HTTP/1.1 for users that may speak it here.

    Attributes:
        strangers: TCP connections that have not sent the token yet, oldest first. When there are
            too many connections, the oldest of these makes room: whoever lacks the token can't keep
            others out.
        known: TCP connections that have.
    """

    tcp_token: str | None = None
    strangers: dict["GuardedProtocol", None]
    known: dict["GuardedProtocol", None]
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn narrows it
        """Let the peer in, or close at once."""
        super().connection_made(transport)
        if not self._may_speak(transport.get_extra_info("socket")):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline for its first request, and leave its place to others."""
        self.strangers.pop(self, None)
        self.known.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _may_speak(self, connection: Any) -> bool:
        if connection.family == socket.AF_UNIX:
            return peer_uid(connection) in (0, os.geteuid())
        if self.tcp_token is None or len(self.known) >= MAX_TCP_CONNECTIONS:
            return False
        if len(self.known) + len(self.strangers) >= MAX_TCP_CONNECTIONS:
            oldest = next(iter(self.strangers))
            del self.strangers[oldest]
            oldest.transport.abort()
        self.strangers[self] = None
        self.app = TokenGuard(self.app, self.tcp_token, self._accept)
        self._deadline = self.loop.call_later(TCP_REQUEST_SECONDS, self._close_if_silent)
        return True

    def _accept(self) -> None:
        """It has sent the token."""
        if self.strangers.pop(self, self) is None:
            self.known[self] = None

    def _close_if_silent(self) -> None:
        # uvicorn sets the scope with the first request; its annotation hides the None before.
        if getattr(self, "scope", None) is None and not self.transport.is_closing():
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answer in the API's form also what is not HTTP."""
        body = bytes(answer(400, "invalid-input", msg).body)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
