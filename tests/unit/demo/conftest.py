"""A run that never was: what the API would have shown of it."""

from pathlib import Path
from typing import Any

import pytest

from wharfinger.demo.plan import (
    MEMBERS,
    Goal,
    Kind,
    Solo,
    Timing,
    goal_of,
    reservations,
)
from wharfinger.demo.report import Report, Run
from wharfinger.demo.timeline import Course, Moment, Step
from wharfinger.demo.verdict import Seen, judge

SECONDS = 20.0


def goals() -> dict[str, Goal]:
    solo = Solo(100.0, 0.002)
    timing = Timing(run_seconds=SECONDS)
    return {m.name: goal_of(m, solo, 2.0, timing) for m in MEMBERS if m.targeted}


def workload(name: str, kind: Kind, phase: str, ended_second: int | None) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind.value,
        "phase": phase,
        "predicted": {"mean": 1.1, "low": 1.0, "high": 1.2, "confidence": 0.8},
        "achieved": None,
        "met": None,
        "cpus": 0.3,
        "servers": ["server0"],
        "submitted_at": "1970-01-01T00:00:00.000Z",
        "started_at": "1970-01-01T00:00:01.000Z",
        "ended_at": None if ended_second is None else f"1970-01-01T00:00:{ended_second:02}.000Z",
        "wait_seconds": 1.0,
    }


def course(policy: str, *, good: bool) -> Course:
    made = Course(policy, 0.0, 2.0)
    for second in range(int(SECONDS) + 1):
        made.times.append(float(second))
        made.busy_seconds.append(2.0 * second)
        made.looks.append(
            {m.name: Moment("running", "server0", 0.3, 0.2 * second, None, True) for m in MEMBERS}
        )
    ended = 15 if good else None
    for member in MEMBERS:
        is_batch = member.kind is Kind.BATCH
        phase = "completed" if is_batch and good else "running"
        end = ended if is_batch else None
        made.workloads.append(workload(member.name, member.kind, phase, end))
    if good:
        made.steps.append(
            Step(
                12.0,
                "web",
                "AllocationPlanned",
                "adaptation",
                True,
                "ok",
                "300m CPU become 450m",
                0.45,
            )
        )
    return made


def run_of(policy: str, *, good: bool) -> Run:
    made, stated = course(policy, good=good), goals()
    likely = {"mean": 1.1, "low": 1.0, "high": 1.2, "confidence": 0.8}
    words = ("placement", True, "ok", "reaches the target")
    made.steps.insert(0, Step(1.0, "web", "WorkloadPlaced", *words, 0.3, likely))
    targeted = [member for member in MEMBERS if member.targeted]
    seen = {
        m.name: [
            Seen(
                float(second),
                (stated[m.name].throughput_per_second or 0.0) * (1 if good else 0.5),
                0.01,
            )
            for second in range(1, int(SECONDS) + 1)
        ]
        for m in targeted
        if m.kind is Kind.SERVICE
    }
    outcomes = tuple(
        judge(made, m, stated[m.name], seen.get(m.name, []), SECONDS) for m in targeted
    )
    fillers = tuple(m.name for m in MEMBERS if not m.targeted)
    return Run(made, outcomes, fillers, seen, SECONDS / 2)


@pytest.fixture
def report(tmp_path: Path) -> Report:
    stated = goals()
    return Report(
        0,
        stated,
        reservations(stated, 0, 1.0),
        run_of("quasar", good=True),
        run_of("least-loaded", good=False),
        ("one thing could not be shown",),
    )
