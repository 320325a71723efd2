"""Memory that users do not state, in whole simulations: copies tell it, kills raise it."""

from collections import defaultdict
from pathlib import Path

import pytest

from wharfinger.core import events as ev
from wharfinger.core.codec import decode_event
from wharfinger.simulator.results.recording import read_recording
from wharfinger.simulator.run import RunSpec, prepare

GIB = 2**30
SCENARIO = """
apiVersion: wharfinger.dev/v1alpha1
kind: Scenario
metadata: {name: sized}
spec:
  servers:
    - {platform: usual, count: 3, cpus: 8, memory: 16Gi}
  arrivals: {pattern: regular, every: 2m}
  training: 50%
  population:
    - name: job
      applications: [resize, index, render, encode]
      count: 12
      duration: 1m
      statesMemory: false
"""


def _events(tmp_path: Path, more: str, policy: str) -> list[ev.Event]:
    scenario, record = tmp_path / "sized.yaml", tmp_path / "run.jsonl"
    scenario.write_text(SCENARIO + more)
    outcome = prepare(RunSpec(str(scenario), policy, seed=1, record=record)).run()
    assert outcome.summary["workloads"] == 12
    return [decode_event(entry.kind, entry.payload) for entry in read_recording(record)[1]]


def _placed(events: list[ev.Event]) -> list[tuple[str, float, str]]:
    """Of each placement: whose, GiB, why there."""
    placed = (event for event in events if isinstance(event, ev.WorkloadPlaced))
    return [
        (event.name, event.placements[0].allocation.memory_bytes / GIB, event.decision.message)
        for event in placed
    ]


def test_copies_tell_what_is_reserved(tmp_path: Path) -> None:
    placed = _placed(_events(tmp_path, "      memory: 3Gi\n", "quasar"))
    assert [given for _, given, _ in placed] == [3.75] * 12
    assert placed[0][2].endswith("3840Mi memory: its profiling runs used up to 3Gi")


@pytest.mark.parametrize("policy", ["quasar", "least-loaded"])
def test_what_is_killed_comes_back_with_more_and_later_runs_begin_with_it(
    tmp_path: Path, policy: str
) -> None:
    more = "      memory: 1500Mi\n      type: best-effort\n"
    events = _events(tmp_path, more, policy)
    programs = {
        event.workload.name: event.workload.run.command
        for event in events
        if isinstance(event, ev.WorkloadSubmitted)
    }
    given = defaultdict(list)
    for name, memory, _ in _placed(events):
        given[programs[name]].append(memory)
    assert len(given) > 1
    for each in given.values():
        assert each[:3] == [0.5, 1.0, 2.0]
        assert set(each[3:]) <= {1500 * 1.25 / 1024}
    reasons = [event.reason for event in events if isinstance(event, ev.WorkloadFinished)]
    assert reasons.count("exited") == 12
    assert reasons.count("out-of-memory") == 2 * len(given)
