"""The record of what was done about a workload after it was placed, and of what became of it.

The fold keeps it when something is done and completes it by what is measured afterwards; the
service shows it. So ``explain`` has nothing to reconstruct.
"""

from dataclasses import replace

from wharfinger.core.state import (
    ADJUSTMENTS_KEPT,
    Adjustment,
    AdjustmentKind,
    ManagerState,
    WorkloadRecord,
)
from wharfinger.model.allocation import Placement


def keep(
    state: ManagerState,
    record: WorkloadRecord,
    time: float,
    kind: AdjustmentKind,
    reason: str,
    message: str,
    after: tuple[Placement, ...] | None = None,
) -> None:
    """Keep one adjustment; to be called before what it changes is changed.

    Args:
        state: Counts them.
        record: Of the workload that is adjusted.
        time: In seconds since the epoch.
        kind: What is done.
        reason: Stable word.
        message: The cause, for people.
        after: Where it is from now on; ``None`` = where it was.
    """
    if len(record.adjustments) >= ADJUSTMENTS_KEPT:
        del record.adjustments[0]
    tracking = record.tracking
    record.adjustments.append(
        Adjustment(
            time=time,
            kind=kind,
            before=() if kind is AdjustmentKind.RESUMED else record.placements,
            after=record.placements if after is None else after,
            reason=str(reason),
            message=message,
            performance_before=None if tracking is None else tracking.normalized_performance,
        )
    )
    state.adjustment_counts[kind] = state.adjustment_counts.get(kind, 0) + 1


def placed_again(record: WorkloadRecord) -> None:
    """One that was migrated has a place: the adjustment says now where to."""
    if record.adjustments and record.adjustments[-1].kind is AdjustmentKind.MIGRATED:
        record.adjustments[-1] = replace(record.adjustments[-1], after=record.placements)


def follow_up(record: WorkloadRecord, performance: float) -> None:
    """What became of the newest."""
    if record.adjustments:
        newest = replace(record.adjustments[-1], performance_after=performance)
        record.adjustments[-1] = newest
