"""The seam between the core and the world: what every engine promises.

``wharfinger.testing.check_engine`` holds an engine to these promises:

* ``perform`` never blocks on the workload and never raises for what a workload does; the outcome
  of an action is *reported*, by ``poll``.
* An action asked for twice, also across a restart of the engine, has one effect.
* An end is reported with its status, or as vanished; never "missing, so completed".
* A report may come twice and late; it is never wrong.
* What the engine did not start, it leaves alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from wharfinger.core.actions import EngineAction
from wharfinger.core.events import Report
from wharfinger.model.view import Capabilities


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU time of a whole workload since its start, and what it holds now; ``None`` = unknown."""

    cpu_seconds: float | None
    memory_bytes: int | None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of a workload's output.

    ``next_offset`` is where to read on, from the program's first byte; bytes that rotation dropped
    are skipped. ``ended`` says that nothing more will come.
    """

    data: bytes
    next_offset: int
    ended: bool


class Engine(Protocol):
    """One cluster's means: start, stop, resize, watch."""

    @property
    def name(self) -> str:
        """As in ``wharfinger up --engine NAME``."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do; constant while it is open."""

    def open(self) -> None:
        """Take over what an earlier engine on the same state left, and find the servers.

        Afterwards ``poll`` reports every server, then the state of every start that is still
        known, then ``EngineSynced``, once.

        Raises:
            EngineFault: The engine can't work here; the message says what is missing.
        """

    def perform(self, action: EngineAction) -> None:
        """Begin to carry out an action; ``poll`` reports the outcome."""

    def poll(self, timeout_seconds: float = 0.0) -> Sequence[Report]:
        """Reports since the last call, oldest first; waits up to that long for the first."""

    def fileno(self) -> int:
        """A descriptor that is readable when ``poll`` has something to report."""

    def usage(self) -> Mapping[str, Usage]:
        """What each running workload has used, by key."""

    def read_log(self, key: str, offset: int = 0, limit_bytes: int = 65536) -> LogChunk:
        """Output of a start from ``offset`` on; a negative offset counts from the end.

        Raises ``NotFound`` for an unknown start, ``InvalidInput`` for an impossible offset.
        """

    def close(self) -> None:
        """Release everything without touching what runs."""
