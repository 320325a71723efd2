"""Checks of an engine, first part: opening, starting, ending, and being asked twice.

Run by ``wharfinger.testing.engine``, which says how to use them.
"""

import select
import time
from dataclasses import replace

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.workload import Run
from wharfinger.testing.harness import (
    EngineCheck,
    EngineHarness,
    expect,
    expect_no_end,
    expect_one_end,
    expect_status,
)

# --- opening ----------------------------------------------------------------------------


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


def the_sync_comes_once(harness: EngineHarness) -> None:
    """A second one would make the core ask for everything again."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.exiting("k", 0)))
        session.wait_for_end("k")
        session.take_in()
        times = sum(isinstance(report, ev.EngineSynced) for report in session.reports)
        expect(times == 1, f"EngineSynced came {times} times")


# --- starting and ending -----------------------------------------------------------------


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


def what_cannot_start_fails_for_certain(harness: EngineHarness) -> None:
    """A missing program is no exit status 127, and trying again does not help."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.missing("k")))
        failed = session.wait_for(ev.StartFailed, "k")
        expect(not failed.retryable, f"a missing program may be tried again: {failed}")
        expect(bool(failed.reason) and "\n" not in failed.reason, f"the reason of {failed}")
        expect(not any(isinstance(r, ev.WorkloadFinished) for r in session.about("k")), "it ended")


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


def a_server_that_is_not_there_refuses_retryably(harness: EngineHarness) -> None:
    """Another server may do better."""
    with harness.session() as session:
        run = harness.programs.exiting("k", 0)
        session.perform(harness.start(session, "k", run, server="no-such-server"))
        failed = session.wait_for(ev.StartFailed, "k")
        expect(failed.retryable, f"{failed} can't be tried elsewhere")
        expect(harness.programs.starts("k") == 0, "it was started all the same")


# --- at most once --------------------------------------------------------------------------


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


def what_was_not_reported_is_reported_by_the_next_engine(harness: EngineHarness) -> None:
    """Answers lost in a crash come again, before the sync, with the key among the known."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.exiting("k", 9)))
        session.wait_until(lambda: harness.programs.starts("k") > 0, "start of k")
        session.reopen()
        expect_status(session, "k", 9)
        known = session.wait_for(ev.EngineSynced).known_keys
        expect(known == ("k",), f"the one start was k, known are {known}")


def an_end_is_told_again_and_always_the_same(harness: EngineHarness) -> None:
    """Until it is forgotten."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.exiting("k", 5)))
        first = session.wait_for_end("k")
        for _ in range(2):
            session.reopen()
            again = session.wait_for_end("k")
            expect(again == first, f"{first} became {again}")


def slow_answers_lose_nothing(harness: EngineHarness) -> None:
    """Many start and end between two polls; then all reports are there."""
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


def what_runs_outlives_the_engine(harness: EngineHarness) -> None:
    """Closing touches nothing; the next engine finds it running, not ended."""
    with harness.session() as session:
        session.perform(harness.start(session, "k", harness.programs.lasting("k")))
        session.wait_for(ev.WorkloadStarted, "k")
        session.reopen()
        session.wait_for(ev.WorkloadStarted, "k")
        expect_no_end(session, "k")
        expect("k" in session.engine.usage(), "usage does not name what runs")


START_CHECKS: tuple[EngineCheck, ...] = (
    servers_are_reported_before_the_sync,
    the_sync_comes_once,
    a_program_ends_with_its_own_status,
    what_cannot_start_fails_for_certain,
    no_workload_makes_perform_raise,
    a_server_that_is_not_there_refuses_retryably,
    a_start_asked_for_twice_starts_once,
    a_start_asked_for_again_after_a_crash_starts_once,
    what_was_not_reported_is_reported_by_the_next_engine,
    an_end_is_told_again_and_always_the_same,
    slow_answers_lose_nothing,
    what_runs_outlives_the_engine,
)
