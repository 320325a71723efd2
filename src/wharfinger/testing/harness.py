"""The frame of the checks of an engine: programs to run, and a session that watches reports.

A test gives an ``EngineHarness``: how to make the engine on a state directory, and programs that
this engine can run. Each check is a function of an ``EngineTrial``, an open engine of a harness.
"""

import shlex
import time
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NoReturn, Protocol, TypeVar

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.base import Engine
from wharfinger.errors import NotFound
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.workload import Probe, Run, Workload, WorkloadType

R = TypeVar("R", bound=ev.Report)
T = TypeVar("T")

End = ev.WorkloadFinished | ev.WorkloadVanished | ev.WorkloadEvicted | ev.StartFailed
FAILED = 3
"""Exit status of a program that fails."""
ENDS = (ev.WorkloadFinished, ev.WorkloadVanished, ev.WorkloadEvicted, ev.StartFailed)


def expect(condition: bool, message: str) -> None:
    """Fail the check; unlike ``assert`` also under ``python -O``."""
    if not condition:
        raise AssertionError(message)


@dataclass(frozen=True, slots=True)
class Expecting:
    """``expect``, with messages that begin with a context."""

    context: str

    def __call__(self, condition: bool, message: str) -> None:
        """Fail the check where the condition does not hold."""
        if not condition:
            raise AssertionError(f"{self.context}: {message}")


class Programs(Protocol):
    """Programs for an engine to run; every one of them counts that it was started.

    Engines without ``Capabilities.probes`` need no ``failing``, ``getting_ready`` and ``hanging``.
    """

    def exiting(self, key: str, status: int) -> Run:
        """Ends at once with this status."""

    def lasting(self, key: str) -> Run:
        """Runs until it is stopped."""

    def printing(self, key: str, text: str) -> Run:
        """Prints this text and ends with status 0."""

    def failing(self, key: str, text: str) -> Run:
        """Prints this text, a line, and ends with status ``FAILED``."""

    def getting_ready(self, key: str) -> Run:
        """Has a readiness probe, which passes a little after its start; runs until stopped."""

    def hanging(self, key: str) -> Run:
        """Has both probes; it gets ready, and soon its liveness probe fails for good."""

    def working(self, key: str) -> Run:
        """Does one small piece of work after another until it is stopped."""

    def missing(self, key: str) -> Run:
        """Can't be started, for certain."""

    def starts(self, key: str) -> int:
        """How often the key's program was really started."""

    def work_done(self, key: str) -> int:
        """How many pieces the key's ``working`` program has done; it gets the time for more."""


class ShellPrograms:
    """Real programs on this machine; each start leaves a line in a file of a directory."""

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

    def failing(self, key: str, text: str) -> Run:
        """``echo TEXT; exit 3``."""
        return self._shell(key, f"echo {shlex.quote(text)}; exit {FAILED}")

    def getting_ready(self, key: str) -> Run:
        """Makes a file, whose presence is probed."""
        path, there = self._probed(key)
        run = self._shell(key, f"sleep 0.3; : > {path}; exec sleep 300")
        return replace(run, ready=there)

    def hanging(self, key: str) -> Run:
        """Makes a file, whose presence is probed, and removes it once that was found."""
        path, there = self._probed(key)
        found = shlex.quote(str(self._directory / f"found.{key}"))
        ready = replace(there, command=("sh", "-c", f"test -e {path} && : > {found}"))
        script = f": > {path}; until [ -e {found} ]; do sleep 0.1; done; rm {path}"
        return replace(self._shell(key, f"{script}; exec sleep 300"), ready=ready, alive=there)

    def _probed(self, key: str) -> tuple[str, Probe]:
        path = str(self._directory / f"probed.{key}")
        there = Probe(command=("test", "-e", path), every_seconds=0.2, timeout_seconds=10.0)
        return shlex.quote(path), there

    def working(self, key: str) -> Run:
        """Appends a line to a file, again and again."""
        return self._shell(key, f"while :; do {self._append('done', key)}; sleep 0.01; done")

    def missing(self, key: str) -> Run:
        """A path where nothing is."""
        return Run((str(self._directory / "no-such-program"),))

    def starts(self, key: str) -> int:
        """Lines that the starts have left."""
        return self._lines("started", key)

    def work_done(self, key: str) -> int:
        """Lines that the program has appended."""
        return self._lines("done", key)

    def _append(self, what: str, key: str) -> str:
        return f"echo {what} >> {shlex.quote(str(self._directory / f'{what}.{key}'))}"

    def _lines(self, what: str, key: str) -> int:
        path = self._directory / f"{what}.{key}"
        return path.read_text().count("\n") if path.exists() else 0

    def _shell(self, key: str, script: str) -> Run:
        return Run(("/bin/sh", "-c", f"{self._append('started', key)}; {script}"))


