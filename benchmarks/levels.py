"""What learning a row's level is worth: ``--scale auto`` beside the fixed scales, on many shapes.

    python -m benchmarks.levels DIRECTORY --seed 11
    python -m benchmarks.levels --drawn                # made-up matrices alone

Of each matrix in the folder tables of 4 to 6 columns are taken, tables of few rows, and wider
ones of which 60 to 80% are missing: at random, but for a run of columns of each row, but for some
columns of all, or but for some rows. Their levels stay, are made meaningless (each row times a
number), or tell (relative to the row's least). Low-rank matrices of several levels and noises are
drawn besides. Whole programs are held out, two and four random entries revealed, splits shared by
all. (Constants of ``stack`` were chosen on shapes of another seed.)

A ratio is an error over the least of the simple estimators', whether these take levels for
``arbitrary`` or ``common``, chosen for each shape in hindsight; ``over one gaussian`` is the
error over that of ``gaussian``, both with ``auto``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks._harness import parser, report
from benchmarks.accuracy import ERRORS, SIMPLE
from wharfinger.estimators import DEFAULT_ESTIMATOR, Matrix, RowScale, fit
from wharfinger.estimators.evaluation import (
    EvaluationPlan,
    RowOutcome,
    outcome,
    revealed,
    splits,
    summary,
)
from wharfinger.files.matrices import read_matrix
from wharfinger.model.arrays import Array

SCALES = (RowScale.AUTO, RowScale.ARBITRARY, RowScale.COMMON)
REVEALED = (2, 4)
DRAWN = ((1.5, 0.0), (0.3, 0.0), (0.05, 0.0), (1.0, 0.9), (0.5, 0.9), (1.0, 0.5))
"""How far levels lie apart, and how much they have to do with how columns differ."""
Mask = Callable[[Array, np.random.Generator], Array]


def at_random(values: Array, rng: np.random.Generator) -> Array:
    return rng.random(values.shape) < 0.3


def run_of_columns(values: Array, rng: np.random.Generator) -> Array:
    count = values.shape[1]
    starts = rng.integers(count, size=(len(values), 1))
    return (np.arange(count) - starts) % count < max(3, round(0.3 * count))


def some_columns(values: Array, rng: np.random.Generator) -> Array:
    known = rng.random(values.shape[1]) < 0.2
    return known | (rng.random(values.shape) < 0.15)


def some_rows(values: Array, rng: np.random.Generator) -> Array:
    known = rng.random((len(values), 1)) < 0.2
    return known | (rng.random(values.shape) < 0.15)


MASKS: tuple[Mask, ...] = (at_random, run_of_columns, some_columns, some_rows)


def part(matrix: Matrix, columns: int, rng: np.random.Generator) -> Matrix:
    """So many random columns."""
    size = len(matrix.columns)
    kept = rng.choice(size, min(columns, size), replace=False)
    return matrix.without_columns(frozenset(matrix.columns) - {matrix.columns[j] for j in kept})


def with_values(matrix: Matrix, values: Array) -> Matrix:
    """Rows that have an entry left."""
    return replace(matrix, values=values).take(np.flatnonzero(np.isfinite(values).any(axis=1)))


def meaningless(matrix: Matrix, rng: np.random.Generator) -> Matrix:
    return with_values(matrix, matrix.values * np.exp(rng.normal(0, 1.5, (len(matrix.rows), 1))))


def telling(matrix: Matrix) -> Matrix:
    return with_values(matrix, matrix.values / np.nanmin(matrix.values, axis=1, keepdims=True))


def shapes_of(name: str, matrix: Matrix, seed: int) -> Iterator[tuple[str, Matrix]]:
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    for columns in (4, 5, 6):
        small = part(matrix, columns, rng)
        yield f"{name}, {columns} columns", small
        yield f"{name}, {columns} columns, meaningless", meaningless(small, rng)
    yield f"{name}, 6 columns, telling", telling(small)
    few = np.sort(rng.permutation(len(matrix.rows))[:10])
    yield f"{name}, 10 rows", part(matrix, 12, rng).take(few)
    for number, mask in enumerate(MASKS):
        wide = part(matrix, int(rng.integers(12, 26)), rng)
        wide = (wide, meaningless(wide, rng), wide, telling(wide))[number]
        known = mask(wide.values, rng)
        yield f"{name}, {mask.__name__}", with_values(wide, np.where(known, wide.values, np.nan))
    yield f"{name}, 24 columns", part(matrix, 24, rng)


def drawn(seed: int) -> Iterator[tuple[str, Matrix]]:
    for number, (apart, told) in enumerate(DRAWN):
        for rows, columns, noise in ((27, 5, 0.05), (27, 5, 0.2), (40, 14, 0.1)):
            rng = np.random.default_rng([seed, number, columns, round(noise * 100)])
            traits = rng.normal(size=(rows, 2))
            own = np.sqrt(1 - told**2) * rng.normal(size=(rows, 1))
            logs = apart * (told * traits[:, :1] + own) + rng.normal(0, 0.5, columns)
            logs = logs + traits @ rng.normal(0, 0.4, (2, columns))
            logs += noise * rng.standard_t(4, size=logs.shape)
            logs[at_random(logs, rng) & (columns > 6)] = np.nan
            names = tuple(f"r{i}" for i in range(rows))
            labels = tuple(f"c{j}" for j in range(columns))
            matrix = Matrix(names, labels, names, np.exp(logs))
            known = with_values(matrix, matrix.values)
            yield f"drawn, level {apart:g}, told {told:g}, {rows} x {columns}, {noise:g}", known


Summaries = dict[str, dict[str, float]]


def summaries(matrix: Matrix, seed: int) -> dict[int, Summaries]:
    """Of each estimator by each scale, for each number of revealed entries."""
    outcomes: dict[tuple[int, str], list[RowOutcome]] = {}
    plan = EvaluationPlan(repeats=1, seed=seed)
    for split in splits(matrix, plan):
        for scale, name in product(SCALES, (DEFAULT_ESTIMATOR, *SIMPLE)):
            model = fit(name, split.training, scale=scale, seed=split.seed)
            for reveal in REVEALED:
                for truth, row in revealed(split, replace(plan, reveal=reveal)):
                    found = outcome(model.predict(row), truth, row, higher=False, seconds=0.0)
                    outcomes.setdefault((reveal, f"{name}, {scale}"), []).append(found)
    made: dict[int, Summaries] = {reveal: {} for reveal in REVEALED}
    for (reveal, of), rows in outcomes.items():
        made[reveal][of] = summary(rows, 0.0)
    return made


def ratios(found: Summaries) -> dict[str, float]:
    """Errors over the least of the simple ones', and the default's over its own Gaussian's."""
    made = {}
    default, gaussian = (f"{name}, {RowScale.AUTO}" for name in (DEFAULT_ESTIMATOR, "gaussian"))
    for error in ERRORS:
        least = min(found[f"{s}, {scale}"][error] for s in SIMPLE for scale in SCALES[1:])
        for of in (f"{DEFAULT_ESTIMATOR}, {scale}" for scale in SCALES):
            made[f"{error}, {of}"] = found[of][error] / max(least, 1e-300)
        own = found[default][error] / max(found[gaussian][error], 1e-300)
        made[f"{error}, over one gaussian"] = own
    made["coverage_90"] = found[default]["coverage_90"]
    return made


