"""Checks that hold an engine to the promises of ``wharfinger.engines.base``.

Each check is a function of an ``EngineHarness`` that raises ``AssertionError`` with one line.
Run them one by one in your own tests, so that each stands for itself::

    @pytest.mark.parametrize("check", engine_checks(), ids=lambda check: check.__name__)
    def test_my_engine_keeps_its_promises(check, tmp_path):
        check(EngineHarness(tmp_path, MyEngine, ShellPrograms(tmp_path)))

or all at once::

    >>> from wharfinger.testing import MemoryCluster, MemoryEngine, MemoryPrograms
    >>> from wharfinger.testing import EngineHarness, check_engine
    >>> def harness(directory):
    ...     cluster = MemoryCluster()
    ...     make_engine = lambda state: MemoryEngine(cluster)
    ...     return EngineHarness(directory, make_engine, MemoryPrograms(cluster))
    >>> check_engine(harness)
"""

import select
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from wharfinger.manager import actions as act
from wharfinger.manager import events as ev
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.workload import Run
from wharfinger.testing.harness import (
    ENDS,
    EngineHarness,
    expect,
    expect_no_end,
    expect_no_log,
    expect_one_end,
    expect_status,
)

EngineCheck = Callable[[EngineHarness], None]

_CHECKS: list[EngineCheck] = []


def engine_checks() -> tuple[EngineCheck, ...]:
    """Every check, in the order of their dependence: what fails first explains the rest."""
    return tuple(_CHECKS)


def check_engine(make_harness: Callable[[Path], EngineHarness]) -> None:
    """Run every check, each on a fresh harness in a directory of its own.

    Args:
        make_harness: Is given an empty directory.

    Raises:
        AssertionError: The first promise that is not kept, with the check's name.
    """
    for check in _CHECKS:
        with tempfile.TemporaryDirectory(prefix="check-engine-") as directory:
            try:
                check(make_harness(Path(directory)))
            except AssertionError as error:
                raise AssertionError(f"{check.__name__}: {error}") from error


def _check(check: EngineCheck) -> EngineCheck:
    _CHECKS.append(check)
    return check


# --- opening ----------------------------------------------------------------------------


@_check
def servers_are_reported_before_the_sync(harness: EngineHarness) -> None:
    """A core that knows of the sync knows every server."""
    with harness.session() as session:
        synced = session.wait_for(ev.EngineSynced)
        before = session.reports[: session.reports.index(synced)]
        reported = [r.server.name for r in before if isinstance(r, ev.ServerReported)]
        expect(bool(reported), "no server was reported")
        expect(
            set(reported) == set(synced.servers), f"{reported} reported, {synced.servers} synced"
        )
        expect(not synced.known_keys, f"a new state knows {synced.known_keys}")
        for report in before:
            if isinstance(report, ev.ServerReported):
                _check_server(report)


def _check_server(report: ev.ServerReported) -> None:
    server = report.server
    expect(0 < server.cpu_millicpus <= server.platform.cpu_millicpus, f"CPU of {server}")
    expect(0 < server.memory_bytes <= server.platform.memory_bytes, f"memory of {server}")


@_check
def the_sync_comes_once(harness: EngineHarness) -> None:
    """A second one would make the core ask for everything again."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.exiting("k", 0)))
        session.wait_for_end("k")
        session.take_in()
        times = sum(isinstance(report, ev.EngineSynced) for report in session.reports)
        expect(times == 1, f"EngineSynced came {times} times")


# --- starting and ending -----------------------------------------------------------------


@_check
def a_program_ends_with_its_own_status(harness: EngineHarness) -> None:
    """0, 1, 77 and 255 come back as they were, each after its start."""
    with harness.session() as session:
        for status in (0, 1, 77, 255):
            key = f"exit-{status}"
            session.perform(harness.start(session, key, harness.programs.exiting(key, status)))
        for status in (0, 1, 77, 255):
            key = f"exit-{status}"
            expect_status(session, key, status)
            kinds = [type(report) for report in session.about(key)]
            expect(ev.WorkloadStarted in kinds, f"{key} ended without a start: {kinds}")
            expect(kinds[-1] is ev.WorkloadFinished, f"{kinds} was reported of {key}")


@_check
def what_cannot_start_fails_for_certain(harness: EngineHarness) -> None:
    """A missing program is no exit status 127, and trying again does not help."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.missing("k")))
        failed = session.wait_for(ev.StartFailed, "k")
        expect(not failed.retryable, f"a missing program may be tried again: {failed}")
        expect(bool(failed.reason) and "\n" not in failed.reason, f"the reason of {failed}")
        expect(not any(isinstance(r, ev.WorkloadFinished) for r in session.about("k")), "it ended")


