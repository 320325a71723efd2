"""Matrices with the kinds of structure that measurements have, from a seed."""

import math

import numpy as np

from wharfinger.estimators.matrix import Matrix
from wharfinger.model.arrays import Array


def performance(
    seed: int, rows: int = 24, columns: int = 12, *, missing: float = 0.0, noise: float = 0.05
) -> Matrix:
    """Run times of programs, two rows each: a level, column effects, two ways to differ."""
    rng = np.random.default_rng(seed)
    programs = (rows + 1) // 2
    traits = np.repeat(rng.normal(size=(programs, 2)), 2, axis=0)[:rows]
    traits = traits + 0.1 * rng.normal(size=(rows, 2))
    logs = (
        rng.normal(3.0, 1.0, size=(rows, 1))
        + rng.normal(0.0, 0.5, size=columns)
        + traits @ rng.normal(0.0, 0.4, size=(2, columns))
        + noise * rng.normal(size=(rows, columns))
    )
    values: Array = np.exp(logs)
    holes = rng.random(values.shape) < missing
    holes[np.arange(rows), rng.integers(columns, size=rows)] = False
    values = np.where(holes, np.nan, values)
    return Matrix(
        tuple(f"run {i}" for i in range(rows)),
        tuple(f"config {j}" for j in range(columns)),
        tuple(f"program {i // 2}" for i in range(rows)),
        values,
    )


def pairs(seed: int, count: int = 16) -> Matrix:
    """Slow-downs of programs beside one another: how much one bears times what one causes."""
    rng = np.random.default_rng(seed)
    bears, causes = rng.uniform(0, 1, size=(2, count))
    logs = np.outer(bears, causes) * np.exp(0.05 * rng.normal(size=(count, count)))
    names = tuple(f"job {i}" for i in range(count))
    return Matrix(names, names, names, np.exp(logs))


def to_csv(matrix: Matrix) -> str:
    """As ``classify`` reads it; names must need no quoting."""
    lines = [",".join(["name", "group", *matrix.columns])]
    for name, group, row in zip(matrix.rows, matrix.groups, matrix.values.tolist(), strict=True):
        lines.append(",".join([name, group, *("" if math.isnan(v) else repr(v) for v in row)]))
    return "\n".join(lines) + "\n"
