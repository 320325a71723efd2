"""A service whose offered load is measured, simulated: a step is sized for at once."""

from pathlib import Path

import pytest

from wharfinger.simulator.run import RunSpec, prepare, replay_recording

SPIKE = "quasar-webserver-spike"


SEEDS = (1, 2)
"""Those from 0 to 3 all show it."""


def after_rise(log: Path, adaptation: str) -> float:
    """Requests within the bound, of those of the ten minutes after the step; the last is logged."""
    shares = []
    for seed in SEEDS:
        spec = RunSpec(SPIKE, "quasar", seed=seed, adaptation=adaptation, record=log)
        shares.append(prepare(spec).run().summary["requests_in_bound_after_rise_fraction"])
    assert None not in shares
    return sum(shares) / len(shares)


@pytest.mark.long
def test_a_spike_costs_less_where_the_load_is_followed_and_is_decided_again_as_it_was(
    tmp_path: Path,
) -> None:
    log = tmp_path / "with.jsonl"
    followed = after_rise(log, "")
    assert followed > 0.95
    assert followed > 0.01 + after_rise(
        tmp_path / "without.jsonl", "by-target[follow_demand=false]"
    )
    lines = log.read_text()
    assert '"offered_per_second"' in lines
    assert "are offered, of which" in lines
    again = replay_recording(log)
    assert again.difference is None
    assert again.decisions > 100
