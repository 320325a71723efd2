"""A recorded log, decided again by the same core from the same reports and requests.

A log holds of each step its cause, then its decisions. Here each cause goes through a fresh core,
whose decisions are compared, byte by byte, with the log's. It shows whether today's core would
decide as it did then, and whether a simulated run is reproducible. The first difference ends it.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from wharfinger.core import events as ev
from wharfinger.core.codec import decode_event, encode_event
from wharfinger.core.pipeline import Core
from wharfinger.core.state import ManagerState
from wharfinger.errors import InvalidInput
from wharfinger.runtime.state_directory import StateDirectory
from wharfinger.store.sqlite import SqliteStore

CAUSES = (*get_args(ev.Report), *get_args(ev.ClientRequest))


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One line of a log; ``number`` counts from 1."""

    number: int
    time: float
    kind: str
    payload: bytes

    @property
    def event(self) -> ev.Event:
        """The event.

        Raises:
            StoreDamaged: It can't be read.
        """
        return decode_event(self.kind, self.payload)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the core decides otherwise.

    Attributes:
        entry: Number in the log.
        cause: Kind of the event that was decided about.
        logged: Kind and event in the log; ``decided``: what the core decides now. Empty = none.
    """

    entry: int
    time: float
    cause: str
    logged: str
    decided: str


@dataclass(frozen=True, slots=True)
class Replay:
    """The outcome of a replay.

    Attributes:
        events: Number of log entries read; ``steps`` of them causes.
        decisions: Events that the core decided, all equal to the log's except the last.
        managers: Processes that have led the log.
        workloads: Submitted ones.
        difference: The first; ``None`` = there is none.
    """

    events: int
    steps: int
    decisions: int
    managers: int
    workloads: int
    difference: Difference | None


MakeManager = Callable[[ev.ManagerStarted, ManagerState | None], Core]


def replay(log: Iterable[LoggedEvent], make_manager: MakeManager) -> Replay:
    """Decide a log again.

    Args:
        log: From its beginning.
        make_manager: The core for a process that led the log, around the state that it found.

    Raises:
        InvalidInput: The log does not begin with a manager's start.
    """
    entries = iter(log)
    manager: Core | None = None
    steps = decisions = managers = workloads = seen = 0
    for entry in entries:
        cause = entry.event
        seen += 1
        if isinstance(cause, ev.ManagerStarted):
            managers += 1
            manager = make_manager(cause, None if manager is None else manager.state)
        if manager is None or not isinstance(cause, CAUSES):
            raise InvalidInput(
                f"event {entry.number} is {entry.kind}: a log is decided again from its beginning "
                "only, and this is not one"
            )
        workloads += isinstance(cause, ev.WorkloadSubmitted)
        steps += 1
        decided = [encode_event(event) for event in manager.handle(entry.time, cause).events]
        # The cause comes first where it was news; a log has nothing else.
        for at, (kind, payload) in enumerate(decided or [("", b"")]):
            logged = entry if at == 0 else next(entries, None)
            seen += at > 0 and logged is not None
            decisions += at > 0
            if logged is None or (logged.kind, logged.payload) != (kind, payload):
                told = "" if logged is None else _told(logged.kind, logged.payload)
                place = entry.number + at if logged is None else logged.number
                difference = Difference(place, entry.time, entry.kind, told, _told(kind, payload))
                return Replay(seen, steps, decisions, managers, workloads, difference)
    return Replay(seen, steps, decisions, managers, workloads, None)


def _told(kind: str, payload: bytes) -> str:
    return f"{kind} {payload.decode()}" if kind else ""


def log_of_state(path: Path) -> Iterator[LoggedEvent]:
    """The log of a manager that does not run now; its files are left as they are.

    Raises:
        InvalidInput: There is no log, or its beginning is no longer kept.
        Conflict: A manager runs on it.
    """
    if not (path / "manager.db").exists():
        raise InvalidInput(f"{path}: no manager's state is there; name a state directory")
    directory = StateDirectory(path)
    directory.lock()
    try:
        with tempfile.TemporaryDirectory(prefix="wharfinger-replay-") as scratch:
            for file in path.iterdir():
                if file.is_file() and file.name != "lock":
                    shutil.copy2(file, scratch)
            store = SqliteStore.open(Path(scratch))
            try:
                if store.first_sequence > 1:
                    raise InvalidInput(
                        f"{path}: its log begins at event {store.first_sequence}, older ones are "
                        "kept no more; only a whole log can be decided again"
                    )
                for entry in store.read():
                    yield LoggedEvent(entry.sequence, entry.time, entry.kind, entry.payload)
            finally:
                store.close()
    finally:
        directory.unlock()
