"""Which levels of cache and translation a source reaches, by a model that replays its addresses.

Called by ``tracing``, with what valgrind's lackey prints. Source: dissertation 5.4, a source is
confined to its own resource. Sets are chosen by address, the least recently used line leaves; there
are no prefetchers, and a level is filled by whatever passes it. Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

LINE_BYTES = 64
PAGE_BYTES = 4096


@dataclass(slots=True)
class CacheLevel:
    """A cache, or a translation buffer: ``unit_bytes`` are what an entry is for.

    Attributes:
        accesses: That reached it.
        misses: Of those, that it did not hold.
        cold: Of those, that it never held before: work that goes on has no more of them.

    >>> cache = CacheLevel(size_bytes=128, ways=1)
    >>> [cache.holds(address) for address in (0, 1, 128, 0)]
    [False, True, False, False]
    >>> cache.accesses, cache.misses, cache.cold
    (4, 3, 2)
    """

    size_bytes: int
    ways: int
    unit_bytes: int = LINE_BYTES
    accesses: int = 0
    misses: int = 0
    cold: int = 0
    _seen: set[int] = field(default_factory=set)
    _sets: list[dict[int, None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """As many sets as there is room for."""
        count = max(1, self.size_bytes // self.unit_bytes // self.ways)
        self._sets = [{} for _ in range(count)]

    def holds(self, address: int) -> bool:
        """Whether it is there; from now on it is."""
        unit = address // self.unit_bytes
        lines = self._sets[unit % len(self._sets)]
        self.accesses += 1
        found = unit in lines
        if found:
            del lines[unit]
        else:
            self.misses += 1
            self.cold += unit not in self._seen
            self._seen.add(unit)
            if len(lines) >= self.ways:
                del lines[next(iter(lines))]
        lines[unit] = None
        return found


@dataclass(frozen=True, slots=True)
class CacheModel:
    """What addresses go through: each level is asked for what the ones before do not hold."""

    instructions: Sequence[CacheLevel]
    data: Sequence[CacheLevel]
    translations: Sequence[CacheLevel]

    def forget_counts(self) -> None:
        """What was replayed so far has only filled them."""
        for level in {id(each): each for each in self._all()}.values():
            level.accesses = level.misses = level.cold = 0

    def _all(self) -> list[CacheLevel]:
        return [*self.instructions, *self.data, *self.translations]


def replay(trace: Iterable[str], hardware: CacheModel, same_page: range = range(0)) -> None:
    """Send lackey's lines (``I  addr,size``, `` L``, `` S``, `` M``) through the hardware.

    All pages of ``same_page`` show one page of memory.
    """
    instructions, first = hardware.instructions, hardware.instructions[0]
    fetched = -1
    for line in trace:
        kind = line[1]
        if line[0] == "I":
            address = int(line[3 : line.index(",")], 16)
            unit = address // first.unit_bytes
            if unit == fetched:  # Still the line used last: no set changes.
                first.accesses += 1
            else:
                fetched = unit
                _send(address, instructions)
        elif line[0] == " " and kind in "LSM":
            address = int(line[3 : line.index(",")], 16)
            _send(address, hardware.translations)
            if address in same_page:
                address = same_page.start + address % PAGE_BYTES
            _send(address, hardware.data)


def _send(address: int, levels: Sequence[CacheLevel]) -> None:
    for level in levels:
        if level.holds(address):
            return