def kind(shape: str) -> str:
    if shape.startswith("drawn"):
        return "drawn"
    what = shape.split(", ")[1]
    return {"10 rows": what, "24 columns": what}.get(what, "small" if "columns" in what else "gaps")


def means(rows: Sequence[Mapping[str, float]]) -> dict[str, object]:
    """Geometric means of ratios, the largest, and how many are above 1.02."""
    made: dict[str, object] = {"shapes": len(rows)}
    for name in rows[0] if rows else ():
        numbers = np.array([row[name] for row in rows])
        if name == "coverage_90":
            made[name] = float(numbers.mean())
            continue
        mean, above = float(np.exp(np.log(numbers).mean())), float((numbers > 1.02).mean())
        made[name] = {"mean": mean, "largest": float(numbers.max()), "above_1.02": above}
    return made


def main() -> None:
    made = parser("What learning a row's level is worth.")
    made.set_defaults(seed=11, rounds=1)
    made.add_argument("paths", nargs="*", type=Path, help="matrices, or folders of them")
    made.add_argument("--drawn", action="store_true", help="made-up matrices besides")
    made.add_argument("--only", default="", help="shapes whose names hold this")
    options = made.parse_args()
    files = [f for path in options.paths for f in (sorted(path.glob("*.csv")) or [path])]
    shapes = [shape for f in files for shape in shapes_of(f.stem, read_matrix(f), options.seed)]
    shapes += list(drawn(options.seed)) if options.drawn or not files else []
    results = []
    for name, matrix in shapes:
        for reveal, found in (
            summaries(matrix, options.seed).items() if options.only in name else ()
        ):
            if found:
                results.append((kind(name), reveal, name, ratios(found)))
                print(*results[-1], file=sys.stderr)
    document = {
        f"{each}, {reveal} revealed": means(
            [one for k, r, _, one in results if r == reveal and each in (k, "all")]
        )
        for each in ("all", *dict.fromkeys(k for k, *_ in results))
        for reveal in REVEALED
    }
    report(
        "levels", options, [document, *({"shape": n, "reveal": r} | o for _, r, n, o in results)]
    )


if __name__ == "__main__":
    main()
