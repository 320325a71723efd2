"""Checks of an engine, second part: what is asked of a start, servers, waiting, profiling.

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
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.workload import Run, Target, WorkloadType
from wharfinger.testing.harness import ENDS, EngineCheck, EngineTrial, add_check, expect

CHECKS: list[EngineCheck] = []
engine_check = partial(add_check, CHECKS)

# --- stopping and forgetting -----------------------------------------------------------------


@engine_check
def a_stop_ends_it(trial: EngineTrial) -> None:
    """And asking again changes nothing about how it ended."""
    trial.run_lasting("k")
    trial.perform(act.StopWorkload("k", 5.0), act.StopWorkload("k", 5.0))
    end = trial.wait_for(ev.WorkloadFinished, "k")
    expect(end.reason == "stopped", f"a stop was asked for, reported was {end}")
    trial.perform(act.StopWorkload("k", 0.0))
    trial.expect_one_end("k")


@engine_check
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


@engine_check
def a_stop_before_the_start_forbids_it(trial: EngineTrial) -> None:
    """The start may come late, also to another engine: it must fail, for certain."""
    start = trial.action("k", trial.programs.lasting("k"))
    trial.perform(act.StopWorkload("k", 1.0))
    failed = trial.wait_for(ev.StartFailed, "k")
    expect(not failed.retryable, f"{failed} may be tried again")
    for _ in range(2):
        trial.forget_reports()
        trial.perform(start)
        failed = trial.wait_for(ev.StartFailed, "k")
        expect(not failed.retryable, f"{failed} may be tried again")
        trial.reopen()
    trial.expect_never_started("k")


@engine_check
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


@engine_check
def what_runs_is_not_forgotten(trial: EngineTrial) -> None:
    """Else it could not be stopped."""
    trial.run_lasting("k")
    trial.perform(act.ForgetWorkload("k"), act.StopWorkload("k", 0.0))
    trial.wait_for(ev.WorkloadFinished, "k")


# --- while it runs ---------------------------------------------------------------------------


@engine_check
def an_allocation_is_resized_in_place(trial: EngineTrial) -> None:
    """Where the engine can; else it says so, and the program goes on in any case."""
    start = trial.action("k", trial.programs.lasting("k"))
    trial.perform(start)
    trial.wait_for(ev.WorkloadStarted, "k")
    wanted = (Placement(start.placements[0].server, Allocation(2000, 128 << 20)),)
    for _ in range(2):
        trial.forget_reports()
        trial.perform(act.ResizeAllocation("k", wanted))
        if trial.engine.capabilities.resize:
            resized = trial.wait_for(ev.AllocationResized, "k")
            expect(resized.placements == wanted, f"{wanted} asked for, got {resized}")
        else:
            trial.wait_for(ev.ResizeFailed, "k")
    trial.expect_started_once("k")


@engine_check
def a_workload_joins_and_leaves_servers(trial: EngineTrial) -> None:
    """Where the engine can spread one: at its start, and as it runs; it goes on where it stays."""
    able = trial.engine.capabilities
    if len(trial.servers) < 2 or able.max_servers_per_workload < 2 or not able.resize:
        trial.skip("no second server here, or no workload may be on two")
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


@engine_check
def what_is_suspended_can_be_resumed(trial: EngineTrial) -> None:
    """Twice each does no harm; it is still there afterwards."""
    trial.run_lasting("k")
    suspend, resume = act.SuspendWorkload("k"), act.ResumeWorkload("k")
    trial.perform(suspend, suspend, resume, resume, suspend, resume)
    trial.expect_no_end("k")


@engine_check
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
    """For several times as long as the program takes for a piece."""
    before = work_done()
    until_seconds = time.monotonic() + 0.3
    while (left := until_seconds - time.monotonic()) > 0:
        trial.take_in(left)
    return work_done() == before


@engine_check
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


@engine_check
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


# --- what the engine did not start --------------------------------------------------------------


@engine_check
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


@engine_check
def foreign_processes_and_files_are_left_alone(trial: EngineTrial) -> None:
    """A process of somebody else's and a folder in the state directory stay as they are."""
    foreign = trial.harness.state / "somebody-elses"
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


@engine_check
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
    failed = trial.wait_for(ev.StartFailed, "late")
    expect(failed.retryable, f"{failed} can't be tried elsewhere")
    for key in keys:
        trial.wait_until(partial(_is_answered, trial, key), f"answer to the start of {key}")
    _stop_all(trial, keys)
    for key in keys:
        expect(trial.programs.starts(key) <= 1, f"{key} was started more than once")
    trial.expect_never_started("late")


def _is_answered(trial: EngineTrial, key: str) -> bool:
    return any(isinstance(report, (ev.WorkloadStarted, *ENDS)) for report in trial.about(key))


def _stop_all(trial: EngineTrial, keys: Sequence[str]) -> None:
    """All stop, each with one end, and nothing runs any more."""
    for key in keys:
        trial.perform(act.StopWorkload(key, 0.0))
    for key in keys:
        trial.expect_one_end(key)
    expect(not trial.engine.usage(), f"{set(trial.engine.usage())} still run")


