"""How well the default estimator predicts, against the best of others chosen in hindsight.

    python -m benchmarks.accuracy DIRECTORY --reveal 2,4 --repeats 2
    python -m benchmarks.accuracy a.runtime.csv b.slowdown.csv --reveal 2 --rows 8

Whole programs held out, random entries of their rows revealed, splits shared by all. Errors are of
the entries that were hidden: relative (0.1 is 10%) and absolute in logarithms. Of each matrix,
the default's error over the least of the others'; over all, the geometric mean of that. Others:
the registry's, SVD and SGD without biases, and where it is installed scikit-surprise's.
``--rows`` limits the known rows, drawn as whole programs; ``rows_ratio`` is then the default's
error over its own with all of them.

A file's name tells its scale: ``.slowdown.csv`` is normalised, and pairs where columns bear rows'
names; all else is arbitrary. With ``--scale`` it is what that says of each;
with ``auto``, each estimator learns it.

    pip install scikit-surprise     # not needed
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._factors import FACTORS, fit_factors, installed
from benchmarks._harness import report
from wharfinger.errors import InvalidInput
from wharfinger.estimators import DEFAULT_ESTIMATOR, ESTIMATORS, Matrix, Recommender, RowScale, fit
from wharfinger.estimators.evaluation import EvaluationPlan, evaluate
from wharfinger.files.matrices import read_matrix

ERRORS = ("mean_relative_error", "mean_absolute_log_error")
DEFAULT = "default"
SIMPLE = ("column-means", "row-column-means", "nearest-neighbours", "gaussian")
"""Of the others, those that need no descent: ``ratio_to_simple`` is to the best of them."""
Errors = dict[str, dict[str, float | None]]


def learn(estimator: str, matrix: Matrix, *, scale: RowScale, seed: int) -> Recommender:
    """By the registry, or by one of ``_factors``."""
    if estimator in FACTORS:
        return fit_factors(estimator, matrix, scale=scale, seed=seed)
    name = DEFAULT_ESTIMATOR if estimator == DEFAULT else estimator
    return fit(name, matrix, scale=scale, seed=seed)


def plan_of(path: Path, matrix: Matrix, options: argparse.Namespace) -> EvaluationPlan:
    """What the file's name says of its scale."""
    slowdown = path.name.endswith(".slowdown.csv")
    told = RowScale.NORMALISED if slowdown else RowScale.ARBITRARY
    return EvaluationPlan(
        scale=options.scale or told,
        pairs=slowdown and bool(set(matrix.rows) & set(matrix.columns)),
        repeats=options.repeats,
        seed=options.seed,
        rows=options.rows,
    )


def errors_of(matrix: Matrix, names: Sequence[str], plan: EvaluationPlan) -> tuple[Errors, int]:
    """Of each estimator; how many rows were predicted."""
    found = evaluate(matrix, names, plan, learn=learn)
    numbers: Errors = {
        # What the others call their intervals was never calibrated.
        name: {
            **{error: one[error] for error in ERRORS},
            "coverage_90": None if name in FACTORS else one["coverage_90"],
        }
        for name, one in found.estimators.items()
    }
    return numbers, found.rows


def against_others(errors: Errors) -> dict[str, object]:
    """The default's error over the least of the others', and whose that is."""
    found: dict[str, object] = {}
    for error in ERRORS:
        numbers = {name: float(one[error] or 0.0) for name, one in errors.items()}
        own = numbers.pop(DEFAULT)
        best = min(numbers, key=lambda name: numbers[name])
        simple = min(numbers[name] for name in SIMPLE)
        found[error] = {
            "best_other": best,
            "ratio": own / max(numbers[best], 1e-300),
            "ratio_to_simple": own / max(simple, 1e-300),
        }
    return found


def measure(
    path: Path, names: Sequence[str], options: argparse.Namespace
) -> list[dict[str, object]]:
    """One matrix, for each number of revealed entries that leaves one to predict."""
    matrix = read_matrix(path)
    plan = plan_of(path, matrix, options)
    found = []
    for reveal in options.reveal:
        plan = replace(plan, reveal=reveal)
        try:
            errors, rows = errors_of(matrix, names, plan)
        except InvalidInput as error:
            print(f"{path.name}, {reveal} revealed: {error}", file=sys.stderr)
            continue
        one: dict[str, object] = {
            "matrix": path.name,
            "reveal": reveal,
            "rows_predicted": rows,
            "estimators": errors,
            "against_others": against_others(errors),
        }
        if options.rows is not None:
            whole, _ = errors_of(matrix, [DEFAULT], replace(plan, rows=None))
            one["rows_ratio"] = {e: _over(errors[DEFAULT][e], whole[DEFAULT][e]) for e in ERRORS}
        print(f"{path.name}, {reveal} revealed: {one['against_others']}", file=sys.stderr)
        found.append(one)
    return found


def _over(one: float | None, other: float | None) -> float:
    return (one or 0.0) / max(other or 0.0, 1e-300)


def summary(results: Sequence[Mapping[str, Any]], reveal: int) -> dict[str, object]:
    """Geometric means over the matrices."""
    rows = [one for one in results if one["reveal"] == reveal]
    found: dict[str, object] = {"reveal": reveal, "matrices": len(rows)}
    for error in ERRORS if rows else ():
        means = {
            ratio: _geometric([one["against_others"][error][ratio] for one in rows])
            for ratio in ("ratio", "ratio_to_simple")
        }
        if all("rows_ratio" in one for one in rows):
            means["rows_ratio"] = _geometric([one["rows_ratio"][error] for one in rows])
        found[error] = means
    return found


def _geometric(ratios: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(np.maximum(ratios, 1e-300)))))


def counts(words: str) -> list[int]:
    return [int(word) for word in words.split(",")]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", type=Path, help="matrices, or folders of them")
    parser.add_argument("--reveal", type=counts, default=[2, 4], help="entries (default: 2,4)")
    parser.add_argument("--repeats", type=int, default=2, help="divisions (default: 2)")
    parser.add_argument("--rows", type=int, help="known rows at most (default: all)")
    words = "of all (default: as their names tell)"
    parser.add_argument("--scale", type=RowScale, choices=list(RowScale), help=words)
    parser.add_argument("--seed", type=int, default=0, help="of all (default: 0)")
    parser.add_argument("--output", type=Path, help="write the JSON there (default: stdout)")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    names = [DEFAULT, *(n for n in ESTIMATORS if n != DEFAULT_ESTIMATOR), *installed()]
    files = [f for path in options.paths for f in (sorted(path.glob("*.csv")) or [path])]
    results = [one for file in files for one in measure(file, names, options)]
    options.rounds = options.repeats
    document = {
        "rows": options.rows,
        "default": DEFAULT_ESTIMATOR,
        "missing_peers": [name for name in FACTORS if name not in names],
        "geometric_means": [summary(results, reveal) for reveal in options.reveal],
        "matrices": results,
    }
    report("accuracy", options, [document])


if __name__ == "__main__":
    main()
