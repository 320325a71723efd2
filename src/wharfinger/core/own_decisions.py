"""Records of what the core decides itself: why a verdict can't be carried out."""

from dataclasses import replace

from wharfinger.model.decisions import Decision, ReasonCode


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
    return _refused(proposal, ReasonCode.CONFLICT, message, would_change)


def not_preempted(decision: Decision) -> Decision:
    """A preemption whose victims can't be stopped."""
    message = f"{decision.message}; but none of them can be stopped for it"
    mend = "room, or workloads served after it that run and may be started again"
    return _refused(decision, ReasonCode.NO_ROOM, message, mend)


def behind_others(decision: Decision) -> Decision:
    """Others wait before it for profiling."""
    message = "others wait before it for room to be profiled"
    mend = "room for those, or a higher priority"
    return _refused(decision, ReasonCode.BEHIND_OTHERS, message, mend)


def _refused(decision: Decision, reason: ReasonCode, message: str, would_change: str) -> Decision:
    return replace(
        decision, accepted=False, reason=reason, message=message, would_change=would_change
    )
