"""When a workload should go on to another queue.

Source: ARQ, equation 2, as an expectation: a workload waits in its queue until t, and after that in
the next one until its slack is over.
"""

from enum import StrEnum

import numpy as np

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
    slack = float(times[-1])
    if not (own.any() or other.any()):
        return None
    if objective is Objective.MAX:
        stays, goes = qualities[0] * float(own[-1]), qualities[1] * float(other[-1])
        return slack if stays >= goes else 0.0
    spent = np.maximum(budget_seconds - times, 0.0)
    later = max(budget_seconds - slack, 0.0)
    value = own * qualities[0] * spent + (1 - own) * other[::-1] * qualities[1] * later
    best = np.flatnonzero(value >= value.max() * (1 - 1e-9))
    return float(times[best[-1]])
