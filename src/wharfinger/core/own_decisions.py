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
    return replace(
        decision,
        accepted=False,
        reason=ReasonCode.CONFLICT,
        message=message,
        would_change=would_change,
        numbers={**decision.numbers, "servers_changed": float(servers_changed)},
        predicted=None,
    )


def not_preempted(decision: Decision) -> Decision:
    """A preemption whose victims can't be stopped."""
    return replace(
        decision,
        accepted=False,
        reason=ReasonCode.NO_ROOM,
        message=f"{decision.message}; but none of them can be stopped for it",
        would_change="room, or workloads served after it that run and may be started again",
    )


def behind_others(decision: Decision) -> Decision:
    """Others wait before it for profiling."""
    return replace(
        decision,
        accepted=False,
        reason=ReasonCode.BEHIND_OTHERS,
        message="others wait before it for room to be profiled",
        would_change="room for those, or a higher priority",
    )
