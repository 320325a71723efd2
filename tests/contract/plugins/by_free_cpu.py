"""A placement with an index that the core keeps, and something that it remembers."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wharfinger.core.seams.placement import ServerIndex
from wharfinger.model.decisions import Place, ReasonCode, Refuse
from wharfinger.model.view import Request, View
from wharfinger.policies.placement.common import ByReservation, candidates, misfit, plan, refuse


@dataclass(frozen=True, slots=True)
class FreeCpuSettings:
    """``bucket_millicpus``: servers whose idle CPU differs by less count as equal."""

    bucket_millicpus: int = 1000


class FreeCpuIndex:
    """Rows by idle CPU, in buckets. The core says which rows have changed, and no more."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._bucket_of: list[int] = []
        self._buckets: dict[int, set[int]] = {}
        self._changed: set[int] = set()

    def touch(self, row: int) -> None:
        self._changed.add(row)

    def drop(self, row: int) -> None:
        """All rows behind it have moved: simply sort all of them again."""
        self._changed = set(range(max(len(self._bucket_of), *self._changed, row + 1) - 1))
        self._bucket_of, self._buckets = [], {}

    def rows(self, view: View) -> Iterator[int]:
        """The most idle bucket first; in it in the order of joining."""
        for row in sorted(self._changed):
            if row < len(view.names):
                self._put(row, int(view.cpu_capacity[row] - view.cpu_allocated[row]))
        self._changed.clear()
        for bucket in sorted(self._buckets, reverse=True):
            yield from sorted(self._buckets[bucket])

    def _put(self, row: int, free: int) -> None:
        if row < len(self._bucket_of):
            self._buckets[self._bucket_of[row]].discard(row)
        else:
            self._bucket_of.append(0)
        bucket = self._bucket_of[row] = free // self._width
        self._buckets.setdefault(bucket, set()).add(row)


class ByFreeCpu(ByReservation):
    """The server with the most idle CPU, but not the one that was chosen last if there is another.

    Which one that was is its note.
    """

    name = "by-free-cpu"

    def __init__(self, settings: FreeCpuSettings | None = None) -> None:
        self.settings = settings or FreeCpuSettings()

    def index(self) -> ServerIndex:
        return FreeCpuIndex(self.settings.bucket_millicpus)

    def place(self, request: Request, view: View) -> Place | Refuse:
        need = request.reserved(view.capabilities)
        index = view.index or self._index_of(view)
        fits = (r for r in index.rows(view) if misfit(request, need, view, r) is ReasonCode.OK)
        best = next((row for row in fits if view.names[row] != request.note), None)
        if best is None:
            last = [r for r, name in enumerate(view.names) if name == request.note]
            best = next((r for r in last if misfit(request, need, view, r) is ReasonCode.OK), None)
        if best is None:
            return refuse(self.name, request, need, view)
        ranked = candidates(view, [best], [0.0])
        made = plan(self.name, request, need, view, ranked, f"{view.names[best]} has the most idle")
        return replace(made, note=view.names[best])

    def _index_of(self, view: View) -> FreeCpuIndex:
        """Created for each decision: a snapshot has none."""
        index = FreeCpuIndex(self.settings.bucket_millicpus)
        for row in range(len(view.names)):
            index.touch(row)
        return index
