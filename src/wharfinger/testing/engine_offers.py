"""The checks of ``engine`` that are about workloads that users hand in to the engine itself."""

from dataclasses import replace

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.testing.harness import EngineTrial, expect


def an_offer_is_told_with_its_handle(trial: EngineTrial) -> None:
    """And is not started of itself; by a name that no other offer has."""
    first, second = (_offered(trial, key) for key in ("k", "l"))
    expect(first.handle != second.handle, f"two offers under {first.handle!r}")
    names = {first.workload.name, second.workload.name}
    expect(len(names) == 2, f"two offers of one name: {names}")
    trial.take_in(0.1)
    for key in ("k", "l"):
        trial.expect_never_started(key)


def an_offer_is_told_again_by_the_next_engine(trial: EngineTrial) -> None:
    """As it was, and is among those that the engine says it has when it is opened."""
    offered = _offered(trial, "k")
    trial.reopen()
    again = trial.wait_for(ev.WorkloadOffered)
    expect(again == offered, f"{offered} was told, then {again}")
    offers = trial.wait_for(ev.EngineSynced).offers
    expect(offers == (offered.handle,), f"held is {offered.handle!r}, told {offers}")


def a_start_lets_go_what_is_held(trial: EngineTrial) -> None:
    """Once, however often it is asked for; its end is told as any other, and it is held no more."""
    offered = _offered(trial, "k")
    start = _start(trial, "k", offered)
    trial.perform(start, start)
    trial.wait_for(ev.WorkloadStarted, "k")
    trial.reopen()
    expect(not trial.wait_for(ev.EngineSynced).offers, "it was let go, and is offered again")
    trial.perform(start)
    trial.expect_started_once("k")
    trial.perform(act.StopWorkload("k", 20.0))
    trial.wait_for(ev.WorkloadFinished, "k")
    trial.expect_one_end("k")


def a_withdrawn_offer_is_told_and_never_starts(trial: EngineTrial) -> None:
    """A start that comes too late fails for certain."""
    offered = _offered(trial, "k")
    withdraw = trial.harness.withdraw
    if withdraw is None:
        trial.skip("this harness has no withdraw")
    withdraw(offered.handle)
    told = trial.wait_for(ev.OfferWithdrawn)
    expect(told.name == offered.workload.name, f"{offered.workload.name} was withdrawn, not {told}")
    expect(bool(told.reason.strip()), f"no reason: {told}")
    trial.perform(_start(trial, "k", offered))
    trial.expect_refused("k", retryable=False)
    trial.expect_never_started("k")
    trial.reopen()
    expect(not trial.wait_for(ev.EngineSynced).offers, "it was withdrawn, and is offered again")


def an_annotation_changes_nothing_else(trial: EngineTrial) -> None:
    """However often, of whatever text, also where the handle is of nothing."""
    if not trial.engine.capabilities.annotates:
        trial.skip("this engine annotates nothing")
    offered = _offered(trial, "k")
    for text in ("waits for room", "$(reboot); \n\0 'quoted' \"twice\"", "x" * 100_000):
        for handle in (offered.handle, "no-such-handle"):
            trial.perform(act.AnnotateWorkload(handle, "placement: no-room", text))
    trial.take_in(0.1)
    trial.expect_never_started("k")
    trial.perform(_start(trial, "k", offered))
    trial.wait_for(ev.WorkloadStarted, "k")


def _offered(trial: EngineTrial, key: str) -> ev.WorkloadOffered:
    """What a user hands in is told; its program leaves traces under this key."""
    offer = trial.harness.offer
    if offer is None or not trial.engine.capabilities.offers:
        trial.skip("this engine offers nothing, or this harness has no offer")
    workload = trial.action(key, trial.programs.lasting(key)).workload
    handle = offer(workload)
    trial.wait_until(lambda: handle in _offers(trial), f"offer of {handle!r}")
    return _offers(trial)[handle]


def _offers(trial: EngineTrial) -> dict[str, ev.WorkloadOffered]:
    return {told.handle: told for told in trial.reports if isinstance(told, ev.WorkloadOffered)}


def _start(trial: EngineTrial, key: str, offered: ev.WorkloadOffered) -> act.StartWorkload:
    start = trial.action(key, offered.workload.run)
    return replace(start, workload=offered.workload, handle=offered.handle)


OFFER_CHECKS = (
    an_offer_is_told_with_its_handle,
    an_offer_is_told_again_by_the_next_engine,
    a_start_lets_go_what_is_held,
    a_withdrawn_offer_is_told_and_never_starts,
    an_annotation_changes_nothing_else,
)
