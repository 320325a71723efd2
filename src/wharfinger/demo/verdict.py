"""What came of each workload, held against its target.

A service's performance is what its clients saw: the load generator's own lines, one a second, not
smoothed. A batch job's is its end.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

from wharfinger.demo.plan import (
    HELD_SHARE,
    SETTLE_SECONDS,
    TOLERANCE,
    Goal,
    Kind,
    Member,
)
from wharfinger.demo.timeline import Course, Step, moment

LINE = re.compile(
    r"second=(?P<second>[0-9]+) throughput=(?P<throughput>[0-9.]+) latency_ms=(?P<latency>[0-9.]+)"
)
MOST = 3.0
"""Performance over target is drawn and compared up to here."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What clients saw in one second.

    Attributes:
        second: Since the run's begin.
        throughput_per_second: Answers.
        latency_seconds: At the target's percentile.
    """

    second: float
    throughput_per_second: float
    latency_seconds: float

    def score(self, goal: Goal) -> float:
        """Performance over target, the worst part; 1 = exactly kept."""
        parts = [MOST]
        if goal.throughput_per_second is not None:
            parts.append(self.throughput_per_second / goal.throughput_per_second)
        if goal.latency_seconds is not None and self.latency_seconds > 0:
            parts.append(goal.latency_seconds / self.latency_seconds)
        return min(parts)

    def holds(self, goal: Goal) -> bool:
        """Whether every part of the target was kept within the tolerance."""
        enough = (goal.throughput_per_second or 0.0) * (1 - TOLERANCE)
        bound = float("inf")
        if goal.latency_seconds is not None:
            bound = goal.latency_seconds * (1 + TOLERANCE)
        return self.throughput_per_second >= enough and self.latency_seconds <= bound


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one workload with a target.

    Attributes:
        member: Who.
        goal: What it had to reach.
        met: Whether it did, as ``plan.HELD_SHARE`` or its completion time says.
        score: Performance over target: of a service the median over its seconds, of a batch job
            target over time taken; ``None`` = nothing was measured.
        held_share: Of a service's seconds, in how many its target was held.
        completion_seconds: Of a batch job that completed.
        throughput_per_second: Of a service, mean.
        latency_seconds: Of a service with a bound, the median of its seconds' percentiles.
        waited_seconds: From being handed in until it ran; ``None`` = it never did.
        predicted: As the manager predicted it when it was placed; ``None`` = it did not.
        adjustments: Made to it.
    """

    member: Member
    goal: Goal
    met: bool
    score: float | None
    held_share: float | None = None
    completion_seconds: float | None = None
    throughput_per_second: float | None = None
    latency_seconds: float | None = None
    waited_seconds: float | None = None
    predicted: Mapping[str, float] | None = None
    adjustments: tuple[Step, ...] = ()


def read_clients(path: Path) -> list[Seen]:
    """What a service's clients reported; empty where there was no client."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    return [
        Seen(float(found["second"]), float(found["throughput"]), float(found["latency"]) / 1000)
        for found in LINE.finditer(text)
    ]


def judge(
    course: Course,
    member: Member,
    goal: Goal,
    seen: Sequence[Seen],
    run_seconds: float,
) -> Outcome:
    """What came of one workload.

    Args:
        course: The run, at its end.
        member: Who.
        goal: Its target.
        seen: A service's clients.
        run_seconds: The run's length.
    """
    workload = next(w for w in course.workloads if w["name"] == member.name)
    adjustments = tuple(step for step in course.adjustments if step.name == member.name)
    started = workload["started_at"]
    waited = None if started is None else workload["wait_seconds"]
    predicted = course.predicted(member.name)
    if member.kind is Kind.BATCH:
        met, score, completion = _completion(workload, goal)
        return Outcome(
            member,
            goal,
            met,
            score,
            completion_seconds=completion,
            waited_seconds=waited,
            predicted=predicted,
            adjustments=adjustments,
        )
    looked = looked_at(seen)
    share = held_share(looked, goal, run_seconds)
    return Outcome(
        member,
        goal,
        met=share is not None and share >= HELD_SHARE,
        score=median(one.score(goal) for one in looked) if looked else None,
        held_share=share,
        throughput_per_second=fmean(s.throughput_per_second for s in looked) if looked else None,
        latency_seconds=median(one.latency_seconds for one in looked) if looked else None,
        waited_seconds=waited,
        predicted=predicted,
        adjustments=adjustments,
    )


def looked_at(seen: Sequence[Seen]) -> list[Seen]:
    """A service's seconds without its first ones."""
    if not seen:
        return []
    begin = seen[0].second + SETTLE_SECONDS
    return [one for one in seen if one.second >= begin]


def held_share(looked: Sequence[Seen], goal: Goal, run_seconds: float) -> float | None:
    """In how many of the seconds until the run's end a target was held.

    A second of which clients reported nothing, because the service was away, was not held.

    >>> goal = Goal(0.3, throughput_per_second=100.0)
    >>> held_share([Seen(10, 100, 0.01), Seen(11, 50, 0.01), Seen(12, 95, 0.01)], goal, 14)
    0.5
    """
    if not looked:
        return None
    held = sum(one.holds(goal) for one in looked if one.second <= run_seconds)
    expected = max(len(looked), round(run_seconds - looked[0].second))
    return held / expected


def _completion(workload: Mapping[str, Any], goal: Goal) -> tuple[bool, float | None, float | None]:
    """Whether a batch job ended in time, target over time taken, and that time."""
    assert goal.completion_seconds is not None
    if workload["phase"] == "completed":
        took = moment(workload["ended_at"]) - moment(workload["submitted_at"])
        met = took <= goal.completion_seconds * (1 + TOLERANCE)
        return met, goal.completion_seconds / max(took, 1e-9), took
    expected = (workload["achieved"] or {}).get("completion_seconds")
    return False, goal.completion_seconds / expected if expected else None, None


# --- over time --------------------------------------------------------------------------------


def scores_over_time(
    course: Course, member: Member, goal: Goal, seen: Sequence[Seen]
) -> tuple[list[float], list[float]]:
    """Performance over target: seconds since the begin, and scores up to ``MOST``."""
    if member.kind is Kind.SERVICE:
        return (
            [one.second for one in seen],
            [min(MOST, one.score(goal)) for one in seen],
        )
    times, scores = [], []
    for now, look in zip(course.times, course.looks, strict=True):
        found = look.get(member.name)
        expected = (found.achieved or {}).get("completion_seconds") if found else None
        if found and found.phase in ("running", "adjusting") and expected:
            assert goal.completion_seconds is not None
            times.append(now)
            scores.append(min(MOST, goal.completion_seconds / expected))
    return times, scores


def cpus_over_time(course: Course, name: str) -> tuple[list[float], list[float]]:
    """CPUs that a workload used: the middle of each two looks, and the mean between them."""
    times, used = [], []
    for (before, then), (after, now) in pairwise(zip(course.times, course.looks, strict=True)):
        if name in then and name in now and after > before:
            spent = now[name].cpu_seconds - then[name].cpu_seconds
            times.append((before + after) / 2)
            used.append(max(0.0, spent) / (after - before))
    return times, used


def busy_over_time(course: Course) -> tuple[list[float], list[float]]:
    """CPUs that anybody used: the middle of each two looks, and the mean between them."""
    if len(course.busy_seconds) != len(course.times):
        return [], []
    looks = list(zip(course.times, course.busy_seconds, strict=True))
    found = [
        ((before + after) / 2, (now - then) / (after - before))
        for (before, then), (after, now) in pairwise(looks)
        if after > before
    ]
    return [time for time, _ in found], [used for _, used in found]
