"""What a table of contention by source keeps of its servers."""

from copy import deepcopy
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from tests.support.cluster import workload
from wharfinger.contention.by_source import BySource, SourceAssessment, SourceSettings
from wharfinger.contention.combined import Combined
from wharfinger.core.seams.contention import ContentionTable, QualityColumns
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Estimate
from wharfinger.model.view import Request
from wharfinger.testing.policy import PLATFORMS, make_residents, make_view

SCORES = {SharedResource.LAST_LEVEL_CACHE: Estimate(40.0, 5.0)}

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


def test_without_a_measured_score_the_cpu_that_residents_hold_slows_a_newcomer() -> None:
    """Not where no resident is classified, and best-effort work goes by scores all the same."""
    random, table = Random(3), BySource().table()
    view = make_view(random, 4)
    for row in (0, 1, 2):
        table.put(row, PLATFORMS[0], make_residents(random, 2))
    capacity, allocated = np.full(4, 4000), np.array([0, 1000, 4000, 2000])
    view = replace(view, cpu_capacity=capacity, cpu_allocated=allocated)
    guess = make_residents(random, 1)[0].classification
    guess = replace(guess, caused=SCORES, tolerated=SCORES, scores_measured=False)
    asked = Request(workload("w"), classification=guess)
    found = table.assess(asked, view, 0.8)
    assert found.suffered.mean.tolist() == pytest.approx([0.0, 0.0375, 0.15, 0.0])
    assert found.suffered.variance.tolist() == pytest.approx([0.0, 0.01875**2, 0.075**2, 0.0])
    assert not found.residents_loss().targets.any()
    by_scores = [
        replace(asked, classification=replace(guess, scores_measured=True)),
        replace(asked, workload=workload("w", best_effort=True)),
    ]
    for other in by_scores:
        assert isinstance(table.assess(other, view, 0.8), SourceAssessment)
    predicted = BySource(SourceSettings(share_drop=0.0)).table()
    assert isinstance(predicted.assess(asked, view, 0.8), SourceAssessment)
