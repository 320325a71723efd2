"""What the engine notes of each start: where it is, which job it is, how it ended.

On the manager's disk, where no workload can reach it. A note is there before Slurm is asked for
anything, and an end is noted before it is reported.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from wharfinger.core import events as ev
from wharfinger.core.codec import decode_event, encode_event
from wharfinger.engines.notes import Notes
from wharfinger.engines.slurm.script import cpus_for, mebibytes_for
from wharfinger.errors import StoreDamaged
from wharfinger.host.reports import End
from wharfinger.model.allocation import Placement
from wharfinger.model.workload import Workload

IDENTITY = "identity"
_PREFIX = "start/"
_SHARED_DIR = "shared-dir"
_ARRAY_LIMIT = "array-limit/"


@dataclass(frozen=True, slots=True)
class StartNote:
    """One start.

    Attributes:
        workload: Its name, for messages.
        placements: Where it is, by its newest allocation; empty = its key is forbidden.
        cpus, memory_bytes: What its job holds, on each of its nodes.
        job_id: Slurm's number; ``None`` = not handed in yet, as far as is known.
        reports: That it started, and how it ended, as they are logged.
        of_user: Its job is a user's, which we have only let go.
        user: Who handed that in; empty = not known.
        user_job_id, user_cpus: Its number, and the CPUs that it states: noted before it is changed.
        handle: What that was offered as.
        several: It began on several nodes, and has a run directory for each.
        lost: Of those, where it is no more.
    """

    workload: str = ""
    placements: tuple[Placement, ...] = ()
    cpus: int = 0
    memory_bytes: int = 0
    job_id: int | None = None
    reports: tuple[tuple[str, str], ...] = ()
    of_user: bool = False
    user: str = ""
    user_job_id: int | None = None
    user_cpus: int = 0
    several: bool = False
    handle: str = ""
    lost: tuple[Placement, ...] = ()

    def without(self, lost: tuple[Placement, ...]) -> "StartNote":
        """The same after it has lost these placements."""
        gone = {placement.server for placement in lost}
        return replace(
            self,
            placements=tuple(p for p in self.placements if p.server not in gone),
            lost=(*(p for p in self.lost if p.server not in gone), *lost),
        )

    @property
    def has_end(self) -> bool:
        """Whether it is noted how it ended."""
        return any(kind != ev.WorkloadStarted.__name__ for kind, _ in self.reports)

    def with_reports(self, reports: Iterable[ev.WorkloadStarted | End]) -> "StartNote":
        """The same with these reports of its start and end."""
        plain = (encode_event(report) for report in reports)
        return replace(self, reports=tuple((kind, data.decode()) for kind, data in plain))

    def read_reports(self) -> tuple[ev.WorkloadStarted | None, End | None]:
        """Of its start and of its end; ``None`` = not yet, or unreadable."""
        started, end = None, None
        for kind, payload in self.reports:
            try:
                report = decode_event(kind, payload.encode())
            except StoreDamaged:
                continue
            if isinstance(report, ev.WorkloadStarted):
                started = report
            elif isinstance(report, End):
                end = report
        return started, end


def note_of(workload: Workload, placements: tuple[Placement, ...]) -> StartNote:
    """The note of a start of ours, before Slurm is asked for anything."""
    return StartNote(
        workload.name,
        placements,
        cpus_for(placements),
        mebibytes_for(placements) << 20,
        several=len(placements) > 1,
    )


class StartNotes:
    """The notes of all starts of one engine; may be used on any thread."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def get(self, key: str) -> StartNote | None:
        """The note of a start; ``None`` = there is none that can be read."""
        return _decode(self._notes.get(f"{_PREFIX}{key}"))

    def put(self, notes: Mapping[str, StartNote]) -> None:
        """Write these down; raises ``OutOfSpace``."""
        self._notes.put(
            {f"{_PREFIX}{k}": msgspec.json.encode(note).decode() for k, note in notes.items()}
        )

    def delete(self, keys: Iterable[str]) -> None:
        """Remove these; raises ``OutOfSpace``."""
        self._notes.delete(*(f"{_PREFIX}{key}" for key in keys))

    def items(self) -> dict[str, StartNote]:
        """All of them by key."""
        found = {}
        for name, text in self._notes.items().items():
            note = _decode(text) if name.startswith(_PREFIX) else None
            if note is not None:
                found[name.removeprefix(_PREFIX)] = note
        return found

    def shared_dir(self) -> str | None:
        """Where the records of starts are; empty = nowhere, ``None`` = that was not noted."""
        return self._notes.get(_SHARED_DIR)

    def put_shared_dir(self, path: str) -> None:
        """Note where; raises ``OutOfSpace``."""
        self._notes.put({_SHARED_DIR: path})

    def array_limits(self) -> dict[int, int]:
        """How many tasks of an array may run at a time, by its number."""
        return {
            int(name.removeprefix(_ARRAY_LIMIT)): int(text)
            for name, text in self._notes.items().items()
            if name.startswith(_ARRAY_LIMIT)
        }

    def put_array_limits(self, limits: Mapping[int, int]) -> None:
        """Note these in place of all others; raises ``OutOfSpace``."""
        noted = self.array_limits()
        if gone := noted.keys() - limits.keys():
            self._notes.delete(*(f"{_ARRAY_LIMIT}{number}" for number in gone))
        if new := limits.items() - noted.items():
            self._notes.put({f"{_ARRAY_LIMIT}{number}": str(most) for number, most in new})

    def identity(self, make: str) -> str:
        """Twelve hexadecimal digits that name this engine's jobs; ``make`` if there were none."""
        identity = self._notes.get(IDENTITY)
        if identity is None:
            self._notes.put({IDENTITY: make})
            return make
        return identity


def _decode(text: str | None) -> StartNote | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=StartNote)
    except msgspec.MsgspecError:
        return None
