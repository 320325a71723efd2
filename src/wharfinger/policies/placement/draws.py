"""Servers in a random order, for policies that draw: the same question, the same draw.

A policy keeps nothing between calls and knows no chance. It draws by a stable hash of a seed and of
what is asked, so that every machine, process and version of Python draws the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct

from wharfinger.model.view import PlacementRequest
from wharfinger.policies.placement.common import ByReservation

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

    def order(self, count: int, request: PlacementRequest, what: str) -> Iterator[int]:
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
    """Whole numbers of 64 bits, uniform, without end."""
    block = 0
    while True:
        yield from _EIGHT.unpack(blake2b(f"{block}/{asks}".encode()).digest())
        block += 1
