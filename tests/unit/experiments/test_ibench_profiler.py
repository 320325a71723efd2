"""The profiler against the ground truth, over two programs."""

import numpy as np
import pytest

from wharfinger.experiments import ibench_profiler
from wharfinger.experiments.ibench_profiler import ProfiledWorld, SimulatedSession
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import REGIMES


@pytest.mark.slow
def test_intervals_hold_most_of_what_is_true():
    few = {Pool.SINGLE_THREADED: 1, Pool.IO_BOUND: 1}
    found = ibench_profiler.look(REGIMES["moderate"], 0, few)
    assert found.numbers["tolerated/told"] > 0.8
    assert found.numbers["caused/told"] > 0.8
    assert found.numbers["tolerated/held"] > 0.6
    assert found.numbers["caused/held"] > 0.6
    assert found.numbers["seconds"] <= ibench_profiler.SECONDS + 10
    values = found.drawn["told-and-true"]["tolerated"]["|told - true|"]
    assert np.median(values) < 10


def test_the_true_scores_are_read_off_the_curves():
    class Line(ProfiledWorld):
        def __init__(self) -> None:
            self.level = 0.8

        def beside(self, resource: SharedResource | None, intensity: float) -> tuple[float, float]:
            return 1 - 0.002 * intensity, self.level

        def second(self, resource: SharedResource, intensity: float) -> float:
            return 1 - 0.005 * intensity

    world = Line()
    assert abs(world.tolerated(SharedResource.INTEGER) - 25) < 1e-6
    assert abs(world.caused(SharedResource.INTEGER) - 40) < 1e-6
    world.level = 1.0
    assert world.caused(SharedResource.INTEGER) == 0
    world.level = 0.1
    assert world.caused(SharedResource.INTEGER) == 100
    session = SimulatedSession(world, np.random.default_rng(0))
    assert len(session.calibrate(SharedResource.INTEGER, (0.0, 50.0)).readings) == 2
