"""Checks of an engine, second part: what is asked of a start, and what happens around it.

Run by ``wharfinger.testing.engine``, which says how to use them.
"""

import select
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from unittest.mock import patch

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.performance import Quantity
from wharfinger.model.workload import Target
from wharfinger.testing.harness import (
    ENDS,
    EngineCheck,
    EngineHarness,
    Session,
    expect,
    expect_no_end,
    expect_no_log,
    expect_one_end,
    expect_status,
)

# --- stopping and forgetting -----------------------------------------------------------------


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


def what_runs_is_not_forgotten(harness: EngineHarness) -> None:
    """Else it could not be stopped."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.lasting("k")))
        session.wait_for(ev.WorkloadStarted, "k")
        session.perform(act.ForgetWorkload("k"), act.StopWorkload("k", 0.0))
        session.wait_for(ev.WorkloadFinished, "k")


# --- while it runs ---------------------------------------------------------------------------


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


def a_workload_joins_and_leaves_servers(harness: EngineHarness) -> None:
    """Where the engine can spread one: at its start, and as it runs; it goes on where it stays."""
    with harness.session() as session:
        able = session.engine.capabilities
        if len(session.servers) < 2 or able.max_servers_per_workload < 2 or not able.resize:
            harness.skip("no second server here, or no workload may be on two")
        first = harness.start(session, "k", harness.programs.lasting("k"))
        second = harness.start(session, "l", harness.programs.lasting("l"), session.servers[1])
        both = (*first.placements, *second.placements)
        session.perform(first, replace(second, placements=both))
        for key in ("k", "l"):
            session.wait_for(ev.WorkloadStarted, key)
        for key in ("k", "l"):
            for wanted in (both, first.placements, both[::-1], both[1:]):
                session.forget_reports()
                session.perform(act.ResizeAllocation(key, wanted))
                resized = session.wait_for(ev.AllocationResized, key)
                expect(resized.placements == wanted, f"{wanted} asked for, got {resized}")
            expect_no_end(session, key)


def what_is_suspended_can_be_resumed(harness: EngineHarness) -> None:
    """Twice each does no harm; it is still there afterwards."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.lasting("k")))
        session.wait_for(ev.WorkloadStarted, "k")
        suspend, resume = act.SuspendWorkload("k"), act.ResumeWorkload("k")
        session.perform(suspend, suspend, resume, resume, suspend, resume)
        expect_no_end(session, "k")


def what_is_suspended_stands_still(harness: EngineHarness) -> None:
    """Until it is resumed; then it goes on where it was."""
    with harness.session() as session:
        if not session.engine.capabilities.suspend:
            harness.skip("this engine does not suspend")
        done = partial(harness.programs.work_done, "k")
        session.perform(harness.start(session, "k", harness.programs.working("k")))
        session.wait_until(lambda: done() > 0, "work of k")
        session.perform(act.SuspendWorkload("k"))
        session.wait_until(partial(_stands_still, session, done), "pause in the work of k")
        still = done()
        session.perform(act.ResumeWorkload("k"))
        session.wait_until(lambda: done() > still, "work of k after it was resumed")
        harness.expect_started_once(session, "k")


def _stands_still(session: Session, work_done: Callable[[], int]) -> bool:
    """For several times as long as the program takes for a piece."""
    before = work_done()
    until_seconds = time.monotonic() + 0.3
    while (left := until_seconds - time.monotonic()) > 0:
        session.take_in(left)
    return work_done() == before


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


def a_server_that_leaves_while_something_starts(harness: EngineHarness) -> None:
    """Each start there is answered: it goes on, or is over; a later one is refused retryably."""
    if harness.remove_servers is None:
        harness.skip("this harness has no remove_servers")
    with harness.session() as session:
        left = session.servers[0]
        keys = [f"k{number}" for number in range(4)]
        for key in keys:
            session.perform(harness.start(session, key, harness.programs.lasting(key)))
        harness.remove_servers(session.engine)
        session.perform(harness.start(session, "late", harness.programs.lasting("late"), left))
        gone = session.wait_for(ev.ServerLeft)
        expect(gone.name == left, f"{left} left, reported was {gone}")
        failed = session.wait_for(ev.StartFailed, "late")
        expect(failed.retryable, f"{failed} can't be tried elsewhere")
        for key in keys:
            session.wait_until(partial(_is_answered, session, key), f"answer to the start of {key}")
        _stop_all(session, keys)
        for key in keys:
            expect(harness.programs.starts(key) <= 1, f"{key} was started more than once")
        expect(harness.programs.starts("late") == 0, "it was started where no server is")


def _is_answered(session: Session, key: str) -> bool:
    return any(isinstance(report, (ev.WorkloadStarted, *ENDS)) for report in session.about(key))


def _stop_all(session: Session, keys: Sequence[str]) -> None:
    """All stop, each with one end, and nothing runs any more."""
    for key in keys:
        session.perform(act.StopWorkload(key, 0.0))
    for key in keys:
        session.wait_for_end(key)
    session.take_in(0.1)
    for key in keys:
        ends = {report for report in session.about(key) if isinstance(report, ENDS)}
        expect(len(ends) == 1, f"one start of {key}, several ends: {ends}")
    expect(not session.engine.usage(), f"{set(session.engine.usage())} still run")


