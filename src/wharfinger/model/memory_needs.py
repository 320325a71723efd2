"""What a program takes of memory, as far as its runs have told; for what no user stated."""

from dataclasses import dataclass
from enum import StrEnum

from wharfinger.model.units import memory_number


class MemorySource(StrEnum):
    """Which run has told most."""

    PROFILED = "profiled"
    """A copy, before the program was placed or beside it."""
    RUN = "run"
    """An earlier run that ended well."""
    KILLED = "killed"
    """A run or copy that was killed, because it ran out of memory."""


_TOLD = {
    MemorySource.PROFILED: "its profiling runs used up to {}",
    MemorySource.RUN: "an earlier run used up to {}",
    MemorySource.KILLED: "it ran out of memory with {}",
}


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Memory of one program on one server, in bytes.

    Attributes:
        peak_bytes: The most that was in use; of a run that was killed, its limit.
        needed_bytes: What a start gets: the peak and a margin, or after a kill twice the limit.
        kills: How often a run or copy of it ran out of memory.
    """

    peak_bytes: int
    needed_bytes: int
    source: MemorySource
    kills: int = 0

    @property
    def why(self) -> str:
        """Where it comes from, as a clause.

        >>> MemoryNeed(60 << 20, 124 << 20, MemorySource.RUN).why
        'an earlier run used up to 60Mi'
        """
        return _TOLD[self.source].format(memory_number(self.peak_bytes))
