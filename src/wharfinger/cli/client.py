"""Speaks HTTP to the manager over its Unix socket; every client command goes through here.

Answers come back as plain values; errors as the tree of ``wharfinger.errors``, so that
``main.py`` can say them in one line with the right exit status.
"""

import http.client
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from wharfinger import errors
from wharfinger.runtime.state_directory import default_state_directory
from wharfinger.service import listening

TIMEOUT_SECONDS = 60.0
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
    """The API of the manager on a state directory."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._connection = http.client.HTTPConnection("wharfinger")

    def _connect(self) -> None:
        self._connection.sock = listening.connect(self._state / "socket", TIMEOUT_SECONDS)

    def wait_for_manager(self, timeout_seconds: float = APPEAR_SECONDS) -> None:
        """Return when a manager listens, or the time is over: the next call then says so."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            try:
                self._connect()
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(RETRY_SECONDS)
            except OSError:
                return
            else:
                return

    def get(self, *path: str, query: Query | None = None) -> Any:
        """The value at a path, whose parts are quoted."""
        return json.loads(self.call("GET", *path, query=query).body)

    def call(
        self,
        method: str,
        *path: str,
        query: Query | None = None,
        body: bytes | None = None,
        content_type: str = "application/yaml",
    ) -> Answer:
        """The answer to one request; ``WharfingerError`` as it says, or ``Unavailable``."""
        target = _target(path, query)
        headers = {} if body is None else {"Content-Type": content_type}
        fresh = self._connection.sock is None
        try:
            try:
                answer = self._send(method, target, body, headers)
            except (ConnectionError, http.client.BadStatusLine):
                # The manager closes connections that have long been idle.
                self._connection.close()
                if fresh or method != "GET":
                    raise
                answer = self._send(method, target, body, headers)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise self._unreachable(error) from error
        if answer.status >= 400:
            raise _error(answer)
        return answer

    def _send(
        self, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> Answer:
        if self._connection.sock is None:
            self._connect()
        try:
            self._connection.request(method, target, body, headers)
        except BrokenPipeError:
            # It may have refused a large body before it had read all of it: hear what it says.
            if self._connection.sock is None:
                raise
        response = self._connection.getresponse()
        received = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, received, response.read())

    def _unreachable(self, error: Exception) -> errors.Unavailable:
        where = self._state
        message = (
            f"the manager on {where} closed the connection to uid {os.geteuid()} "
            f"({type(error).__name__}); it serves its own user and root, while it runs"
        )
        if isinstance(error, FileNotFoundError | ConnectionRefusedError | NotADirectoryError):
            option = "" if where == default_state_directory().absolute() else f" --state {where}"
            message = f"no manager runs on {where}; start one with: wharfinger up{option}"
        elif isinstance(error, PermissionError):
            message = f"{where} is another user's; name a manager of your own with --state"
        elif isinstance(error, TimeoutError):
            message = f"the manager on {where} does not answer within {TIMEOUT_SECONDS:g} s"
        return errors.Unavailable(message)


def _target(path: Sequence[str], query: Query | None) -> str:
    target = "/v1/" + "/".join(quote(part, safe="", errors="surrogateescape") for part in path)
    parameters = {
        key: str(value).lower() if isinstance(value, bool) else value
        for key, value in (query or {}).items()
        if value is not None
    }
    question = urlencode(parameters, doseq=True, errors="surrogateescape")
    return f"{target}?{question}" if question else target


def _error(answer: Answer) -> errors.WharfingerError:
    try:
        detail = json.loads(answer.body)["error"]
        code, message, problems = detail["code"], detail["message"], detail.get("problems")
    except (ValueError, KeyError, TypeError):
        return errors.Unavailable(f"the manager answered with status {answer.status}")
    if code == "invalid-manifest" and problems:
        return errors.InvalidManifest(problems)
    return _ERRORS.get(code, errors.WharfingerError)(message)
