"""The steady state of a scenario: while most of the CPU that it ever wants is wanted.

By what users state, so that it is the same for every policy.
"""

from collections.abc import Iterable
from math import inf

from wharfinger.simulator.scenario.jobs import Job

STEADY = 0.8
"""Of the most CPU that is wanted at a time."""


def steady_window(jobs: Iterable[Job]) -> tuple[float, float]:
    """From when to when, in seconds; empty where nothing has a target or a lifetime.

    Wanted is the CPU that each can use, from its arrival until its target would have it done.

    >>> steady_window([])
    (0.0, 0.0)
    """
    changes: list[tuple[float, int]] = []
    for job in jobs:
        seconds = _wanted_seconds(job)
        if seconds < inf:
            changes += [
                (job.arrives_at, job.cpu_millicpus),
                (job.arrives_at + seconds, -job.cpu_millicpus),
            ]
    levels, level = [], 0
    for time, change in sorted(changes):
        level += change
        levels.append((time, level))
    enough = STEADY * max((level for _, level in levels), default=0)
    at = [number for number, (_, level) in enumerate(levels) if level >= enough]
    return (levels[at[0]][0], levels[at[-1] + 1][0]) if at and enough else (0.0, 0.0)


def _wanted_seconds(job: Job) -> float:
    target = job.workload.target
    if job.load is not None or target is None:
        return job.lifetime_seconds
    if target.completion_seconds is not None:
        return target.completion_seconds
    return job.work / target.rate_per_second if target.rate_per_second else inf
