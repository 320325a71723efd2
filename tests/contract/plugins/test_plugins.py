"""Plug-ins out of the tree: each is one file, and one line of registry."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.contract.plugins.by_count import ByCount, CountSettings
from tests.contract.plugins.by_free_cpu import ByFreeCpu, FreeCpuSettings
from tests.contract.plugins.delegating import DECIDER, Delegating, propose
from tests.contract.plugins.fast_lane import FAST, SLOW, FastLane, FastLaneSettings
from tests.contract.plugins.harness import Trial, check_log, job, run
from tests.contract.plugins.on_demand import (
    Acquiring,
    AcquiringSettings,
    OnDemand,
    OnDemandSettings,
)
from tests.contract.plugins.preempting import Preempting
from tests.contract.plugins.spread_out import SpreadOut, SpreadOutSettings
from tests.support import first_and_long
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.seams.verdicts import Preempt
from wharfinger.core.state import AdjustmentKind
from wharfinger.model.decisions import Place, Refuse
from wharfinger.model.view import Request, View
from wharfinger.policies.registry import (
    ADAPTATIONS,
    ADMISSIONS,
    CONTENTIONS,
    POLICIES,
    PROVISIONINGS,
    Bundle,
    Part,
    make_policy,
)
from wharfinger.simulator.run import Decider, Simulation
from wharfinger.testing import (
    check_adaptation,
    check_admission,
    check_contention,
    check_policy,
    check_provisioning,
)


class Ruthless(Preempting):
    """Names all, whatever their priority."""

    def place(self, request: Request, view: View) -> Place | Refuse | Preempt:
        verdict = super().place(request, view)
        occupants = view.occupants("s0") if view.occupants else ()
        names = tuple(each.name for each in occupants)
        return verdict if isinstance(verdict, Place) else Preempt(names, verdict.decision)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line each."""
    add = monkeypatch.setitem
    add(POLICIES, "by-free-cpu", Bundle(Part(ByFreeCpu, FreeCpuSettings)))
    add(ADMISSIONS, "fast-lane", Part(FastLane, FastLaneSettings))
    add(CONTENTIONS, "by-count", Part(ByCount, CountSettings))
    add(ADAPTATIONS, "spread-out", Part(SpreadOut, SpreadOutSettings))
    add(PROVISIONINGS, "on-demand", Part(OnDemand, OnDemandSettings))
    add(POLICIES, "acquiring", Bundle(Part(Acquiring, AcquiringSettings)))
    add(POLICIES, "delegating", Bundle(Part(Delegating)))
    add(POLICIES, "preempting", Bundle(Part(Preempting)))
    add(POLICIES, "ruthless", Bundle(Part(Ruthless)))


def ended(trial: Trial) -> dict[str, str]:
    return {
        name: str(record.phase) for name, record in trial.simulation.manager.state.workloads.items()
    }


def completed(trial: Trial) -> None:
    assert set(ended(trial).values()) == {"completed"}, ended(trial)


# --- conformance ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["by-free-cpu", "acquiring", "delegating", "preempting"])
def test_placements_conform(name: str) -> None:
    check_policy(make_policy(name).placement)


@pytest.mark.long
def test_the_other_parts_conform() -> None:
    check_admission(FastLane())
    check_contention(ByCount)
    check_adaptation(SpreadOut())
    check_provisioning(OnDemand())


@pytest.mark.slow
@pytest.mark.parametrize("name", first_and_long(["by-target", "by-load", "by-profile"]))
def test_the_adaptations_that_there_are_conform(name: str) -> None:
    check_adaptation(make_policy("least-loaded", adaptation=name).adaptation)


# --- a placement with an index and a note -------------------------------------------------------


def by_free_cpu(**more: object) -> Trial:
    jobs = [job(f"w{at}", at=float(at), cpu=1000 * (1 + at % 3)) for at in range(12)]
    return run(jobs, servers=4, policy="by-free-cpu", **more)  # type: ignore[arg-type]


def test_a_placement_keeps_an_index_and_a_note() -> None:
    trial = by_free_cpu()
    completed(trial)
    check_log(trial)
    servers = [event.placements[0].server for event in trial.of(ev.WorkloadPlaced)]
    assert all(one != other for one, other in itertools.pairwise(servers))
    state = trial.simulation.manager.state
    assert state.notes == {"placement:by-free-cpu": servers[-1]}
    view = trial.simulation.manager.view
    anew = ByFreeCpu()._index_of(view)
    assert list(view.index.rows(view)) == list(anew.rows(view))


def test_the_index_is_made_again_and_the_note_is_kept() -> None:
    trial = by_free_cpu(restart_at=ev.WorkloadFinished)
    completed(trial)
    check_log(trial)
    placed = [e.placements for e in trial.of(ev.WorkloadPlaced)]
    assert placed == [e.placements for e in by_free_cpu().of(ev.WorkloadPlaced)]


