"""What leaves servers that are drained."""

from collections.abc import Iterator

from wharfinger.core import events as ev
from wharfinger.core import own_decisions as own
from wharfinger.core.cluster_state import ClusterState
from wharfinger.core.pools import place_within
from wharfinger.core.residency import is_stoppable
from wharfinger.core.residents import ClusterResidents
from wharfinger.core.seams.placement import PlacementPolicy
from wharfinger.model.decisions import Place


def drained(
    now: float, cluster: ClusterState, residents: ClusterResidents, placement: PlacementPolicy
) -> Iterator[ev.WorkloadMigrated]:
    """Migrations of what may be restarted, where there is room; each to be logged as it comes.

    What its user has suspended needs none: it waits in its queue until it is resumed.
    """
    for server in [name for name, c in cluster.state.cordoned.items() if c.drain]:
        for record in cluster.residency.residents_of(server):
            movable = is_stoppable(record) and record.workload.run.restartable
            if not movable or record.stop_reason:
                continue
            if record.paused:
                yield ev.WorkloadMigrated(record.name, own.draining_paused(server))
                continue
            request, view = residents.request(record, now), residents.view(record.workload)
            verdict = place_within(placement, request, view, ())
            if isinstance(verdict, Place):
                told = own.draining(verdict.decision, server, verdict.placements)
                yield ev.WorkloadMigrated(record.name, told, verdict.placements)
