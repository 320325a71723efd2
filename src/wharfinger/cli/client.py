"""Speaks HTTP to the manager, over its Unix socket or TCP; every client command goes through here.

Answers come back as plain values; errors as the tree of ``wharfinger.errors``, so that
``main.py`` can say them in one line with the right exit status.
"""

import http.client
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from wharfinger import errors
from wharfinger.cli.addresses import LocalAddress, ManagerAddress, RemoteAddress
from wharfinger.service import listening

APPEAR_SECONDS = 10.0
RETRY_SECONDS = 0.05

Query = Mapping[str, str | int | float | bool | Sequence[str] | None]

_ERRORS: dict[str, type[errors.WharfingerError]] = {
    "invalid-input": errors.InvalidInput,
    "not-found": errors.NotFound,
    "conflict": errors.Conflict,
    "out-of-space": errors.OutOfSpace,
    "unavailable": errors.Unavailable,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the manager answered; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """The API of one manager: that on a state directory, or at any other address."""

    def __init__(self, manager: Path | ManagerAddress) -> None:
        self.address = LocalAddress(manager) if isinstance(manager, Path) else manager
        self._connection = self.address.connection()

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        self._connection.close()
        # ``http.client`` would send what was written of a request that never went out.
        self._connection = self.address.connection()

    def peer_pid(self) -> int:
        """The process at the other end of an open connection; 0 = not of this machine."""
        connection = self._connection.sock
        return listening.peer_pid(connection) if connection is not None else 0

    def wait_for_manager(self, timeout_seconds: float = APPEAR_SECONDS) -> None:
        """Return when a manager listens, or the time is over: the next call then says so."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            try:
                self.address.open(self._connection)
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(RETRY_SECONDS)
            except OSError:
                return
            else:
                return

    def get(self, *path: str, query: Query | None = None) -> Any:
        """The value at a path, whose parts are quoted."""
        return self.send("GET", *path, query=query)

    def send(
        self,
        method: str,
        *path: str,
        query: Query | None = None,
        body: bytes | None = None,
        content_type: str = "application/yaml",
    ) -> Any:
        """The value with which a request is answered; errors as ``call`` raises them."""
        answer = self.call(method, *path, query=query, body=body, content_type=content_type)
        try:
            return json.loads(answer.body)
        except ValueError:
            raise self._foreign(answer) from None

    def call(
        self,
        method: str,
        *path: str,
        query: Query | None = None,
        body: bytes | None = None,
        content_type: str = "application/yaml",
    ) -> Answer:
        """The answer to one request; ``WharfingerError`` as it says, or ``Unavailable``."""
        target = self.address.prefix + _target(path, query)
        headers = dict(self.address.headers)
        if body is not None:
            headers["Content-Type"] = content_type
        fresh = self._connection.sock is None
        try:
            try:
                answer = self._send(method, target, body, headers)
            except (ConnectionError, http.client.BadStatusLine):
                # The manager closes connections that have long been idle.
                self.close()
                if fresh or method != "GET":
                    raise
                answer = self._send(method, target, body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self.address.explain(error) from error
        if answer.status >= 300:
            raise self._error(answer)
        return answer

    def stream(self, method: str, *path: str, body: bytes) -> Iterator[bytes]:
        """The lines of an answer as they come, however long that takes; errors as ``call``."""
        connection = self.address.connection()
        headers = {**self.address.headers, "Content-Type": "application/json"}
        try:
            self.address.open(connection)
            connection.sock.settimeout(None)
            connection.request(method, self.address.prefix + _target(path, None), body, headers)
            response = connection.getresponse()
            if response.status >= 300:
                raise self._error(Answer(response.status, {}, response.read()))
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self.address.explain(error) from error
        try:
            yield from response
        except (OSError, http.client.HTTPException) as error:
            raise errors.Unavailable(f"{self.address} ended in the middle of its answer") from error
        finally:
            connection.close()

    def upload(self, pieces: Iterator[bytes], *path: str) -> None:
        """Post bytes as they come, over a connection of its own; errors as ``call``."""
        connection = self.address.connection()
        headers = {**self.address.headers, "Content-Type": "application/octet-stream"}
        try:
            self.address.open(connection)
            connection.sock.settimeout(None)
            target = self.address.prefix + _target(path, None)
            connection.request("POST", target, pieces, headers, encode_chunked=True)
            response = connection.getresponse()
            if response.status >= 300:
                raise self._error(Answer(response.status, {}, response.read()))
        except (OSError, http.client.HTTPException) as error:
            raise self.address.explain(error) from error
        finally:
            connection.close()

    def _send(
        self, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> Answer:
        if self._connection.sock is None:
            self.address.open(self._connection)
        try:
            self._connection.request(method, target, body, headers)
        except BrokenPipeError:
            # It may have refused a large body before it had read all of it: hear what it says.
            if self._connection.sock is None:
                raise
        response = self._connection.getresponse()
        received = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, received, response.read())

    def _error(self, answer: Answer) -> errors.WharfingerError:
        try:
            detail = json.loads(answer.body)["error"]
            code, message, problems = detail["code"], detail["message"], detail.get("problems")
        except (ValueError, KeyError, TypeError):
            return self._foreign(answer)
        if code == "unauthorized" and isinstance(self.address, RemoteAddress):
            return self.address.refused()
        if code == "invalid-manifest" and problems:
            return errors.InvalidManifest(problems)
        return _ERRORS.get(code, errors.WharfingerError)(message)

    def _foreign(self, answer: Answer) -> errors.Unavailable:
        """What answered is no manager, or a proxy that reaches none."""
        said = f"answered with status {answer.status}, and not as a manager does"
        if not isinstance(self.address, RemoteAddress):
            return errors.Unavailable(f"{self.address} {said}")
        mend = "name a manager's address"
        return errors.Unavailable(f"--server: {self.address.url} {said}; {mend}")


def _target(path: Sequence[str], query: Query | None) -> str:
    target = "/v1/" + "/".join(quote(part, safe="", errors="surrogateescape") for part in path)
    parameters = {
        key: str(value).lower() if isinstance(value, bool) else value
        for key, value in (query or {}).items()
        if value is not None
    }
    question = urlencode(parameters, doseq=True, errors="surrogateescape")
    return f"{target}?{question}" if question else target