@dataclass(slots=True)
class Session:
    """One engine after another on one state, and what the present one has reported, oldest first.

    ``servers`` are the names of those that it had when it was opened.
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
        return self._wait(
            lambda: [r for r in self.about(key) if isinstance(r, kind)],
            f"{kind.__name__}{f' about {key!r}' if key else ''}",
        )[0]

    def wait_for_end(self, key: str) -> End:
        """How a start ended, or that it never was one."""
        return self._wait(lambda: self.ends(key), f"an end of {key!r}")[0]

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something that shows outside the engine, while reports go on coming in."""
        self._wait(condition, what)

    def about(self, key: str | None) -> list[ev.Report]:
        """What was reported about a key so far; ``None`` = about anything."""
        return [r for r in self.reports if key is None or getattr(r, "key", None) == key]

    def ends(self, key: str) -> list[End]:
        """Those that were reported of a key so far."""
        return [report for report in self.about(key) if isinstance(report, ENDS)]

    def take_in(self, timeout_seconds: float = 0.0) -> None:
        """One call of ``poll``."""
        self.reports.extend(self.engine.poll(timeout_seconds))

    def forget_reports(self) -> None:
        """Take in what there is, and start over."""
        self.take_in()
        self.reports.clear()

    def _wait(self, look: Callable[[], T], what: str) -> T:
        deadline = time.monotonic() + self.deadline_seconds
        while not (seen := look()):
            left = deadline - time.monotonic()
            expect(left > 0, f"no {what} in {self.deadline_seconds} s, only {self.reports}")
            self.take_in(min(left, 0.05))
        return seen


