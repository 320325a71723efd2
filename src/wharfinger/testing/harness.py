"""What the checks of an engine stand on: programs to run, and a session that watches reports.

``wharfinger.testing.engine`` has the checks themselves. A test gives an ``EngineHarness``:
how to make the engine on a state directory, and programs that this engine can run.
"""

import shlex
import time
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NoReturn, Protocol, TypeVar

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.base import Engine
from wharfinger.errors import NotFound
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.workload import Run, Workload, WorkloadType

R = TypeVar("R", bound=ev.Report)

End = ev.WorkloadFinished | ev.WorkloadVanished | ev.StartFailed
ENDS = (ev.WorkloadFinished, ev.WorkloadVanished, ev.StartFailed)


def expect(condition: bool, message: str) -> None:
    """Fail the check; unlike ``assert`` also under ``python -O``."""
    if not condition:
        raise AssertionError(message)


class Programs(Protocol):
    """Programs for an engine to run; every one of them counts that it was started."""

    def exiting(self, key: str, status: int) -> Run:
        """Ends at once with this status."""

    def lasting(self, key: str) -> Run:
        """Runs until it is stopped."""

    def printing(self, key: str, text: str) -> Run:
        """Prints this text and ends with status 0."""

    def working(self, key: str) -> Run:
        """Does one small piece of work after another until it is stopped."""

    def missing(self, key: str) -> Run:
        """Can't be started, for certain."""

    def starts(self, key: str) -> int:
        """How often the key's program was really started."""

    def work_done(self, key: str) -> int:
        """How many pieces the key's ``working`` program has done; it gets the time for more."""


class ShellPrograms:
    """Real programs, for engines on this machine.

    Args:
        directory: Each start leaves a line in a file here; must be writable for workloads.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def exiting(self, key: str, status: int) -> Run:
        """``exit STATUS``."""
        return self._shell(key, f"exit {status}")

    def lasting(self, key: str) -> Run:
        """A sleep so long that the check is over first, so short that no leftover stays."""
        return self._shell(key, "exec sleep 300")

    def printing(self, key: str, text: str) -> Run:
        """``printf TEXT``."""
        return self._shell(key, f"printf %s {shlex.quote(text)}")

    def working(self, key: str) -> Run:
        """Appends a line to a file, again and again."""
        done = shlex.quote(str(self._done(key)))
        return self._shell(key, f"while :; do echo done >> {done}; sleep 0.01; done")

    def missing(self, key: str) -> Run:
        """A path where nothing is."""
        return Run((str(self._directory / "no-such-program"),))

    def starts(self, key: str) -> int:
        """Lines that the starts have left."""
        return _count_lines(self._started(key))

    def work_done(self, key: str) -> int:
        """Lines that the program has appended."""
        return _count_lines(self._done(key))

    def _done(self, key: str) -> Path:
        return self._directory / f"done.{key}"

    def _started(self, key: str) -> Path:
        return self._directory / f"started.{key}"

    def _shell(self, key: str, script: str) -> Run:
        mark = f"echo started >> {shlex.quote(str(self._started(key)))}"
        return Run(("/bin/sh", "-c", f"{mark}; {script}"))


def _count_lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


@dataclass(slots=True)
class Session:
    """One engine after another on one state, and what the present one has reported.

    Attributes:
        engine: The present engine, open.
        reports: What it has reported, oldest first.
        servers: Names of the servers that it had when it was opened.
    """

    make_engine: Callable[[], Engine]
    deadline_seconds: float
    engine: Engine = field(init=False)
    reports: list[ev.Report] = field(default_factory=list)
    servers: tuple[str, ...] = ()

    def open(self) -> None:
        """Open an engine and wait until it has reported what it found."""
        self.engine = self.make_engine()
        self.engine.open()
        self.reports.clear()
        self.servers = self.wait_for(ev.EngineSynced).servers

    def reopen(self, make_engine: Callable[[], Engine] | None = None) -> None:
        """Let the engine die, with what it had not reported yet, and another take over."""
        self.engine.close()
        self.make_engine = make_engine or self.make_engine
        self.open()

    def perform(self, *actions: act.EngineAction) -> None:
        """Ask for these, one after another."""
        for action in actions:
            self.engine.perform(action)

    def wait_for(self, kind: type[R], key: str | None = None) -> R:
        """The first report of a kind (about a key), however long ago; waits for it."""
        found = self._wait(
            lambda: next((r for r in self.reports if isinstance(r, kind) and _about(r, key)), None),
            f"{kind.__name__}{f' about {key!r}' if key else ''}",
        )
        if not isinstance(found, kind):
            raise TypeError(f"{found} is no {kind}")
        return found

    def wait_for_end(self, key: str) -> End:
        """How a start ended, or that it never was one."""
        found = self._wait(
            lambda: next((r for r in self.reports if isinstance(r, ENDS) and r.key == key), None),
            f"an end of {key!r}",
        )
        if not isinstance(found, ENDS):
            raise TypeError(f"{found} is no end")
        return found

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something that shows outside the engine, while reports go on coming in."""
        self._wait(lambda: True if condition() else None, what)

    def about(self, key: str) -> list[ev.Report]:
        """What was reported about a key so far."""
        return [report for report in self.reports if getattr(report, "key", None) == key]

    def take_in(self, timeout_seconds: float = 0.0) -> None:
        """One call of ``poll``."""
        self.reports.extend(self.engine.poll(timeout_seconds))

    def forget_reports(self) -> None:
        """Take in what there is, and start over."""
        self.take_in()
        self.reports.clear()

    def _wait(self, look: Callable[[], object], what: str) -> object:
        deadline = time.monotonic() + self.deadline_seconds
        while (found := look()) is None:
            left = deadline - time.monotonic()
            expect(left > 0, f"no {what} in {self.deadline_seconds} s, only {self.reports}")
            self.take_in(min(left, 0.05))
        return found


