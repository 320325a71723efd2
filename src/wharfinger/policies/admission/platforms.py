"""Which platforms are worth waiting for: an extension of ARQ, whose queues know interference alone.

A workload that takes the first server with room has often lost its target by that: on most
platforms it runs slower than its tolerance allows. What is left of its slack says how much slower
it may run; what is classified says how likely it is not slower.
"""

from wharfinger.classification.prediction import slower
from wharfinger.classification.worth import LEAST_STD
from wharfinger.model.view import Request, View
from wharfinger.model.workload import WorkloadType
from wharfinger.native import near_best
from wharfinger.policies.admission.slack import WaitingSlack

_SERVICE = WorkloadType.LATENCY_CRITICAL
NEAR_BEST = 0.3
"""Share of the best platform's probability that suffices. Measured (docs/arq-measured.md)."""


def suitable_platforms(
    request: Request, slack: WaitingSlack, cluster: View, cpu_millicpus: int
) -> bytes | None:
    """The platforms on which its target is not much less likely kept than on the best.

    A byte for each, 1 or 0; ``None`` = all are suitable, or nothing is known. The best is the one
    that does most for it of those with a server that it fits on when that is empty. Interference is
    left out: it is not known before a server is chosen. Of a service nothing says how long it
    takes.
    """
    known, expected = request.classification, slack.expected_seconds
    if known is None or not expected or len(cluster.platforms) < 2:
        return None
    if request.workload.type is _SERVICE:
        return None
    drop, variance = slower(known, cluster.platforms, cpu_millicpus)
    largest, longer = cluster.largest_cpu(request.allowed), slack.spare_seconds / expected
    return near_best(drop, variance, largest, cpu_millicpus or 1, longer, LEAST_STD, NEAR_BEST)
