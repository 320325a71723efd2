"""Holds contention models to what the core and placements rely on.

from wharfinger.testing import check_contention

def test_my_model():
check_contention(MyModel)
"""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from random import Random

import numpy as np

from wharfinger.core.seams.contention import (
    ContentionModel,
    ContentionTable,
    QualityColumns,
    Resident,
)
from wharfinger.model.interference import SharedResource
from wharfinger.model.view import Request, View
from wharfinger.testing.harness import Expecting
from wharfinger.testing.policy import PLATFORMS, make_request, make_residents, make_view

CONFIDENCE = 0.8
DIGITS = 9
"""The last bits may hang on how large the arrays are."""


@dataclass(frozen=True, slots=True)
class _Server:
    platform: str | None
    residents: tuple[Resident, ...]


def check_contention(make_model: Callable[[], ContentionModel], *, rounds: int = 60) -> None:
    """Hold a model to what is relied on.

    * An empty table slows no workload down.
    * A row is what was put there last, whatever was there before: putting it again changes
      nothing and asks for nothing, and a new table answers the same.
    * Where a row goes, those behind it move up.
    * Asking changes nothing; a view's allocations do not matter.
    * No variance, violation or loss is negative; no more is lost than is violated.
    * One more neighbor never takes less off a newcomer's performance.

    Raises:
        AssertionError: The first promise that is not kept, with its seed.
    """
    for seed in range(rounds):
        _check(make_model(), seed)


@dataclass(frozen=True, slots=True)
class _Trial:
    """A model, and the made-up cluster about which it is asked."""

    model: ContentionModel
    servers: Sequence[_Server]
    view: View
    newcomers: Sequence[Request]
    expect: Expecting

    def table(self, servers: Sequence[_Server]) -> ContentionTable:
        table = self.model.table()
        for row, server in enumerate(servers):
            table.put(row, server.platform, server.residents)
        return table

    def table_with_history(self, random: Random) -> ContentionTable:
        """These are there in the end; others were, and a server has gone."""
        table, rows = self.model.table(), list(self.servers)
        extra = random.randrange(len(rows) + 1)
        rows.insert(extra, _draw(random, PLATFORMS[0]))
        for row in random.sample(range(len(rows)), len(rows)):
            table.put(row, random.choice(PLATFORMS), make_residents(random, random.randrange(4)))
        for row in random.sample(range(len(rows)), len(rows)):
            table.put(row, rows[row].platform, rows[row].residents)
        table.drop(extra)
        return table

    def answers(self, table: ContentionTable) -> list[object]:
        return answers(table, self.view, self.newcomers)


def _check(model: ContentionModel, seed: int) -> None:
    random, expect = Random(seed), Expecting(f"seed {seed}: {model.name}")
    view = replace(make_view(random, random.choice((1, 2, 5, 40))), contention=None)
    newcomers = [make_request(random, view) for _ in range(4)]
    servers = [_draw(random, view.platforms[at]) for at in view.platform.tolist()]
    trial = _Trial(model, servers, view, newcomers, expect)
    _check_empty(trial)
    table = trial.table_with_history(random)
    first = trial.answers(table)
    expect(first == trial.answers(table), "asked again, it answers otherwise")
    expect(first == trial.answers(trial.table(servers)), "its history shows")
    for row, server in enumerate(servers):
        asks = table.put(row, server.platform, server.residents)
        expect(not asks, "it asks for another look where nothing has changed")
    expect(first == trial.answers(table), "putting again changes it")
    _check_bounds(trial, table)
    _check_columns(trial, table)
    _check_one_more(trial)


def _draw(random: Random, platform: str) -> _Server:
    residents = make_residents(random, random.choice((0, 0, 1, 2, 4)))
    return _Server(random.choice((platform, platform, platform, None)), residents)


def answers(table: ContentionTable, view: View, newcomers: Sequence[Request]) -> list[object]:
    """All that a table says of some newcomers, and of every row."""
    return [
        *([_assessed(table, view, newcomer) for newcomer in newcomers]),
        *([table.scores(row) for row in range(len(view.names))]),
        _columns(table, len(view.names)),
    ]


def _columns(table: ContentionTable, servers: int) -> object:
    columns, quality = table.score_columns(servers), table.quality_columns(servers)
    assert table.has_scores is (columns is not None) is (quality is not None)
    told = (part for each in (columns, quality) if each is not None for part in astuple(each))
    return [np.round(part, DIGITS).tolist() for part in told]