@_check
def no_workload_makes_perform_raise(harness: EngineHarness) -> None:
    """Whatever a user asks to run, the answer is a report."""
    lasting = harness.programs.lasting("k")
    odd = {
        "directory": Run(("/",)),
        "empty-word": Run(("",)),
        "long-word": Run(("/" + "x" * 5000,)),
        "no-folder": replace(lasting, working_directory="/no/such/folder"),
        "odd-env": replace(
            harness.programs.exiting("odd-env", 0), env={"ODD": "\u00e9\n=", "E": ""}
        ),
    }
    with harness.session() as session:
        for key, run in odd.items():
            session.perform(harness.start(session, key, run))
        for key in odd:
            session.perform(act.StopWorkload(key, 0.0))
            session.wait_for_end(key)


@_check
def a_server_that_is_not_there_refuses_retryably(harness: EngineHarness) -> None:
    """Another server may do better."""
    with harness.session() as session:
        run = harness.programs.exiting("k", 0)
        session.perform(harness.start(session, "k", run, server="no-such-server"))
        failed = session.wait_for(ev.StartFailed, "k")
        expect(failed.retryable, f"{failed} can't be tried elsewhere")
        expect(harness.programs.starts("k") == 0, "it was started all the same")


# --- at most once --------------------------------------------------------------------------


@_check
def a_start_asked_for_twice_starts_once(harness: EngineHarness) -> None:
    """In one life of the engine, while it runs and after its end."""
    with harness.session() as session:
        lasting = harness.start(session, "lasts", harness.programs.lasting("lasts"))
        ending = harness.start(session, "ends", harness.programs.exiting("ends", 3))
        session.perform(lasting, lasting, ending, ending)
        session.wait_for(ev.WorkloadStarted, "lasts")
        expect_status(session, "ends", 3)
        session.perform(lasting, ending)
        harness.expect_started_once(session, "lasts", "ends")
        expect_one_end(session, "ends")


@_check
def a_start_asked_for_again_after_a_crash_starts_once(harness: EngineHarness) -> None:
    """The engine dies at once after it was asked, and another is asked again."""
    with harness.session() as session:
        lasting = harness.start(session, "lasts", harness.programs.lasting("lasts"))
        ending = harness.start(session, "ends", harness.programs.exiting("ends", 3))
        session.perform(lasting, ending)
        session.reopen()
        session.perform(lasting, ending)
        session.wait_for(ev.WorkloadStarted, "lasts")
        expect_status(session, "ends", 3)
        session.reopen()
        session.perform(lasting, ending)
        session.wait_for(ev.WorkloadStarted, "lasts")
        expect_status(session, "ends", 3)
        harness.expect_started_once(session, "lasts", "ends")


# --- reports that are lost or late ---------------------------------------------------------


@_check
def what_was_not_reported_is_reported_by_the_next_engine(harness: EngineHarness) -> None:
    """Answers lost in a crash come again, before the sync, with the key among the known."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.exiting("k", 9)))
        session.wait_until(lambda: harness.programs.starts("k") > 0, "start of k")
        session.reopen()
        expect_status(session, "k", 9)
        known = session.wait_for(ev.EngineSynced).known_keys
        expect(known == ("k",), f"the one start was k, known are {known}")


@_check
def an_end_is_told_again_and_always_the_same(harness: EngineHarness) -> None:
    """Until it is forgotten."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.exiting("k", 5)))
        first = session.wait_for_end("k")
        for _ in range(2):
            session.reopen()
            again = session.wait_for_end("k")
            expect(again == first, f"{first} became {again}")


