"""Best-effort work uses no more than its ceiling, and the manager meets it in a whole run."""

import pytest

from wharfinger.core import events as ev
from wharfinger.model.allocation import ceiling_of
from wharfinger.model.performance import Quantity
from wharfinger.simulator.run import RunSpec, prepare_in_turn


@pytest.mark.slow
def test_it_is_measured_below_its_ceiling() -> None:
    policy = "quasar[adaptation.phases_in=true]"
    spec = RunSpec("ibench-memcached", policy, seed=1, regime="overcommitted", scale=0.1)
    simulation = prepare_in_turn(spec)
    ceilings: dict[str, int] = {}
    compared, inner = 0, simulation.driver._log

    def log(now: float, those: object) -> None:
        nonlocal compared
        for each in those:  # type: ignore[attr-defined]
            match each:
                case ev.AllocationResized(key, placements):
                    ceilings[key] = ceiling_of(placements) or 0
                case ev.ServerMeasured(samples=samples):
                    for sample in samples:
                        used, most = sample.readings.get(Quantity.CPU), ceilings.get(sample.key)
                        if used is not None and most:
                            assert used.value <= 1.2 * most / 1000
                            compared += 1
        inner(now, those)  # type: ignore[arg-type]

    simulation.driver._log = log  # type: ignore[method-assign]
    simulation.run()
    assert compared > 10, "hardly anything was throttled"
