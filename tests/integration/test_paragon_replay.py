"""A log written under ``paragon``, simulated or live, is decided again as it was."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_demo import replay
from tests.support import first_and_long
from tests.support.live import LiveManager, manifest
from wharfinger.errors import InvalidInput
from wharfinger.simulator.run import RunSpec, prepare, replay_recording

POLICIES = (
    "paragon",
    "paragon[probes=auto,idle_share=0.05,start_first=1]",
    "paragon[rule=cumulative,placement.sources=1]",
    "paragon[rule=published,confidence=0.5,placement.sources=2,idle_share=0]",
    "paragon[rule=published,selection=hash,hash.quality=0.7,hash.miss=0.1]",
)
WORKING = """
import time
for done in range(40):
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass
    print(f"done={done + 1}", flush=True)
"""


@pytest.mark.parametrize("policy", first_and_long(POLICIES))
def test_a_simulated_run_is_decided_again_as_it_was(policy: str, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    spec = RunSpec("paragon-local-low", policy, seed=2, workloads=40, record=log)
    prepare(spec).run()
    again = replay_recording(log)
    assert again.difference is None
    assert again.workloads == 40
    assert again.decisions > 40


def test_a_log_that_was_changed_is_decided_otherwise(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    prepare(RunSpec("paragon-local-low", "paragon", seed=2, workloads=10, record=log)).run()
    lines = log.read_text().splitlines(keepends=True)
    placed = next(at for at, line in enumerate(lines) if '"kind":"WorkloadPlaced"' in line)
    lines[placed] = lines[placed].replace('"placements":[{"server":"', '"placements":[{"server":"x')
    log.write_text("".join(lines))
    difference = replay_recording(log).difference
    assert difference is not None
    assert difference.entry == placed


def test_a_log_of_settings_that_there_are_not_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    prepare(RunSpec("paragon-local-low", "paragon", seed=2, workloads=2, record=log)).run()
    head, rest = log.read_text().split("\n", 1)
    changed: dict[str, Any] = json.loads(head)
    changed["run"]["policy"] = "paragon[selection=dice]"
    log.write_text(json.dumps(changed) + "\n" + rest)
    with pytest.raises(InvalidInput, match="is not one of greedy, hash"):
        replay_recording(log)


@pytest.fixture
def managers(tmp_path: Path) -> Iterator[list[LiveManager]]:
    """Of a test; at its end nothing of theirs is left."""
    made: list[LiveManager] = []
    yield made
    for manager in made:
        manager.clear()


@pytest.mark.parametrize(
    "policy",
    first_and_long(["paragon", "paragon[rule=published,confidence=0.5,selection=hash]"]),
)
def test_a_live_log_is_decided_again_as_it_was(
    policy: str, tmp_path: Path, managers: list[LiveManager], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real programs: some profiled and classified, one short, one that nothing is known of."""
    # Classified by the measurements that are shipped, whatever this site has.
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    manager = LiveManager(tmp_path / "state", "--policy", policy, "--servers", "2")
    managers.append(manager)
    manager.start()
    command = (sys.executable, "-c", WORKING)
    lines = {"progress": {"regex": "done=([0-9]+)"}}
    spec: dict[str, Any] = {"target": {"rate": "5/s"}, "measure": lines}
    manager.submit(
        *(manifest(f"profiled-{at}", *command, profile={"seconds": 2}, **spec) for at in range(2)),
        manifest("short", *command, expectedDuration="5s", **spec),
        manifest("unknown", *command, profile={"mode": "none"}, **spec),
    )
    ended = manager.wait_for_all(240)
    assert {each["phase"] for each in ended.values()} == {"completed"}, ended
    assert "WorkloadClassified" in manager.run("get", "events", "--kind", "WorkloadClassified")
    manager.stop()
    again = replay(manager.state)
    assert again["difference"] is None
    assert again["same"]
    assert again["workloads"] == 4
