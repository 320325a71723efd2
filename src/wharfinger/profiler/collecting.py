"""Measures a service beside sets of neighbors, on this machine, and keeps each result in a file.

First bubbles and single neighbors; then whole sets, each time the one that would tell most about
decisions near the threshold (``interference.design``), until the best is worth too little. What a
file has already is not measured again, so a collection that was ended goes on where it was.

Source: Pythia 3.2 and 3.7 (what is measured); the order of the sets is ours.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.files.contention_sets import MAX_PERFORMANCE, CollectedSets
from wharfinger.interference.design import proposals
from wharfinger.interference.measurements import (
    ContentionMeasurements,
    ContentionSetting,
    MeasuredSet,
)
from wharfinger.model.units import format_bytes
from wharfinger.model.workload import Workload, WorkloadType
from wharfinger.profiler.measuring import has_measure
from wharfinger.profiling.steps import RunFailed

TRIES = 3
"""Of a set whose result is impossible, or contradicts the others."""
PROPOSED = 20
"""Sets of which the first that was not tried is measured."""


@dataclass(frozen=True, slots=True)
class CollectionPlan:
    """What is measured.

    Attributes:
        services: Each with the way that it is measured.
        neighbors: What runs beside them.
        bubbles: Sizes in bytes, ascending.
        cpus: Of the services; empty = all that may be used.
        batch_cpus: Of neighbors and bubbles; likewise.
        seconds: Of one look at the performance; a set takes two and the time to settle.
        degree: The highest number of neighbors in a set.
        qos: Of the performance alone: decisions near it count most.
        enough: Sets that are worth less are not measured.
        most: How many are measured at most, of all services.
        platform: Of this machine, in the file; so is ``load_class``.
        seed: Of the candidates, where there are very many.
    """

    services: tuple[Workload, ...]
    neighbors: tuple[Workload, ...]
    bubbles: tuple[int, ...] = ()
    cpus: tuple[int, ...] = ()
    batch_cpus: tuple[int, ...] = ()
    seconds: float = 2.0
    degree: int = 3
    qos: float = 0.95
    enough: float = 0.01
    most: int | None = None
    platform: str = ""
    load_class: str = ""
    seed: int = 0

    def setting(self, service: Workload) -> ContentionSetting:
        """As the file names it."""
        return ContentionSetting(service.name, self.platform, self.load_class)


def plan_of(workloads: Sequence[Workload], source: str) -> CollectionPlan:
    """Services are those that are ``latency-critical``; all others are neighbors.

    Raises:
        InvalidInput: One of the two is missing, a service is not measured, or a user is stated.
    """
    is_service = [each.type is WorkloadType.LATENCY_CRITICAL for each in workloads]
    services = tuple(w for w, serves in zip(workloads, is_service, strict=True) if serves)
    neighbors = tuple(w for w, serves in zip(workloads, is_service, strict=True) if not serves)
    if not services:
        raise InvalidInput(f"{source}: no service in it; write one with type: latency-critical")
    if not neighbors:
        raise InvalidInput(f"{source}: no neighbor in it; write one that is not latency-critical")
    for each in workloads:
        if each.run.user:
            mend = "leave it out, and collect as that user"
            raise InvalidInput(f"{source}: {each.name}: run.user: {each.run.user!r}; {mend}")
    for each in services:
        if not has_measure(each):
            mend = "write spec.measure, which says how its performance is read"
            raise InvalidInput(f"{source}: {each.name}: it is not measured; {mend}")
    return CollectionPlan(services, neighbors)


@dataclass(frozen=True, slots=True)
class Beside:
    """Who runs beside the service: neighbors by name, sorted, or a bubble."""

    neighbors: tuple[str, ...] = ()
    bubble_bytes: int = 0

    def __str__(self) -> str:
        return "+".join(self.neighbors) or f"bubble:{format_bytes(self.bubble_bytes)}"


@dataclass(frozen=True, slots=True)
class SetSample:
    """One result.

    Attributes:
        performance: Relative to that alone.
        error: Standard error of it.
        seconds: That it took.
        load: CPUs of the machine that were busy meanwhile, by anyone.
    """

    performance: float
    error: float
    seconds: float
    load: float


class SetSampler(Protocol):
    """Measures one service beside others."""

    def sample(self, beside: Beside) -> SetSample:
        """Measure it; raises ``RunFailed`` or ``Unavailable`` where that can't be done."""
        ...


