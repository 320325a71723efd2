"""The checks of ``engine`` that are about profiling copies and probing what runs."""

from collections.abc import Callable
from dataclasses import replace

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.workload import Profile, ProfileMode, Run, WorkloadType
from wharfinger.testing.harness import EngineTrial, expect


def a_profiling_plan_is_answered_once(trial: EngineTrial) -> None:
    """However often it is asked for, also after its end; and the copy has had no effect."""
    asked = _ask(trial, trial.programs.exiting("k", 0))
    trial.perform(asked, asked)
    if not trial.engine.capabilities.profiles:
        trial.wait_for(ev.ProfilingFailed, "k")
        return
    measurements = trial.wait_for(ev.ProfilingFinished, "k").measurements
    expect(bool(measurements.performance), f"nothing was measured: {measurements}")
    expect(measurements.runs >= 1, f"measured without a run: {measurements}")
    answers = [r for r in trial.about("k") if isinstance(r, ev.ProfilingFinished)]
    trial.perform(asked)
    trial.wait_until(lambda: len(trial.about("k")) > len(answers), "the answer again")
    again = [r for r in trial.about("k") if isinstance(r, ev.ProfilingFinished)]
    expect(set(map(repr, again)) == {repr(answers[0])}, f"different answers: {again}")
    trial.expect_never_started("k")


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


def forgetting_ends_profiling(trial: EngineTrial) -> None:
    """Of a key that is forgotten nothing is told."""
    _need_profiles(trial)
    trial.perform(_ask(trial, trial.programs.lasting("k"), seconds=60.0))
    trial.perform(act.ForgetWorkload("k"))
    trial.take_in(0.05)
    told = trial.about("k")
    expect(not told, f"it was forgotten, reported was {told}")


def what_its_user_forbids_is_never_copied(trial: EngineTrial) -> None:
    """Its planner should not ask; if it does, the answer is no."""
    asked = _ask(trial, trial.programs.exiting("k", 0))
    forbidden = replace(asked.workload, profile=Profile(ProfileMode.NONE))
    trial.perform(replace(asked, workload=forbidden))
    trial.wait_for(ev.ProfilingFailed, "k")
    trial.expect_never_started("k")


def best_effort_work_is_copied_as_any_other(trial: EngineTrial) -> None:
    """With the CPU of its plan, although it is promised none as it runs."""
    _need_profiles(trial)
    asked = _ask(trial, trial.programs.exiting("k", 0))
    filler = replace(asked.workload, type=WorkloadType.BEST_EFFORT)
    trial.perform(replace(asked, workload=filler))
    measurements = trial.wait_for(ev.ProfilingFinished, "k").measurements
    expect(bool(measurements.performance), f"nothing was measured: {measurements}")
    trial.expect_never_started("k")


def profiling_is_asked_for_again_after_a_crash(trial: EngineTrial) -> None:
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


# --- probing what runs ----------------------------------------------------------------------------


def a_probe_of_what_runs_is_answered_once(trial: EngineTrial) -> None:
    """However often it is asked for; it leaves what runs as it was, and says what it can't."""
    start = trial.action("k", trial.programs.working("k"))
    trial.perform(start)
    trial.wait_for(ev.WorkloadStarted, "k")
    trial.perform(act.MeasureWorkload("k", start.workload))
    asked = _probe(start, 1)
    trial.perform(asked, asked)
    first = trial.wait_for(ev.WorkloadProbed, "k")
    expect(first.number == 1, f"asked for was probe 1, reported was {first}")
    told = first.measurements.tolerated or first.measurements.silent
    expect(bool(told or first.reason), f"neither scores nor why there are none: {first}")
    if not trial.engine.capabilities.probes_running:
        expect(bool(first.reason), f"this engine does not probe, reported was {first}")
    trial.perform(asked)
    trial.wait_until(lambda: len(_probed(trial)) > 1, "the answer again")
    expect(set(map(repr, _probed(trial))) == {repr(first)}, f"different: {_probed(trial)}")
    trial.perform(replace(asked, number=2))
    trial.wait_until(lambda: any(r.number == 2 for r in _probed(trial)), "the next answer")
    trial.expect_no_end("k")
    trial.expect_started_once("k")


