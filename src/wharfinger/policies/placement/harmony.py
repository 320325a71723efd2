"""The servers ordered by what their residents tolerate beyond what they cause (Paragon 3.2).

A placement returns a ``Harmony`` from ``index()``; the core keeps it and gives it back in
``view.index``. It answers what a scan of all servers answers, and looks at a few.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from wharfinger.core.seams.contention import ScoreColumns
from wharfinger.model.allocation import Allocation
from wharfinger.model.arrays import Array
from wharfinger.model.view import View
from wharfinger.native import HarmonyIndex

BOUND = 100_000
"""Servers and subtrees that one question looks at, at most: less than 1 ms, and than a scan."""


class KnownScores(Protocol):
    """A newcomer's, (R,) each in the order of ``SharedResource``; NaN = unknown."""

    @property
    def tolerated(self) -> Array:
        """Points."""

    @property
    def tolerated_variance(self) -> Array:
        """Of that."""

    @property
    def caused(self) -> Array:
        """Points."""

    @property
    def caused_variance(self) -> Array:
        """Of that."""


@dataclass(frozen=True, slots=True)
class InHarmony:
    """Servers that tolerate a newcomer and that it tolerates.

    Attributes:
        rows: Those of the preferred platforms first, by rising norm; of equal ones the one with the
            smaller share of its CPU allocated, then the first row.
        norms: ‖D1 + D2‖₁ of each, in points.
        steps: How many servers and subtrees were looked at.
        complete: Whether all were that had to be; else the bound was hit, and a scan may know more.
    """

    rows: list[int]
    norms: list[float]
    steps: int
    complete: bool


class Harmony:
    """A ``ServerIndex``. What has changed is read with the next question.

    Args:
        counted: Makes of the scores of servers those that count, each row by itself; ``None`` = as
            they are.
    """

    def __init__(self, counted: Callable[[ScoreColumns], ScoreColumns] | None = None) -> None:
        self._index = HarmonyIndex()
        self._counted = counted

    def touch(self, row: int) -> None:
        """Something about this server changes, also the scores of its residents."""
        self._index.touch(row)

    def drop(self, row: int) -> None:
        """Remove the row; later ones move up."""
        self._index.drop(row)

    def best(
        self,
        view: View,
        newcomer: KnownScores,
        need: Allocation,
        z: float,
        *,
        platforms: Sequence[Sequence[int]] | None = None,
        excluded: Collection[int] = (),
        keep: int = 1,
        bound: int = BOUND,
    ) -> InHarmony | None:
        """The first servers by platform, then norm, load and row, that have room and pass.

        They accept work and are not unsettled. D1 and D2 must be 0 or more for every source of
        which the newcomer's score is known, with ``z`` standard deviations; on an empty server
        nobody is slowed. In the norm an unknown score counts as the one that harms none.

        Args:
            view: That this index belongs to.
            newcomer: Its scores.
            need: What it would get.
            z: 0 = as published; negative = a confidence below one half.
            platforms: Groups of indices in ``view.platforms``, the preferred first; the next is
                asked for what the one before lacks. ``None`` = all alike.
            excluded: Rows.
            keep: How many servers to return at most.
            bound: How many servers and subtrees to look at, at most.

        Returns:
            ``None`` where no scores of servers are kept: then there is nothing to be asked.
        """
        rows = len(view.names)
        if not self._index.is_current(rows) and not self._read(view, rows):
            return None
        found = self._index.best(
            [range(len(view.platforms))] if platforms is None else platforms,
            newcomer.caused,
            newcomer.caused_variance,
            newcomer.tolerated,
            newcomer.tolerated_variance,
            z,
            need.cpu_millicpus,
            need.memory_bytes,
            keep,
            bound,
            excluded,
        )
        return InHarmony(*found)

    def _read(self, view: View, rows: int) -> bool:
        scores = None if view.contention is None else view.contention.score_columns(rows)
        if scores is None:
            return False
        if self._counted is not None:
            scores = self._counted(scores)
        self._index.update(
            rows,
            view.platform,
            scores.tolerated,
            scores.tolerated_variance,
            scores.caused,
            scores.caused_variance,
            view.cpu_capacity,
            view.cpu_allocated,
            view.memory_capacity,
            view.memory_allocated,
            view.residents,
            view.accepting,
            view.unsettled,
        )
        return True
