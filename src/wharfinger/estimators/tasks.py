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


def leave_out(
    groups: Indices, folds: int, rng: np.random.Generator
) -> Iterator[tuple[Indices, Indices]]:
    """Rows to learn from and rows held out, whole groups; fewer folds where groups are fewer."""
    names = rng.permutation(np.unique(groups))
    for part in np.array_split(names, min(folds, len(names))):
        held = np.isin(groups, part)
        yield np.flatnonzero(~held), np.flatnonzero(held)


def sample_rows(
    values: Array, groups: Indices, limit: int, rng: np.random.Generator
) -> tuple[Array, Indices]:
    """All rows, or ``limit`` random ones of them in their order."""
    if len(values) <= limit:
        return values, groups
    rows = np.sort(rng.choice(len(values), limit, replace=False))
    return values[rows], groups[rows]


def draw_seen(values: Array, count: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """(tasks,) rows of more than ``known`` entries, and (tasks, known) random columns of each."""
    measured = ~np.isnan(values)
    rows = np.flatnonzero(measured.sum(axis=1) > count)
    order = np.where(measured[rows], rng.random((len(rows), values.shape[1])), 2.0)
    chosen = np.argsort(order, axis=1, kind="stable")[:, :count]
    return rows, np.sort(chosen, axis=1)


def masked(row: Array, seen: Indices) -> Array:
    """The row with only these entries known."""
    out = np.full_like(row, np.nan)
    out[seen] = row[seen]
    return out
