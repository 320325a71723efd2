"""What holds of a whole history, looked at when it is over."""

from tests.support.cluster import Cluster
from tests.support.spreading import other_settings, policy_named
from wharfinger.core import events as ev
from wharfinger.core.codec import decode_event, encode_state
from wharfinger.core.pipeline import Core, Mode
from wharfinger.core.settings import CoreSettings
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.requirements import are_met
from wharfinger.model.view import View
from wharfinger.policies.adaptation.slack import TargetSettings


def columns(manager: Core) -> dict[str, object]:
    """What policies see, server by server."""
    view = manager.view
    numbers = (
        view.cpu_capacity,
        view.cpu_allocated,
        view.memory_allocated,
        view.cpu_others,
        view.memory_others,
        view.accepting,
        view.residents,
        view.copies,
        view.unsettled,
    )
    scores = [view.contention.scores(row) for row in range(len(view.names))]
    return {
        name: [*(column[row] for column in numbers), scores[row]]
        for row, name in enumerate(view.names)
    }


def adjusted_calmly(cluster: Cluster) -> None:
    """So many adjustments a minute and no more, but those by users and for memory that fills up."""
    times: list[float] = []
    for time, kind, payload in cluster.log:
        event = decode_event(kind, payload)
        by_measuring = isinstance(event, ev.WorkloadSuspended | ev.WorkloadMigrated) or (
            isinstance(event, ev.AllocationPlanned)
            and event.decision.message != "the reservation was changed"
            and "memory in use" not in event.decision.message
        )
        if by_measuring:
            times.append(time)
            assert (
                sum(0 <= time - at < 60 for at in times) <= TargetSettings().adjustments_per_minute
            )


def recommended_only(cluster: Cluster) -> None:
    """In the processes that only recommend nothing new is begun but profiling runs.

    A migration that was begun before is finished, where it was begun to.
    """
    recommends = False
    migrating: dict[str, tuple[Placement, ...]] = {}
    forbidden = (
        ev.WorkloadPlaced,
        ev.AllocationPlanned,
        ev.WorkloadSuspended,
        ev.WorkloadResumed,
        ev.WorkloadMigrated,
    )
    modes = iter(cluster.modes)
    for _, kind, payload in cluster.log:
        event = decode_event(kind, payload)
        if isinstance(event, ev.ManagerStarted):
            recommends = next(modes) is not Mode.ACT
        if isinstance(event, ev.WorkloadMigrated):
            migrating[event.name] = event.placements
        arrives = isinstance(event, ev.WorkloadPlaced | ev.WorkloadDeferred) and (
            migrating.pop(event.name, ())
        )
        if recommends and not (arrives and getattr(event, "placements", ()) == arrives):
            assert not isinstance(event, forbidden), event


def placed_within_capacity(cluster: Cluster) -> None:
    """Replay the whole log and look at each server at the moment something is put on it."""
    manager = cluster.make_manager(None)
    for time, kind, payload in cluster.log:
        event = decode_event(kind, payload)
        put = isinstance(event, ev.WorkloadPlaced | ev.AllocationPlanned)
        before = manager.find(event.name).placements if put else ()
        manager.apply(time, event)
        if put:
            _put_within_capacity(manager.view, before, event.placements)
            _put_as_required(manager, event.name, before, event.placements)


def _put_as_required(
    manager: Core, name: str, before: tuple[Placement, ...], after: tuple[Placement, ...]
) -> None:
    """It goes to no server whose labels it excludes; where it is it stays."""
    requires, held = manager.find(name).workload.requires, {p.server for p in before}
    for server in {placement.server for placement in after} - held:
        assert are_met(requires, manager.state.servers[server].labels)


def _put_within_capacity(
    view: View, before: tuple[Placement, ...], after: tuple[Placement, ...]
) -> None:
    """Nothing grew beyond what its server has, and only where work is taken it came anew."""
    held = {placement.server: placement.allocation for placement in before}
    assert len({placement.server for placement in after}) == len(after)
    assert len(after) <= max(len(before), view.capabilities.max_servers_per_workload)
    for server_name, now in ((placement.server, placement.allocation) for placement in after):
        row = list(view.names).index(server_name)
        was = held.get(server_name, Allocation(0, 0))
        assert server_name in held or view.accepting[row]
        if now.cpu_millicpus > was.cpu_millicpus:
            assert view.cpu_allocated[row] <= view.cpu_capacity[row]
        if now.memory_bytes > was.memory_bytes:
            assert view.memory_allocated[row] <= view.memory_capacity[row]


def folds_alike_under_any_settings(cluster: Cluster) -> None:
    """The log gives its state whatever a later program's policy and settings are."""
    end = encode_state(cluster.manager.state)
    other = other_settings(cluster.policy)
    tuned = policy_named(cluster.policy, cluster.planner, cluster.contention, **other)
    tightened = CoreSettings(max_start_failures=1, max_backoff_seconds=1.5, keep_ended=1)
    for policy in (tuned, *map(policy_named, ("least-loaded", "quasar", "autoscale"))):
        manager = Core(policy, settings=tightened)
        assert encode_state(cluster.folded(manager).state) == end, policy.name
