"""What folding in a row and learning a matrix cost, against the least that NumPy can do.

    python -m benchmarks.classification --rounds 2

The floor of a fold-in is the conditional's arithmetic alone (a 2 × 2 solve and one outer
product); that of a fit is one covariance of the matrix. Peers: ``row-column-means``, the plainest
estimator behind the same interface, and where they are installed cmfrec (``factors_warm``),
scikit-surprise (which has no fold-in: its SVD is fitted again with the new row) and
scikit-learn's imputers. At 100×80, 500×40 and 5000×100, whole, with 20% of the entries, and in
the papers' mix (5% of the rows whole, of the rest two entries). Fits are timed once a round,
fold-ins in turns; ``arrival`` is five fold-ins one after the other by the default estimator,
``batch`` a thousand such rows in one call.

    pip install cmfrec scikit-surprise scikit-learn     # the peers; not needed
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from benchmarks._harness import arguments, compare, report, spread
from benchmarks._recommenders import fold_in_peers, missing
from wharfinger.estimators import DEFAULT_ESTIMATOR, ESTIMATORS, Matrix, Recommender, RowScale, fit
from wharfinger.estimators.tasks import masked
from wharfinger.model.arrays import Array

T = TypeVar("T")

SIZES = ((100, 80), (500, 40), (5000, 100))
DENSITIES = ("whole", "20%", "papers' mix")
ARRIVALS = 300
CLASSIFICATIONS = 5
BATCH = 1000
FLOOR = "numpy"
MAX_FIT_ROUNDS = 3


def matrix(rows: int, columns: int, density: str, seed: int) -> Matrix:
    """Run times with a level, column effects and three ways to differ."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(2, 1, (rows, 1)) + rng.normal(0, 0.5, columns)
    logs += rng.normal(size=(rows, 3)) @ rng.normal(0, 0.3, size=(3, columns))
    values = np.exp(logs + 0.05 * rng.normal(size=logs.shape))
    if density == "20%":
        values[rng.random(values.shape) >= 0.2] = np.nan
        values[:, 0] = np.exp(logs[:, 0])
    elif density == "papers' mix":
        for row in values[max(2, rows // 20) :]:
            row[rng.permutation(columns)[2:]] = np.nan
    names = tuple(f"r{i}" for i in range(rows))
    return Matrix(names, tuple(f"c{j}" for j in range(columns)), names, values)


def floor_fold_in(columns: int) -> Callable[[], object]:
    """x_u | x_o of two known entries, and nothing around it."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(columns, columns))
    covariance, residual = factors @ factors.T, np.array([0.3, -0.2])
    seen = np.array([1, columns // 2])

    def fold_in() -> tuple[Array, Array]:
        cross = covariance[:, seen]
        gain = np.linalg.solve(cross[seen], cross.T).T
        return gain @ residual, covariance - gain @ cross.T

    return fold_in


def fold_ins(models: dict[str, Recommender], columns: int, rounds: int) -> dict[str, object]:
    """One row of two known entries."""
    row = masked(np.exp(np.linspace(0, 1, columns)), np.array([1, columns // 2]))
    contenders: dict[str, Callable[[], object]] = {FLOOR: floor_fold_in(columns)}
    for name, model in models.items():
        contenders[name] = lambda model=model: model.predict(row)  # type: ignore[misc] # bound to this model
    contenders |= fold_in_peers(next(iter(models.values())).matrix, np.log(row))
    return compare(contenders, rounds).summary(FLOOR)


def arrival(model: Recommender) -> dict[str, float]:
    """Seconds of one arrival's classifications."""
    columns = len(model.matrix.columns)
    rng, seconds = np.random.default_rng(0), []
    for _ in range(ARRIVALS):
        seen = np.sort(rng.choice(columns, 2, replace=False))
        row = masked(np.exp(np.linspace(0, 1, columns)), seen)
        begin = time.perf_counter()
        for _ in range(CLASSIFICATIONS):
            model.predict(row)
        seconds.append(time.perf_counter() - begin)
    return {"median": float(np.median(seconds)), "p99": float(np.quantile(seconds, 0.99))}


def batch(model: Recommender, rounds: int) -> dict[str, float]:
    """Seconds per row of many in one call, each that of ``fold_ins``."""
    columns = len(model.matrix.columns)
    row = masked(np.exp(np.linspace(0, 1, columns)), np.array([1, columns // 2]))
    rows = np.tile(row, (BATCH, 1))
    model.predict_many(rows)
    return spread([timed(lambda: model.predict_many(rows))[0] / BATCH for _ in range(rounds)])


def fits(found: Matrix, rounds: int) -> tuple[dict[str, object], dict[str, Recommender]]:
    """Learn the whole matrix, rehearsals and calibration included."""
    filled = np.where(np.isnan(found.values), 0.0, found.transformed)
    seconds: dict[str, list[float]] = {FLOOR: []}
    models = {}
    for _ in range(min(rounds, MAX_FIT_ROUNDS)):
        seconds[FLOOR].append(timed(lambda: np.cov(filled, rowvar=False))[0])
        for name in ESTIMATORS:
            taken, models[name] = timed(
                lambda name=name: fit(name, found, scale=RowScale.ARBITRARY)
            )  # type: ignore[misc] # bound to this name
            seconds.setdefault(name, []).append(taken)
    return {name: spread(times) for name, times in seconds.items()}, models


def timed(call: Callable[[], T]) -> tuple[float, T]:
    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result


def main() -> None:
    options = arguments("Fold-in and fit of the estimators.")
    results = []
    for rows, columns in SIZES:
        for density in DENSITIES:
            found = matrix(rows, columns, density, options.seed)
            learning, models = fits(found, options.rounds)
            results.append(
                {
                    "rows": rows,
                    "columns": columns,
                    "density": density,
                    "fit_seconds": learning,
                    "fold_in": fold_ins(models, columns, options.rounds),
                    "arrival_seconds": arrival(models[DEFAULT_ESTIMATOR]),
                    "batch_seconds_per_row": {
                        name: batch(models[name], options.rounds)
                        for name in ("gaussian", DEFAULT_ESTIMATOR)
                    },
                    "missing_peers": missing(),
                }
            )
    report("classification", options, results)


if __name__ == "__main__":
    main()