# --- an admission that diverts and waits ---------------------------------------------------------


def fast_lane(**more: object) -> Trial:
    """The server has four CPUs: one takes all, three small ones and a large one wait."""
    jobs = [job("first", work=80.0, cpu=4000)]
    jobs += [job(f"small{at}", at=1.0 + at, cpu=1000) for at in range(2)]
    jobs += [job("large", at=4.0, cpu=4000), job("late", at=5.0, cpu=1000)]
    return run(jobs, policy="least-loaded", admission="fast-lane", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("restart_at", [None, ev.WorkloadDiverted, ev.WorkloadDeferred])
def test_an_admission_diverts_waits_and_remembers(restart_at: type | None) -> None:
    trial = fast_lane(restart_at=restart_at)
    completed(trial)
    check_log(trial)
    diverted = {event.name: event.queue for event in trial.of(ev.WorkloadDiverted)}
    assert diverted == {"small0": SLOW, "small1": SLOW}
    assert trial.simulation.manager.state.notes["admission:fast-lane"] == "2"
    waits = [e for e in trial.of(ev.WorkloadDeferred) if e.name == "late" and e.until is not None]
    assert waits and waits[0].until == 7.0
    assert "waiting" in trial.reasons("late")
    queued = {event.name: event.queue for event in trial.of(ev.WorkloadQueued)}
    assert queued["small0"] == FAST
    assert queued["late"] == SLOW, "two were diverted by then"


# --- a contention model ---------------------------------------------------------------------------


def test_a_contention_model_is_exchanged() -> None:
    jobs = [job(f"w{at}", at=float(at)) for at in range(6)]
    trial = run(jobs, servers=2, policy="least-loaded", contention="by-count[drop=0.2]")
    completed(trial)
    check_log(trial)
    started = trial.of(ev.ManagerStarted)[0]
    assert started.settings["contention"] == {"name": "by-count", "drop": 0.2}


# --- an adaptation that migrates ------------------------------------------------------------------


@pytest.mark.parametrize("restart_at", [None, ev.WorkloadMigrated])
def test_an_adaptation_migrates(restart_at: type | None) -> None:
    jobs = [job("three", work=120.0, cpu=8000), job("one", 1.0, 80.0), job("two", 1.0, 80.0)]
    trial = run(jobs, servers=2, policy="feedback", adaptation="spread-out", restart_at=restart_at)
    completed(trial)
    check_log(trial)
    moved = trial.of(ev.WorkloadMigrated)
    assert len(moved) == 1
    record = trial.record(moved[0].name)
    assert record.starts == 2
    assert record.placements == () or record.placements == moved[0].placements
    assert [a.kind for a in record.adjustments] == [AdjustmentKind.MIGRATED]
    assert "placed-for-target" in trial.reasons(moved[0].name)


# --- servers that are acquired ----------------------------------------------------------------


@pytest.mark.parametrize("restart_at", [None, ev.ServerOrdered, ev.ServerReleased])
def test_a_provisioning_acquires_and_releases(restart_at: type | None) -> None:
    jobs = [job(f"w{at}", work=200.0, cpu=4000) for at in range(4)] + [job("last", at=200.0)]
    trial = run(jobs, policy="least-loaded", provisioning="on-demand", restart_at=restart_at)
    completed(trial)
    check_log(trial)
    ordered, acquired = trial.of(ev.ServerOrdered), trial.of(ev.ServerAcquired)
    assert [event.key for event in ordered] == [event.key for event in acquired]
    assert len({event.server.name for event in acquired}) == len(acquired) > 0
    state = trial.simulation.manager.state
    released = {event.name for event in trial.of(ev.ServerReleased)}
    assert released == {event.name for event in trial.of(ev.ServerLeft)} != set()
    assert not released & (state.servers.keys() | state.acquired.keys())
    assert (state.orders, state.releasing) == ({}, [])


@pytest.mark.parametrize("restart_at", [None, ev.ServerOrdered])
def test_a_placement_asks_for_a_server(restart_at: type | None) -> None:
    jobs = [job("one", work=400.0, cpu=4000), job("two", cpu=4000)]
    trial = run(jobs, policy="acquiring", restart_at=restart_at)
    completed(trial)
    check_log(trial)
    assert [event.ordered_for for event in trial.of(ev.ServerOrdered)] == ["two"]
    assert trial.record("two").started_at < 20
    assert "acquiring" in trial.reasons("two")
    if restart_at is not None:
        asked = [n for n, action in trial.asked if isinstance(action, act.AcquireServer)]
        assert asked == [1, 2], "asked again by the process that took over"


def test_what_can_t_be_acquired_is_not_ordered_at_every_step() -> None:
    jobs = [job("one", work=2000.0, cpu=4000), job("two", cpu=4000)]
    trial = run(jobs, policy="acquiring[platform=none-such]", until=200.0)
    check_log(trial)
    assert len(trial.of(ev.AcquisitionFailed)) == len(trial.of(ev.ServerOrdered)) == 4
    assert trial.record("two").phase is Phase.QUEUED
    assert "none-such" in trial.record("two").message


# --- deciders outside -----------------------------------------------------------------------------


def after(seconds: float) -> Callable[[Simulation], Decider]:
    """A decider that answers so much later, on the snapshot that it was given."""

    def make(simulation: Simulation) -> Decider:
        def decide(question: act.DecidePlacement, answer: Callable[[ev.Report], None]) -> None:
            due = simulation.loop.now + seconds
            simulation.loop.schedule(due, lambda _: answer(propose(question)), None, 8)

        return decide

    return make


@pytest.mark.parametrize("restart_at", [None, ev.PlacementDelegated, ev.PlacementConflicted])
def test_the_second_of_two_proposals_loses_and_is_made_again(restart_at: type | None) -> None:
    jobs = [job("one", cpu=3000), job("two", cpu=3000), job("three", cpu=3000)]
    trial = run(
        jobs, servers=3, policy="delegating", deciders={DECIDER: after(1.0)}, restart_at=restart_at
    )
    completed(trial)
    check_log(trial)
    conflicts = trial.of(ev.PlacementConflicted)
    assert conflicts
    assert all(event.decision.numbers["servers_changed"] == 1 for event in conflicts)
    reasons = trial.reasons(conflicts[0].name)
    assert reasons.index("delegated") < reasons.index("conflict") < reasons.index("ok", 2)
    assert len(trial.of(ev.PlacementDelegated)) == 3 + len(conflicts)
    if restart_at is ev.PlacementDelegated:
        assert 2 in {n for n, action in trial.asked if isinstance(action, act.DecidePlacement)}


def test_a_decider_that_finds_no_room_is_asked_again_when_some_comes_free() -> None:
    jobs = [job("one", work=20.0, cpu=4000), job("two", cpu=4000)]
    trial = run(jobs, policy="delegating", deciders={DECIDER: after(0.0)})
    completed(trial)
    check_log(trial)
    assert len(trial.of(ev.PlacementDelegated)) <= 8
    assert "no-room" in trial.reasons("two")


def test_a_proposal_of_more_servers_than_it_may_have_is_refused_with_the_reason() -> None:
    def make(simulation: Simulation) -> Decider:
        def decide(question: act.DecidePlacement, answer: Callable[[ev.Report], None]) -> None:
            (first,) = (proposal := propose(question)).placements
            both = tuple(replace(first, server=name) for name in question.snapshot.names)
            answer(replace(proposal, placements=both, versions=(0, 0)))

        return decide

    trial = run([job("one")], servers=2, policy="delegating", deciders={DECIDER: make}, until=50.0)
    check_log(trial)
    record = trial.record("one")
    assert (record.phase, record.deferral) == (Phase.QUEUED, "not-supported")
    assert record.message == "more servers were proposed than it may be on, which is 1"
    assert not trial.of(ev.PlacementConflicted)


def test_without_a_decider_it_waits_and_says_why() -> None:
    trial = run([job("one")], policy="delegating", until=50.0)
    check_log(trial)
    assert trial.record("one").deferral == "not-supported"


# --- preemption -----------------------------------------------------------------------------------


@pytest.mark.parametrize("restart_at", [None, ev.WorkloadPreempted])
def test_a_placement_preempts(restart_at: type | None) -> None:
    jobs = [job("low", work=60.0, cpu=2000), job("mid", work=60.0, cpu=2000, priority=1)]
    jobs += [job("high", at=10.0, cpu=3000, priority=5), job("small", at=10.0, cpu=1000)]
    trial = run(jobs, policy="preempting", restart_at=restart_at)
    completed(trial)
    check_log(trial)
    preempted = [(event.name, event.preempted_for) for event in trial.of(ev.WorkloadPreempted)]
    assert preempted == [("low", "high"), ("mid", "high")]
    assert trial.record("high").started_at < 15
    assert trial.record("low").starts == 2
    assert "preempting" in trial.reasons("high")
    assert [made.kind for made in trial.record("low").adjustments] == [AdjustmentKind.PREEMPTED]


def test_what_would_be_served_first_again_is_left_alone() -> None:
    jobs = [job("one", work=60.0, cpu=4000), job("two", at=10.0, cpu=4000)]
    trial = run(jobs, policy="ruthless")
    completed(trial)
    check_log(trial)
    assert not trial.of(ev.WorkloadPreempted)
    assert "no-room" in trial.reasons("two")