@dataclass(slots=True)
class Collected:
    """What a collection did.

    Attributes:
        measured: By service: how many sets, bubbles included.
        known: By service: how many of the file it did not measure again.
        failed: Service, set, and why it was not measured.
        worth: By service: of the best set that is left; 0 = none is, ``None`` = not asked.
    """

    measured: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    failed: list[tuple[str, str, str]] = field(default_factory=list)
    worth: dict[str, float | None] = field(default_factory=dict)


class SetCollection:
    """One collection, service by service."""

    def __init__(
        self, plan: CollectionPlan, sets: CollectedSets, tell: Callable[[str], None]
    ) -> None:
        self._plan, self._sets, self._tell = plan, sets, tell
        self._tried: set[tuple[str, Beside]] = set()
        self._random = np.random.default_rng(plan.seed)
        self.done = Collected()

    def run(self, service: Workload, sampler: SetSampler, until: float) -> None:
        """Measure what is missing of one service, to the plan's end or this time."""
        name, done = service.name, self.done
        own = [row for row in self._sets.rows if row.setting == self._plan.setting(service)]
        done.known[name] = len({_beside(row) for row in own})
        done.measured[name] = 0
        done.worth[name] = None
        for beside in self._goals(service):
            if self.is_over(until):
                return
            self._tried.add((name, beside))
            self._tell(f"{name} beside {beside}")
            try:
                self._measure(service, beside, sampler)
            except (RunFailed, Unavailable) as error:
                done.failed.append((name, str(beside), str(error)))
            else:
                done.measured[name] += 1

    def is_over(self, until: float) -> bool:
        """Whether the time is up, or enough is measured."""
        most = self._plan.most
        enough = most is not None and sum(self.done.measured.values()) >= most
        return enough or time.monotonic() >= until

    def _goals(self, service: Workload) -> Iterator[Beside]:
        """What to measure next, each time by what is known then."""
        plan = self._plan
        for size in plan.bubbles:
            if not self._is_known(service, bubble := Beside((), size)):
                yield bubble
        for neighbor in plan.neighbors:
            if not self._is_known(service, single := Beside((neighbor.name,))):
                yield single
        while (best := self._best(service)) is not None:
            yield best

    def _best(self, service: Workload) -> Beside | None:
        plan, name = self._plan, service.name
        ours = {each.name for each in plan.neighbors}
        setting = plan.setting(service)
        own = [row for row in self._sets.rows if row.setting == setting]
        degrees = range(2, plan.degree + 1)
        self.done.worth[name] = 0.0
        if not own or not degrees:
            return None
        measured = ContentionMeasurements.of(own)
        chosen = proposals(measured, PROPOSED, degrees, plan.qos, self._random)
        for each in chosen:
            beside = Beside(each.neighbors)
            if set(each.neighbors) <= ours and (name, beside) not in self._tried:
                self.done.worth[name] = each.worth
                return beside if each.worth >= plan.enough else None
        return None

    def _is_known(self, service: Workload, beside: Beside) -> bool:
        setting = self._plan.setting(service)
        return any(row.setting == setting and _beside(row) == beside for row in self._sets.rows)

    def _measure(self, service: Workload, beside: Beside, sampler: SetSampler) -> None:
        why = ""
        for _ in range(TRIES):
            sample = sampler.sample(beside)
            if sample.performance > MAX_PERFORMANCE:
                why = f"{sample.performance:.0%} of the performance alone is no slowdown"
                continue
            row = MeasuredSet(
                self._plan.setting(service),
                beside.neighbors,
                sample.performance,
                sample.error,
                float(beside.bubble_bytes),
            )
            try:
                self._sets.add(row, sample.seconds, sample.load)
            except InvalidInput as error:
                why = str(error).partition(";")[0]
            else:
                return
        raise RunFailed(f"{why}, {TRIES} times")


def _beside(row: MeasuredSet) -> Beside:
    return Beside(row.neighbors, int(row.bubble_bytes))
