"""Whether a program is ready and alive: attempts that hold up no other workload's.

``watch.Watch`` has one ``Health``, whose ``look`` the meter calls when it is due. Attempts wait in
threads and processes of their own; only the pattern of a line is matched in place, within a limit.
"""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from functools import partial
from math import inf
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from wharfinger.errors import NotFound
from wharfinger.host.run_dir import open_run_dir, read_text, write_synced
from wharfinger.model.workload import Probe
from wharfinger.monitor.commands import CommandRun
from wharfinger.monitor.endpoint import StatusRequest
from wharfinger.monitor.patterns import LIMIT_SECONDS, TookTooLong, any_matches
from wharfinger.monitor.source import ReaderError
from wharfinger.monitor.spec import WatchSpec
from wharfinger.monitor.streams import CHUNK_BYTES, OutputStream

LOOK_SECONDS = 0.05
"""Between two looks at an attempt that is under way."""
REASON_SECONDS = 10.0
"""Between two reports of a program that stays unready for changing reasons."""
READY_FILE = "ready"
"""In a run directory: it has been ready once, so it is to be alive."""

_LOCAL = "127.0.0.1"
_CHUNKS = 16  # of output searched in one look


class HealthWord(StrEnum):
    """What is said of a program."""

    READY = "ready"
    UNREADY = "unready"
    NOT_ALIVE = "not-alive"
    SILENT_LOAD = "silent-load"


class HealthNews(NamedTuple):
    """What has become of a program; ``reason`` is one line, empty where all is well."""

    word: HealthWord
    reason: str = ""


class Attempt(Protocol):
    """One attempt, from when it is made."""

    def outcome(self) -> str | None:
        """Empty = it passed, else why it failed; ``None`` while it is under way."""

    def close(self) -> None:
        """Give it up."""


class _PortAttempt:
    def __init__(self, host: str, port: int, timeout_seconds: float) -> None:
        self._outcome: str | None = None
        work = partial(self._connect, host, port, timeout_seconds)
        threading.Thread(target=work, daemon=True).start()

    def _connect(self, host: str, port: int, timeout_seconds: float) -> None:
        where = f"port {port}" if host == _LOCAL else f"{host}, port {port}"
        try:
            socket.create_connection((host, port), timeout_seconds).close()
            self._outcome = ""
        except TimeoutError:
            self._outcome = f"{where}: no answer within {timeout_seconds:g} s"
        except OSError as error:
            self._outcome = f"{where}: {(error.strerror or str(error)).lower()}"

    def outcome(self) -> str | None:
        return self._outcome

    def close(self) -> None:
        """Its thread ends by itself, at the connection's time limit."""


class _HttpAttempt:
    def __init__(self, url: str, timeout_seconds: float) -> None:
        self._request = StatusRequest(url, timeout_seconds)
        threading.Thread(target=self._request.run, daemon=True).start()

    def outcome(self) -> str | None:
        result = self._request.result
        return str(result) if isinstance(result, ReaderError) else result

    def close(self) -> None:
        self._request.end()


class _CommandAttempt:
    def __init__(self, spec: WatchSpec, command: tuple[str, ...]) -> None:
        self._run = CommandRun(command, spec.env, spec.working_directory, spec.user)
        self._failure: str | None = None
        try:
            self._run.begin()
        except ReaderError as error:
            self._failure = str(error)

    def outcome(self) -> str | None:
        if self._failure is not None:
            return self._failure
        try:
            return None if self._run.output() is None else ""
        except ReaderError as error:
            return str(error)

    def close(self) -> None:
        self._run.close()


class _Lines:
    """A line of the output from its beginning; each attempt reads on."""

    def __init__(self, spec: WatchSpec, regex: str) -> None:
        self._spec = spec
        self._regex = regex
        self._output = OutputStream(Path(spec.run_dir), whole=True)
        self._outcome = ""
        self._too_slow = False

    def attempt(self) -> Attempt:
        if _has_been_ready(self._spec):  # Rotation may have dropped the line since.
            self._outcome = ""
            return self
        if self._too_slow:  # It would be again, and delay others.
            return self
        self._outcome = f"no line of its output matches {self._regex!r} yet"
        with suppress(OSError):
            for _ in range(_CHUNKS):
                before = self._output.offset
                if self._matches(self._output.read()):
                    self._outcome = ""
                read_all = self._output.offset - before < CHUNK_BYTES
                if not self._outcome or self._too_slow or read_all:
                    break
        return self

    def _matches(self, lines: list[str]) -> bool:
        try:
            return any_matches(self._regex, lines)
        except TookTooLong:
            self._outcome = f"the pattern {self._regex!r} took longer than {LIMIT_SECONDS:g} s"
            self._too_slow = True
            return False

    def outcome(self) -> str | None:
        return self._outcome

    def close(self) -> None:
        pass


