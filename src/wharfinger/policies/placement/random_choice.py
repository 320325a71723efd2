"""Random: any server that has room, each as likely as the others; and what all draws share.

A draw is a stable hash of a seed and of what is asked: the same on every machine and process.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice, repeat
from struct import Struct

import numpy as np

from wharfinger.model.decisions import Place, ReasonCode, Refuse
from wharfinger.model.view import Request, View
from wharfinger.policies.placement.common import (
    ByReservation,
    candidates,
    is_full,
    misfit,
    open_servers,
    plan,
    refuse,
)

_EIGHT = Struct("<8Q")


@dataclass(frozen=True, slots=True)
class DrawSettings:
    """Settings of placements that draw.

    Attributes:
        seed: Of all draws. Another seed places each workload elsewhere.
    """

    seed: int = 0


class Drawing(ByReservation):
    """A placement that draws; with another seed each workload may go elsewhere."""

    def __init__(self, settings: DrawSettings | None = None) -> None:
        self.settings: DrawSettings = settings or DrawSettings()

    def order(self, count: int, request: Request, what: str) -> Iterator[int]:
        """The numbers below ``count`` in an order drawn for a workload and a use."""
        return in_random_order(count, self.settings.seed, request.workload.name, what)


def in_random_order(count: int, seed: int, *asks: str) -> Iterator[int]:
    """The numbers from 0 to ``count`` - 1, each once, in an order drawn for the question.

    Fisher's and Yates's shuffle (Knuth, volume 2, 3.4.2, algorithm P) that keeps only what it has
    swapped: the cost of a number does not grow with ``count``. The first that suits is drawn
    uniformly among all that suit; the first n are a sample without repetition.

    >>> list(in_random_order(5, 0, "encode"))
    [4, 0, 3, 1, 2]
    """
    swapped: dict[int, int] = {}
    drawn = _draws(f"{seed}/{'/'.join(asks)}")
    for at in range(count):
        # Of 64 bits: what the remainder prefers is less than 1 in 10^13 at a million servers.
        other = at + next(drawn) % (count - at)
        yield swapped.get(other, other)
        swapped[other] = swapped.pop(at, at)


def _draws(asks: str) -> Iterator[int]:
    block = 0
    while True:
        yield from _EIGHT.unpack(blake2b(f"{block}/{asks}".encode()).digest())
        block += 1


PROBES = 32
"""Servers that are looked at one by one; only where none of these has room all are scanned."""


class RandomChoice(Drawing):
    """One server drawn uniformly among those with room, by a hash of the workload's name.

    Where a share f of the servers has room it looks at 1 / f of them, whatever their number.
    """

    name = "random"

    def place(self, request: Request, view: View) -> Place | Refuse:
        """Probe in random order until one has room, size by reservation."""
        need = request.reserved(view.capabilities)
        probes: dict[int, ReasonCode] = {}
        for row in islice(self.order(len(view.names), request, "probes"), PROBES):
            reason = misfit(request, need, view, row)
            if reason is ReasonCode.OK:
                probed = candidates(view, list(probes), repeat(None), probes.values())
                drawn, message = candidates(view, [row], [0.0]), f"{view.names[row]} was drawn"
                return plan(self.name, request, need, view, drawn, message, probed)
            probes[row] = reason
        # A refusal for each event of a full cluster must not cost a pass over it.
        if is_full(request, need, view):
            return refuse(self.name, request, need, view)
        rows = np.flatnonzero(
            open_servers(request, view).astype(np.bool_)
            & (view.cpu_capacity - view.cpu_allocated >= need.cpu_millicpus)
            & (view.memory_capacity - view.memory_allocated >= need.memory_bytes)
        )
        if not len(rows):
            return refuse(self.name, request, need, view)
        row = int(rows[next(self.order(len(rows), request, "scan"))])
        message = f"{view.names[row]} was drawn of the {len(rows)} with room"
        probed = candidates(view, list(probes), repeat(None), probes.values())
        return plan(self.name, request, need, view, candidates(view, [row], [0.0]), message, probed)
