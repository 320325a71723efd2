"""Whether the queues stay bounded: the traffic condition of a network of queues.

Source: Paragon (TOCS) 4.3.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wharfinger.model.arrays import Array
from wharfinger.model.queue_accounts import QueueAccount

NEAR = 0.95
"""A load factor from which on a queue is reported."""


class QueueLoad(NamedTuple):
    """ρ of a queue's servers; ``parts`` of it by the queue into which that work came."""

    factor: float
    parts: Mapping[str, float]

    def warning(self, queue: str) -> str:
        """That it is near 1 or over it, and what causes most of it; empty = it is neither."""
        if self.factor < NEAR:
            return ""
        cause = max(self.parts, key=self.parts.__getitem__)
        share = self.parts[cause] / self.factor
        where = "it" if cause == queue else cause
        grows = "as work comes now, it grows without end"
        if self.factor < 1:
            grows = "from 100% on it grows without end"
        return (
            f"queue {queue} gets {self.factor:.0%} of the work that its servers can do, and "
            f"{share:.0%} of that work was submitted to {where}: {grows}; submit less such work, "
            "or add servers"
        )


def traffic(arrivals: Array, routing: Array) -> Array:
    """λ̄ = (I - Pᵀ)⁻¹ diag(λ): what comes into each queue, diverted work included, per second.

    ``routing`` is (N, N): the share of what enters queue i that is diverted to j. The answer is
    (N, N): into queue i of what came from outside into j; λ̄ are the sums of its rows.

    >>> traffic(np.array([1.0, 0.5]), np.array([[0.0, 0.5], [0.0, 0.0]])).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    return np.asarray(np.linalg.solve(np.eye(len(arrivals)) - routing.T, np.diag(arrivals)))


def load_factors(
    queues: Sequence[str],
    accounts: Mapping[str, QueueAccount],
    busy_seconds: Mapping[str, float],
    servers: Mapping[str, int],
    now: float,
) -> dict[str, QueueLoad]:
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
    served = traffic(arrivals, routing) * (1 - routing.sum(axis=1))[:, np.newaxis]
    loads = {}
    for queue, row in at.items():
        if servers.get(queue) and queue in busy_seconds:
            parts = served[row] * busy_seconds[queue] / servers[queue]
            by_queue = dict(zip(queues, parts.tolist(), strict=True))
            loads[queue] = QueueLoad(float(parts.sum()), by_queue)
    return loads