class Prober:
    """Makes one attempt after another; ``due`` is when to look next, by the clock."""

    def __init__(
        self,
        begin: Callable[[], Attempt],
        every_seconds: float,
        timeout_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self.due = clock()
        self._begin = begin
        self._every_seconds = every_seconds
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._attempt: Attempt | None = None
        self._began = 0.0

    def look(self) -> str | None:
        """The outcome of an attempt that is over now, see ``Attempt``; ``None`` = nothing new."""
        now = self._clock()
        if now < self.due:
            return None
        if self._attempt is None:
            self._began, self._attempt = now, self._begin()
        outcome = self._attempt.outcome()
        if outcome is None and now - self._began >= self._timeout_seconds:
            outcome = f"no answer within {self._timeout_seconds:g} s"
        if outcome is None:
            self.due = min(now + LOOK_SECONDS, self._began + self._timeout_seconds)
            return None
        self.close()
        self.due = max(now + LOOK_SECONDS, self._began + self._every_seconds)
        return outcome

    def close(self) -> None:
        """Give up the attempt that is under way."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.close()


def prober(spec: WatchSpec, probe: Probe, clock: Callable[[], float] = time.monotonic) -> Prober:
    """What makes a probe's attempts; of the probe, exactly one way is stated."""
    begin: Callable[[], Attempt]
    if probe.port is not None:
        begin = partial(_PortAttempt, spec.host, probe.port, probe.timeout_seconds)
    elif probe.http is not None:
        begin = partial(_HttpAttempt, probe.http, probe.timeout_seconds)
    elif probe.command is not None:
        begin = partial(_CommandAttempt, spec, probe.command)
    else:
        begin = _Lines(spec, probe.line or "").attempt
    return Prober(begin, probe.every_seconds, probe.timeout_seconds, clock)


def _reach(url: str, clock: Callable[[], float]) -> Prober:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    usual = Probe(port=port)
    begin = partial(_PortAttempt, parts.hostname or _LOCAL, port, usual.timeout_seconds)
    return Prober(begin, usual.every_seconds, usual.timeout_seconds, clock)


class Health:
    """One program: ready or not, and whether it is still alive.

    ``why_not_ready`` is empty while it is ready; so it is from the start where nothing is probed.
    It becomes unready, or is not alive, after so many failed attempts in a row as its probe says.
    """

    def __init__(self, spec: WatchSpec, clock: Callable[[], float] = time.monotonic) -> None:
        self._spec = spec
        self._clock = clock
        self._ready = prober(spec, spec.ready, clock) if spec.ready else None
        if self._ready is None and spec.reach:
            self._ready = _reach(spec.reach, clock)
        self._alive = prober(spec, spec.alive, clock) if spec.alive else None
        self._was_ready = self._ready is None or _has_been_ready(spec)
        self._failed = self._failed_alive = 0
        self._told: tuple[str, float] | None = None
        self._paused = False
        self.why_not_ready = "not probed yet" if self._ready is not None else ""

    @property
    def due(self) -> float:
        """When to look next, by the clock."""
        return inf if self._paused else min((each.due for each in self._probers()), default=inf)

    def _probers(self) -> list[Prober]:
        alive = self._alive if self._was_ready else None
        return [each for each in (self._ready, alive) if each is not None]

    def pause(self, *, paused: bool) -> None:
        """A suspended program answers nothing: what it failed before is forgotten."""
        self._paused = paused
        self._failed = self._failed_alive = 0
        for each in self._probers():
            each.close()
            each.due = self._clock()

    def look(self) -> list[HealthNews]:
        """What is new, oldest first."""
        if self._paused:
            return []
        news = []
        outcome = self._ready.look() if self._ready else None
        if outcome is not None:
            news += self._judge_ready(outcome)
        if self._alive is not None and self._was_ready:
            outcome = self._alive.look()
            if outcome is not None:
                news += self._judge_alive(outcome)
        return news

    def _judge_ready(self, failure: str) -> list[HealthNews]:
        self._failed = self._failed + 1 if failure else 0
        if not failure:
            self._note_ready()
            return self._tell("")
        probe = self._spec.ready or Probe()
        # Of one that another meter found ready, a first failure says no more than a later one.
        first = self._told is None and self._was_ready
        if (self.why_not_ready and not first) or self._failed >= probe.failures:
            self.why_not_ready = failure
            return self._tell(failure)
        return []

    def _note_ready(self) -> None:
        self.why_not_ready = ""
        probe = self._spec.ready
        if probe is None or probe.line is not None:  # Once reached or said, it stays so.
            self._ready = None
        if not self._was_ready and probe is not None:
            self._was_ready = True
            _note_ready(self._spec)
        self._was_ready = True

    def _tell(self, why: str) -> list[HealthNews]:
        now = self._clock()
        if self._told is not None:
            before, at = self._told
            still = bool(why) == bool(before)
            if still and (why == before or now - at < REASON_SECONDS):
                return []
        self._told = why, now
        return [HealthNews(HealthWord.UNREADY if why else HealthWord.READY, why)]

    def _judge_alive(self, failure: str) -> list[HealthNews]:
        self._failed_alive = self._failed_alive + 1 if failure else 0
        wanted = self._spec.alive.failures if self._spec.alive else 1
        # Told again after as many, should it not have been stopped.
        if not failure or self._failed_alive % wanted:
            return []
        times = f"{self._failed_alive} times in a row"
        return [HealthNews(HealthWord.NOT_ALIVE, f"{failure} ({times})")]

    def close(self) -> None:
        """Give up what is under way."""
        for each in (self._ready, self._alive):
            if each is not None:
                each.close()


def _has_been_ready(spec: WatchSpec) -> bool:
    if not spec.run_dir:
        return False
    with suppress(NotFound), open_run_dir(Path(spec.run_dir)) as directory:
        return read_text(directory, READY_FILE) is not None
    return False


def _note_ready(spec: WatchSpec) -> None:
    if not spec.run_dir:
        return
    # Without room for it, only a restart of the manager is seen: it waits for the readiness again.
    with suppress(NotFound, OSError), open_run_dir(Path(spec.run_dir)) as directory:
        write_synced(directory, READY_FILE, "ready\n")
