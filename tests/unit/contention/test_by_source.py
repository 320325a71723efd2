"""What a table of contention by source keeps of its servers."""

from copy import deepcopy
from random import Random

import numpy as np

from wharfinger.contention.by_source import BySource
from wharfinger.contention.combined import Combined
from wharfinger.core.seams.contention import ContentionTable, QualityColumns
from wharfinger.testing.policy import PLATFORMS, make_residents

SERVERS = 6


def check_quality(table: ContentionTable) -> None:
    """It is what the scores leave."""
    scores, quality = table.score_columns(SERVERS), table.quality_columns(SERVERS)
    assert scores is not None
    assert quality is not None
    expected = QualityColumns.of(scores)
    np.testing.assert_allclose(quality.caused, expected.caused)
    np.testing.assert_allclose(quality.both, expected.both)


def test_quality_follows_what_is_put_and_dropped_in_copies_too() -> None:
    random = Random(1)
    for table in (BySource().table(), Combined().table()):
        for _ in range(60):
            row, residents = (
                random.randrange(SERVERS),
                make_residents(random, random.choice((0, 2))),
            )
            table.put(row, PLATFORMS[0], residents)
            if random.random() < 0.2:
                table.drop(random.randrange(SERVERS))
            copy = deepcopy(table)
            copy.put(row, PLATFORMS[0], make_residents(random, 1))
            check_quality(copy)
            if random.random() < 0.6:
                check_quality(table)
