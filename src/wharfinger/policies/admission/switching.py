"""When a workload should go on to another queue.

Source: ARQ, equation 2, as an expectation: a workload waits in its queue until t, and after that in
the next one until its slack is over. With t from 0 to the slack it maximizes

    F_i(t) Q_i (S - t) + (1 - F_i(t)) F_j(slack - t) Q_j (S - slack)

where F is the probability that a queue serves it within a time, Q the quality of its servers, i its
queue and j the next, and S what it may take from now on, its run included. Of equally good times
the latest is taken: the own queue is preferred. ``wharfinger.native.switch_after`` works it out.
"""

from enum import StrEnum


class Objective(StrEnum):
    """What the time of a switch maximizes."""

    EXPECTED = "expected"
    """The expected quality over both waits."""
    MAX = "max"
    """The better of both queues alone, as equation 2 is printed."""