def a_probe_of_a_copy_is_answered_once(trial: EngineTrial) -> None:
    """On another server, where there is one: with scores, or why there are none."""
    start = trial.action("k", trial.programs.working("k"))
    trial.perform(start)
    trial.wait_for(ev.WorkloadStarted, "k")
    trial.perform(act.MeasureWorkload("k", start.workload))
    held = start.placements[0].server
    others = [server for server in trial.servers if server != held]
    asked = _probe(start, 1)
    asked = replace(asked, plan=replace(asked.plan, server=next(iter(others), held), live=False))
    trial.perform(asked, asked)
    first = trial.wait_for(ev.WorkloadProbed, "k")
    told = first.measurements.tolerated or first.measurements.silent
    expect(bool(told or first.reason), f"neither scores nor why there are none: {first}")
    able = trial.engine.capabilities
    if not others or not (able.clones or able.copies_running):
        expect(bool(first.reason), f"it can't be copied, reported was {first}")
    trial.perform(asked)
    trial.wait_until(lambda: len(_probed(trial)) > 1, "the answer again")
    expect(set(map(repr, _probed(trial))) == {repr(first)}, f"different: {_probed(trial)}")
    trial.expect_no_end("k")
    trial.expect_started_once("k")


def a_probe_of_what_does_not_run_fails(trial: EngineTrial) -> None:
    """With a reason, and nothing starts."""
    start = trial.action("k", trial.programs.lasting("k"))
    trial.perform(_probe(start, 1))
    probed = trial.wait_for(ev.WorkloadProbed, "k")
    expect(bool(probed.reason), f"nothing runs, reported was {probed}")
    trial.expect_never_started("k")


def a_probe_ends_with_its_workload(trial: EngineTrial) -> None:
    """It is answered, as a failure or with what was known; the stop is as any other."""
    start = trial.action("k", trial.programs.working("k"))
    trial.perform(start)
    trial.wait_for(ev.WorkloadStarted, "k")
    trial.perform(_probe(start, 1), act.StopWorkload("k", 5.0))
    trial.wait_for(ev.WorkloadFinished, "k")
    trial.wait_for(ev.WorkloadProbed, "k")
    trial.expect_one_end("k")


def a_probe_is_asked_for_again_after_a_crash(trial: EngineTrial) -> None:
    """No source outlives the engine that raised it; the next one raises them anew."""
    start = trial.action("k", trial.programs.working("k"))
    trial.perform(start)
    trial.wait_for(ev.WorkloadStarted, "k")
    asked = _probe(start, 1)
    trial.perform(asked)
    trial.reopen()
    trial.perform(start, act.MeasureWorkload("k", start.workload), asked)
    trial.wait_for(ev.WorkloadProbed, "k")
    trial.expect_no_end("k")


def a_live_plan_reaches_nobody_else(trial: EngineTrial) -> None:
    """Beside a neighbor no source rises that both would feel, and none once another plan is on."""
    if not trial.engine.capabilities.probes_running:
        trial.skip("this engine raises no sources beside what runs")
    here = (Placement(trial.servers[0], Allocation(400, 64 << 20)),)
    starts = {
        key: replace(trial.action(key, trial.programs.working(key)), placements=here)
        for key in ("k", "n")
    }
    for key, start in starts.items():
        trial.perform(start)
        trial.wait_for(ev.WorkloadStarted, key)
        trial.perform(act.MeasureWorkload(key, start.workload))
    shared = _probe(starts["k"], 1, SharedResource.STORAGE_BANDWIDTH)
    trial.perform(shared)
    refused = trial.wait_for(ev.WorkloadProbed, "k")
    told = refused.measurements.tolerated
    expect(bool(refused.reason) and not told, f"its neighbor would feel it, reported was {refused}")
    other = replace(_probe(starts["n"], 1), key="n")
    trial.perform(_probe(starts["k"], 2), other)
    second = trial.wait_for(ev.WorkloadProbed, "n")
    expect(bool(second.reason), f"two plans at a time on one server: {second}")
    trial.expect_no_end("k")
    trial.expect_no_end("n")


def _probe(
    start: act.StartWorkload, number: int, source: SharedResource = SharedResource.INTEGER
) -> act.ProbeWorkload:
    here = start.placements[0]
    cpu, memory = here.allocation.cpu_millicpus, here.allocation.memory_bytes
    plan = ProfilingPlan(here.server, (cpu,), memory, (source,), 8.0, 0.05, live=True)
    return act.ProbeWorkload("k", number, start.workload, plan)


def _probed(trial: EngineTrial) -> list[ev.WorkloadProbed]:
    return [report for report in trial.about("k") if isinstance(report, ev.WorkloadProbed)]


PROFILING_CHECKS: tuple[Callable[[EngineTrial], None], ...] = (
    a_profiling_plan_is_answered_once,
    a_stop_ends_profiling,
    forgetting_ends_profiling,
    what_its_user_forbids_is_never_copied,
    best_effort_work_is_copied_as_any_other,
    profiling_is_asked_for_again_after_a_crash,
    a_probe_of_what_runs_is_answered_once,
    a_probe_of_a_copy_is_answered_once,
    a_probe_of_what_does_not_run_fails,
    a_probe_ends_with_its_workload,
    a_probe_is_asked_for_again_after_a_crash,
    a_live_plan_reaches_nobody_else,
)
"""In the order of their dependence."""