@_check
def slow_answers_lose_nothing(harness: EngineHarness) -> None:
    """Nobody polls while many start and end; then everything is there."""
    with harness.session() as session:
        keys = [f"k{number}" for number in range(8)]
        for status, key in enumerate(keys):
            session.perform(harness.start(session, key, harness.programs.exiting(key, status)))
        deadline = time.monotonic() + harness.deadline_seconds
        while not all(harness.programs.starts(key) for key in keys):
            expect(time.monotonic() < deadline, "not all were started")
            select.select([session.engine], [], [], 0.01)
        for status, key in enumerate(keys):
            expect_status(session, key, status)


@_check
def what_runs_outlives_the_engine(harness: EngineHarness) -> None:
    """Closing touches nothing; the next engine finds it running, not ended."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.lasting("k")))
        session.wait_for(ev.WorkloadStarted, "k")
        session.reopen()
        session.wait_for(ev.WorkloadStarted, "k")
        expect_no_end(session, "k")
        expect("k" in session.engine.usage(), "usage does not name what runs")


# --- stopping and forgetting -----------------------------------------------------------------


@_check
def a_stop_ends_it(harness: EngineHarness) -> None:
    """And asking again changes nothing about how it ended."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.lasting("k")))
        session.wait_for(ev.WorkloadStarted, "k")
        session.perform(act.StopWorkload("k", 5.0), act.StopWorkload("k", 5.0))
        end = session.wait_for(ev.WorkloadFinished, "k")
        expect(end.reason == "stopped", f"a stop was asked for, reported was {end}")
        session.perform(act.StopWorkload("k", 0.0))
        expect_one_end(session, "k")


@_check
def a_stop_right_after_the_start_ends_it(harness: EngineHarness) -> None:
    """Whether it had begun by then or not, there is one end, and then it does not run."""
    with harness.session() as session:
        for number in range(5):
            key = f"k{number}"
            start = harness.start(session, key, harness.programs.lasting(key))
            session.perform(start, act.StopWorkload(key, 0.0))
        for number in range(5):
            end = session.wait_for_end(f"k{number}")
            expect(not isinstance(end, ev.WorkloadVanished), f"it was stopped: {end}")
        expect(not session.engine.usage(), f"{set(session.engine.usage())} still run")


@_check
def a_stop_before_the_start_forbids_it(harness: EngineHarness) -> None:
    """The start may come late, also to another engine: it must fail, for certain."""
    with harness.session() as session:
        start = harness.start(session, "k", harness.programs.lasting("k"))
        session.perform(act.StopWorkload("k", 1.0))
        failed = session.wait_for(ev.StartFailed, "k")
        expect(not failed.retryable, f"{failed} may be tried again")
        for _ in range(2):
            session.forget_reports()
            session.perform(start)
            failed = session.wait_for(ev.StartFailed, "k")
            expect(not failed.retryable, f"{failed} may be tried again")
            session.reopen()
        expect(harness.programs.starts("k") == 0, "it was started all the same")


@_check
def what_is_forgotten_is_gone(harness: EngineHarness) -> None:
    """Its output and its key, also for the next engine; twice does no harm."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.printing("k", "text")))
        session.wait_for_end("k")
        session.perform(act.ForgetWorkload("k"), act.ForgetWorkload("k"))
        session.forget_reports()
        expect_no_log(session, "k")
        session.reopen()
        expect(not session.about("k"), f"{session.about('k')} after it was forgotten")
        expect(not session.wait_for(ev.EngineSynced).known_keys, "the key is still known")


@_check
def what_runs_is_not_forgotten(harness: EngineHarness) -> None:
    """Else nobody could stop it."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.lasting("k")))
        session.wait_for(ev.WorkloadStarted, "k")
        session.perform(act.ForgetWorkload("k"), act.StopWorkload("k", 0.0))
        session.wait_for(ev.WorkloadFinished, "k")


