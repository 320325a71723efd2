"""A run that never was: what the API would have shown of it."""

from pathlib import Path
from typing import Any

import pytest

from wharfinger.demo.picture import DemoRun
from wharfinger.demo.reservations import reservations
from wharfinger.demo.timeline import DemoSample, Timeline
from wharfinger.demo.verdict import ClientSecond, judge
from wharfinger.demo.workloads import (
    FILLERS,
    SERVICES,
    SHARE,
    TARGETED,
    manifests,
    targets,
)
from wharfinger.manifest import load_manifests
from wharfinger.model.workload import Workload

SECONDS = 20
STATED = reservations(TARGETED, 0.2, 0, 1.0)


def needs(cpus: float = 2.0) -> dict[str, float]:
    """The same for each."""
    return dict.fromkeys(TARGETED, SHARE * cpus)


def values(cpus: float = 2.0, rate: float = 100.0, latency: float = 0.002) -> dict[str, object]:
    """Of the manifests."""
    return {
        **targets(dict.fromkeys(TARGETED, rate), latency, needs(cpus), SECONDS),
        **{f"{name}_millicpus": round(1000 * STATED[name]) for name in TARGETED},
        **{f"{name}_port": 8000 + at for at, name in enumerate(SERVICES)},
        "profile_seconds": 1.0,
        "service_profile_seconds": 1.0,
        "directory": "/srv",
        "epoch": 1000.0,
    }


def workloads(**options: float) -> tuple[Workload, ...]:
    """As the manager reads them."""
    return load_manifests(manifests(values(**options)), working_directory="/")


def target(name: str) -> dict[str, Any] | None:
    """As ``get workloads`` gives it."""
    made = values()
    terms = ("throughput_per_second", "rate_per_second", "latency", "completion_seconds")
    none = dict.fromkeys(terms)
    if name in FILLERS:
        return None
    if name not in SERVICES:
        return {**none, "completion_seconds": made[f"{name}_seconds"]}
    below = {"percentile": 95.0, "below_seconds": made["web_latency_ms"] / 1000}
    return {
        **none,
        "throughput_per_second": made[f"{name}_rate"],
        "latency": below if name == "web" else None,
    }


def row(name: str, *, ended_second: int | None = None) -> dict[str, Any]:
    wanted = target(name)
    return {
        "name": name,
        "type": "best-effort" if wanted is None else "batch",
        "phase": "running" if ended_second is None else "completed",
        "target": wanted,
        "predicted": {"mean": 1.1, "low": 1.0, "high": 1.2, "confidence": 0.8},
        "achieved": None,
        "met": None,
        "cpus": 0.3,
        "servers": ["server0"],
        "key": "1",
        "cpu_seconds": None if ended_second is None else 4.0,
        "submitted_at": "1970-01-01T00:00:00.000Z",
        "started_at": "1970-01-01T00:00:01.000Z",
        "ended_at": None if ended_second is None else f"1970-01-01T00:00:{ended_second:02}.000Z",
        "wait_seconds": 1.0,
    }


def timeline(policy: str, *, good: bool) -> Timeline:
    made = Timeline(policy, 0.0, 2.0, {"server0": "", "server1": ""})
    names = (*TARGETED, *FILLERS)
    for second in range(SECONDS + 1):
        rows = {name: {**row(name), "cpu_seconds": 0.2 * second, "met": True} for name in names}
        made.samples.append(DemoSample(float(second), 2.0 * second, rows))
    for name in names:
        is_batch = name in TARGETED and name not in SERVICES
        made.workloads.append(row(name, ended_second=15 if good and is_batch else None))
    likely = {"mean": 1.1, "low": 1.0, "high": 1.2, "confidence": 0.8}
    decision = {
        "name": "web",
        "reason": "ok",
        "cpus": 0.3,
        "accepted": True,
        "adjusts": False,
        "at_seconds": 1.0,
        "kind": "WorkloadPlaced",
        "stage": "placement",
        "message": "reaches the target",
        "predicted": likely,
    }
    made.decisions.append(decision)
    if good:
        grown = {"message": "raised from 0.3 to 0.45 CPU", "cpus": 0.45, "adjusts": True}
        when = {"at_seconds": 12.0, "kind": "AllocationPlanned", "stage": "adaptation"}
        made.decisions.append({**decision, **when, **grown})
    return made


def run_of(policy: str, *, good: bool) -> DemoRun:
    made = timeline(policy, good=good)
    share = 1 if good else 0.5
    clients = {
        name: [
            ClientSecond(float(second), target(name)["throughput_per_second"] * share, 0.01)
            for second in range(1, SECONDS + 1)
        ]
        for name in SERVICES
    }
    return DemoRun(made, clients, judge(made, clients, needs(), STATED, SECONDS), SECONDS / 2)


@pytest.fixture
def runs() -> tuple[DemoRun, DemoRun]:
    return run_of("quasar", good=True), run_of("least-loaded", good=False)


def result_of(main: DemoRun, baseline: DemoRun, picture: Path | None = None) -> dict[str, Any]:
    """What ``-o json`` would print."""
    return {
        **main.result,
        "baseline": baseline.result,
        "seed": 0,
        "notes": ["one thing could not be shown"],
        "files": [str(picture)] if picture else [],
    }
