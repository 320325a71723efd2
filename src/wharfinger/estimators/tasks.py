"""Rehearsals: rows of whole programs held out, a few of their entries revealed.

Estimators choose their settings on them, ``recommender`` its calibration, ``evaluation`` its
splits; all from a generator that the caller seeds.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.arrays import Array

Indices = NDArray[np.intp]


def number_groups(groups: Sequence[str]) -> Indices:
    """(rows,) each row's group as a number, in order of appearance."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(g, len(numbers)) for g in groups], dtype=np.intp)


def group_folds(groups: Indices, folds: int, rng: np.random.Generator) -> list[Indices]:
    """Rows in ``folds`` parts, no group in two of them; fewer parts where groups are fewer."""
    names = rng.permutation(np.unique(groups))
    parts = np.array_split(names, min(folds, len(names)))
    return [np.flatnonzero(np.isin(groups, part)) for part in parts]


def leave_out(
    groups: Indices, folds: int, rng: np.random.Generator
) -> Iterator[tuple[Indices, Indices]]:
    """For each fold, the rows to learn from and the rows held out."""
    for held in group_folds(groups, folds, rng):
        yield np.setdiff1d(np.arange(len(groups)), held), held


def sample_rows(
    values: Array, groups: Indices, limit: int, rng: np.random.Generator
) -> tuple[Array, Indices]:
    """All rows, or ``limit`` random ones of them in their order."""
    if len(values) <= limit:
        return values, groups
    rows = np.sort(rng.choice(len(values), limit, replace=False))
    return values[rows], groups[rows]


def draw_seen(values: Array, known: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """(tasks,) rows of more than ``known`` entries, and (tasks, known) random columns of each."""
    measured = ~np.isnan(values)
    rows = np.flatnonzero(measured.sum(axis=1) > known)
    order = np.where(measured[rows], rng.random((len(rows), values.shape[1])), 2.0)
    chosen = np.argsort(order, axis=1, kind="stable")[:, :known]
    return rows, np.sort(chosen, axis=1)


def masked(row: Array, seen: Indices) -> Array:
    """The row with only these entries known."""
    out = np.full_like(row, np.nan)
    out[seen] = row[seen]
    return out
