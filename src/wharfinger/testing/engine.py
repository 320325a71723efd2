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
    >>> check_engine(harness)["a_server_that_leaves_while_something_starts"]
    'this harness has no remove_servers'

What a harness can't make happen is not passed over in silence: pytest shows that check as
skipped, and ``check_engine`` returns it with the reason.
"""

import os
import select
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from unittest.mock import patch

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.errors import InvalidInput, NotFound
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.performance import Quantity
from wharfinger.model.view import Resize
from wharfinger.model.workload import Run, Target
from wharfinger.testing.engine_eviction import EVICTION_CHECKS
from wharfinger.testing.engine_offers import OFFER_CHECKS
from wharfinger.testing.engine_profiling import PROFILING_CHECKS
from wharfinger.testing.engine_servers import SERVER_CHECKS, check_server
from wharfinger.testing.harness import ENDS, EngineCheck, EngineHarness, EngineTrial, expect

_EXECUTION_SECONDS = 60.0
_TRIES = 20
"""Of what others on the machine may disturb now and then."""

_CHECKS: list[EngineCheck] = []


def engine_checks() -> tuple[EngineCheck, ...]:
    """Every check, in the order of their dependence: what fails first explains the rest."""
    return tuple(_CHECKS)


def check_engine(make_harness: Callable[[Path], EngineHarness]) -> dict[str, str]:
    """Run every check, each on a fresh harness made in an empty directory.

    Returns:
        What could not be checked: the check's name, and why.

    Raises:
        AssertionError: The first promise that is not kept, with the check's name.
    """
    skipped: dict[str, str] = {}
    for check in engine_checks():
        with tempfile.TemporaryDirectory(prefix="check-engine-") as directory:
            try:
                check(make_harness(Path(directory)))
            except AssertionError as error:
                raise AssertionError(f"{check.__name__}: {error}") from error
            except unittest.SkipTest as reason:
                skipped[check.__name__] = str(reason)
    return skipped


def _engine_check(check: Callable[[EngineTrial], None]) -> EngineCheck:
    """Make a check of a function of an open engine, and add it to the others."""

    @wraps(check)
    def checked(harness: EngineHarness) -> None:
        with harness.trial() as trial:
            check(trial)

    _CHECKS.append(checked)
    return checked


# --- opening ----------------------------------------------------------------------------


@_engine_check
def servers_are_reported_before_the_sync(trial: EngineTrial) -> None:
    """A core that knows of the sync knows every server."""
    synced = trial.wait_for(ev.EngineSynced)
    before = trial.reports[: trial.reports.index(synced)]
    reported = [server.name for r in before for server in ev.servers_in(r)]
    expect(bool(reported), "no server was reported")
    expect(set(reported) == set(synced.servers), f"{reported} reported, {synced.servers} synced")
    expect(not synced.known_keys, f"a new state knows {synced.known_keys}")
    for report in before:
        for server in ev.servers_in(report):
            check_server(server)


@_engine_check
def the_sync_comes_once(trial: EngineTrial) -> None:
    """A second one would make the core ask for everything again."""
    trial.start("k", trial.programs.exiting("k", 0))
    trial.wait_for_end("k")
    trial.take_in()
    times = sum(isinstance(report, ev.EngineSynced) for report in trial.reports)
    expect(times == 1, f"EngineSynced came {times} times")


# --- starting and ending -----------------------------------------------------------------


@_engine_check
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


@_engine_check
def what_cannot_start_fails_for_certain(trial: EngineTrial) -> None:
    """A missing program is no exit status 127, and trying again does not help."""
    trial.start("k", trial.programs.missing("k"))
    failed = trial.expect_refused("k", retryable=False)
    expect(bool(failed.reason) and "\n" not in failed.reason, f"the reason of {failed}")
    expect(not any(isinstance(r, ev.WorkloadFinished) for r in trial.about("k")), "it ended")


@_engine_check
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


@_engine_check
def a_server_that_is_not_there_refuses_retryably(trial: EngineTrial) -> None:
    """Another server may do better."""
    trial.start("k", trial.programs.exiting("k", 0), server="no-such-server")
    trial.expect_refused("k", retryable=True)
    trial.expect_never_started("k")


# --- at most once --------------------------------------------------------------------------


@_engine_check
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


@_engine_check
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


@_engine_check
def what_was_not_reported_is_reported_by_the_next_engine(trial: EngineTrial) -> None:
    """Answers lost in a crash come again, before the sync, with the key among the known."""
    trial.start("k", trial.programs.exiting("k", 9))
    trial.wait_until(lambda: trial.programs.starts("k"), "start of k")
    trial.reopen()
    trial.expect_status("k", 9)
    keys = trial.wait_for(ev.EngineSynced).known_keys
    expect(keys == ("k",), f"the one start was k, known are {keys}")


@_engine_check
def an_end_is_told_again_and_always_the_same(trial: EngineTrial) -> None:
    """Until it is forgotten."""
    trial.start("k", trial.programs.exiting("k", 5))
    first = trial.wait_for_end("k")
    for _ in range(2):
        trial.reopen()
        again = trial.wait_for_end("k")
        expect(again == first, f"{first} became {again}")


@_engine_check
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


@_engine_check
def what_runs_outlives_the_engine(trial: EngineTrial) -> None:
    """Closing touches nothing; the next engine finds it running, not ended."""
    trial.run_lasting("k")
    trial.reopen()
    trial.wait_for(ev.WorkloadStarted, "k")
    trial.expect_no_end("k")
    expect("k" in trial.engine.usage(), "usage does not name what runs")


# --- stopping and forgetting -----------------------------------------------------------------


@_engine_check
def a_stop_ends_it(trial: EngineTrial) -> None:
    """And asking again changes nothing about how it ended."""
    trial.run_lasting("k")
    trial.perform(act.StopWorkload("k", 5.0), act.StopWorkload("k", 5.0))
    end = trial.wait_for(ev.WorkloadFinished, "k")
    expect(end.reason == "stopped", f"a stop was asked for, reported was {end}")
    trial.perform(act.StopWorkload("k", 0.0))
    trial.expect_one_end("k")


@_engine_check
def a_stop_right_after_the_start_ends_it(trial: EngineTrial) -> None:
    """Whether it had begun by then or not, there is one end, and then it does not run."""
    for number in range(5):
        key = f"k{number}"
        start = trial.action(key, trial.programs.lasting(key))
        trial.perform(start, act.StopWorkload(key, 0.0))
    for number in range(5):
        end = trial.wait_for_end(f"k{number}")
        expect(not isinstance(end, ev.WorkloadVanished), f"it was stopped: {end}")
    expect(not trial.engine.usage(), f"{set(trial.engine.usage())} still run")


@_engine_check
def a_stop_before_the_start_forbids_it(trial: EngineTrial) -> None:
    """The start may come late, also to another engine: it must fail, for certain."""
    start = trial.action("k", trial.programs.lasting("k"))
    trial.perform(act.StopWorkload("k", 1.0))
    trial.expect_refused("k", retryable=False)
    for _ in range(2):
        trial.forget_reports()
        trial.perform(start)
        trial.expect_refused("k", retryable=False)
        trial.reopen()
    trial.expect_never_started("k")


@_engine_check
def what_is_forgotten_is_gone(trial: EngineTrial) -> None:
    """Its output and its key, also for the next engine; twice does no harm."""
    trial.start("k", trial.programs.printing("k", "text"))
    trial.wait_for_end("k")
    trial.perform(act.ForgetWorkload("k"), act.ForgetWorkload("k"))
    trial.forget_reports()
    trial.expect_no_log("k")
    trial.reopen()
    expect(not trial.about("k"), f"{trial.about('k')} after it was forgotten")
    expect(not trial.wait_for(ev.EngineSynced).known_keys, "the key is still known")


@_engine_check
def what_runs_is_not_forgotten(trial: EngineTrial) -> None:
    """Else it could not be stopped."""
    trial.run_lasting("k")
    trial.perform(act.ForgetWorkload("k"), act.StopWorkload("k", 0.0))
    trial.wait_for(ev.WorkloadFinished, "k")


# --- while it runs ---------------------------------------------------------------------------


@_engine_check
def an_allocation_is_resized_in_place(trial: EngineTrial) -> None:
    """Where the engine can; else it says so, and the program goes on in any case.

    One that resizes within the allocation gives back and takes again, and refuses more.
    """
    start = trial.action("k", trial.programs.lasting("k"))
    able, server = trial.engine.capabilities.resize, start.placements[0].server
    less, more = ((Placement(server, Allocation(1000 * n, (64 * n) << 20)),) for n in (1, 2))
    within = able is Resize.WITHIN_ALLOCATION
    trial.perform(replace(start, placements=more) if within else start)
    trial.wait_for(ev.WorkloadStarted, "k")
    beyond = (Placement(server, Allocation(3000, 128 << 20)),)
    for wanted in (less, more, beyond) if within else (more, more):
        trial.forget_reports()
        trial.perform(act.ResizeAllocation("k", wanted))
        if able and wanted is not beyond:
            resized = trial.wait_for(ev.AllocationResized, "k")
            expect(resized.placements == wanted, f"{wanted} asked for, got {resized}")
        else:
            trial.wait_for(ev.ResizeFailed, "k")
    trial.expect_started_once("k")


@_engine_check
def best_effort_work_gets_a_ceiling(trial: EngineTrial) -> None:
    """And loses it again, where the engine can; it goes on all the while."""
    if trial.engine.capabilities.resize is not Resize.ANY:
        trial.skip("this engine gives no ceilings")
    start = trial.action("k", trial.programs.lasting("k"))
    server = start.placements[0].server
    free = Allocation(0, 64 << 20, best_effort=True)
    trial.perform(replace(start, placements=(Placement(server, free),)))
    trial.wait_for(ev.WorkloadStarted, "k")
    for ceiling in (100, 50, None):
        wanted = (Placement(server, replace(free, ceiling_millicpus=ceiling)),)
        trial.forget_reports()
        trial.perform(act.ResizeAllocation("k", wanted))
        resized = trial.wait_for(ev.AllocationResized, "k")
        expect(resized.placements == wanted, f"{wanted} asked for, got {resized}")
    trial.expect_no_end("k")


@_engine_check
def a_workload_joins_and_leaves_servers(trial: EngineTrial) -> None:
    """Where the engine can spread one: at its start, and as it runs; it goes on where it stays."""
    able = trial.engine.capabilities
    if len(trial.servers) < 2 or able.max_servers_per_workload < 2:
        trial.skip("no second server here, or no workload may be on two")
    if able.resize is not Resize.ANY:
        trial.skip("this engine puts nothing that runs on other servers")
    first = trial.action("k", trial.programs.lasting("k"))
    second = trial.action("l", trial.programs.lasting("l"), trial.servers[1])
    both = (*first.placements, *second.placements)
    trial.perform(first, replace(second, placements=both))
    for key in ("k", "l"):
        trial.wait_for(ev.WorkloadStarted, key)
    for key in ("k", "l"):
        for wanted in (both, first.placements, both[::-1], both[1:]):
            trial.forget_reports()
            trial.perform(act.ResizeAllocation(key, wanted))
            resized = trial.wait_for(ev.AllocationResized, key)
            expect(resized.placements == wanted, f"{wanted} asked for, got {resized}")
        trial.expect_no_end(key)


@_engine_check
def what_is_suspended_can_be_resumed(trial: EngineTrial) -> None:
    """Twice each does no harm; it is still there afterwards."""
    trial.run_lasting("k")
    suspend, resume = act.SuspendWorkload("k"), act.ResumeWorkload("k")
    trial.perform(suspend, suspend, resume, resume, suspend, resume)
    trial.expect_no_end("k")


@_engine_check
def what_is_suspended_stands_still(trial: EngineTrial) -> None:
    """Until it is resumed; then it goes on where it was."""
    if not trial.engine.capabilities.suspend:
        trial.skip("this engine does not suspend")
    done = partial(trial.programs.work_done, "k")
    trial.start("k", trial.programs.working("k"))
    trial.wait_until(lambda: done() > 0, "work of k")
    trial.perform(act.SuspendWorkload("k"))
    trial.wait_until(partial(_stands_still, trial, done), "pause in the work of k")
    still = done()
    trial.perform(act.ResumeWorkload("k"))
    trial.wait_until(lambda: done() > still, "work of k after it was resumed")
    trial.expect_started_once("k")


def _stands_still(trial: EngineTrial, work_done: Callable[[], int]) -> bool:
    before = work_done()
    until_seconds = time.monotonic() + 0.3
    while (left := until_seconds - time.monotonic()) > 0:
        trial.take_in(left)
    return work_done() == before


@_engine_check
def what_is_suspended_can_be_stopped(trial: EngineTrial) -> None:
    """Also by an engine that did not suspend it."""
    for key in ("here", "next"):
        trial.start(key)
        trial.wait_for(ev.WorkloadStarted, key)
        trial.perform(act.SuspendWorkload(key))
    trial.perform(act.StopWorkload("here", 20.0))
    trial.wait_for(ev.WorkloadFinished, "here")
    trial.reopen()
    trial.perform(act.StopWorkload("next", 20.0))
    trial.wait_for(ev.WorkloadFinished, "next")


@_engine_check
def output_is_read_by_offset(trial: EngineTrial) -> None:
    """From the start, from the middle, from the end, in pieces, and past the end."""
    trial.start("k", trial.programs.printing("k", "0123456789"))
    trial.wait_for_end("k")
    read = trial.engine.read_log
    whole = read("k")
    expect((whole.data, whole.next_offset) == (b"0123456789", 10), f"read was {whole}")
    expect(whole.ended, "it has ended, the log says that more may come")
    piece = read("k", 2, limit_bytes=3)
    expect((piece.data, piece.next_offset) == (b"234", 5), f"3 bytes from 2: {piece}")
    tail = read("k", -4)
    expect((tail.data, tail.next_offset) == (b"6789", 10), f"4 bytes from the end: {tail}")
    expect(read("k", -99).data == whole.data, "more than there is, from the end")
    expect(read("k", 10).data == b"", "past the end there is nothing")


@_engine_check
def output_has_its_times_or_none(trial: EngineTrial) -> None:
    """By offset, from the first byte on; where they are not known, both answers say so."""
    trial.start("k", trial.programs.printing("k", "0123456789"))
    trial.wait_for_end("k")
    times, since = trial.engine.log_times("k"), trial.engine.log_offset_at("k", 0.0)
    if since is None:
        expect(not times, f"no offset of a time is known, yet there are times: {times}")
        return
    expect(since == 0, f"all is newer than 1970, it begins at {since}")
    expect([at for at, _ in times][:1] == [0], f"the first byte has no time: {times}")
    latest = max(when for _, when in times)
    expect(trial.engine.log_offset_at("k", latest + 1) == 10, "nothing is newer than the newest")
    expect(trial.engine.log_times("k", 5)[0][1] <= latest, "a piece has its time, too")


@_engine_check
def what_can_start_is_not_refused(trial: EngineTrial) -> None:
    """``check`` says no for certain only, and a command is run beside what runs, or refused."""
    action = trial.action("k", trial.programs.lasting("k"))
    expect(trial.engine.check(action.workload) == "", "what can start is said not to")
    trial.run_lasting("k")
    for key in ("k", "unknown"):
        try:
            execution = trial.engine.execute(key, ("true",))
        except (InvalidInput, NotFound):
            continue
        expect(key == "k", "a command runs beside a workload that is not there")
        expect(execution.wait(_EXECUTION_SECONDS) == 0, "true did not end with status 0")
        execution.close()
        execution = trial.engine.execute(key, ("sh", "-c", 'read x && [ "$x" = hi ]'), stdin=True)
        descriptor = execution.take_input()
        os.write(descriptor, b"hi\n")
        os.close(descriptor)
        ended = execution.wait(_EXECUTION_SECONDS)
        expect(ended == 0, "a command did not get the input that it was given")
        execution.close()


# --- what the engine did not start --------------------------------------------------------------


@_engine_check
def unknown_keys_are_never_completed(trial: EngineTrial) -> None:
    """What the engine does not know it neither ended nor resized."""
    trial.forget_reports()
    placement = (Placement("no-such-server", Allocation(1000, 1 << 20)),)
    trial.perform(
        act.ForgetWorkload("forget"),
        act.SuspendWorkload("suspend"),
        act.ResumeWorkload("resume"),
        act.ResizeAllocation("resize", placement),
        act.StopWorkload("stop", 0.0),
    )
    trial.wait_for(ev.ResizeFailed, "resize")
    trial.wait_for(ev.StartFailed, "stop")
    trial.take_in(0.1)
    wrong = [r for r in trial.reports if isinstance(r, ev.WorkloadFinished | ev.WorkloadVanished)]
    expect(not wrong, f"nothing ran, reported was {wrong}")
    trial.expect_no_log("forget")


@_engine_check
def foreign_processes_and_files_are_left_alone(trial: EngineTrial) -> None:
    """A process of another user and a folder in the state directory stay as they are."""
    foreign = trial.harness.state / "foreign"
    foreign.mkdir()
    (foreign / "claim").write_text("not an engine's claim")
    with subprocess.Popen(["sleep", "300"], env={"WHARFINGER_KEY": "k"}) as process:
        try:
            trial.reopen()
            trial.run_lasting("k")
            trial.clean_up()
            expect(process.poll() is None, "a foreign process was ended")
        finally:
            process.kill()
    expect((foreign / "claim").exists(), "a foreign file was removed")
    trial.open()


# --- servers and clocks -------------------------------------------------------------------------


@_engine_check
def a_server_that_leaves_while_something_starts(trial: EngineTrial) -> None:
    """Each start there is answered: it goes on, or is over; a later one is refused retryably."""
    if trial.harness.remove_servers is None:
        trial.skip("this harness has no remove_servers")
    left = trial.servers[0]
    keys = [f"k{number}" for number in range(4)]
    for key in keys:
        trial.start(key)
    trial.harness.remove_servers(trial.engine)
    trial.start("late", trial.programs.lasting("late"), left)
    gone = trial.wait_for(ev.ServerLeft)
    expect(gone.name == left, f"{left} left, reported was {gone}")
    trial.expect_refused("late", retryable=True)
    for key in keys:
        trial.wait_until(partial(_is_answered, trial, key), f"answer to the start of {key}")
    _stop_all(trial, keys)
    for key in keys:
        expect(trial.programs.starts(key) <= 1, f"{key} was started more than once")
    trial.expect_never_started("late")


def _is_answered(trial: EngineTrial, key: str) -> bool:
    return any(isinstance(report, (ev.WorkloadStarted, *ENDS)) for report in trial.about(key))


def _stop_all(trial: EngineTrial, keys: Sequence[str]) -> None:
    for key in keys:
        trial.perform(act.StopWorkload(key, 0.0))
    for key in keys:
        trial.expect_one_end(key)
    expect(not trial.engine.usage(), f"{set(trial.engine.usage())} still run")


@_engine_check
def servers_that_left_unwatched_take_nothing_with_them(trial: EngineTrial) -> None:
    """The next engine tells of what ran and what was starting there, and starts nothing there."""
    make_elsewhere = trial.harness.make_elsewhere
    if make_elsewhere is None:
        trial.skip("this harness has no make_elsewhere")
    left = trial.servers[0]
    trial.run_lasting("runs")
    starting = trial.action("starts", trial.programs.lasting("starts"))
    late = trial.action("late", trial.programs.lasting("late"))
    trial.perform(starting)
    trial.reopen(partial(make_elsewhere, trial.harness.state))
    expect(left not in trial.servers, f"{left} did not leave")
    expect(bool(trial.about("runs")), "nothing was said of what ran there")
    trial.perform(starting, late)
    trial.expect_refused("late", retryable=True)
    trial.wait_until(partial(_is_answered, trial, "starts"), "answer to what was starting")
    _stop_all(trial, ["runs", "starts"])
    expect(trial.programs.starts("starts") <= 1, "it was started more than once")


@_engine_check
def what_runs_is_measured(trial: EngineTrial) -> None:
    """Where the engine says that it measures: numbers or the reason for none, never silence."""
    if not trial.engine.capabilities.measures:
        trial.skip("this engine does not measure")
    start = trial.action("k", trial.programs.lasting("k"))
    workload = replace(start.workload, target=Target(rate_per_second=1.0))
    trial.perform(replace(start, workload=workload))
    trial.wait_for(ev.WorkloadStarted, "k")
    for _ in range(2):  # Asked for twice it is measured once.
        trial.perform(act.MeasureWorkload("k", workload))
    trial.perform(act.MeasureWorkload("unknown", workload))
    report = trial.wait_for(ev.ServerMeasured)
    expect(report.server == trial.servers[0], f"it runs on another server: {report}")
    expect([sample.key for sample in report.samples] == ["k"], f"only k runs: {report}")
    (sample,) = report.samples
    said = Quantity.RATE in {*sample.readings, *sample.silent}
    expect(said, f"a rate is the target, and nothing is said of it: {sample}")
    trial.perform(act.StopWorkload("k", 0.0))
    trial.wait_for_end("k")
    trial.forget_reports()
    trial.take_in(0.1)
    late = [report for report in trial.reports if isinstance(report, ev.ServerMeasured)]
    expect(not late, f"it has ended, and was measured: {late}")


# --- probes --------------------------------------------------------------------------------------


@_engine_check
def readiness_is_reported_by_every_engine(trial: EngineTrial) -> None:
    """When its probe passes, also by an engine that takes over; without a probe nothing is said."""
    _need_probes(trial)
    asked = _run_measured(trial, "k", trial.programs.getting_ready("k"))
    plain = _run_measured(trial, "plain", trial.programs.lasting("plain"))
    for _ in range(2):
        trial.wait_until(partial(_is_ready, trial, "k"), "readiness of k")
        kinds = [type(report) for report in trial.about("k")]
        started, told = kinds.index(ev.WorkloadStarted), kinds.index(ev.ReadinessChanged)
        expect(started < told, f"readiness was told before the start: {kinds}")
        for report in trial.about("k"):
            unready = isinstance(report, ev.ReadinessChanged) and not report.ready
            expect(not unready or _is_line(report.reason), f"no reason in one line: {report}")  # type: ignore[union-attr]
        trial.reopen()
        trial.perform(asked, plain)
    trial.wait_until(partial(_is_ready, trial, "k"), "readiness of k")
    said = [r for r in trial.about("plain") if isinstance(r, ev.ReadinessChanged)]
    expect(not said, f"it has no probe, reported was {said}")


@_engine_check
def what_is_not_alive_is_stopped(trial: EngineTrial) -> None:
    """Once it has been ready; its end says so, also when it is told again."""
    _need_probes(trial)
    _run_measured(trial, "k", trial.programs.hanging("k"))
    end = trial.wait_for(ev.WorkloadFinished, "k")
    expect(end.reason == "not-alive", f"its liveness probe failed, reported was {end}")
    trial.reopen()
    trial.expect_one_end("k")
    expect(trial.ends("k") == [end], f"{end} became {trial.ends('k')}")
    trial.expect_started_once("k")


@_engine_check
def what_failed_tells_its_last_line(trial: EngineTrial) -> None:
    """What exits with 0 or is stopped tells none; memory is unknown or a number, never zero."""
    _need_probes(trial)
    trial.start("fails", trial.programs.failing("fails", "cannot"))
    trial.start("ends", trial.programs.printing("ends", "done"))
    trial.run_lasting("lasts")
    trial.perform(act.StopWorkload("lasts", 0.0))
    for key, line in (("fails", "cannot"), ("ends", ""), ("lasts", "")):
        end = trial.wait_for(ev.WorkloadFinished, key)
        expect(end.last_output == line, f"its last line was {line!r}, reported was {end}")
        expect(end.memory_peak_bytes is None or end.memory_peak_bytes > 0, f"memory of {end}")


@_engine_check
def without_a_load_generator_there_is_no_output_of_one(trial: EngineTrial) -> None:
    """That of the program is never given in its place."""
    trial.start("k", trial.programs.printing("k", "text"))
    trial.wait_for_end("k")
    for key in ("k", "unknown"):
        try:
            chunk = trial.engine.read_log(key, source="load")
        except NotFound as error:
            expect(_is_line(str(error)), f"no reason in one line: {error}")
            continue
        raise AssertionError(f"{key} has no load generator, its output is {chunk}")


def _run_measured(trial: EngineTrial, key: str, run: Run) -> act.MeasureWorkload:
    start = trial.action(key, run)
    trial.perform(start)
    trial.wait_for(ev.WorkloadStarted, key)
    asked = act.MeasureWorkload(key, start.workload)
    trial.perform(asked)
    return asked


def _is_ready(trial: EngineTrial, key: str) -> bool:
    return any(isinstance(r, ev.ReadinessChanged) and r.ready for r in trial.about(key))


def _is_line(text: str) -> bool:
    return bool(text) and "\n" not in text


def _need_probes(trial: EngineTrial) -> None:
    if not trial.engine.capabilities.probes:
        trial.skip("this engine does not probe")


@_engine_check
def clock_jumps_change_nothing(trial: EngineTrial) -> None:
    """A wall clock that jumps a year ahead and back neither ends nor delays anything.

    The clock that jumps is the one that Python code of this process asks, by ``time.time`` and
    ``time.time_ns``: an engine that reckons its waiting or its ends by them fails here. What
    other processes and compiled code ask, e.g. the local engine's supervisor, does not jump:
    of them this shows nothing.
    """
    real, real_ns = time.time, time.time_ns
    trial.start("lasts")
    for number, jump_seconds in enumerate((30_000_000, -30_000_000)):
        before, after = f"before{number}", f"after{number}"
        trial.start(before, trial.programs.exiting(before, 4))
        with (
            patch("time.time", lambda jump=jump_seconds: real() + jump),
            patch("time.time_ns", lambda jump=jump_seconds: real_ns() + jump * 10**9),
        ):
            trial.start(after, trial.programs.exiting(after, 4))
            for key in (before, after):
                trial.expect_status(key, 4)
            trial.reopen()
            for key in (before, after):
                trial.expect_status(key, 4)
    trial.expect_no_end("lasts")


# --- waiting -------------------------------------------------------------------------------------


@_engine_check
def poll_waits_no_longer_than_it_may(trial: EngineTrial) -> None:
    """Without news it comes back empty; with news it comes back at once."""
    trial.forget_reports()
    for _ in range(_TRIES):
        began = time.monotonic()
        news = trial.engine.poll(0.05)
        took_seconds = time.monotonic() - began
        expect(took_seconds < trial.deadline_seconds, f"50 ms took {took_seconds:.1f} s")
        if not news:
            break
    else:
        raise AssertionError("nothing happened, something was reported each time")
    began = time.monotonic()
    trial.start("k", trial.programs.exiting("k", 0))
    while not trial.about("k"):
        news = trial.engine.poll(10 * trial.deadline_seconds)
        took_seconds = time.monotonic() - began
        expect(took_seconds < trial.deadline_seconds, f"news took {took_seconds:.1f} s")
        expect(bool(news), "poll came back with nothing before its time")
        trial.reports.extend(news)


@_engine_check
def the_descriptor_tells_of_news_and_of_nothing_else(trial: EngineTrial) -> None:
    """A manager that waits on it misses nothing and does not spin."""
    trial.start("k", trial.programs.exiting("k", 0))
    while not any(isinstance(report, ENDS) for report in trial.about("k")):
        ready, _, _ = select.select([trial.engine], [], [], trial.deadline_seconds)
        expect(bool(ready), f"not readable, though k has not ended: {trial.about('k')}")
        trial.take_in()
    # What is no report, like a process that is reaped, may wake a manager a few times more.
    for _ in range(_TRIES):
        if not select.select([trial.engine], [], [], 0.02)[0]:
            return
        trial.take_in()
    raise AssertionError("still readable when everything has been reported")


for _check in (*PROFILING_CHECKS, *SERVER_CHECKS, *EVICTION_CHECKS, *OFFER_CHECKS):
    _engine_check(_check)
