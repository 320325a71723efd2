"""The checks of ``engine`` that are about what is taken off its servers from outside."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.allocation import Placement
from wharfinger.model.ends import eviction_word
from wharfinger.testing.harness import EngineTrial, expect


def an_eviction_is_told_as_one(trial: EngineTrial) -> None:
    """With a reason, as the only end; nothing else that runs is touched."""
    evict = _evicting(trial)
    for key in ("k", "other"):
        trial.run_lasting(key)
    evict("k")
    evicted = trial.wait_for(ev.WorkloadEvicted, "k")
    expect(bool(evicted.reason.strip()), f"no reason: {evicted}")
    expect(eviction_word(evicted.reason) != "evicted", f"no stable word begins {evicted.reason!r}")
    trial.expect_one_end("k")
    trial.expect_no_end("other")


def what_was_evicted_never_starts_again_under_its_key(trial: EngineTrial) -> None:
    """The core places it under another one; a stop of the old one is answered as before."""
    evict = _evicting(trial)
    trial.run_lasting("k")
    evict("k")
    trial.wait_for(ev.WorkloadEvicted, "k")
    again = trial.action("k", trial.programs.lasting("k"))
    trial.perform(again, act.StopWorkload("k", 0.0))
    trial.start("next")
    trial.wait_for(ev.WorkloadStarted, "next")
    trial.expect_started_once("k", "next")
    trial.expect_one_end("k")


def an_eviction_is_told_again_by_the_next_engine(trial: EngineTrial) -> None:
    """Also one that happened while there was none."""
    evict = _evicting(trial)
    for key in ("before", "between"):
        trial.run_lasting(key)
    evict("before")
    trial.wait_for(ev.WorkloadEvicted, "before")
    trial.engine.close()
    evict("between")
    trial.open()
    for key in ("before", "between"):
        trial.wait_for(ev.WorkloadEvicted, key)
        trial.expect_one_end(key)


def an_eviction_amid_other_actions(trial: EngineTrial) -> None:
    """While it is suspended, resized, or asked to stop: one end, and no start after it."""
    evict = _evicting(trial)
    placements = trial.action("k", trial.programs.lasting("k")).placements
    larger = tuple(
        replace(p, allocation=replace(p.allocation, cpu_millicpus=2000)) for p in placements
    )
    amid: dict[str, act.EngineAction] = {
        "suspended": act.SuspendWorkload("suspended"),
        "resized": act.ResizeAllocation("resized", larger),
        "stopped": act.StopWorkload("stopped", 20.0),
    }
    for key, action in amid.items():
        trial.run_lasting(key)
        trial.perform(action)
        evict(key)
        trial.expect_one_end(key)
    trial.expect_started_once(*amid)


def a_workload_goes_on_where_it_lost_no_server(trial: EngineTrial) -> None:
    """One of two servers is gone: that is told with what it held there, and nothing has ended."""
    lose, placements = _losing(trial)
    lost = placements[1]
    begun = trial.programs.starts("k")  # Once, or once on each server.
    expect(begun in {1, 2}, f"k was started {begun} times on two servers")
    lose("k", lost.server)
    told = trial.wait_for(ev.PlacementsLost, "k")
    expect([p.server for p in told.placements] == [lost.server], f"lost is {lost}, told {told}")
    expect(bool(told.reason.strip()), f"no reason: {told}")
    trial.expect_no_end("k")
    again = trial.programs.starts("k")
    expect(again == begun, f"k was started {begun} times, then {again}")
    trial.forget_reports()
    if trial.engine.capabilities.resize:
        trial.perform(act.ResizeAllocation("k", placements[:1]))
        trial.wait_for(ev.AllocationResized, "k")


def a_lost_server_is_told_by_the_next_engine(trial: EngineTrial) -> None:
    """Also where it was lost while there was none; the rest of it is known to run."""
    lose, placements = _losing(trial)
    trial.engine.close()
    lose("k", placements[1].server)
    trial.open()
    trial.wait_for(ev.PlacementsLost, "k")
    expect("k" in trial.wait_for(ev.EngineSynced).known_keys, "k runs on one server, unknown")
    trial.expect_no_end("k")


def without_its_last_server_it_is_evicted(trial: EngineTrial) -> None:
    """First one, then the other."""
    lose, placements = _losing(trial)
    for placement in placements:
        lose("k", placement.server)
    trial.wait_for(ev.WorkloadEvicted, "k")
    trial.expect_one_end("k")


def _evicting(trial: EngineTrial) -> Callable[[str], None]:
    evict = trial.harness.evict
    if evict is None or not trial.engine.capabilities.evicts:
        trial.skip("this engine evicts nothing, or this harness has no evict")
    return evict


def _losing(trial: EngineTrial) -> tuple[Callable[[str, str], None], tuple[Placement, ...]]:
    """What takes a start off a server, and where ``k`` runs now: on two."""
    lose, able = trial.harness.lose_server, trial.engine.capabilities
    if lose is None or len(trial.servers) < 2 or able.max_servers_per_workload < 2:
        trial.skip("no second server here, or this harness has no lose_server")
    start = partial(trial.action, "k", trial.programs.lasting("k"))
    both = tuple(start(server).placements[0] for server in trial.servers[:2])
    trial.perform(replace(start(), placements=both))
    trial.wait_for(ev.WorkloadStarted, "k")
    return lose, both


EVICTION_CHECKS = (
    an_eviction_is_told_as_one,
    what_was_evicted_never_starts_again_under_its_key,
    an_eviction_is_told_again_by_the_next_engine,
    an_eviction_amid_other_actions,
    a_workload_goes_on_where_it_lost_no_server,
    a_lost_server_is_told_by_the_next_engine,
    without_its_last_server_it_is_evicted,
)
