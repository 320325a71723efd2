"""When a workload should go on to another queue.

Source: ARQ, equation 2, as an expectation: a workload waits in its queue until t, and after that in
the next one until its slack is over.
"""

from enum import StrEnum

from wharfinger.model.arrays import Array


class Objective(StrEnum):
    """What the time of a switch maximizes."""

    EXPECTED = "expected"
    """The expected quality over both waits."""
    MAX = "max"
    """The better of both queues alone, as equation 2 is printed."""


def switch_after(
    times: Array,
    own: Array,
    other: Array,
    qualities: tuple[float, float],
    budget_seconds: float,
    objective: Objective = Objective.EXPECTED,
) -> float | None:
    """Seconds after which to switch; ``None`` = nothing is expected of either queue.

    Args:
        times: (G,) from 0 to the slack that is left, evenly spaced.
        own: (G,) probability that its own queue serves it within each time.
        other: (G,) the same of the other queue.
        qualities: Of the servers of both.
        budget_seconds: S of equation 2: what it may take from now on, its run included.
        objective: What is maximized.

    Returns:
        The latest of the best times: the own queue is preferred.
    """
    # Plain numbers: of so few, arrays would take most of a decision's time.
    waits: list[float] = times.tolist()
    stays, goes = own.tolist(), other.tolist()
    slack = waits[-1]
    if not (any(stays) or any(goes)):
        return None
    if objective is Objective.MAX:
        return slack if qualities[0] * stays[-1] >= qualities[1] * goes[-1] else 0.0
    later = max(budget_seconds - slack, 0.0)
    values = [
        served * qualities[0] * max(budget_seconds - wait, 0.0)
        + (1 - served) * after * qualities[1] * later
        for wait, served, after in zip(waits, stays, reversed(goes), strict=True)
    ]
    least = max(values) * (1 - 1e-9)
    return max(wait for wait, value in zip(waits, values, strict=True) if value >= least)