# --- while it runs ---------------------------------------------------------------------------


@_check
def an_allocation_is_resized_in_place(harness: EngineHarness) -> None:
    """Where the engine can; else it says so, and the program goes on in any case."""
    with harness.session() as session:
        start = harness.start(session, "k", harness.programs.lasting("k"))
        session.perform(start)
        session.wait_for(ev.WorkloadStarted, "k")
        wanted = (Placement(start.placements[0].server, Allocation(2000, 128 << 20)),)
        for _ in range(2):
            session.forget_reports()
            session.perform(act.ResizeAllocation("k", wanted))
            if session.engine.capabilities.resize:
                resized = session.wait_for(ev.AllocationResized, "k")
                expect(resized.placements == wanted, f"{wanted} asked for, got {resized}")
            else:
                session.wait_for(ev.ResizeFailed, "k")
        harness.expect_started_once(session, "k")


@_check
def what_is_suspended_can_be_resumed(harness: EngineHarness) -> None:
    """Twice each does no harm; it is still there afterwards."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.lasting("k")))
        session.wait_for(ev.WorkloadStarted, "k")
        suspend, resume = act.SuspendWorkload("k"), act.ResumeWorkload("k")
        session.perform(suspend, suspend, resume, resume, suspend, resume)
        expect_no_end(session, "k")


@_check
def what_is_suspended_can_be_stopped(harness: EngineHarness) -> None:
    """Also by an engine that did not suspend it."""
    with harness.session() as session:
        for key in ("here", "next"):
            session.perform(harness.start(session, key, harness.programs.lasting(key)))
            session.wait_for(ev.WorkloadStarted, key)
            session.perform(act.SuspendWorkload(key))
        session.perform(act.StopWorkload("here", 20.0))
        session.wait_for(ev.WorkloadFinished, "here")
        session.reopen()
        session.perform(act.StopWorkload("next", 20.0))
        session.wait_for(ev.WorkloadFinished, "next")


@_check
def output_is_read_by_offset(harness: EngineHarness) -> None:
    """From the start, from the middle, from the end, in pieces, and past the end."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.printing("k", "0123456789")))
        session.wait_for_end("k")
        read = session.engine.read_log
        whole = read("k")
        expect((whole.data, whole.next_offset) == (b"0123456789", 10), f"read was {whole}")
        expect(whole.ended, "it has ended, the log says that more may come")
        piece = read("k", 2, limit_bytes=3)
        expect((piece.data, piece.next_offset) == (b"234", 5), f"3 bytes from 2: {piece}")
        tail = read("k", -4)
        expect((tail.data, tail.next_offset) == (b"6789", 10), f"4 bytes from the end: {tail}")
        expect(read("k", -99).data == whole.data, "more than there is, from the end")
        expect(read("k", 10).data == b"", "past the end there is nothing")


# --- what the engine did not start --------------------------------------------------------------


@_check
def unknown_keys_are_never_completed(harness: EngineHarness) -> None:
    """What the engine does not know it neither ended nor resized."""
    with harness.session() as session:
        session.forget_reports()
        placement = (Placement("no-such-server", Allocation(1000, 1 << 20)),)
        session.perform(
            act.ForgetWorkload("forget"),
            act.SuspendWorkload("suspend"),
            act.ResumeWorkload("resume"),
            act.ResizeAllocation("resize", placement),
            act.StopWorkload("stop", 0.0),
        )
        session.wait_for(ev.ResizeFailed, "resize")
        session.wait_for(ev.StartFailed, "stop")
        session.take_in(0.1)
        wrong = [
            r for r in session.reports if isinstance(r, ev.WorkloadFinished | ev.WorkloadVanished)
        ]
        expect(not wrong, f"nothing ran, reported was {wrong}")
        expect_no_log(session, "forget")


