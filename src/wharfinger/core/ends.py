"""When what holds resources on a server should end, and what is free then.

``Residency`` has ``ExpectedEnds``, and says what has changed; backfilling (``backfill``) asks.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from operator import attrgetter, itemgetter
from typing import NamedTuple

from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import WorkloadRecord, held
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Decision, Prediction, Term
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.workload import RestartPolicy

COPY_OVERHEAD = 2.0
"""Times its plan's seconds that a copy holds its server, with setting up."""
LATE = 0.1
"""By so much of its time a workload may be late and is still expected to end at any moment."""


class Freed(NamedTuple):
    """What is free on a server after all that should have ended by then, beyond what is now."""

    end: float
    cpu_millicpus: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class _ServerEnds:
    """By rising ends, without those that are unknown; it holds from ``since`` to ``until``."""

    freed: tuple[Freed, ...]
    since: float
    until: float


class ExpectedEnds:
    """What is freed on each server, worked out once until something about it changes.

    Args:
        workloads: By name; as all of these, it is read and not kept.
        residents: Names of those that hold resources on a server, by its name.
        copies: Names of those of which profiling runs do, in the same way.
    """

    def __init__(
        self,
        workloads: Mapping[str, WorkloadRecord],
        residents: Mapping[str, Iterable[str]],
        copies: Mapping[str, Iterable[str]],
    ) -> None:
        self._workloads, self._residents, self._copies = workloads, residents, copies
        self._known: dict[str, _ServerEnds] = {}

    def freed_on(self, server: str, now: float) -> tuple[Freed, ...]:
        """What is freed on a server, by rising ends."""
        known = self._known.get(server)
        if known is None or not known.since <= now <= known.until:
            ends = [(expected_end(record, now), taken) for record, taken in self._residing(server)]
            ends += [(_copies_end(record, now), taken) for record, taken in self._copied(server)]
            known = self._known[server] = _server_ends(ends, now)
        return known.freed

    def forget(self, placements: Iterable[Placement]) -> None:
        """What is held on these servers, or something by which it is expected to end, changes."""
        for placement in placements:
            self._known.pop(placement.server, None)

    def holding(self, server: str) -> list[tuple[WorkloadRecord, Allocation]]:
        """What holds resources there, profiling runs too, with how much."""
        return [*self._residing(server), *self._copied(server)]

    def _residing(self, server: str) -> list[tuple[WorkloadRecord, Allocation]]:
        names = self._residents.get(server, ())
        return _taken(server, map(self._workloads.__getitem__, names), held)

    def _copied(self, server: str) -> list[tuple[WorkloadRecord, Allocation]]:
        names = self._copies.get(server, ())
        return _taken(server, map(self._workloads.__getitem__, names), attrgetter("copied"))


def _taken(
    server: str,
    records: Iterable[WorkloadRecord],
    taken: Callable[[WorkloadRecord], tuple[Placement, ...]],
) -> list[tuple[WorkloadRecord, Allocation]]:
    return [
        (record, placement.allocation)
        for record in records
        for placement in taken(record)
        if placement.server == server
    ]


def _server_ends(ends: list[tuple[float, Allocation]], now: float) -> _ServerEnds:
    """It stays so until the first end."""
    freed: list[Freed] = []
    cpu = memory = 0
    for end, allocation in sorted(ends, key=itemgetter(0)):
        cpu, memory = cpu + allocation.cpu_millicpus, memory + allocation.memory_bytes
        if freed and freed[-1].end == end:
            freed.pop()
        if end < inf:
            freed.append(Freed(end, cpu, memory))
    return _ServerEnds(tuple(freed), now, freed[0].end if freed else inf)


def expected_end(record: WorkloadRecord, now: float) -> float:
    """When a resident should end, in seconds since the epoch; infinite = unknown."""
    if record.paused:
        return inf
    starts = record.started_at is None or record.phase in (Phase.PLACED, Phase.STARTING)
    begun = record.phase_since if starts else record.started_at or 0.0
    return _end(record, record.predicted, begun, now)


def _copies_end(record: WorkloadRecord, now: float) -> float:
    """The same of its profiling runs."""
    plan, beside = record.plan, record.copies
    assert plan is not None
    begun = beside.planned_at if beside and beside.under_way else record.phase_since
    return copy_end(plan, begun, now)


def end_if_placed(record: WorkloadRecord, decision: Decision, now: float) -> float:
    """The same for a waiting workload, if it were placed now by this decision."""
    return _end(record, decision.predicted, now, now)


def _end(record: WorkloadRecord, predicted: Prediction | None, begun: float, now: float) -> float:
    """What its user expects, else its time limit, else the later end of what is predicted."""
    run = record.workload.run
    if run.restart.policy is RestartPolicy.ALWAYS:
        return inf
    # One that is long over was wrong.
    seconds = record.workload.expected_seconds
    if seconds is not None and now - (end := begun + seconds) <= LATE * (end - begun):
        return max(now, end)
    seconds = run.time_limit_seconds
    if seconds is not None and now - (end := begun + seconds) <= LATE * (end - begun):
        return max(now, end)
    completion = None if predicted is None else predicted.performance.get(Term.COMPLETION)
    if completion is not None:
        end = record.submitted_at + completion.high
        if begun <= end and now - end <= LATE * (end - begun):
            return max(now, end)
    return inf


def copy_end(plan: ProfilingPlan, begun_at: float, now: float) -> float:
    """When a copy should end; one that takes longer than it should ends at any time."""
    return max(now, begun_at + COPY_OVERHEAD * plan.seconds)