@dataclass(slots=True)
class EngineTrial(Session):
    """A session of the engine under check, with its programs, and what checks expect of it."""

    harness: "EngineHarness" = field(kw_only=True)

    @property
    def programs(self) -> Programs:
        """The harness's."""
        return self.harness.programs

    def action(self, key: str, run: Run, server: str | None = None) -> act.StartWorkload:
        """A start of one CPU and 64 MiB on a server, by default the engine's first."""
        workload = Workload(key, WorkloadType.SINGLE_NODE, run)
        placement = Placement(server or self.servers[0], Allocation(1000, 64 << 20))
        return act.StartWorkload(key, workload, (placement,))

    def start(self, key: str, run: Run | None = None, server: str | None = None) -> None:
        """Ask for a start, by default of a program that lasts."""
        self.perform(self.action(key, run or self.programs.lasting(key), server))

    def run_lasting(self, key: str) -> None:
        """Start a program that lasts, and wait until it runs."""
        self.start(key)
        self.wait_for(ev.WorkloadStarted, key)

    def skip(self, reason: str) -> NoReturn:
        """Say that a promise can't be checked here; pytest and unittest show it as skipped.

        Raises:
            unittest.SkipTest: Always.
        """
        raise unittest.SkipTest(reason)

    def expect_status(self, key: str, status: int) -> None:
        """The program of this key exited with this status."""
        end = self.wait_for_end(key)
        expect(
            isinstance(end, ev.WorkloadFinished)
            and (end.exit_code, end.signal, end.reason) == (status, None, "exited"),
            f"{key} exited with {status}, reported was {end}",
        )

    def expect_refused(self, key: str, *, retryable: bool) -> ev.StartFailed:
        """The start failed, and says whether it may be tried again, elsewhere."""
        failed = self.wait_for(ev.StartFailed, key)
        expect(failed.retryable == retryable, f"{failed} says retryable={failed.retryable}")
        return failed

    def expect_no_end(self, key: str) -> None:
        """It runs, and nothing else was said, nor is in the next moment."""
        self.take_in(0.1)
        expect(not self.ends(key), f"{key} runs, reported was {self.ends(key)}")

    def expect_one_end(self, key: str) -> None:
        """It ended, in one way only, however often that was told."""
        end = self.wait_for_end(key)
        self.take_in(0.1)
        ends = set(self.ends(key))
        expect(ends == {end}, f"one start of {key}, several ends: {ends}")

    def expect_no_log(self, key: str) -> None:
        """The engine has no output under this key."""
        try:
            chunk = self.engine.read_log(key)
        except NotFound:
            return
        raise AssertionError(f"there is no start {key}, its output is {chunk}")

    def expect_started_once(self, *keys: str) -> None:
        """Each of these really began, and none began again in the next moment."""
        for key in keys:
            self.wait_until(partial(self.programs.starts, key), f"trace of {key}")
        self.take_in(0.1)
        for key in keys:
            times = self.programs.starts(key)
            expect(times == 1, f"{key} was started {times} times")

    def expect_never_started(self, key: str) -> None:
        """No program of this key ever began."""
        expect(self.programs.starts(key) == 0, f"{key} was started all the same")

    def clean_up(self) -> None:
        """Another engine takes over, stops and forgets all that it knows, and closes."""
        self.reopen()
        for key in self.wait_for(ev.EngineSynced).known_keys:
            self.perform(act.StopWorkload(key, 0.0))
            self.wait_for_end(key)
            self.perform(act.ForgetWorkload(key))
        self.engine.close()


@dataclass(frozen=True, slots=True)
class EngineHarness:
    """An engine to be checked.

    Attributes:
        directory: Empty; the checks' own files are here, the engine's in ``state`` below.
        make_engine: Makes the engine on a state directory; each time what it makes takes over what
            the one before left.
        programs: Programs that this engine can run.
        make_elsewhere: The same engine when all its servers have left and others, of other names,
            have come; ``None`` where a test can't make that happen.
        remove_servers: The same for an open engine.
        deadline_seconds: How long anything may take before a check fails.
        occupy: On the open engine's first server others hold so many thousandths of a CPU and bytes
            of memory from now on; ``None`` where a test can't make that happen.
        evict: Makes what runs the engine take a start off, from outside; ``None`` where a test
            can't make that happen.
        offer: Hands a workload in to the engine, to be held; answers with its handle.
        withdraw: Takes what was offered under a handle back.
        lose_server: Takes a start that runs on several servers off this one of them; so with it.
    """

    directory: Path
    make_engine: Callable[[Path], Engine]
    programs: Programs
    make_elsewhere: Callable[[Path], Engine] | None = None
    remove_servers: Callable[[Engine], None] | None = None
    deadline_seconds: float = 60.0
    occupy: Callable[[Engine, int, int], None] | None = None
    evict: Callable[[str], None] | None = None
    lose_server: Callable[[str, str], None] | None = None
    offer: Callable[[Workload], str] | None = None
    withdraw: Callable[[str], None] | None = None

    @property
    def state(self) -> Path:
        """The engine's state directory."""
        return self.directory / "state"

    @contextmanager
    def trial(self) -> Iterator[EngineTrial]:
        """An open engine; at the end all that it knows is stopped and forgotten."""
        self.state.mkdir(exist_ok=True)
        make_engine = partial(self.make_engine, self.state)
        trial = EngineTrial(make_engine, self.deadline_seconds, harness=self)
        trial.open()
        try:
            yield trial
        finally:
            trial.clean_up()


class EngineCheck(Protocol):
    """One promise, as a function that raises ``AssertionError`` where it is not kept.

    Where the harness has not what it takes, it raises ``unittest.SkipTest`` with the reason.
    """

    __name__: str

    def __call__(self, harness: EngineHarness) -> None:
        """Check it."""
