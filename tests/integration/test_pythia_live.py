"""``pythia`` on real programs: who the model knows runs beside a service, a stranger waits."""

import json
import os
from pathlib import Path
from typing import Any

from tests.support.live import LiveManager
from wharfinger.files.contention_sets import save_model
from wharfinger.interference.measurements import (
    ContentionMeasurements,
    ContentionSetting,
    MeasuredSet,
)
from wharfinger.interference.model import InterferenceModel


def batch(name: str, program: str, command: list[str], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "wharfinger.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "labels": {"program": program}},
        "spec": {
            "type": "batch",
            "run": {"command": command},
            "resources": {"cpu": "100m", "memory": "64Mi"},
            **spec,
        },
    }


def test_services_are_protected_by_the_model_and_a_replay_wants_the_same_one(
    tmp_path: Path,
) -> None:
    path, state = tmp_path / "model.json", tmp_path / "state"
    row = MeasuredSet(ContentionSetting("web"), ("calm",), 0.99, 1e-3)
    save_model(InterferenceModel.fit("product", ContentionMeasurements.of([row])), path)
    servers = f"s={min(os.sched_getaffinity(0))}"
    contention = f"by-set[model={path}]"
    manager = LiveManager(
        state, "--policy", "pythia", "--contention", contention, "--servers", servers
    )
    manager.start()
    try:
        manager.submit(batch("web", "web", ["sleep", "600"], target={"rate": "5/s"}))
        manager.wait_for(lambda found: found["web"]["phase"] == "running")
        manager.submit(batch("known", "calm", ["sleep", "600"]))
        manager.wait_for(lambda found: found["known"]["phase"] == "running")
        manager.submit(batch("other", "stranger", ["sleep", "600"]))
        waits = manager.wait_for(lambda found: found["other"]["reason"] == "interference")
        assert waits["other"]["phase"] == "queued"
        assert "what stranger does to web is unknown" in manager.run("explain", "other")
    finally:
        manager.clear()
    again = json.loads(manager.run("replay", str(state), "-o", "json"))
    assert again["same"], again["difference"]
    row = MeasuredSet(ContentionSetting("web"), ("calm",), 0.9, 1e-3)
    save_model(InterferenceModel.fit("product", ContentionMeasurements.of([row])), path)
    assert "restore that file" in manager.run("replay", str(state), status=2)
