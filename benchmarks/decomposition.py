"""Several small classifications or a single one of everything (Quasar 3.2, Table 2).

    python -m benchmarks.decomposition MATRIX.csv --settings REGEX

The columns of a matrix of run times are settings: REGEX says what in a column's name is the
platform (groups ``platform`` and, besides, ``variant``), the number of servers (``servers``) and
the size of each (``size``: large, xlarge, 2xlarge ... as clouds name them). Others are left out.

Whole programs are held out. Of each held-out workload the reference setting is revealed, and one
random further setting along each axis that the matrix varies: the joint plan's runs. What is
predicted are the settings that differ from the reference in two axes or more, and all others:

* ``both``: what ``Classifications`` gives: the two below, weighed by how sure each is.
* ``parallel``: one classification for each axis, added, with what adding misses learnt from the
  known programs. Without that: ``added-only``.
* ``exhaustive-same-runs``: the single classification from the same runs.
* ``exhaustive-random``: from as many runs at random; ``exhaustive-8``: from eight, as published.
"""

import json
import re
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import exp, isnan, log
from pathlib import Path

import numpy as np

from benchmarks._harness import machine
from wharfinger.classification.classifications import Classifications, Found
from wharfinger.classification.combination import (
    AXES,
    Misfit,
    axes_between,
    value_on,
)
from wharfinger.classification.utility import Kind, UtilityMatrix
from wharfinger.errors import InvalidInput
from wharfinger.estimators.estimator import NORMAL_90
from wharfinger.estimators.matrix import Matrix
from wharfinger.estimators.tasks import group_folds, number_groups
from wharfinger.files.matrices import read_matrix
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.profile import Entry

SIZES = {"small": 500, "medium": 1000, "large": 2000, "xlarge": 4000, "2xlarge": 8000}
"""CPU in thousandths of what clouds call so."""
FOLDS = 5
PUBLISHED_RUNS = 8


def setting_of(column: str, pattern: re.Pattern[str]) -> Setting | None:
    """What a column's name says; ``None`` = it does not match."""
    found = pattern.fullmatch(column)
    if found is None:
        return None
    said = {"size": "large", "servers": "1", "variant": "", **found.groupdict(default="")}
    platform = said["platform"] + said["variant"]
    return Setting(platform, Configuration(SIZES[said["size"]]), int(said["servers"]))


def by_setting(matrix: Matrix, pattern: re.Pattern[str]) -> Matrix:
    """Performance (1 over run time) by setting."""
    settings = {j: s for j, c in enumerate(matrix.columns) if (s := setting_of(c, pattern))}
    names = [setting.name for setting in settings.values()]
    values = 1 / matrix.values[:, list(settings)]
    return Matrix(matrix.rows, tuple(names), matrix.groups, values, matrix.transform)


def reference_of(matrix: Matrix) -> Setting:
    """The setting from which most others are one axis away, of those measured most often."""
    settings = [Setting.parse(column) for column in matrix.columns]
    counts = dict(zip(matrix.columns, (~np.isnan(matrix.values)).sum(axis=0), strict=True))

    def worth(setting: Setting) -> tuple[int, int]:
        near = sum(len(axes_between(other, setting)) == 1 for other in settings)
        return int(counts[setting.name]) * near, -settings.index(setting)

    return max(settings, key=worth)


def matrices_of(known: Matrix, reference: Setting) -> dict[Kind, UtilityMatrix]:
    """One for each axis, of what lies on it, and the exhaustive one."""
    whole = UtilityMatrix.from_matrix(Kind.EXHAUSTIVE, known)
    found = {Kind.EXHAUSTIVE: whole}
    for kind in AXES:
        columns = {
            column: value_on(kind, setting)
            for column in known.columns
            if axes_between(setting := Setting.parse(column), reference) in ((), (kind,))
        }
        rows = {
            name: {columns[c]: e.value for c, e in row.entries.items() if c in columns}
            for name, row in whole.rows.items()
        }
        if len(columns) > 1:
            groups = {name: row.group for name, row in whole.rows.items()}
            found[kind] = UtilityMatrix.of(kind, rows, groups)
    return found


@dataclass(frozen=True, slots=True)
class Error:
    """Of one prediction: relative, in logarithms, and whether the 90% interval held it."""

    relative: float
    logarithmic: float
    held: bool

    @classmethod
    def of(cls, mean: float, variance: float, truth: float) -> "Error":
        off = mean - log(truth)
        # Times are what was measured: the error of a time is that of 1 over the performance.
        return cls(abs(exp(-off) - 1), abs(off), abs(off) <= NORMAL_90 * variance**0.5)


def plan(
    entries: Mapping[Setting, float], reference: Setting, rng: np.random.Generator
) -> list[Setting]:
    """The reference, and one random setting along each axis."""
    runs = [reference]
    for kind in AXES:
        along = [s for s in entries if axes_between(s, reference) == (kind,)]
        if along:
            runs.append(along[int(rng.integers(len(along)))])
    return runs


