"""Whether the queues stay bounded: the traffic condition of a network of queues.

Source: Paragon (TOCS) 4.3.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from wharfinger.model.arrays import Array
from wharfinger.model.queue_accounts import QueueAccount

NEAR = 0.95
"""A load factor from which on a queue is reported."""


def traffic(arrivals: Array, routing: Array) -> Array:
    """λ̄ = (I - Pᵀ)⁻¹ λ: what comes into each queue, diverted work included, per second.

    ``routing`` is (N, N): the share of what enters queue i that is diverted to j.

    >>> traffic(np.array([1.0, 0.0]), np.array([[0.0, 0.5], [0.0, 0.0]])).tolist()
    [1.0, 0.5]
    """
    return np.asarray(np.linalg.solve(np.eye(len(arrivals)) - routing.T, arrivals))


def load_factors(
    queues: Sequence[str],
    accounts: Mapping[str, QueueAccount],
    busy_seconds: Mapping[str, float],
    servers: Mapping[str, int],
    now: float,
) -> dict[str, float]:
    """ρ = λ̄ / (μ m) of each queue that has servers and of which busy periods are known.

    ``busy_seconds`` are the mean ones, 1/μ; ``servers`` how many it has, m. What is diverted does
    not load the servers of the queue that it leaves.
    """
    at = {queue: row for row, queue in enumerate(queues)}
    arrivals, routing = np.zeros(len(queues)), np.zeros((len(queues), len(queues)))
    for queue, row in at.items():
        account = accounts.get(queue)
        if account is None:
            continue
        arrivals[row] = account.arrivals_per_second(now)
        for other, count in account.diverted.items():
            if other in at and account.entered:
                # All that comes must not be diverted for ever: one of it counts as served.
                routing[row, at[other]] = count / (account.entered + 1)
    entered = traffic(arrivals, routing)
    served = entered * (1 - routing.sum(axis=1))
    return {
        queue: float(served[row]) * busy_seconds[queue] / servers[queue]
        for queue, row in at.items()
        if servers.get(queue) and queue in busy_seconds
    }
