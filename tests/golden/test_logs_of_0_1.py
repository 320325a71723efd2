"""What version 0.1 wrote can be read, and means what it meant.

``state-0.1/local`` is of a real manager with real programs that was stopped, started and killed,
``state-0.1/story`` of a history with every kind of event, ``state-0.1/log.jsonl.gz`` holds
histories as lines of JSON. They are never written anew: only version 0.1 can write them.
"""

import gzip
import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import time as clock
from typing import Any

import pytest

from tests.support.recorded import Line, summary_of
from wharfinger.core import actions as act
from wharfinger.core.codec import decode_event
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.errors import Conflict
from wharfinger.manifest import load_manifests
from wharfinger.model.workload import Reservation, Restart
from wharfinger.policies.registry import make_policy
from wharfinger.runtime.assembly import Options, assemble
from wharfinger.runtime.runtime import Runtime
from wharfinger.runtime.state_directory import StateDirectory
from wharfinger.store.sqlite import SqliteStore
from wharfinger.testing import MemoryCluster, MemoryEngine

STATE = Path(__file__).parent / "state-0.1"
EXPECTED: dict[str, Any] = json.loads((STATE / "expected.json").read_text())
KINDS = 33


def _histories() -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = defaultdict(list)
    with gzip.open(STATE / "log.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            payload = json.dumps(line["event"], separators=(",", ":")).encode()
            found[line["history"]].append((line["time"], line["kind"], payload))
    return found


HISTORIES = _histories()


@pytest.fixture(params=["local", "story"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A copy, as a manager keeps it: closed to others."""
    copy = tmp_path / request.param
    shutil.copytree(STATE / request.param, copy)
    for path in (copy, *copy.iterdir()):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return copy


def test_a_state_directory_opens_and_the_manager_is_as_it_was(directory: Path) -> None:
    runtime = assemble(StateDirectory(directory), Options())
    try:
        assert runtime.store.damage is None
        assert summary_of(runtime.manager) == EXPECTED[directory.name]
    finally:
        runtime.store.close()


MANIFEST_OF_0_1 = """
apiVersion: wharfinger.dev/v1alpha1
kind: Workload
metadata: {name: late}
spec:
  type: batch
  priority: 7
  resources: {cpu: 150m, memory: 64Mi}
  run: {command: [sleep, "600"], workingDir: /, stopGrace: 1s}
---
apiVersion: wharfinger.dev/v1alpha1
kind: Workload
metadata: {name: quick}
spec:
  type: batch
  resources: {cpu: 100m, memory: 64Mi}
  run: {command: [sh, -c, exit 0], workingDir: /, stopGrace: 1s}
"""


@pytest.fixture
def upgraded(tmp_path: Path) -> Iterator[Runtime]:
    """A manager of today on what version 0.1 left, with an engine on which that runs."""
    shutil.copytree(STATE / "local", tmp_path / "state")
    for path in (tmp_path / "state", *(tmp_path / "state").iterdir()):
        path.chmod(0o700 if path.is_dir() else 0o600)
    cluster = MemoryCluster()
    kept = assemble(StateDirectory(tmp_path / "state"), Options())
    for record in kept.manager.state.workloads.values():
        if record.on_server:
            cluster.perform(act.StartWorkload(record.key, record.workload, record.placements))
    kept.store.close()
    store = SqliteStore.open(tmp_path / "state")
    runtime = Runtime(
        lambda state: Core(make_policy("least-loaded"), state=state),
        MemoryEngine(cluster),
        store,
        clock,
    )
    runtime.start()
    _settle(runtime)
    yield runtime
    runtime.engine.close()
    store.close()


def _settle(runtime: Runtime) -> None:
    for _ in range(5):
        runtime.pump()
        runtime.tick()


def test_its_workloads_have_what_they_would_have_had_then(directory: Path) -> None:
    runtime = assemble(StateDirectory(directory), Options())
    try:
        for record in runtime.manager.state.workloads.values():
            runs = record.phase is Phase.RUNNING
            assert record.ready_at == (record.started_at if runs else None)
            assert (record.run, record.previous, record.restarts) == (1, [], 0)
            assert record.workload.ttl_after_finished_seconds is None
            assert record.workload.run.restart == Restart()
            assert not record.paused
    finally:
        runtime.store.close()


def test_the_same_manifest_is_unchanged_where_it_lives_and_a_new_run_where_it_ended(
    upgraded: Runtime,
) -> None:
    late, quick = load_manifests(MANIFEST_OF_0_1, working_directory="/")
    assert upgraded.manager.find("late").phase is Phase.RUNNING
    told = upgraded.submit([late, quick])
    assert [(a.outcome, a.run) for a in told] == [("unchanged", 1), ("runs-again", 2)]
    assert upgraded.submit([quick], once=True)[0].outcome == "unchanged"
    # Where its user has it so, it gets today's defaults while it runs on.
    key = upgraded.manager.find("late").key
    assert upgraded.apply([late])[0].outcome == "updated"
    assert upgraded.manager.find("late").key == key
    assert upgraded.manager.find("late").workload == late


@pytest.mark.parametrize(
    "kind", ["type: batch", "type: latency-critical\n  target: {throughput: 9/s}"]
)
def test_defaults_that_came_later_are_no_other_workload(upgraded: Runtime, kind: str) -> None:
    text = MANIFEST_OF_0_1.partition("---")[0].replace("name: late", "name: d")
    text = text.replace("type: batch", kind)
    (now,) = load_manifests(re.sub("  resources.*\n", "", text), working_directory="/")
    before = replace(
        now,
        run=replace(now.run, restart=Restart()),
        reservation=Reservation(),
        ttl_after_finished_seconds=None,
    )
    assert before != now
    upgraded.submit([before])
    assert upgraded.submit([now])[0].outcome == "unchanged"
    other = replace(now, priority=8)
    with pytest.raises(Conflict):
        upgraded.submit([other])
    upgraded.delete("d")


def test_its_workloads_are_restarted_stopped_and_deleted(upgraded: Runtime) -> None:
    upgraded.restart("late")
    _settle(upgraded)
    late = upgraded.manager.find("late")
    assert (late.phase, late.restarts, late.starts) == (Phase.RUNNING, 1, 2)
    upgraded.restart("missing")
    assert upgraded.manager.find("missing").run == 2
    for name in list(upgraded.manager.state.workloads):
        upgraded.delete(name)
    _settle(upgraded)
    assert not upgraded.manager.state.workloads


def test_a_state_directory_has_a_snapshot_and_events_behind_it(directory: Path) -> None:
    store = SqliteStore.open(directory)
    try:
        snapshot = store.latest_snapshot()
        assert snapshot is not None
        assert 0 < snapshot.sequence < store.last_sequence
        whole = [decode_event(entry.kind, entry.payload) for entry in store.read()]
        assert len(whole) == store.last_sequence
    finally:
        store.close()


def test_every_kind_of_event_is_there() -> None:
    assert len({kind for log in HISTORIES.values() for _, kind, _ in log}) == KINDS


@pytest.mark.parametrize("name", HISTORIES)
def test_a_log_folds_to_what_it_meant(name: str) -> None:
    manager = Core(make_policy("least-loaded"))
    for time, kind, payload in HISTORIES[name]:
        manager.apply(time, decode_event(kind, payload))
    assert summary_of(manager) == EXPECTED[name]