def _assessed(table: ContentionTable, view: View, newcomer: Request) -> object:
    assessment = table.assess(newcomer, view, CONFIDENCE)
    rows = range(len(view.names))
    cost = assessment.cost(np.ones(len(rows), dtype=np.bool_), None)
    apart = assessment.incompatible
    columns = (
        np.zeros(len(rows)) if apart is None else apart,
        assessment.suffered.mean,
        assessment.suffered.variance,
        cost.violation,
        cost.lost,
        cost.waste,
    )
    words = [assessment.worst(row) for row in rows if cost.violation[row] > 0]
    correctable = assessment.correctable
    slowed = [r for r in rows if correctable is not None and correctable.mean[r] > 0]
    numbers = [sorted(assessment.numbers(row).items()) for row in slowed]
    rounded = [[(key, round(value, DIGITS)) for key, value in each] for each in numbers]
    return (
        [np.round(column.astype(np.float64), DIGITS).tolist() for column in columns],
        words,
        rounded,
    )


def _check_empty(trial: _Trial) -> None:
    table, expect = trial.model.table(), trial.expect
    for newcomer in trial.newcomers:
        assessment = table.assess(newcomer, trial.view, CONFIDENCE)
        suffered, apart = assessment.suffered, assessment.incompatible
        slows = suffered.mean.any() or suffered.variance.any()
        expect(not slows, "an empty table slows a newcomer")
        expect(apart is None or not apart.any(), "it does not fit on an empty server")
    answers = [table.slowdown_of(0, "w0"), *table.scores(0)]
    expect(answers == [None], "it knows a workload that is not there")


def _check_columns(trial: _Trial, table: ContentionTable) -> None:
    """They say what the scores of each row say."""
    columns = table.score_columns(len(trial.view.names))
    if columns is None:
        return
    quality = table.quality_columns(len(trial.view.names))
    assert quality is not None
    for told, expected in zip(astuple(quality), astuple(QualityColumns.of(columns)), strict=True):
        trial.expect(
            np.allclose(told, expected), "its scores and the quality that they leave differ"
        )
    for row in range(len(trial.view.names)):
        by_source = {score.source: score for score in table.scores(row)}
        for at, source in enumerate(SharedResource):
            score = by_source.get(source)
            tolerated, caused = (score.tolerated.mean, score.caused.mean) if score else (100.0, 0.0)
            same = columns.tolerated[at, row] == tolerated and columns.caused[at, row] == caused
            trial.expect(same, f"its columns and its scores of {source} differ")


def _check_bounds(trial: _Trial, table: ContentionTable) -> None:
    able, expect = np.ones(len(trial.view.names), dtype=np.bool_), trial.expect
    for newcomer in trial.newcomers:
        assessment = table.assess(newcomer, trial.view, CONFIDENCE)
        cost = assessment.cost(able, None)
        expect(bool((assessment.suffered.variance >= 0).all()), "a negative variance")
        for name in ("violation", "lost"):
            expect(bool((getattr(cost, name) >= 0).all()), f"a negative {name}")
        expect(bool((cost.lost <= cost.violation).all()), "more lost than violated")
        expect(bool(np.isfinite(cost.waste).all()), "waste is no number")
        loss = assessment.residents_loss()
        for row in range(len(able)):
            few = np.array([row])
            there, lost = assessment.suffered_on(few), assessment.residents_loss_on(few)
            says = (there.mean[0], there.variance[0], lost.targets[0], lost.performance[0])
            of_all = assessment.suffered.mean, assessment.suffered.variance
            same = says == tuple(each[row] for each in (*of_all, loss.targets, loss.performance))
            expect(same, "it says something else of one server than of all")


def _check_one_more(trial: _Trial) -> None:
    """Scores and sensitivities are drawn non-negative; it came before all others."""
    before, after = trial.table(trial.servers), trial.table(trial.servers)
    for row, server in enumerate(trial.servers):
        if server.residents:
            one = replace(server.residents[-1], name="one-more", uid=-1)
            after.put(row, server.platform, (one, *server.residents))
    for newcomer in trial.newcomers:
        less, more = (
            table.assess(newcomer, trial.view, CONFIDENCE).suffered.mean
            for table in (before, after)
        )
        trial.expect(bool((more >= less).all()), "one more neighbor takes less")
