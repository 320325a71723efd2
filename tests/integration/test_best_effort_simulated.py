"""Best-effort work beside a service on whole simulated clusters: its gain, and what it costs."""

import pytest

from wharfinger.simulator.run import RunSpec, run


def summary(policy: str, seed: int, scale: float) -> dict[str, float]:
    return run(RunSpec("quasar-webserver-flat", policy, seed=seed, scale=scale)).summary


@pytest.mark.long
def test_what_is_measured_of_best_effort_work_pays_for_its_copies() -> None:
    """On ten platforms, of which none is the best for all programs."""
    told, blind = (
        summary(f"quasar[measures_best_effort={measured}]", 1, 0.5)
        for measured in ("true", "false")
    )
    key = "best_effort_performance_mean"
    assert told[key] > blind[key] + 0.02
    assert told["requests_in_bound_fraction"] > 0.9


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 4])
def test_a_service_that_fills_a_small_cluster_is_not_left_overloaded(seed: int) -> None:
    """With seed 2 one of its two servers was idle, since the other held more, and that ended it."""
    assert summary("quasar", seed, 0.2)["requests_in_bound_fraction"] > 0.9
