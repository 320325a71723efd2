"""Whatever the world: nothing is lost, nothing is there twice, and the same seed gives the same."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.simulations import Watch, setups
from wharfinger.core.lifecycle import Phase
from wharfinger.simulator.run import RunSpec, Simulation
from wharfinger.simulator.scenario.setup import Setup

POLICIES = ("least-loaded", "random", "sparrow", "feedback", "autoscale", "oracle")


@given(setups(), st.sampled_from(POLICIES), st.integers(0, 3))
def test_cores_memory_workloads_and_work_are_conserved(
    setup: Setup, policy: str, seed: int
) -> None:
    watch = Watch(Simulation(setup, RunSpec("drawn", policy, seed=seed)))
    watch.run()
    fates = watch.simulation.fates()
    names = [fate.name for fate in fates]
    assert names == [job.name for job in setup.jobs if job.arrives_at <= watch.simulation.loop.now]
    for fate in fates:
        account = watch.simulation.cluster.accounts[fate.name]
        losses = (
            fate.platform_loss + fate.allocation_loss + fate.interference_loss + fate.waiting_loss
        )
        assert fate.performance + losses == pytest.approx(1.0), fate
        assert fate.wait_seconds >= 0
        if fate.end == Phase.COMPLETED and not account.job.is_service:
            assert account.done == pytest.approx(account.job.work)


@given(setups(), st.sampled_from(POLICIES))
def test_the_same_seed_gives_the_same_run(setup: Setup, policy: str) -> None:
    one, other = (Simulation(setup, RunSpec("drawn", policy)) for _ in range(2))
    Watch(one).run(check=False)
    Watch(other).run(check=False)
    assert one.fates() == other.fates()
    assert one.loop.executed == other.loop.executed


@given(setups(), st.sampled_from(POLICIES), st.sampled_from(POLICIES))
def test_two_policies_see_the_same_arrivals(setup: Setup, one: str, other: str) -> None:
    calm = replace(setup, until_seconds=60.0)
    runs = [Simulation(calm, RunSpec("drawn", policy)) for policy in (one, other)]
    for run in runs:
        Watch(run).run(check=False)
    arrivals = [
        [(name, account.submitted_at) for name, account in run.cluster.accounts.items()]
        for run in runs
    ]
    assert arrivals[0] == arrivals[1]