def _about(report: ev.Report, key: str | None) -> bool:
    return key is None or getattr(report, "key", None) == key


def expect_status(session: Session, key: str, status: int) -> None:
    """The program of this key exited with this status."""
    end = session.wait_for_end(key)
    expect(
        isinstance(end, ev.WorkloadFinished)
        and (end.exit_code, end.signal, end.reason) == (status, None, "exited"),
        f"{key} exited with {status}, reported was {end}",
    )


def expect_no_end(session: Session, key: str) -> None:
    """It runs, and nothing else was said, nor is in the next moment."""
    session.take_in(0.1)
    ends = [report for report in session.about(key) if isinstance(report, ENDS)]
    expect(not ends, f"{key} runs, reported was {ends}")


def expect_one_end(session: Session, key: str) -> End:
    """It ended, in one way only, however often that was told."""
    end = session.wait_for_end(key)
    session.take_in(0.1)
    ends = {report for report in session.about(key) if isinstance(report, ENDS)}
    expect(ends == {end}, f"one start of {key}, several ends: {ends}")
    return end


def expect_no_log(session: Session, key: str) -> None:
    """The engine has no output under this key."""
    try:
        chunk = session.engine.read_log(key)
    except NotFound:
        return
    raise AssertionError(f"there is no start {key}, its output is {chunk}")


@dataclass(frozen=True, slots=True)
class EngineHarness:
    """An engine to be checked.

    Attributes:
        directory: Empty; the checks' own files are here, the engine's in ``state`` below.
        make_engine: Makes the engine on a state directory; it may be called many times, and
            each time what it makes takes over what the one before left.
        programs: Programs that this engine can run.
        make_elsewhere: The same engine when all its servers have left and others, of other
            names, have come; ``None`` where a test can't make that happen.
        remove_servers: Makes all servers of an open engine leave and others, of other names,
            come; ``None`` where a test can't make that happen.
        deadline_seconds: How long anything may take before a check fails.
    """

    directory: Path
    make_engine: Callable[[Path], Engine]
    programs: Programs
    make_elsewhere: Callable[[Path], Engine] | None = None
    remove_servers: Callable[[Engine], None] | None = None
    deadline_seconds: float = 30.0

    @property
    def state(self) -> Path:
        """The engine's state directory."""
        return self.directory / "state"

    @contextmanager
    def session(self) -> Iterator[Session]:
        """An open engine; at the end all that it knows is stopped and forgotten."""
        self.state.mkdir(exist_ok=True)
        session = Session(lambda: self.make_engine(self.state), self.deadline_seconds)
        session.open()
        try:
            yield session
        finally:
            _clean_up(session)

    def elsewhere(self) -> Engine:
        """The engine that ``make_elsewhere`` makes."""
        if self.make_elsewhere is None:
            self.skip("this harness has no make_elsewhere")
        return self.make_elsewhere(self.state)

    def skip(self, reason: str) -> NoReturn:
        """Say that a promise can't be checked here; pytest and unittest show it as skipped.

        Raises:
            unittest.SkipTest: Always.
        """
        raise unittest.SkipTest(reason)

    def start(
        self, session: Session, key: str, run: Run, server: str | None = None
    ) -> act.StartWorkload:
        """A start of one CPU and 64 MiB on a server, by default the engine's first."""
        workload = Workload(key, WorkloadType.SINGLE_NODE, run)
        placement = Placement(server or session.servers[0], Allocation(1000, 64 << 20))
        return act.StartWorkload(key, workload, (placement,))

    def expect_started_once(self, session: Session, *keys: str) -> None:
        """Each of these really began, and none began again in the next moment."""
        for key in keys:
            session.wait_until(partial(self._has_started, key), f"trace of {key}")
        session.take_in(0.1)
        for key in keys:
            times = self.programs.starts(key)
            expect(times == 1, f"{key} was started {times} times")

    def _has_started(self, key: str) -> bool:
        return self.programs.starts(key) > 0


class EngineCheck(Protocol):
    """One promise, as a function that raises ``AssertionError`` where it is not kept.

    Where the harness has not what it takes, it raises ``unittest.SkipTest`` with the reason.
    """

    __name__: str

    def __call__(self, harness: EngineHarness) -> None:
        """Check it."""


def _clean_up(session: Session) -> None:
    session.reopen()
    for key in session.wait_for(ev.EngineSynced).known_keys:
        session.perform(act.StopWorkload(key, 0.0))
        session.wait_for_end(key)
        session.perform(act.ForgetWorkload(key))
    session.engine.close()
