"""What is seen of a run, second by second: by the API, as any user sees it."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from wharfinger.demo.cluster import Cluster

PERIOD_SECONDS = 1.0
ADJUSTING = frozenset(
    {"AllocationPlanned", "WorkloadSuspended", "WorkloadResumed", "WorkloadMoved"}
)
"""Events by which something that runs is changed."""
ON_SERVER = frozenset({"running", "adjusting", "suspended"})


@dataclass(frozen=True, slots=True)
class Moment:
    """One workload at one time.

    Attributes:
        phase: Where it is in its life.
        server: Where it runs; empty = nowhere.
        cpus: Given to it.
        cpu_seconds: CPU time of all its starts so far.
        achieved: As ``get workloads`` gives it.
        met: What the manager says of its target; ``None`` = not known.
        processes: How many it has; ``None`` = not known.
    """

    phase: str
    server: str
    cpus: float
    cpu_seconds: float
    achieved: Mapping[str, Any] | None
    met: bool | None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One decision of the manager.

    Attributes:
        at_seconds: Since the run's begin.
        name: The workload's.
        kind: Of the event, e.g. ``AllocationPlanned``.
        stage: Of the pipeline.
        accepted: Whether something follows from it.
        reason: A stable word.
        message: For people.
        cpus: What it has afterwards; ``None`` = the event does not say.
        predicted: Performance over target that was predicted, with its interval; ``None`` = none.
    """

    at_seconds: float
    name: str
    kind: str
    stage: str
    accepted: bool
    reason: str
    message: str
    cpus: float | None
    predicted: Mapping[str, float] | None = None

    @property
    def adjusts(self) -> bool:
        """Whether something that runs was changed by it."""
        return self.kind in ADJUSTING and self.accepted


@dataclass(slots=True)
class Course:
    """One run.

    Attributes:
        policy: By which it was placed.
        epoch: When it began, in seconds since 1970.
        cpus: All that there are.
        times: Seconds since the begin, one for each look.
        looks: What was seen, by name.
        busy_seconds: For each look, how long the servers' CPUs have not been idle, whoever used
            them, since the machine came up; not known without ``/proc/stat``.
        steps: The manager's decisions, oldest first.
        workloads: As ``get workloads`` gave them last.
    """

    policy: str
    epoch: float
    cpus: float
    times: list[float] = field(default_factory=list)
    looks: list[dict[str, Moment]] = field(default_factory=list)
    busy_seconds: list[float] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    workloads: list[dict[str, Any]] = field(default_factory=list)

    @property
    def adjustments(self) -> list[Step]:
        """Decisions that changed something that runs."""
        return [step for step in self.steps if step.adjusts]

    def predicted(self, name: str) -> Mapping[str, float] | None:
        """As it was when the workload was placed last; ``None`` = nothing was."""
        placed = [s for s in self.steps if s.name == name and s.kind == "WorkloadPlaced"]
        return placed[-1].predicted if placed else None

    def used(self, name: str) -> float:
        """CPU time of a workload, in seconds."""
        return self.looks[-1][name].cpu_seconds if self.looks and name in self.looks[-1] else 0.0

    def utilization(self, names: Sequence[str]) -> float:
        """CPU time of these workloads over all that there was."""
        if not self.times or not self.times[-1]:
            return 0.0
        return sum(map(self.used, names)) / (self.cpus * self.times[-1])

    @property
    def busy(self) -> float | None:
        """Share of the CPUs that anybody used; ``None`` = not known."""
        if len(self.busy_seconds) < 2 or self.times[-1] <= self.times[0]:
            return None
        span = self.times[-1] - self.times[0]
        return (self.busy_seconds[-1] - self.busy_seconds[0]) / (self.cpus * span)


