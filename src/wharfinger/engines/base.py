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
from typing import Literal, Protocol

from wharfinger.core.actions import EngineAction
from wharfinger.core.events import Report
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Workload

LogSource = Literal["output", "load"]
"""What a workload prints, or the load generator of its ``measure`` does."""


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU time of a whole workload since its start, and what it holds now; ``None`` = unknown.

    ``memory_peak_bytes`` is the most that it held so far.
    """

    cpu_seconds: float | None
    memory_bytes: int | None
    processes: int | None = None
    memory_peak_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of a workload's output.

    ``next_offset`` is where to read on, from the program's first byte; bytes that rotation dropped
    are skipped. ``ended`` says that nothing more will come.
    """

    data: bytes
    next_offset: int
    ended: bool


class Execution(Protocol):
    """A command that runs beside a workload's program.

    ``stdout`` and ``stderr`` are descriptors to be read, without blocking, to their end;
    ``fileno()`` is readable once the command has ended.
    """

    stdout: int
    stderr: int

    def fileno(self) -> int:
        """Readable once it has ended."""

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Its exit status, or 128 and the signal that ended it; ``None`` = it still runs."""

    def take_input(self) -> int:
        """A descriptor of its input, to be written without blocking; whoever takes it closes it.

        That ends the input. Raises ``NotFound`` where the input is empty or was taken before.
        """

    def kill(self) -> None:
        """End it and all that it has started; ``wait`` tells when that is done."""

    def close(self) -> None:
        """End it, if it runs, and close the descriptors."""


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

    def check(self, workload: Workload) -> str:
        """Why its program can't run here, for certain: value, place, mend; empty = it may.

        Asked before a workload is taken in.
        """

    def perform(self, action: EngineAction) -> None:
        """Begin to carry out an action; ``poll`` reports the outcome."""

    def poll(self, timeout_seconds: float = 0.0) -> Sequence[Report]:
        """Reports since the last call, oldest first; waits up to that long for the first."""

    def fileno(self) -> int:
        """A descriptor that is readable when ``poll`` has something to report."""

    def usage(self) -> Mapping[str, Usage]:
        """What each running workload has used, by key."""

    def read_log(
        self, key: str, offset: int = 0, limit_bytes: int = 65536, source: LogSource = "output"
    ) -> LogChunk:
        """Output of a start from ``offset`` on; a negative offset counts from the end.

        A load generator's output is that of all its runs, one after another, as far as it is kept.
        Raises ``NotFound`` for an unknown start, or one without a load generator that has run,
        ``InvalidInput`` for an impossible offset.
        """

    def log_offset_at(self, key: str, seconds: float) -> int | None:
        """Where the output begins that was written at a time (since 1970) or later.

        The end of the output if nothing is that new; ``None`` where times are not known, as of a
        start by version 0.1. Raises ``NotFound`` for an unknown start.
        """

    def log_times(
        self, key: str, offset: int = 0, length_bytes: int = 65536
    ) -> Sequence[tuple[int, float]]:
        """When a piece of the output was written: offsets, and since when it went on there.

        In seconds since 1970. Each holds until the next, the first for ``offset``, too; empty where
        times are not known.
        Raises ``NotFound`` for an unknown start.
        """

    def execute(self, key: str, command: Sequence[str], *, stdin: bool = False) -> Execution:
        """Begin a command beside a running program: as its user, with its environment and CPUs.

        With ``stdin`` its input is what is written to ``Execution.take_input``, else empty.
        Its CPU time counts to the workload, its output is not the workload's. The caller closes
        what is returned, which ends it; it ends with the workload or the manager at the latest.

        Raises:
            NotFound: There is no such start, or it does not run.
            InvalidInput: The command is empty, or this engine has no programs to run it beside.
            EngineFault: No process could be made.
        """

    def close(self) -> None:
        """Release everything without touching what runs."""