@engine_check
def servers_that_left_while_nobody_watched_take_nothing_with_them(trial: EngineTrial) -> None:
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
    failed = trial.wait_for(ev.StartFailed, "late")
    expect(failed.retryable, f"{failed} can't be tried elsewhere")
    trial.wait_until(partial(_is_answered, trial, "starts"), "answer to what was starting")
    _stop_all(trial, ["runs", "starts"])
    expect(trial.programs.starts("starts") <= 1, "it was started more than once")


@engine_check
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


@engine_check
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


@engine_check
def poll_waits_no_longer_than_it_may(trial: EngineTrial) -> None:
    """Without news it comes back empty; with news it comes back at once."""
    trial.forget_reports()
    began = time.monotonic()
    expect(list(trial.engine.poll(0.05)) == [], "nothing happened, something was reported")
    took_seconds = time.monotonic() - began
    expect(took_seconds < trial.deadline_seconds, f"50 ms took {took_seconds:.1f} s")
    trial.start("k", trial.programs.exiting("k", 0))
    trial.reports.extend(trial.engine.poll(10 * trial.deadline_seconds))
    took_seconds = time.monotonic() - began
    expect(took_seconds < trial.deadline_seconds, f"news took {took_seconds:.1f} s")
    expect(bool(trial.about("k")), "poll came back with nothing before its time")


@engine_check
def the_descriptor_tells_of_news_and_of_nothing_else(trial: EngineTrial) -> None:
    """A manager that waits on it misses nothing and does not spin."""
    trial.start("k", trial.programs.exiting("k", 0))
    while not any(isinstance(report, ENDS) for report in trial.about("k")):
        ready, _, _ = select.select([trial.engine], [], [], trial.deadline_seconds)
        expect(bool(ready), f"not readable, though k has not ended: {trial.about('k')}")
        trial.take_in()
    # What is no report, like a process that is reaped, may wake a manager a few times more.
    for _ in range(20):
        if not select.select([trial.engine], [], [], 0.02)[0]:
            return
        trial.take_in()
    raise AssertionError("still readable when everything has been reported")


# --- profiling -----------------------------------------------------------------------------------


@engine_check
def a_profiling_plan_is_answered_once(trial: EngineTrial) -> None:
    """However often it is asked for, also after its end; and the copy has had no effect."""
    asked = _ask(trial, trial.programs.exiting("k", 0))
    trial.perform(asked, asked)
    if not trial.engine.capabilities.profiles:
        trial.wait_for(ev.ProfilingFailed, "k")
        return
    found = trial.wait_for(ev.ProfilingFinished, "k").measurements
    expect(bool(found.performance), f"nothing was measured: {found}")
    expect(found.runs >= 1, f"measured without a run: {found}")
    answers = [r for r in trial.about("k") if isinstance(r, ev.ProfilingFinished)]
    trial.perform(asked)
    trial.wait_until(lambda: len(trial.about("k")) > len(answers), "the answer again")
    again = [r for r in trial.about("k") if isinstance(r, ev.ProfilingFinished)]
    expect(set(map(repr, again)) == {repr(answers[0])}, f"different answers: {again}")
    trial.expect_never_started("k")


@engine_check
def a_stop_ends_profiling(trial: EngineTrial) -> None:
    """The answer is a failure; a stop of what is over changes nothing."""
    _need_profiles(trial)
    trial.perform(_ask(trial, trial.programs.lasting("k"), seconds=60.0))
    trial.perform(act.StopWorkload("k", 1.0))
    failed = trial.wait_for(ev.ProfilingFailed, "k")
    expect(failed.reason == "stopped", f"a stop was asked for, reported was {failed}")
    trial.perform(act.StopWorkload("k", 1.0))
    trial.take_in(0.05)
    others = [r for r in trial.about("k") if not isinstance(r, ev.ProfilingFailed)]
    expect(not others, f"it is over, reported was {others}")


@engine_check
def best_effort_work_is_never_copied(trial: EngineTrial) -> None:
    """Its planner should not ask; if it does, the answer is no."""
    asked = _ask(trial, trial.programs.exiting("k", 0))
    filler = replace(asked.workload, type=WorkloadType.BEST_EFFORT)
    trial.perform(replace(asked, workload=filler))
    trial.wait_for(ev.ProfilingFailed, "k")
    trial.expect_never_started("k")


@engine_check
def profiling_is_asked_for_anew_after_a_crash(trial: EngineTrial) -> None:
    """What an earlier engine was at is cleared away, and the plan is run again."""
    _need_profiles(trial)
    trial.perform(_ask(trial, trial.programs.lasting("k"), seconds=60.0))
    trial.reopen()
    trial.perform(_ask(trial, trial.programs.exiting("k", 0)))
    trial.wait_for(ev.ProfilingFinished, "k")
    trial.expect_never_started("k")


def _ask(trial: EngineTrial, program: Run, *, seconds: float = 5.0) -> act.ProfileWorkload:
    start = trial.action("k", program)
    plan = ProfilingPlan(start.placements[0].server, (1000,), 64 << 20, (), seconds)
    return act.ProfileWorkload("k", start.workload, plan)


def _need_profiles(trial: EngineTrial) -> None:
    if not trial.engine.capabilities.profiles:
        trial.skip("this engine runs no copies")
