"""Records of what the core decides itself: why a verdict can't be carried out."""

from collections.abc import Sequence
from dataclasses import replace

from wharfinger.core.lifecycle import Phase
from wharfinger.core.schedules import in_zone
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.workload import Schedule


def conflict(decision: Decision, servers_changed: int) -> Decision:
    """A proposal from outside for which there is no room."""
    if servers_changed:
        message = "the servers that were proposed have no room for it any more"
        would_change = "a proposal on a newer snapshot; it is asked for"
    else:
        message = "the servers that were proposed had no room for it to begin with"
        would_change = "a proposal that fits the snapshot"
    numbers = {**decision.numbers, "servers_changed": float(servers_changed)}
    proposal = replace(decision, numbers=numbers, predicted=None)
    return refused(proposal, ReasonCode.CONFLICT, message, would_change)


def beyond_limits(decision: Decision, most: int) -> Decision:
    """A proposal from outside that names more servers than the workload may have."""
    message = f"more servers were proposed than it may be on, which is {most}"
    mend = "a proposal on no more servers"
    return refused(replace(decision, predicted=None), ReasonCode.NOT_SUPPORTED, message, mend)


def behind_others(admission: str, ahead: int, queue: str) -> Decision:
    """So many are served before it, and the first of them waits for room."""
    return Decision(
        Stage.PLACEMENT,
        admission,
        accepted=False,
        reason=ReasonCode.BEHIND_OTHERS,
        message=f"{ahead} wait before it in queue {queue}",
        would_change="room for those, or a higher priority",
        numbers={"waiting_before": float(ahead)},
    )


def withdrawn(placements: Sequence[Placement]) -> Decision:
    """A recommendation whose server takes no more work."""
    servers = " and ".join(placement.server for placement in placements)
    return Decision(
        Stage.PLACEMENT,
        "core",
        accepted=False,
        reason=ReasonCode.NO_SERVERS,
        message=f"{servers}, recommended for it, takes no new work any more",
        would_change="another server",
    )


def refused(decision: Decision, reason: ReasonCode, message: str, would_change: str) -> Decision:
    """The same, not accepted."""
    return replace(
        decision, accepted=False, reason=reason, message=message, would_change=would_change
    )


def dependency(names: Sequence[str], why: str) -> Decision:
    """It waits for something about these workloads."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return Decision(
        Stage.ADMISSION,
        "core",
        accepted=False,
        reason=ReasonCode.DEPENDENCY,
        message=f"{names[0]}{more} {why}",
        would_change=f"{names[0]}",
        numbers={"waits_for": float(len(names))},
    )


def dependency_failed(name: str, phase: Phase, kind: str) -> Decision:
    """What it depends on will never be so."""
    wanted = {"completed": "completed", "ready": "ready"}.get(kind, "ended")
    return Decision(
        Stage.ADMISSION,
        "core",
        accepted=False,
        reason=ReasonCode.DEPENDENCY_FAILED,
        message=f"it was to run after {name} is {wanted}, which is {phase}",
        would_change=f"submit {name} again, and then this one",
    )


def scheduled(due: float, schedule: Schedule, *, skipped: bool) -> Decision:
    """It runs at the next time of its schedule."""
    missed = "the last time was missed and is skipped; " if skipped else ""
    return Decision(
        Stage.ADMISSION,
        "core",
        accepted=False,
        reason=ReasonCode.SCHEDULED,
        message=f"{missed}its next run begins at {in_zone(due, schedule)} ({schedule.cron})",
        numbers={"due_at_seconds": due},
    )


def never_due(cron: str) -> Decision:
    """Its schedule names a time that never comes."""
    return Decision(
        Stage.ADMISSION,
        "core",
        accepted=False,
        reason=ReasonCode.SCHEDULED,
        message=f"the time {cron!r} never comes",
        would_change="another schedule",
    )


def draining(decision: Decision, server: str, placements: Sequence[Placement]) -> Decision:
    """It is migrated because its server is drained."""
    there = " and ".join(placement.server for placement in placements)
    return replace(
        decision,
        stage=Stage.ADAPTATION,
        reason=ReasonCode.DRAINING,
        message=f"{server} is drained: it goes to {there}",
    )


def draining_paused(server: str) -> Decision:
    """It is stopped because its server is drained, and its user lets it run nowhere now."""
    return Decision(
        Stage.ADAPTATION,
        "core",
        accepted=True,
        reason=ReasonCode.DRAINING,
        message=f"{server} is drained: it is stopped, and starts again when its user resumes it",
    )


def not_migrated(servers: str, *, paused: bool) -> Decision:
    """It was stopped to go to these servers, and can't be started there now."""
    if paused:
        reason, message = ReasonCode.PAUSED, f"its user has suspended it: it leaves {servers} free"
    else:
        reason, message = ReasonCode.CONFLICT, f"{servers} can't take it any more"
    mend = "resume" if paused else "room"
    return Decision(
        Stage.PLACEMENT, "core", accepted=False, reason=reason, message=message, would_change=mend
    )
