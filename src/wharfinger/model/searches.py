"""How searches for a server ended, where a placement searches and relaxes what nobody offers.

Its decisions say so in their numbers, under the names below; the core counts them, metrics and
reports of simulated runs show the counts. Paragon (TOCS) 3.2 publishes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

BACK_TRACKS = "back_tracks"
"""How many tests no server passed that was left."""
LEVELS = "levels"
"""How many sources of interference were relaxed."""
TIMED_OUT = "timed_out"
"""1 = the search was ended by its bound."""


@dataclass(slots=True)
class SearchCounts:
    """Placements by what was relaxed for them; those of policies that do not search are absent.

    Attributes:
        satisfied: Nothing was.
        one_relaxed: One source of interference was.
        several_relaxed: Several were.
        timed_out: The search was ended by its bound. Counted above, too.
        back_tracks: Of all searches together.
    """

    satisfied: int = 0
    one_relaxed: int = 0
    several_relaxed: int = 0
    timed_out: int = 0
    back_tracks: int = 0

    def add(self, numbers: Mapping[str, float]) -> None:
        """Count a decision by its numbers."""
        if LEVELS not in numbers:
            return
        levels = numbers[LEVELS]
        self.satisfied += int(levels == 0)
        self.one_relaxed += int(levels == 1)
        self.several_relaxed += int(levels > 1)
        self.timed_out += int(numbers.get(TIMED_OUT, 0.0) > 0)
        self.back_tracks += int(numbers.get(BACK_TRACKS, 0.0))

    def shares(self) -> dict[str, float]:
        """Of all searches, by the names of reports; nothing where there was none.

        >>> counts = SearchCounts(satisfied=89, one_relaxed=8, several_relaxed=3)
        >>> counts.shares()["search_one_relaxed_fraction"]
        0.08
        """
        searches = self.satisfied + self.one_relaxed + self.several_relaxed
        if not searches:
            return {}
        return {
            "search_satisfied_fraction": self.satisfied / searches,
            "search_one_relaxed_fraction": self.one_relaxed / searches,
            "search_several_relaxed_fraction": self.several_relaxed / searches,
            "search_timed_out_fraction": self.timed_out / searches,
        }
