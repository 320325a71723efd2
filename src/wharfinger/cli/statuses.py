"""What workloads and servers do now, in the few words of a table's cell."""

import time
from datetime import UTC, datetime

from wharfinger.cli import format as fmt
from wharfinger.cli.output import Record

_PHASES = {
    "classifying": "profiling",
    "placed": "starting",
    "adjusting": "running (being resized)",
    "revoked": "stopped",
}
_WAITS = {
    "": "its turn",
    "no-servers": "no server",
    "behind-others": "others before it",
    "waits-for-quality": "a better server",
    "too-large": "too large",
    "not-allowed": "no server has the labels",
    "queue-full": "queue full",
    "servers-excluded": "it did not start there",
    "off-prediction": "a workload there runs off its prediction",
    "interference": "would slow others",
    "does-not-fit": "would not run there",
    "target-too-high": "target too high",
    "will-miss": "target out of reach",
    "start-failed": "start failed",
    "dependency": "others first",
    "array-limit": "its array's limit",
    "recommended": "recommended only",
    "probes-busy": "profiling busy",
    **dict.fromkeys(("node-failure", "preempted", "requeued", "drained"), "evicted"),
    "preempted-for-target": "stopped for a neighbor",
}
"""Reasons that say more in other words than their own."""


def phase_in_words(phase: str) -> str:
    """A phase as the columns STATUS call it."""
    return _PHASES.get(phase, phase)


def workload_status(workload: Record) -> str:
    """Its phase, and what keeps it from more."""
    phase = workload["phase"]
    if workload["stopping"]:
        return "stopping"
    if workload["paused"]:
        return "suspended by its user"
    match phase:
        case "suspended":
            return "suspended for a neighbor"
        case "running" if workload["ready"] is False:
            return "running (not ready)"
        case "running" if workload["reason"] == "recommended":
            return "running (adjustment recommended)"
        case "submitted" | "admitted" | "queued":
            return _waits(workload)
    return ended_status(workload)


def ended_status(run: Record) -> str:
    """How a run ended."""
    phase, reason = run["phase"], run["reason"]
    if phase == "failed" and (run["exit_code"] or run["signal"] is not None):
        more = "" if reason in ("", "exited", "killed") else f", {_words(reason)}"
        return f"failed ({exit_text(run)}{more})"
    if phase in ("failed", "rejected") and reason:
        return f"{phase}: {_words(reason)}"
    return phase_in_words(phase)


def _waits(workload: Record) -> str:
    reason = workload["reason"]
    if workload["due_at"] and reason in ("scheduled", ""):
        return f"scheduled {moment(workload['due_at'])}"
    if reason == "restarting":
        left = _seconds_until(workload["not_before"])
        return f"restarting in {left:.0f} s" if left >= 1 else "restarting"
    if workload["phase"] != "queued" and not reason:
        return str(workload["phase"])
    return f"waiting: {_WAITS.get(reason, _words(reason))}"


def _words(reason: str) -> str:
    return reason.replace("-", " ")


def exit_text(run: Record) -> str:
    """How a program ended: its exit status, or the signal."""
    if run["signal"] is not None:
        return f"signal {run['signal']}"
    return fmt.NONE if run["exit_code"] is None else f"exit {run['exit_code']}"


def moment(timestamp: str) -> str:
    """A time that is near: of the next 24 hours only the time of day."""
    shown = fmt.clock(timestamp)
    near = 0 <= _seconds_until(timestamp) < 86_400
    return f"{shown[11:16] if near else shown[:16]}{shown[-1]}"


def _seconds_until(timestamp: str | None) -> float:
    if timestamp is None:
        return 0.0
    return datetime.fromisoformat(timestamp).astimezone(UTC).timestamp() - time.time()


def server_status(server: Record) -> str:
    """Whether it takes new work, and if not, why not."""
    if server["draining"]:
        left = server["workloads"]
        return f"draining ({left} left)" if left else "drained"
    if server["cordoned"]:
        return "cordoned"
    if not server["accepting"]:
        return "takes nothing new"
    return "settling" if server["unsettled"] else "accepting"
