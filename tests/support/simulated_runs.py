"""Simulated runs that nobody simulated: outcomes by formula, for what compares and reports them.

Functions of a module, so that other processes find them by name.
"""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wharfinger.errors import InvalidInput, StoreDamaged
from wharfinger.simulator.results.outcome import JobOutcome, Outcome, Series

BETTER = {"oracle": 0.3, "quasar": 0.25, "least-loaded": 0.1}
"""How much better than ``random`` a policy does; those that are absent, as that."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What comparisons need of ``wharfinger.simulator.run.RunSpec``."""

    scenario: str
    policy: str
    seed: int = 0
    servers: int | None = None
    workloads: int | None = None
    series: bool = False

    @property
    def label(self) -> str:
        return self.policy


def simulate(spec: Any) -> Outcome:
    """Draws hang on the seed alone, and the policy shifts them."""
    random = np.random.default_rng(spec.seed)
    drawn = random.uniform(0.3, 0.6, spec.workloads or 20)
    fates = tuple(
        fate(f"job-{number}", float(each) + BETTER.get(spec.policy, 0.0))
        for number, each in enumerate(drawn)
    )
    kept = float(np.mean([each.kept for each in fates]))
    mean = float(np.mean([each.performance for each in fates]))
    summary = {
        "workloads": len(fates),
        "qos_kept_fraction": kept,
        "performance_mean": mean,
        "target_performance_mean": mean,
        "platform_loss_mean": (1 - mean) / 2,
        "interference_loss_mean": (1 - mean) / 2,
        "waiting_loss_mean": 0.0,
        "best_effort_performance_mean": None,
    }
    return Outcome(
        Path(spec.scenario).stem,
        spec.policy,
        "fifo",
        spec.seed,
        summary,
        fates,
        series(spec.seed) if spec.series else None,
    )


def fate(name: str, performance: float, type_: str = "batch") -> JobOutcome:
    """Of one that ran."""
    return JobOutcome(
        name=name,
        application="application",
        type=type_,
        end="completed",
        platform="small",
        submitted_at=0.0,
        ended_at=100.0,
        wait_seconds=1.0,
        performance=performance,
        target_performance=performance,
        kept=performance > 0.6,
    )


def series(seed: int = 0, *, servers: int = 6, bins: int = 20, hours: float = 4.0) -> Series:
    """A day's course, somewhat noisy, and one service's latency."""
    random = np.random.default_rng(seed)
    edges = np.linspace(0.0, hours * 3600, bins + 1)
    level = np.sin(np.linspace(0, np.pi, bins))
    busy = np.clip(level * 0.7 + random.normal(0, 0.1, (servers, bins)), 0, 1)
    needed = level * servers * 4
    latencies = np.concatenate(([0.0], np.geomspace(1e-3, 1.0, 20), [np.inf]))
    share = np.exp(-0.5 * ((np.arange(21) - 9 - seed) / 2.5) ** 2)
    return Series(
        edges=edges,
        groups=tuple(f"s{number}" for number in range(servers)),
        utilization=busy,
        required_cpus=needed,
        allocated_cpus=needed * 1.2 + 1,
        used_cpus=busy.mean(axis=0) * servers * 4,
        latency_edges_seconds=latencies,
        latency={"web": share / share.sum()},
        bounds_seconds={"web": 0.05},
    )


# --- those that go wrong ------------------------------------------------------------------------


def one_is_wrong(spec: Any) -> Outcome:
    """As ``simulate``, but for one policy and seed."""
    if (spec.policy, spec.seed) == ("random", 3):
        raise InvalidInput("no scenario of that name")
    return simulate(spec)


def one_is_damaged(spec: Any) -> Outcome:
    """Its error can't be sent to another process."""
    if (spec.policy, spec.seed) == ("random", 3):
        raise StoreDamaged("the log is cut off", 7)
    return simulate(spec)


def one_has_a_fault(spec: Any) -> Outcome:
    """Of ours."""
    if (spec.policy, spec.seed) == ("random", 3):
        raise ZeroDivisionError("nothing arrived")
    return simulate(spec)


def one_is_killed(spec: Any) -> Outcome:
    """As the kernel does when memory runs out."""
    if (spec.policy, spec.seed) == ("random", 3):
        os.kill(os.getpid(), signal.SIGKILL)
    return simulate(spec)


def never_ends(spec: Any) -> Outcome:
    """Says in the folder that is the spec's scenario that it runs, and goes on forever."""
    Path(spec.scenario, f"{spec.policy}-{spec.seed}").touch()
    while True:
        signal.pause()
