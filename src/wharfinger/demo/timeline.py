"""What a run shows, second by second: by the API, as any user sees it."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from wharfinger.catalog.quiet import STAT, CpuTimes
from wharfinger.errors import Unavailable

PERIOD_SECONDS = 1.0
MOVED = "WorkloadMigrated"
ADJUSTING = (
    "AllocationPlanned",
    "WorkloadSuspended",
    "WorkloadResumed",
    "WorkloadPreempted",
    MOVED,
)
"""Events by which something that runs is changed."""
ON_SERVER = ("running", "adjusting", "suspended")

Row = Mapping[str, Any]


class WatchedCluster(Protocol):
    """What runs the workloads, as a user sees it; each answer is in the API's form.

    ``cpu_numbers`` are this machine's CPUs that it uses.
    """

    cpu_numbers: list[int]

    def workloads(self) -> list[dict[str, Any]]:
        """All workloads."""

    def usage(self) -> Mapping[str, float | None]:
        """CPU seconds of what runs, by name."""

    def events_after(self, sequence: int) -> list[dict[str, Any]]:
        """Events after this one."""


@dataclass(frozen=True, slots=True)
class DemoSample:
    """What was seen at one time.

    Attributes:
        at_seconds: Since the run's begin.
        busy_seconds: How long the servers' CPUs have been busy since the machine's start,
            whatever used them; ``None`` = the kernel does not say.
        workloads: By name, as ``get workloads`` gives them, but without server and CPUs where
            they hold none, and with the CPU time of all starts so far.
    """

    at_seconds: float
    busy_seconds: float | None
    workloads: Mapping[str, Row]

    def cpu_seconds(self, names: Sequence[str]) -> float:
        """CPU time of these workloads together."""
        return float(sum(self.workloads[name]["cpu_seconds"] for name in names))


@dataclass(slots=True)
class Timeline:
    """One run.

    Attributes:
        epoch: When it began, in seconds since 1970.
        cpus: Of all servers.
        platforms: Of each server.
        decisions: The manager's, oldest first; see ``decision_of``.
        workloads: As ``get workloads`` gave them last.
    """

    policy: str
    epoch: float
    cpus: float
    platforms: Mapping[str, str]
    samples: list[DemoSample] = field(default_factory=list)
    decisions: list[Row] = field(default_factory=list)
    workloads: list[Row] = field(default_factory=list)
    _last_sequence: int = 0
    _cpu_seconds: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def adjustments(self) -> list[Row]:
        """Decisions that changed something that runs."""
        return [decision for decision in self.decisions if decision["adjusts"]]

    @property
    def seconds(self) -> float:
        """Its length so far."""
        return self.samples[-1].at_seconds

    def utilization(self, names: Sequence[str]) -> float:
        """CPU time of these workloads over all CPU time."""
        return self.samples[-1].cpu_seconds(names) / max(self.cpus * self.seconds, 1e-9)

    def accrued_cpu(self, name: str) -> list[float]:
        """CPU seconds of a workload by each sample.

        An engine may tell them seldom, as Slurm's accounting does: between two tellings it is taken
        to have run evenly, since it came onto a server at the earliest.
        """
        rows = [sample.workloads[name] for sample in self.samples]
        seen = [(row["cpu_seconds"], bool(row["servers"])) for row in rows]
        last = len(seen) - 1
        told = [at for at in range(last + 1) if at in (0, last) or seen[at] != seen[at - 1]]
        times = [sample.at_seconds for sample in self.samples]
        totals = np.interp(times, [times[at] for at in told], [seen[at][0] for at in told])
        return [float(total) for total in totals]

    def machine_utilization(self) -> float | None:
        """Share of CPU time that was used, whatever used it; ``None`` = unknown."""
        first, last = self.samples[0], self.samples[-1]
        span = last.at_seconds - first.at_seconds
        if first.busy_seconds is None or last.busy_seconds is None or span <= 0:
            return None
        return (last.busy_seconds - first.busy_seconds) / (self.cpus * span)

    def watch(
        self, cluster: WatchedCluster, seconds: float, show: Callable[["Timeline"], None]
    ) -> None:
        """Sample once a second until the run is so long; ``show`` is called after each sample."""
        while True:
            self.sample(cluster)
            show(self)
            now = time.time() - self.epoch
            if now >= seconds:
                return
            time.sleep(min(PERIOD_SECONDS - now % PERIOD_SECONDS, max(0.01, seconds - now)))

    def sample(self, cluster: WatchedCluster) -> None:
        """Take one sample and the decisions since the last one."""
        self.workloads = [*cluster.workloads()]
        usage = cluster.usage()
        now = max(0.0, time.time() - self.epoch)
        rows = {row["name"]: self._seen(row, usage) for row in self.workloads}
        self.samples.append(DemoSample(now, busy_seconds(cluster.cpu_numbers), rows))
        for event in cluster.events_after(self._last_sequence):
            self._last_sequence = event["sequence"]
            if event["data"].get("decision"):
                self.decisions.append(decision_of(event, self.epoch))

    def _seen(self, row: Row, usage: Mapping[str, float | None]) -> Row:
        used = row["cpu_seconds"] if row["ended_at"] is not None else usage.get(row["name"])
        starts = self._cpu_seconds.setdefault(row["name"], {})  # Each start counts from zero.
        starts[row["key"]] = max(starts.get(row["key"], 0.0), used or 0.0)
        nowhere = {} if row["phase"] in ON_SERVER else {"servers": [], "cpus": 0.0}
        return {**row, "cpu_seconds": sum(starts.values()), **nowhere}


def busy_seconds(cpus: Sequence[int], stat: Path = STAT) -> float | None:
    """How long these CPUs have been busy, together; ``None`` = the kernel does not say."""
    try:
        times = CpuTimes.read(stat, cpus)
    except Unavailable:
        return None
    return (times.total - times.idle) / os.sysconf("SC_CLK_TCK")


def decision_of(event: Row, epoch: float) -> Row:
    """The decision in an event, with what follows from it.

    Its keys are those of ``adjustments`` (docs/demo.md), and ``stage``, ``accepted``,
    ``predicted`` and ``adjusts``: whether something that runs is changed by it.
    """
    decision = event["data"]["decision"]
    placements = event["data"].get("placements") or []
    millicpus = sum(placement["allocation"]["cpu_millicpus"] for placement in placements)
    keys = ("stage", "accepted", "reason", "message", "predicted")
    return {
        **{key: decision.get(key) for key in keys},
        "name": event["name"],
        "at_seconds": round(max(0.0, unix_seconds(event["logged_at"]) - epoch), 1),
        "kind": event["kind"],
        "cpus": millicpus / 1000 if placements else None,
        "adjusts": decision["accepted"] and event["kind"] in ADJUSTING,
    }


def unix_seconds(timestamp: str) -> float:
    """A time of the API in seconds since 1970."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()