class Observer:
    """Looks at a run once a second.

    Args:
        cluster: The workloads have been handed in there.
        course: What is seen goes there.
    """

    def __init__(self, cluster: Cluster, course: Course) -> None:
        self._cluster = cluster
        self._course = course
        self._after = 0
        self._counts: dict[str, _CpuTime] = {}

    def watch(self, seconds: float, tell: Callable[[Course], None]) -> None:
        """Until so many seconds after the begin; ``tell`` is called after each look.

        Raises:
            Unavailable: The manager has gone.
        """
        while True:
            self.look()
            tell(self._course)
            now = time.time() - self._course.epoch
            if now >= seconds:
                return
            time.sleep(min(PERIOD_SECONDS - now % PERIOD_SECONDS, max(0.01, seconds - now)))

    def look(self) -> None:
        """Take one look."""
        course = self._course
        course.workloads = self._cluster.workloads()
        usage = self._cluster.usage()
        course.times.append(max(0.0, time.time() - course.epoch))
        course.busy_seconds += busy_seconds(self._cluster.cpu_numbers)
        course.looks.append({w["name"]: self._moment(w, usage) for w in course.workloads})
        for event in self._cluster.events(self._after):
            self._after = event["sequence"]
            step = step_of(event, course.epoch)
            if step is not None:
                course.steps.append(step)

    def _moment(self, workload: dict[str, Any], usage: Mapping[str, dict[str, Any]]) -> Moment:
        name = workload["name"]
        used = usage.get(name, {})
        ended = workload["ended_at"] is not None
        seconds = workload["cpu_seconds"] if ended else used.get("cpu_seconds")
        count = self._counts.setdefault(name, _CpuTime())
        count.see(workload["key"], seconds)
        runs = workload["phase"] in ON_SERVER
        return Moment(
            phase=workload["phase"],
            server=",".join(workload["servers"]) if runs else "",
            cpus=workload["cpus"] if runs else 0.0,
            cpu_seconds=count.total,
            achieved=workload["achieved"],
            met=workload["met"],
            processes=used.get("processes"),
        )


@dataclass(slots=True)
class _CpuTime:
    """CPU time over all starts: each start's count begins at zero."""

    key: str = ""
    before: float = 0.0
    newest: float = 0.0

    def see(self, key: str, seconds: float | None) -> None:
        if key != self.key:
            self.before, self.newest, self.key = self.total, 0.0, key
        if seconds is not None:
            self.newest = max(self.newest, seconds)

    @property
    def total(self) -> float:
        return self.before + self.newest


def busy_seconds(cpus: Sequence[int], stat: Path = Path("/proc/stat")) -> list[float]:
    """How long these CPUs have worked for anybody, together; empty = the kernel does not say."""
    try:
        lines = stat.read_text().splitlines()
    except OSError:
        return []
    wanted = {f"cpu{number}" for number in cpus}
    rows = [line.split() for line in lines if line.partition(" ")[0] in wanted]
    if len(rows) != len(wanted):
        return []
    # user nice system idle iowait irq softirq steal: idle and waiting is not work.
    ticks = sum(int(row[at]) for row in rows for at in (1, 2, 3, 6, 7, 8))
    return [ticks / os.sysconf("SC_CLK_TCK")]


def step_of(event: Mapping[str, Any], epoch: float) -> Step | None:
    """The decision in an event; ``None`` = it carries none."""
    data = event["data"]
    decision = data.get("decision")
    if not isinstance(decision, Mapping):
        return None
    placements = data.get("placements")
    cpus = None
    if isinstance(placements, Sequence) and placements:
        cpus = sum(placement["allocation"]["cpu_millicpus"] for placement in placements) / 1000
    return Step(
        at_seconds=max(0.0, moment(event["logged_at"]) - epoch),
        name=event["name"],
        kind=event["kind"],
        stage=str(decision["stage"]),
        accepted=bool(decision["accepted"]),
        reason=str(decision["reason"]),
        message=str(decision["message"]),
        cpus=cpus,
        predicted=decision.get("predicted"),
    )


def moment(timestamp: str) -> float:
    """A time of the API in seconds since 1970.

    >>> moment("1970-01-01T00:01:00.500Z")
    60.5
    """
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()