def compare(
    matrix: Matrix, reference: Setting, repeats: int, seed: int
) -> Iterator[tuple[str, str, Error, float]]:
    """Method, whether one or more axes differ, error, seconds of that prediction of a row."""
    groups = number_groups(matrix.groups)
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, repeat])
        for held in group_folds(groups, FOLDS, rng):
            training = matrix.take(np.setdiff1d(np.arange(len(groups)), held))
            made = Classifications(matrices_of(training, reference))
            for row in held:
                entries = {
                    Setting.parse(c): float(v)
                    for c, v in zip(matrix.columns, matrix.values[row], strict=True)
                    if not isnan(v)
                }
                if reference in entries:
                    yield from _row(made, entries, reference, rng)
        print(f"{repeat + 1} of {repeats} divisions", file=sys.stderr)


def _row(
    made: Classifications,
    entries: Mapping[Setting, float],
    reference: Setting,
    rng: np.random.Generator,
) -> Iterator[tuple[str, str, Error, float]]:
    runs = plan(entries, reference, rng)
    others = [s for s in entries if s != reference]
    shuffled = [others[i] for i in rng.permutation(len(others))]
    random = [reference, *shuffled[: len(runs) - 1]]
    eight = [reference, *shuffled[: PUBLISHED_RUNS - 1]]
    revealed = {*runs, *random, *eight}
    hidden = [s for s in entries if s not in revealed and _possible(made, s)]
    for name, known in (
        ("both", runs),
        ("parallel", runs),
        ("added-only", runs),
        ("exhaustive-same-runs", runs),
        ("exhaustive-random", random),
        ("exhaustive-8", eight),
    ):
        begin = time.perf_counter()
        found = Found(reference, {s: Entry(entries[s], 0.0) for s in known})
        means, variances = _predict(name, made, found, hidden)
        seconds = time.perf_counter() - begin
        for setting, mean, variance in zip(hidden, means, variances, strict=True):
            kind = "combined" if len(axes_between(setting, reference)) > 1 else "one-axis"
            yield name, kind, Error.of(mean, variance, entries[setting]), seconds


def _possible(made: Classifications, setting: Setting) -> bool:
    """Whether each of its three is a column of its classification."""
    return all(
        (found := made.recommender(kind)) is None or value_on(kind, setting) in found.matrix.columns
        for kind in AXES
    )


def _predict(
    name: str, made: Classifications, found: Found, hidden: list[Setting]
) -> tuple[list[float], list[float]]:
    if name.startswith("exhaustive"):
        prediction = made.exhaustive(found)
        if prediction is None:
            raise InvalidInput("no setting of the runs is known")
        at = [prediction.columns.index(setting.name) for setting in hidden]
        return prediction.log_mean[at].tolist(), (prediction.log_std[at] ** 2).tolist()
    composite = made.classify(found).performance
    if name != "both":
        composite = replace(composite, exhaustive=None)
    if name == "added-only":
        composite = replace(composite, misfit=Misfit())
    gaussian = composite.predict(hidden)
    return gaussian.mean.tolist(), gaussian.variances.tolist()


def summary(found: list[tuple[str, str, Error, float]]) -> dict[str, dict[str, dict[str, float]]]:
    """By method and by whether more than one axis differs."""
    out: dict[str, dict[str, dict[str, float]]] = {}
    for name in dict.fromkeys(name for name, *_ in found):
        for kind in ("one-axis", "combined"):
            errors = [e for n, k, e, _ in found if (n, k) == (name, kind)]
            if errors:
                relative = np.array([e.relative for e in errors])
                out.setdefault(name, {})[kind] = {
                    "mean_relative_error": float(relative.mean()),
                    "p90_relative_error": float(np.quantile(relative, 0.9)),
                    "max_relative_error": float(relative.max()),
                    "mean_absolute_log_error": float(np.mean([e.logarithmic for e in errors])),
                    "coverage_90": float(np.mean([e.held for e in errors])),
                }
        seconds = [s for n, _, _, s in found if n == name]
        out[name]["cost"] = {"row_seconds_median": float(np.median(seconds))}
    return out


def main() -> None:
    """Compare and print JSON."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("matrix", type=Path)
    parser.add_argument("--settings", required=True, help="regular expression with named groups")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    matrix = by_setting(read_matrix(given.matrix), re.compile(given.settings))
    reference = reference_of(matrix)
    found = list(compare(matrix, reference, given.repeats, given.seed))
    json.dump(
        {
            "machine": machine(),
            "matrix": given.matrix.name,
            "rows": len(matrix.rows),
            "settings": len(matrix.columns),
            "reference": reference.name,
            "repeats": given.repeats,
            "seed": given.seed,
            "methods": summary(found),
        },
        sys.stdout,
        indent=2,
    )
    print()


if __name__ == "__main__":
    main()
