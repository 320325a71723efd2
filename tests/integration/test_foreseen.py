"""What is known at the submission: that a target can't be kept, where its program was measured."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import LiveManager, as_file, expect_no_processes_with, manifest

WORK = """
import time
for done in range(1, 10_001):
    began = time.process_time()
    while time.process_time() - began < 0.02:
        pass
    print(f"done={done}", flush=True)
"""


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LiveManager]:
    manager = LiveManager(tmp_path / "state", "--servers", "1")
    manager.start()
    yield manager
    manager.run("delete", "--all")
    manager.wait_for_all()
    manager.stop()
    expect_no_processes_with(str(tmp_path))


def _wants(name: str, within: str) -> dict[str, Any]:
    made = manifest(
        name,
        "python3",
        "-c",
        WORK,
        type="batch",
        target={"completionTime": within},
        profile={"mode": "copy", "seconds": 2},
        measure={"progress": {"regex": "done=([0-9]+)", "total": 10_000}},
    )
    made["spec"]["run"]["restartable"] = True
    return made


def _submitted(manager: LiveManager, workload: dict[str, Any]) -> list[str]:
    """What is warned of."""
    told = manager.run("submit", "-f", "-", "-o", "json", text=as_file(workload))
    warnings: list[str] = json.loads(told)[0]["warnings"]
    return warnings


@pytest.mark.long
@pytest.mark.root
def test_a_target_out_of_reach_is_told_when_it_is_submitted(manager: LiveManager) -> None:
    assert _submitted(manager, _wants("first", "1h")) == []
    manager.wait_for(lambda found: found["first"]["phase"] == "running")
    if "no sandbox" in manager.run("explain", "first"):
        pytest.skip("this machine has no sandbox for a copy")
    # It takes 200 s of one CPU; a profile would take most of what it asks for.
    (warning,) = _submitted(manager, _wants("second", "3s"))
    assert warning.startswith("the target is out of reach")
    manager.wait_for(lambda found: found["second"]["phase"] == "running")
    explained = json.loads(manager.run("explain", "second", "-o", "json"))
    assert "will-miss" in [decision["reason"] for decision in explained["decisions"]]
