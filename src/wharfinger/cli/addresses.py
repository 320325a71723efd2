"""Where a manager is: behind the socket in its state directory, or at a URL with a token.

``context.py`` finds the one that is meant; ``client.py`` opens connections by it, and words what
went wrong by it.
"""

import http.client
import os
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from wharfinger.errors import InvalidInput, Unavailable, WharfingerError
from wharfinger.runtime.state_directory import default_state_directory
from wharfinger.service import listening

TIMEOUT_SECONDS = 60.0
CONNECT_SECONDS = 10.0


class ManagerAddress(Protocol):
    """How a manager is reached.

    Attributes:
        remote: Whether it may be on another machine.
        prefix: Before every path.
        headers: Of every request.
    """

    @property
    def remote(self) -> bool: ...  # noqa: D102 - above
    @property
    def prefix(self) -> str: ...  # noqa: D102 - above
    @property
    def headers(self) -> dict[str, str]: ...  # noqa: D102 - above

    def connection(self) -> http.client.HTTPConnection:
        """One that is not open yet."""

    def open(self, connection: http.client.HTTPConnection) -> None:
        """Open it; ``OSError`` where nothing listens."""

    def explain(self, error: Exception) -> Unavailable:
        """Why a request has failed, and what to do about it."""


@dataclass(frozen=True, slots=True)
class LocalAddress:
    """The manager on a state directory."""

    state: Path
    remote: bool = False
    prefix: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"the manager on {self.state}"

    def connection(self) -> http.client.HTTPConnection:
        """One that is not open yet."""
        return http.client.HTTPConnection("wharfinger")

    def open(self, connection: http.client.HTTPConnection) -> None:
        """Connect to its socket."""
        connection.sock = listening.connect(self.state / "socket", TIMEOUT_SECONDS)

    def explain(self, error: Exception) -> Unavailable:
        """Why a request has failed."""
        where = self.state
        message = (
            f"{self} closed the connection to uid {os.geteuid()} "
            f"({type(error).__name__}); it serves its own user and root, while it runs"
        )
        if isinstance(error, FileNotFoundError | ConnectionRefusedError | NotADirectoryError):
            option = "" if where == default_state_directory().absolute() else f" --state {where}"
            message = f"no manager runs on {where}; start one with: wharfinger up{option}"
        elif isinstance(error, PermissionError):
            message = f"{where} is another user's; name a manager of your own with --state"
        elif isinstance(error, TimeoutError):
            message = f"{self} does not answer within {TIMEOUT_SECONDS:g} s"
        return Unavailable(message)


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """A manager that serves TCP.

    Attributes:
        url: ``http://HOST:PORT`` or ``https://HOST[:PORT]``, perhaps with a path.
        token: Empty = there is none.
        place: Where the token was given, for messages.
    """

    url: str
    token: str = field(default="", repr=False)
    place: str = ""
    remote: bool = True

    def __post_init__(self) -> None:
        """Raise ``InvalidInput`` where ``url`` does not have its form."""
        parts = urlsplit(self.url)
        mend = "write http://HOST:PORT or https://HOST"
        try:
            whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            whole = False
        if not whole or parts.username or parts.query or parts.fragment or not self.url.isascii():
            raise InvalidInput(f"--server: {self.url!r} is not the URL of a manager; {mend}")

    def __str__(self) -> str:
        return f"the manager at {self.url}"

    @property
    def prefix(self) -> str:
        """The path of the URL: of a proxy that serves more than one."""
        return urlsplit(self.url).path.rstrip("/")

    @property
    def headers(self) -> dict[str, str]:
        """The token."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def connection(self) -> http.client.HTTPConnection:
        """One that is not open yet; with TLS the system's authorities are trusted."""
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=CONNECT_SECONDS, context=context)

    def open(self, connection: http.client.HTTPConnection) -> None:
        """Connect."""
        connection.connect()
        connection.sock.settimeout(TIMEOUT_SECONDS)

    def explain(self, error: Exception) -> Unavailable:
        """Why a request has failed."""
        url = self.url
        if isinstance(error, ConnectionRefusedError):
            message = f"nothing listens at {url}; start a manager there with: up --listen HOST:PORT"
        elif isinstance(error, socket.gaierror):
            message = f"--server: {url}: {error.strerror}; name a host that is known here"
        elif isinstance(error, ssl.SSLCertVerificationError):
            message = f"--server: {url}: {error.verify_message}; this machine does not trust it"
        elif isinstance(error, ssl.SSLError):
            message = f"--server: {url} does not speak TLS; write http:// if no proxy does"
        elif isinstance(error, TimeoutError):
            message = (
                f"{url} does not answer; is it the manager's address, and reachable from here?"
            )
        elif isinstance(error, OSError) and not isinstance(error, ConnectionError):
            message = f"--server: {url}: {error.strerror or error}; name a host that can be reached"
        elif isinstance(error, http.client.HTTPException) and not isinstance(
            error, http.client.RemoteDisconnected
        ):
            message = f"--server: {url} does not answer as a manager does; name a manager's address"
        else:
            message = f"{self} closed the connection; it may be ending, or serve too many clients"
        return Unavailable(message)

    def refused(self) -> WharfingerError:
        """The manager does not know the token."""
        if not self.token:
            given = "--token-file FILE, WHARFINGER_TOKEN_FILE or WHARFINGER_TOKEN"
            return InvalidInput(f"{self} asks for a token; give it with {given}")
        return InvalidInput(f"{self} refuses the token of {self.place}; give that of its operator")
