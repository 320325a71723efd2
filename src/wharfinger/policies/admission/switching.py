"""When a workload should go on to another queue.

Source: ARQ, equation 2, as an expectation: a workload waits in its queue until t, and after that in
the next one until its slack is over.
"""

from enum import StrEnum

from wharfinger.native import best_switch


class Objective(StrEnum):
    """What the time of a switch maximizes."""

    EXPECTED = "expected"
    """The expected quality over both waits."""
    MAX = "max"
    """The better of both queues alone, as equation 2 is printed."""


def switch_after(
    times: list[float],
    own: list[float],
    other: list[float],
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
    if not (any(own) or any(other)):
        return None
    if objective is Objective.MAX:
        return times[-1] if qualities[0] * own[-1] >= qualities[1] * other[-1] else 0.0
    return best_switch(times, own, other, *qualities, budget_seconds)