@_check
def foreign_processes_and_files_are_left_alone(harness: EngineHarness) -> None:
    """A process of somebody else's and a folder in the state directory stay as they are."""
    harness.state.mkdir(exist_ok=True)
    foreign = harness.state / "somebody-elses"
    foreign.mkdir()
    (foreign / "claim").write_text("not an engine's claim")
    with subprocess.Popen(["sleep", "300"], env={"WHARFINGER_KEY": "k"}) as process:
        try:
            with harness.session() as session:
                session.perform(harness.start(session, "k", harness.programs.lasting("k")))
                session.wait_for(ev.WorkloadStarted, "k")
                session.perform(act.StopWorkload("k", 0.0))
                session.wait_for_end("k")
                session.reopen()
            expect(process.poll() is None, "a foreign process was ended")
        finally:
            process.kill()
    expect((foreign / "claim").exists(), "a foreign file was removed")


# --- servers and clocks -------------------------------------------------------------------------


@_check
def a_server_that_leaves_takes_nothing_with_it_unsaid(harness: EngineHarness) -> None:
    """What runs there is reported one by one; what was to start there is refused retryably."""
    if harness.make_elsewhere is None:
        return
    with harness.session() as session:
        running = harness.start(session, "runs", harness.programs.lasting("runs"))
        session.perform(running)
        session.wait_for(ev.WorkloadStarted, "runs")
        late = harness.start(session, "late", harness.programs.lasting("late"))
        session.reopen(harness.elsewhere)
        left = running.placements[0].server
        expect(left not in session.servers, f"{left} did not leave")
        expect(bool(session.about("runs")), "nothing was said of what ran there")
        session.perform(late)
        failed = session.wait_for(ev.StartFailed, "late")
        expect(failed.retryable, f"{failed} can't be tried elsewhere")
        session.perform(act.StopWorkload("runs", 0.0))
        session.wait_for_end("runs")


@_check
def clock_jumps_change_nothing(harness: EngineHarness) -> None:
    """A wall clock that jumps a year ahead and back neither ends nor delays anything."""
    real = time.time
    with harness.session() as session:
        session.perform(harness.start(session, "lasts", harness.programs.lasting("lasts")))
        for number, jump_seconds in enumerate((3e7, -3e7)):
            with patch("time.time", lambda jump=jump_seconds: real() + jump):
                key = f"k{number}"
                session.perform(harness.start(session, key, harness.programs.exiting(key, 4)))
                expect_status(session, key, 4)
                session.reopen()
                expect_status(session, key, 4)
        expect_no_end(session, "lasts")


# --- waiting -------------------------------------------------------------------------------------


@_check
def poll_waits_no_longer_than_it_may(harness: EngineHarness) -> None:
    """Without news it comes back empty; with news it comes back at once."""
    with harness.session() as session:
        session.forget_reports()
        began = time.monotonic()
        expect(list(session.engine.poll(0.05)) == [], "nothing happened, something was reported")
        took_seconds = time.monotonic() - began
        expect(took_seconds < harness.deadline_seconds, f"50 ms took {took_seconds:.1f} s")
        session.perform(harness.start(session, "k", harness.programs.exiting("k", 0)))
        session.reports.extend(session.engine.poll(10 * harness.deadline_seconds))
        took_seconds = time.monotonic() - began
        expect(took_seconds < harness.deadline_seconds, f"news took {took_seconds:.1f} s")
        expect(bool(session.about("k")), "poll came back with nothing before its time")


@_check
def the_descriptor_tells_of_news_and_of_nothing_else(harness: EngineHarness) -> None:
    """A manager that waits on it misses nothing and does not spin."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.exiting("k", 0)))
        while not any(isinstance(report, ENDS) for report in session.about("k")):
            ready, _, _ = select.select([session.engine], [], [], harness.deadline_seconds)
            expect(bool(ready), f"not readable, though k has not ended: {session.about('k')}")
            session.take_in()
        # What is no report, like a process that is reaped, may wake a manager a few times more.
        for _ in range(20):
            if not select.select([session.engine], [], [], 0.02)[0]:
                return
            session.take_in()
        raise AssertionError("still readable when everything has been reported")
