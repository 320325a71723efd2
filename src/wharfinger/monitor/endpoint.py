"""GET with limits on time, size and redirects, in a thread of its own.

``Endpoint.take`` never waits, so a slow endpoint delays no other workload's sample.
"""

import http.client
import socket
import threading
import time
from contextlib import suppress
from urllib.parse import urljoin, urlsplit

from wharfinger.monitor.source import ReaderError

LIMIT_SECONDS = 2.0
MAX_BYTES = 1 << 20
MAX_REDIRECTS = 3
_REDIRECTS = {301, 302, 303, 307, 308}


class _Request:
    def __init__(self, url: str, timeout_seconds: float = LIMIT_SECONDS) -> None:
        self.began = time.monotonic()
        self.result: str | ReaderError | None = None
        self._url = url
        self._timeout_seconds = timeout_seconds
        self._socket: socket.socket | None = None
        self._over = False

    def run(self) -> None:
        try:
            self.result = self._follow()
        except TimeoutError:
            reason = f"no answer within {self._timeout_seconds:g} s"
            self.result = ReaderError(f"{self._url}: {reason}")
        except (ReaderError, OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self.result = ReaderError(f"{self._url}: {reason}")

    def end(self) -> None:
        """Close the connection, so that the thread's wait for it fails at once."""
        self._over = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _follow(self) -> str:
        url = self._url
        for _ in range(MAX_REDIRECTS + 1):
            answer, url = self._get(url)
            if answer is not None:
                return answer
            # The user named a host; an answer may not send us to another one.
            host = urlsplit(url).hostname  # without the rest, which may hold a password
            if host != urlsplit(self._url).hostname:
                raise ReaderError(f"redirects to another host, {str(host)[:100]}")
        raise ReaderError(f"redirects more than {MAX_REDIRECTS} times")

    def _get(self, url: str) -> tuple[str | None, str]:
        """The answer, or ``None`` and the URL that it redirects to."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ReaderError("redirects to what is no http URL")
        secure = parts.scheme == "https"
        connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = connect(parts.hostname, parts.port, timeout=self._timeout_seconds)
        try:
            connection.connect()
            self._socket = connection.sock
            if self._over:
                raise ReaderError("took too long")
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", target, headers={"Accept": "text/plain, */*"})
            return self._read(connection.getresponse(), url)
        finally:
            self._socket = None
            connection.close()

    def _read(self, response: http.client.HTTPResponse, url: str) -> tuple[str | None, str]:
        if response.status in _REDIRECTS:
            return None, urljoin(url, response.headers.get("Location", ""))
        if response.status != 200:
            raise ReaderError(f"answers with status {response.status}")
        data = response.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ReaderError(f"the answer is larger than {MAX_BYTES} bytes")
        return data.decode(errors="replace"), url


class StatusRequest(_Request):
    """One GET whose ``result`` is empty for any status from 200 to 399, which nothing follows."""

    def _read(self, response: http.client.HTTPResponse, url: str) -> tuple[str | None, str]:
        if not 200 <= response.status < 400:
            raise ReaderError(f"answers with status {response.status}")
        return "", url


class Endpoint:
    """One URL, asked at most once at a time."""

    def __init__(self, url: str, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._url = url
        self._limit_seconds = limit_seconds
        self._request: _Request | None = None

    def take(self) -> tuple[float, str] | None:
        """When it was asked and its answer, else ``ReaderError``; ``None`` while it is awaited."""
        request = self._request
        if request is None:
            self._begin()
            return None
        if request.result is None:
            if time.monotonic() - request.began < self._limit_seconds:
                return None
            request.end()
            raise ReaderError(f"{self._url}: no answer within {self._limit_seconds:g} s")
        self._begin()
        if isinstance(request.result, ReaderError):
            raise request.result
        return request.began, request.result

    def close(self) -> None:
        """End the request."""
        if self._request is not None:
            self._request.end()

    def _begin(self) -> None:
        self._request = _Request(self._url)
        threading.Thread(target=self._request.run, daemon=True).start()
