"""What a row's level says: told by the caller, or learnt by leaving programs out."""

from typing import Protocol

import numpy as np

from wharfinger.estimators.estimator import Learned
from wharfinger.estimators.matrix import RowScale
from wharfinger.estimators.tasks import Indices, draw_seen, leave_out, masked, sample_rows
from wharfinger.model.arrays import Array

FOLDS = 10
MAX_ROWS = 200
REVEALED = (2, 4)
FEW = 1
"""Revealed of rows that have no more entries than that."""
SAME = 1e-9
"""Errors that differ by this share of themselves are equal: a row's unit decides nothing."""


class LearnWithLevel(Protocol):
    """An estimator that has nothing to choose but whether levels are free."""

    def __call__(self, values: Array, groups: Indices, *, free_level: bool) -> Learned: ...  # noqa: D102


def levels_of(scale: RowScale) -> tuple[bool, ...]:
    """Whether a row's level may be free, may not be, or either; the first where both are as good.

    >>> levels_of(RowScale.ARBITRARY), levels_of(RowScale.AUTO), levels_of(RowScale.COMMON)
    ((True,), (True, False), (False, True))
    """
    if scale is RowScale.ARBITRARY:
        return (True,)
    return (True, False) if scale is RowScale.AUTO else (False, True)


def is_level_free(
    learn: LearnWithLevel,
    values: Array,
    groups: Indices,
    scale: RowScale,
    rng: np.random.Generator,
) -> bool:
    """As the scale says, or as programs that are held out are predicted better."""
    if scale is not RowScale.AUTO:
        return scale is RowScale.ARBITRARY
    values, groups = sample_rows(values, groups, MAX_ROWS, rng)
    errors = {True: 0.0, False: 0.0}
    for training, held in leave_out(groups, FOLDS, rng) if len(np.unique(groups)) > 1 else ():
        tasks = _tasks(values[held], rng)
        for free in errors:
            learned = learn(values[training], groups[training], free_level=free)
            for truth, row in tasks:
                errors[free] += float(np.nansum(np.abs(learned.condition(row).mean - truth)))
    return errors[True] <= errors[False] * (1 + SAME)


def _tasks(rows: Array, rng: np.random.Generator) -> list[tuple[Array, Array]]:
    """Each row's truth, and the same with few entries."""
    counts = REVEALED if np.isfinite(rows).sum(axis=1).max() > min(REVEALED) else (FEW,)
    drawn = [draw_seen(rows, count, rng) for count in counts]
    return [
        (rows[i], masked(rows[i], s)) for r, seen in drawn for i, s in zip(r, seen, strict=True)
    ]
