"""Every contention model keeps what the core and placements rely on."""

from collections.abc import Sequence

import numpy as np
import pytest

from wharfinger.contention.by_pair import ByPair
from wharfinger.contention.by_source import BySource, SourceSettings, SourceTable
from wharfinger.contention.combined import Combined
from wharfinger.contention.none import NoContention
from wharfinger.core.seams.contention import Assessment, ContentionModel, LogEstimates, Resident
from wharfinger.policies.registry import CONTENTIONS
from wharfinger.testing import check_contention

MODELS = {model.name: model for model in (NoContention, BySource, ByPair)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "make_model", [*MODELS.values(), Combined, *(part.make for part in CONTENTIONS.values())]
)
def test_model(make_model) -> None:
    check_contention(make_model)


class Wrong(BySource):
    """Makes tables of another kind."""

    kind: type[SourceTable]

    def table(self) -> SourceTable:
        return self.kind(SourceSettings())


class Remembering(SourceTable):
    """Adds to what is there."""

    def put(self, row: int, platform: str | None, residents: Sequence[Resident]) -> bool:
        before = self._levels[:, :, row].copy() if row < self._levels.shape[2] else None
        asks = super().put(row, platform, residents)
        if before is not None and residents:
            self._levels[2, :, row] += 0.1 * before[2]
        return asks


class Staying(SourceTable):
    """Leaves rows where they are."""

    def drop(self, row: int) -> None:
        self.put(row, None, ())


class Asking(SourceTable):
    """Always wants another look."""

    def put(self, row: int, platform: str | None, residents: Sequence[Resident]) -> bool:
        super().put(row, platform, residents)
        return True


class Flattered(Assessment):
    """Neighbors help."""

    @property
    def suffered(self) -> LogEstimates:
        return LogEstimates(np.full(self._servers, -1.0), np.zeros(self._servers))


class Flattering(SourceTable):
    def assess(self, request, view, confidence) -> Assessment:
        return Flattered(len(view.names))


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (Remembering, "history"),
        (Staying, "history"),
        (Asking, "another look"),
        (Flattering, "empty table"),
    ],
)
def test_what_breaks_a_promise_is_found(kind: type[SourceTable], complaint: str) -> None:
    class Broken(Wrong):
        pass

    Broken.kind = kind
    model: type[ContentionModel] = Broken
    with pytest.raises(AssertionError, match=complaint):
        check_contention(model)
