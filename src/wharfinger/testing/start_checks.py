"""Checks of an engine, first part: opening, starting, ending, and being asked twice.

Run by ``wharfinger.testing.engine``, which says how to use them.
"""

import select
import time
from dataclasses import replace
from functools import partial

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.workload import Run
from wharfinger.testing.harness import EngineCheck, EngineTrial, add_check, expect

CHECKS: list[EngineCheck] = []
engine_check = partial(add_check, CHECKS)

# --- opening ----------------------------------------------------------------------------


@engine_check
def servers_are_reported_before_the_sync(trial: EngineTrial) -> None:
    """A core that knows of the sync knows every server."""
    synced = trial.wait_for(ev.EngineSynced)
    before = trial.reports[: trial.reports.index(synced)]
    reported = [r.server.name for r in before if isinstance(r, ev.ServerReported)]
    expect(bool(reported), "no server was reported")
    expect(set(reported) == set(synced.servers), f"{reported} reported, {synced.servers} synced")
    expect(not synced.known_keys, f"a new state knows {synced.known_keys}")
    for report in before:
        if isinstance(report, ev.ServerReported):
            _check_server(report)


def _check_server(report: ev.ServerReported) -> None:
    server = report.server
    expect(0 < server.cpu_millicpus <= server.platform.cpu_millicpus, f"CPU of {server}")
    expect(0 < server.memory_bytes <= server.platform.memory_bytes, f"memory of {server}")


@engine_check
def the_sync_comes_once(trial: EngineTrial) -> None:
    """A second one would make the core ask for everything again."""
    trial.start("k", trial.programs.exiting("k", 0))
    trial.wait_for_end("k")
    trial.take_in()
    times = sum(isinstance(report, ev.EngineSynced) for report in trial.reports)
    expect(times == 1, f"EngineSynced came {times} times")


# --- starting and ending -----------------------------------------------------------------


@engine_check
def a_program_ends_with_its_own_status(trial: EngineTrial) -> None:
    """0, 1, 77 and 255 come back as they were, each after its start."""
    for status in (0, 1, 77, 255):
        key = f"exit-{status}"
        trial.start(key, trial.programs.exiting(key, status))
    for status in (0, 1, 77, 255):
        key = f"exit-{status}"
        trial.expect_status(key, status)
        kinds = [type(report) for report in trial.about(key)]
        expect(ev.WorkloadStarted in kinds, f"{key} ended without a start: {kinds}")
        expect(kinds[-1] is ev.WorkloadFinished, f"{kinds} was reported of {key}")


@engine_check
def what_cannot_start_fails_for_certain(trial: EngineTrial) -> None:
    """A missing program is no exit status 127, and trying again does not help."""
    trial.start("k", trial.programs.missing("k"))
    failed = trial.wait_for(ev.StartFailed, "k")
    expect(not failed.retryable, f"a missing program may be tried again: {failed}")
    expect(bool(failed.reason) and "\n" not in failed.reason, f"the reason of {failed}")
    expect(not any(isinstance(r, ev.WorkloadFinished) for r in trial.about("k")), "it ended")


@engine_check
def no_workload_makes_perform_raise(trial: EngineTrial) -> None:
    """Whatever a user asks to run, the answer is a report."""
    lasting = trial.programs.lasting("k")
    odd = {
        "directory": Run(("/",)),
        "empty-word": Run(("",)),
        "long-word": Run(("/" + "x" * 5000,)),
        "no-folder": replace(lasting, working_directory="/no/such/folder"),
        "odd-env": replace(trial.programs.exiting("odd-env", 0), env={"ODD": "\u00e9\n=", "E": ""}),
    }
    for key, run in odd.items():
        trial.start(key, run)
    for key in odd:
        trial.perform(act.StopWorkload(key, 0.0))
        trial.wait_for_end(key)


@engine_check
def a_server_that_is_not_there_refuses_retryably(trial: EngineTrial) -> None:
    """Another server may do better."""
    trial.start("k", trial.programs.exiting("k", 0), server="no-such-server")
    failed = trial.wait_for(ev.StartFailed, "k")
    expect(failed.retryable, f"{failed} can't be tried elsewhere")
    trial.expect_never_started("k")


# --- at most once --------------------------------------------------------------------------


@engine_check
def a_start_asked_for_twice_starts_once(trial: EngineTrial) -> None:
    """In one life of the engine, while it runs and after its end."""
    lasting = trial.action("lasts", trial.programs.lasting("lasts"))
    ending = trial.action("ends", trial.programs.exiting("ends", 3))
    trial.perform(lasting, lasting, ending, ending)
    trial.wait_for(ev.WorkloadStarted, "lasts")
    trial.expect_status("ends", 3)
    trial.perform(lasting, ending)
    trial.expect_started_once("lasts", "ends")
    trial.expect_one_end("ends")


@engine_check
def a_start_asked_for_again_after_a_crash_starts_once(trial: EngineTrial) -> None:
    """The engine dies at once after it was asked, and another is asked again."""
    lasting = trial.action("lasts", trial.programs.lasting("lasts"))
    ending = trial.action("ends", trial.programs.exiting("ends", 3))
    trial.perform(lasting, ending)
    for _ in range(2):
        trial.reopen()
        trial.perform(lasting, ending)
        trial.wait_for(ev.WorkloadStarted, "lasts")
        trial.expect_status("ends", 3)
    trial.expect_started_once("lasts", "ends")


# --- reports that are lost or late ---------------------------------------------------------


@engine_check
def what_was_not_reported_is_reported_by_the_next_engine(trial: EngineTrial) -> None:
    """Answers lost in a crash come again, before the sync, with the key among the known."""
    trial.start("k", trial.programs.exiting("k", 9))
    trial.wait_until(lambda: trial.programs.starts("k"), "start of k")
    trial.reopen()
    trial.expect_status("k", 9)
    known = trial.wait_for(ev.EngineSynced).known_keys
    expect(known == ("k",), f"the one start was k, known are {known}")


@engine_check
def an_end_is_told_again_and_always_the_same(trial: EngineTrial) -> None:
    """Until it is forgotten."""
    trial.start("k", trial.programs.exiting("k", 5))
    first = trial.wait_for_end("k")
    for _ in range(2):
        trial.reopen()
        again = trial.wait_for_end("k")
        expect(again == first, f"{first} became {again}")


@engine_check
def slow_answers_lose_nothing(trial: EngineTrial) -> None:
    """Many start and end between two polls; then all reports are there."""
    keys = [f"k{number}" for number in range(8)]
    for status, key in enumerate(keys):
        trial.start(key, trial.programs.exiting(key, status))
    deadline = time.monotonic() + trial.deadline_seconds
    while not all(trial.programs.starts(key) for key in keys):
        expect(time.monotonic() < deadline, "not all were started")
        select.select([trial.engine], [], [], 0.01)
    for status, key in enumerate(keys):
        trial.expect_status(key, status)


@engine_check
def what_runs_outlives_the_engine(trial: EngineTrial) -> None:
    """Closing touches nothing; the next engine finds it running, not ended."""
    trial.run_lasting("k")
    trial.reopen()
    trial.wait_for(ev.WorkloadStarted, "k")
    trial.expect_no_end("k")
    expect("k" in trial.engine.usage(), "usage does not name what runs")
