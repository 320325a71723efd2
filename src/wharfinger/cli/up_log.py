"""What ``up`` writes on standard error: its own log, and a line for each event of the event log.

Lines are written by a thread: a reader that is slow or gone must not keep the manager from what
is due. What does not fit into the queue is counted and left out.
"""

import json
import logging
import os
import queue
import sys
import threading
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from wharfinger.cli import format as fmt
from wharfinger.cli.output import printable
from wharfinger.cli.tables import columns
from wharfinger.errors import WharfingerError

if TYPE_CHECKING:
    from wharfinger.service.driver import Driver
    from wharfinger.store.base import LogEntry

FORMS = ("text", "json", "none")
LEVELS = ("debug", "info", "warning", "error")
_MEASUREMENTS = frozenset({"ServerMeasured", "TargetsTracked"})
_MECHANICS = _MEASUREMENTS | {"TimePassed", "PolicyNoted", "StartAccepted", "WorkloadReviewed"}
"""For level debug; the measurements, which come every few seconds, at a bounded rate."""
_WARNINGS = frozenset({
    "AcquisitionFailed", "ClassificationFailed", "HistoryLost", "PlacementsLost",
    "ProfilingFailed", "ResizeFailed", "ServerLeft", "StartFailed", "TimeLimitReached",
    "TrackingLost", "WorkloadEvicted", "WorkloadRejected", "WorkloadVanished",
})  # fmt: skip
MEASUREMENT_SECONDS = 10.0
WAIT_SECONDS = 30.0
QUEUE_LINES = 10_000
END_SECONDS = 1.0
BATCH = 500


class Lines:
    """Standard error, written to by a thread."""

    def __init__(self, descriptor: int = 2) -> None:
        self._queue: queue.Queue[str | None] = queue.Queue(QUEUE_LINES)
        self._left_out = 0
        self._descriptor = descriptor
        self._thread = threading.Thread(target=self._write, daemon=True, name="log")
        self._thread.start()

    def put(self, line: str) -> None:
        """Write a line, or leave it out where too many wait."""
        try:
            if self._left_out:
                self._queue.put_nowait(f"{self._left_out} lines were left out: nobody read them")
                self._left_out = 0
            self._queue.put_nowait(line)
        except queue.Full:
            self._left_out += 1

    def close(self) -> None:
        """Write what waits, if that does not take long."""
        try:
            self._queue.put(None, timeout=END_SECONDS)
        except queue.Full:
            return
        self._thread.join(END_SECONDS)

    def _write(self) -> None:
        while (line := self._queue.get()) is not None:
            data = f"{line}\n".encode(errors="backslashreplace")
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError:
                continue  # Nobody reads it any more.


class UpLog(logging.Handler):
    """The log of one manager process, in one form, from one level on.

    Args:
        form: ``text``, ``json``, or ``none``: warnings of the process alone, as text.
        level: The least that is written.
        lines: Where to.
    """

    def __init__(self, form: str, level: str, lines: Lines) -> None:
        super().__init__(logging.WARNING)
        self._form, self._level, self._lines = form, level, lines
        self._measured_at: dict[tuple[str, str], float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write what the process itself has to say."""
        level = "warning" if record.levelno < logging.ERROR else "error"
        message = record.getMessage() + _fault(record)
        self._write(record.created, level, {"kind": "", "name": "manager", "message": message})

    async def follow(self, driver: "Driver", after: int) -> None:
        """Write a line for each event after this one, until the driver stops."""
        from wharfinger.service import history  # noqa: PLC0415 - heavy

        store = driver.runtime.store
        ended = False
        while not ended:
            await driver.changed(after, WAIT_SECONDS)
            ended = driver.stopping
            try:
                entries = list(store.read(after=after, limit=BATCH))
            except WharfingerError as error:
                logging.getLogger(__name__).warning("events are no longer logged here: %s", error)
                return
            names = history.names_by_uid(driver.runtime.manager.state)
            for entry in filter(self._is_wanted, entries):
                self._tell(entry, history.event(entry, names).model_dump(mode="json"))
            after = entries[-1].sequence if entries else after
            ended = ended and len(entries) < BATCH

    def _is_wanted(self, entry: "LogEntry") -> bool:
        return self._form != "none" and (entry.kind not in _MECHANICS or self._level == "debug")

    def _tell(self, entry: "LogEntry", event: dict[str, Any]) -> None:
        kind, name = entry.kind, event["name"]
        if kind in _MEASUREMENTS:
            if entry.time - self._measured_at.get((kind, name), 0.0) < MEASUREMENT_SECONDS:
                return
            self._measured_at[kind, name] = entry.time
        message = dict(columns("events", "table"))["MESSAGE"](event)
        message = "" if message == fmt.NONE else message
        told = {"kind": kind, "name": name, "message": message, "sequence": entry.sequence}
        self._write(entry.time, level_of(kind, event["data"]), told)

    def _write(self, time: float, level: str, told: Mapping[str, Any]) -> None:
        if LEVELS.index(level) < LEVELS.index(self._level):
            return
        when = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if self._form == "json":
            self._lines.put(json.dumps({"time": when, "level": level, **told}))
            return
        words = (when, f"{level:<7}", told["name"], told["kind"], told["message"])
        self._lines.put(" ".join(filter(None, map(_one_line, words))))


def level_of(kind: str, data: Mapping[str, Any]) -> str:
    """How much an event matters."""
    failed = kind == "WorkloadFinished" and data["exit_code"] != 0
    if kind in _WARNINGS or failed:
        return "warning"
    return "debug" if kind in _MECHANICS else "info"


def _one_line(text: str) -> str:
    return text if os.environ.get("WHARFINGER_DEBUG") else printable(text.replace("\n", "; "))


def _fault(record: logging.LogRecord) -> str:
    """The exception of a record: what and where, all of it for debugging."""
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    error = record.exc_info[1]
    if os.environ.get("WHARFINGER_DEBUG"):
        return "\n" + "".join(traceback.format_exception(error))
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"; {type(error).__name__}: {error}{place}"


def begin(form: str, level: str) -> tuple[UpLog, Lines]:
    """Write the log from here on; the caller closes the lines."""
    sys.stderr.flush()
    lines = Lines()
    log = UpLog(form, level, lines)
    logging.basicConfig(handlers=[log], level=logging.WARNING)
    return log, lines
