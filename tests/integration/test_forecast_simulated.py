"""A seasonal load, simulated: CPU comes before the rise, and a replay decides the same."""

from pathlib import Path

import pytest

from wharfinger.simulator.run import RunSpec, prepare, replay_recording

SEASONAL = """
apiVersion: wharfinger.dev/v1alpha1
kind: Scenario
metadata: {name: seasonal, description: One service whose load repeats itself}
spec:
  truth: physics
  servers:
    - {platform: a, count: 3}
    - {platform: j, count: 3}
  population:
    - name: web
      count: 1
      type: latency-critical
      pool: webserver
      lifetime: 100m
      load: {shape: fluctuating, base: 100/s, peak: 1600/s, period: 24m}
      target: {latency: {percentile: 99, below: 100ms}}
      scale: {maxServers: 4}
      priority: 10
    - name: filler
      count: 40
      type: single-node
      pool: single-threaded
      bestEffort: 100%
      duration: {shape: lognormal, mean: 20m, sigma: 0.8, from: 1m, to: 2h}
  arrivals: {pattern: regular, every: 20s}
  targets: {of: best, share: 100%, kind: rate}
  training: 30%
  engine: {fractionalCpu: false}
"""


@pytest.mark.long
def test_a_seasonal_load_is_sized_for_before_it_rises_and_is_decided_again_as_it_was(
    tmp_path: Path,
) -> None:
    scenario, log = tmp_path / "seasonal.yaml", tmp_path / "with.jsonl"
    scenario.write_text(SEASONAL)
    prepare(RunSpec(str(scenario), "quasar", seed=11, record=log)).run()
    lines = log.read_text()
    assert '"season":[' in lines
    assert "are forecast in 30 s" in lines
    again = replay_recording(log)
    assert again.difference is None
    off = tmp_path / "without.jsonl"
    without = "by-target[forecast=false]"
    prepare(RunSpec(str(scenario), "quasar", seed=11, adaptation=without, record=off)).run()
    assert "are forecast in" not in off.read_text()
