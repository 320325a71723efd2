"""Checks of an engine, third part: profiling plans.

Run by ``wharfinger.testing.engine``, which says how to use them.
"""

from dataclasses import replace

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.allocation import Allocation
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.workload import Run, WorkloadType
from wharfinger.testing.harness import EngineCheck, EngineHarness, Session, expect

MEMORY_BYTES = 64 << 20


def a_profiling_plan_is_answered_once(harness: EngineHarness) -> None:
    """However often it is asked for, also after its end; and the copy has had no effect."""
    with harness.session() as session:
        asked = _ask(harness, session, harness.programs.exiting("k", 0))
        session.perform(asked, asked)
        if not session.engine.capabilities.profiles:
            session.wait_for(ev.ProfilingFailed, "k")
            return
        found = session.wait_for(ev.ProfilingFinished, "k").measurements
        expect(bool(found.performance), f"nothing was measured: {found}")
        expect(found.runs >= 1, f"measured without a run: {found}")
        answers = [r for r in session.about("k") if isinstance(r, ev.ProfilingFinished)]
        session.perform(asked)
        session.wait_until(lambda: len(session.about("k")) > len(answers), "the answer again")
        again = [r for r in session.about("k") if isinstance(r, ev.ProfilingFinished)]
        expect(set(map(repr, again)) == {repr(answers[0])}, f"different answers: {again}")
        expect(harness.programs.starts("k") == 0, "the copy has had an effect")


def a_stop_ends_profiling(harness: EngineHarness) -> None:
    """The answer is a failure; a stop of what is over changes nothing."""
    with harness.session() as session:
        _need_profiles(harness, session)
        session.perform(_ask(harness, session, harness.programs.lasting("k"), seconds=60.0))
        session.perform(act.StopWorkload("k", 1.0))
        failed = session.wait_for(ev.ProfilingFailed, "k")
        expect(failed.reason == "stopped", f"a stop was asked for, reported was {failed}")
        session.perform(act.StopWorkload("k", 1.0))
        session.take_in(0.05)
        others = [r for r in session.about("k") if not isinstance(r, ev.ProfilingFailed)]
        expect(not others, f"it is over, reported was {others}")


def best_effort_work_is_never_copied(harness: EngineHarness) -> None:
    """Its planner should not ask; if it does, the answer is no."""
    with harness.session() as session:
        asked = _ask(harness, session, harness.programs.exiting("k", 0))
        filler = replace(asked.workload, type=WorkloadType.BEST_EFFORT)
        session.perform(replace(asked, workload=filler))
        session.wait_for(ev.ProfilingFailed, "k")
        expect(harness.programs.starts("k") == 0, "it was started all the same")


def profiling_is_asked_for_anew_after_a_crash(harness: EngineHarness) -> None:
    """What an earlier engine was at is cleared away, and the plan is run again."""
    with harness.session() as session:
        _need_profiles(harness, session)
        session.perform(_ask(harness, session, harness.programs.lasting("k"), seconds=60.0))
        session.reopen()
        session.perform(_ask(harness, session, harness.programs.exiting("k", 0)))
        session.wait_for(ev.ProfilingFinished, "k")
        expect(harness.programs.starts("k") == 0, "the copy has had an effect")


def _ask(
    harness: EngineHarness, session: Session, program: Run, *, seconds: float = 5.0
) -> act.ProfileWorkload:
    start = harness.start(session, "k", program)
    placement = replace(start.placements[0], allocation=Allocation(1000, MEMORY_BYTES))
    plan = ProfilingPlan(placement.server, (1000,), MEMORY_BYTES, (), seconds)
    return act.ProfileWorkload("k", start.workload, plan)


def _need_profiles(harness: EngineHarness, session: Session) -> None:
    if not session.engine.capabilities.profiles:
        harness.skip("this engine runs no copies")


PROFILE_CHECKS: tuple[EngineCheck, ...] = (
    a_profiling_plan_is_answered_once,
    a_stop_ends_profiling,
    best_effort_work_is_never_copied,
    profiling_is_asked_for_anew_after_a_crash,
)