def servers_that_left_while_nobody_watched_take_nothing_with_them(harness: EngineHarness) -> None:
    """The next engine tells of what ran and what was starting there, and starts nothing there."""
    if harness.make_elsewhere is None:
        harness.skip("this harness has no make_elsewhere")
    with harness.session() as session:
        left = session.servers[0]
        session.perform(harness.start(session, "runs", harness.programs.lasting("runs")))
        session.wait_for(ev.WorkloadStarted, "runs")
        starting = harness.start(session, "starts", harness.programs.lasting("starts"))
        late = harness.start(session, "late", harness.programs.lasting("late"))
        session.perform(starting)
        session.reopen(harness.elsewhere)
        expect(left not in session.servers, f"{left} did not leave")
        expect(bool(session.about("runs")), "nothing was said of what ran there")
        session.perform(starting, late)
        failed = session.wait_for(ev.StartFailed, "late")
        expect(failed.retryable, f"{failed} can't be tried elsewhere")
        session.wait_until(partial(_is_answered, session, "starts"), "answer to what was starting")
        _stop_all(session, ["runs", "starts"])
        expect(harness.programs.starts("starts") <= 1, "it was started more than once")


def what_runs_is_measured(harness: EngineHarness) -> None:
    """Where the engine says that it measures: numbers or the reason for none, never silence."""
    with harness.session() as session:
        if not session.engine.capabilities.measures:
            harness.skip("this engine does not measure")
        start = harness.start(session, "k", harness.programs.lasting("k"))
        workload = replace(start.workload, target=Target(rate_per_second=1.0))
        session.perform(replace(start, workload=workload))
        session.wait_for(ev.WorkloadStarted, "k")
        for _ in range(2):  # Asked for twice it is measured once.
            session.perform(act.MeasureWorkload("k", workload))
        session.perform(act.MeasureWorkload("unknown", workload))
        report = session.wait_for(ev.ServerMeasured)
        expect(report.server == session.servers[0], f"it runs on another server: {report}")
        expect([sample.key for sample in report.samples] == ["k"], f"only k runs: {report}")
        (sample,) = report.samples
        said = Quantity.RATE in {*sample.readings, *sample.silent}
        expect(said, f"a rate is the target, and nothing is said of it: {sample}")
        session.perform(act.StopWorkload("k", 0.0))
        session.wait_for_end("k")
        session.forget_reports()
        session.take_in(0.1)
        late = [report for report in session.reports if isinstance(report, ev.ServerMeasured)]
        expect(not late, f"it has ended, and was measured: {late}")


def clock_jumps_change_nothing(harness: EngineHarness) -> None:
    """A wall clock that jumps a year ahead and back neither ends nor delays anything.

    The clock that jumps is the one that Python code of this process asks, by ``time.time`` and
    ``time.time_ns``: an engine that reckons its waiting or its ends by them fails here. What
    other processes and compiled code ask, e.g. the local engine's supervisor, does not jump:
    of them this shows nothing.
    """
    real, real_ns = time.time, time.time_ns
    with harness.session() as session:
        session.perform(harness.start(session, "lasts", harness.programs.lasting("lasts")))
        for number, jump_seconds in enumerate((30_000_000, -30_000_000)):
            before, after = f"before{number}", f"after{number}"
            session.perform(harness.start(session, before, harness.programs.exiting(before, 4)))
            with (
                patch("time.time", lambda jump=jump_seconds: real() + jump),
                patch("time.time_ns", lambda jump=jump_seconds: real_ns() + jump * 10**9),
            ):
                session.perform(harness.start(session, after, harness.programs.exiting(after, 4)))
                for key in (before, after):
                    expect_status(session, key, 4)
                session.reopen()
                for key in (before, after):
                    expect_status(session, key, 4)
        expect_no_end(session, "lasts")


# --- waiting -------------------------------------------------------------------------------------


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


RUN_CHECKS: tuple[EngineCheck, ...] = (
    a_stop_ends_it,
    a_stop_right_after_the_start_ends_it,
    a_stop_before_the_start_forbids_it,
    what_is_forgotten_is_gone,
    what_runs_is_not_forgotten,
    an_allocation_is_resized_in_place,
    a_workload_joins_and_leaves_servers,
    what_is_suspended_can_be_resumed,
    what_is_suspended_stands_still,
    what_is_suspended_can_be_stopped,
    output_is_read_by_offset,
    unknown_keys_are_never_completed,
    foreign_processes_and_files_are_left_alone,
    a_server_that_leaves_while_something_starts,
    servers_that_left_while_nobody_watched_take_nothing_with_them,
    what_runs_is_measured,
    clock_jumps_change_nothing,
    poll_waits_no_longer_than_it_may,
    the_descriptor_tells_of_news_and_of_nothing_else,
)
