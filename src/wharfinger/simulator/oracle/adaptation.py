"""The oracle's adaptation: services follow what they are asked, jobs grow when room comes.

It says when ``greedy`` resizes what runs: a service just before its load changes, and what would
miss its target whenever something has ended.
"""

from collections.abc import Iterator, MutableMapping
from heapq import heappop, heappush
from typing import Any

from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.seams.adaptation import Reallocate, Remedy, Residents
from wharfinger.core.state import WorkloadRecord
from wharfinger.core.tracking import Tracked
from wharfinger.model.decisions import Place
from wharfinger.model.profile import Estimate, Measurements
from wharfinger.simulator.oracle.demand import AHEAD_SECONDS
from wharfinger.simulator.scenario.setup import Setup

LOOKS_SECONDS = 0.9 * AHEAD_SECONDS
"""Before a load changes: sums of times are only so exact."""
AGAIN_SECONDS = 1.0
"""Until a service is looked at again whose allocation is just being changed."""
_CHANGES = (
    ev.WorkloadStarted,
    ev.WorkloadFinished,
    ev.WorkloadVanished,
    ev.WorkloadEvicted,
    ev.PlacementsLost,
    ev.AllocationResized,
    ev.ServerReported,
    ev.ServersReported,
)


class OracleAdaptation:
    """Asks for new allocations when the truth changes; ``short`` as in ``GreedyOracle``."""

    name = "oracle"
    settings: Any = None

    def __init__(self, setup: Setup, short: MutableMapping[str, None]) -> None:
        self._loads = {job.name: job.load for job in setup.jobs if job.load is not None}
        self._due: list[tuple[float, str]] = []
        self._short = short

    def track(self, record: WorkloadRecord, now: float, slowdown: Estimate | None) -> Tracked:
        """Nothing is measured."""
        return Tracked(record.name, None)

    def measured(self, record: WorkloadRecord, platform: str = "") -> Measurements | None:
        """Nothing is."""
        return None

    def wake_at(self, now: float, cluster: Residents) -> float | None:
        """Just before the next load changes."""
        return max(now, self._due[0][0]) if self._due else None

    def remedies(self, now: float, event: ev.Event, cluster: Residents) -> Iterator[Remedy]:
        """Resize services whose load is about to change; then those that are short."""
        if isinstance(event, ev.WorkloadStarted):
            self._join(event, now, cluster)
        while self._due and self._due[0][0] <= now:
            _, name = heappop(self._due)
            record = cluster.state.workloads.get(name)
            if record is None or record.ended or not record.placements:
                continue
            busy = record.phase is not Phase.RUNNING
            again = now + AGAIN_SECONDS if busy else self._next(record, now)
            if again is not None:
                heappush(self._due, (again, name))
            if not busy:
                yield from self._resize(record, now, cluster)
        if isinstance(event, _CHANGES):
            for name in list(self._short):
                record = cluster.state.workloads.get(name)
                if record is None or record.ended:
                    del self._short[name]
                elif record.phase is Phase.RUNNING:
                    yield from self._resize(record, now, cluster)

    def _join(self, event: ev.WorkloadStarted, now: float, cluster: Residents) -> None:
        record = cluster.running(event.key)
        if record is not None and (change := self._next(record, now)) is not None:
            heappush(self._due, (change, record.name))

    def _next(self, record: WorkloadRecord, now: float) -> float | None:
        """When its load is about to rise again, or falls; ``None`` = never."""
        load, passed = self._loads.get(record.name), now - record.submitted_at
        if load is None or (change := load.next_change(passed + AHEAD_SECONDS)) is None:
            return None
        rises = load.at(change) > load.at(passed + AHEAD_SECONDS)
        return record.submitted_at + change - (LOOKS_SECONDS if rises else 0.0)

    def _resize(self, record: WorkloadRecord, now: float, cluster: Residents) -> Iterator[Remedy]:
        request = cluster.request(record, now)
        view = request.seen(cluster.view(record.workload))
        verdict = cluster.placement.resize(request, record.placements, view)
        if isinstance(verdict, Place):
            yield Reallocate(record.name, verdict.placements, verdict.decision)
