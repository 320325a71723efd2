"""Models of many neighbors: how long they take, and how well they do on measured triples.

    python -m benchmarks.contention_models --output contention_models.json
    python -m benchmarks.contention_models --pitot DIRECTORY --repeats 5

Speed: a fit to 5% of the triples of 200 neighbors beside scikit-learn's LinearRegression where that
is installed, else ``numpy.linalg.lstsq``; predictions in a batch and alone. Accuracy: Pitot's pairs
and triples (``data.if.npz`` and ``data.if3.npz``, those of several cores with ``.mc``): the drop of
a program beside one neighbor (few are known, the rest is completed) and beside two. Random sets are
held out, or (``programs``) all sets of a tenth of the programs.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks._harness import compare, parser, report, spread
from wharfinger.interference.bubble import ExcessTime
from wharfinger.interference.completion import completed
from wharfinger.interference.evaluation import SamplingPlan, judge
from wharfinger.interference.measurements import (
    ContentionMeasurements,
    ContentionSetting,
    MeasuredSet,
    ServiceSets,
    SetTable,
)
from wharfinger.interference.registry import FORMS

NAMES, SHARE, ERROR = 200, 0.05, 0.005
PITOT_ERROR = 0.02


def triples(seed: int) -> ServiceSets:
    """5% of the triples of 200 neighbors, whose slow-downs multiply, but for what they weigh."""
    rng = np.random.default_rng(seed)
    single = rng.uniform(0.002, 0.1, NAMES)
    count = round(SHARE * NAMES * (NAMES + 1) * (NAMES + 2) / 6)
    members = np.sort(rng.integers(0, NAMES, (count, 3)), axis=1)
    weights = rng.normal(0.9, 0.1, NAMES)
    drops = (weights * single)[members].sum(axis=1) + ERROR * rng.standard_normal(count)
    names = tuple(f"w{at:03d}" for at in range(NAMES))
    table = SetTable(members, drops, np.full(count, ERROR))
    errors, known = np.full(NAMES, ERROR), np.ones(NAMES, dtype=np.bool_)
    return ServiceSets(
        ContentionSetting("s"), names, single, errors, {3: table}, ExcessTime(), known
    )


def peer() -> tuple[str, Callable[[np.ndarray, np.ndarray], object]]:
    try:
        from sklearn.linear_model import LinearRegression  # noqa: PLC0415 - may be missing
    except ImportError:
        return "numpy lstsq", partial(np.linalg.lstsq, rcond=None)
    return "scikit-learn LinearRegression", lambda x, y: LinearRegression().fit(x, y)


def dense(service: ServiceSets) -> tuple[np.ndarray, np.ndarray]:
    table = service.sets[3]
    matrix = np.zeros((len(table), NAMES))
    for at in range(3):
        np.add.at(matrix, (np.arange(len(table)), table.members[:, at]), 1.0)
    return matrix * service.single, table.drops


def speed(rounds: int, seed: int) -> dict[str, object]:
    service = triples(seed)
    matrix, drops = dense(service)
    name, regression = peer()
    contenders = {
        form: partial(FORMS[form].fit, [service]) for form in ("box-cox", "pythia", "product")
    }
    contenders[name] = partial(regression, matrix, drops)
    fits = compare(contenders, max(3, rounds // 10))
    predictor = FORMS["box-cox"].fit([service])[service.setting]
    sets = service.sets[3].members
    one = sets[7].tolist()
    predictor.drops(sets[:10])
    many = compare(
        {"batch": lambda: predictor.drops(sets), "alone": lambda: predictor.drop(one)}, rounds
    )
    return {
        "sets": len(sets),
        "neighbors": NAMES,
        "fit": fits.summary("box-cox"),
        "components": len(predictor.components),
        "prediction_seconds": {
            "batch": spread([each / len(sets) for each in many.seconds["batch"]]),
            "alone": spread(many.seconds["alone"]),
        },
    }


def pitot(directory: Path, several_cores: bool) -> ContentionMeasurements:
    """Drops relative to alone; of what was measured several times, the median."""
    runs: dict[tuple[int, int, tuple[str, ...]], list[float]] = defaultdict(list)
    for stem in ("data.if", "data.if3"):
        with np.load(directory / f"{stem}{'.mc' if several_cores else ''}.npz") as file:
            platform, module = file["if_platform"].astype(int), file["if_module"].astype(int)
            slow = np.log(file["if_data"]) - np.log(file["data"][platform, module])
            neighbors = file["if_interferer"].astype(int)
        for p, m, beside, drop in zip(platform, module, neighbors, slow, strict=True):
            key = (int(p), int(m), tuple(sorted(f"w{each:03d}" for each in beside)))
            runs[key].append(float(drop))
    rows = []
    for (p, m, beside), drops in runs.items():
        kept = float(np.exp(-np.median(drops)))
        setting = ContentionSetting(f"m{m:03d}", f"p{p:02d}")
        rows.append(MeasuredSet(setting, beside, kept, PITOT_ERROR * kept))
    return completed(ContentionMeasurements.of(rows))


def few_of_each(
    measurements: ContentionMeasurements, share: float, rng: np.random.Generator, *, programs: bool
) -> tuple[ContentionMeasurements, ContentionMeasurements]:
    """A share of the triples of a platform, not of each service: most services have few."""
    names = measurements.services[0].names
    hidden = np.zeros(len(names), dtype=np.bool_)
    if programs:
        hidden[rng.choice(len(names), len(names) // 10, replace=False)] = True
    learned, held = [], []
    for service in measurements.services:
        some, rest = {}, {}
        for degree, table in service.sets.items():
            taken = rng.random(len(table)) < share
            with_hidden = hidden[table.members].any(axis=1)
            some[degree] = table.take(np.flatnonzero(taken & ~with_hidden))
            rest[degree] = table.take(np.flatnonzero(with_hidden if programs else ~taken))
        learned.append(replace(service, sets=some))
        held.append(replace(service, sets=rest))
    return ContentionMeasurements(tuple(learned)), ContentionMeasurements(tuple(held))


def accuracy(directory: Path, repeats: int, seed: int) -> list[dict[str, object]]:
    results: list[dict[str, object]] = []
    for several in (False, True):
        measurements = pitot(directory, several)
        for programs in (False, True):
            sampler = partial(few_of_each, programs=programs)
            for repeat in range(repeats):
                plan = SamplingPlan(SHARE, 1, seed + repeat, sampler=sampler)
                judged = judge(measurements, list(FORMS.values()), plan, perf_counter)
                for name, by_degree in judged.items():
                    for degree, held in by_degree.items():
                        metrics = held.metrics(plan.confidence)
                        results.append(
                            {
                                "model": name,
                                "cores": "several" if several else "one",
                                "held_out": "programs" if programs else "sets",
                                "repeat": repeat,
                                "neighbors": degree,
                                **{
                                    key: metrics[key]
                                    for key in (
                                        "sets",
                                        "mean_absolute_log_error",
                                        "coverage_90",
                                        "unknown",
                                        "fit_seconds",
                                    )
                                },
                            }
                        )
    return results


def main() -> None:
    made: argparse.ArgumentParser = parser(__doc__ or "")
    made.add_argument("--pitot", type=Path, help="a directory with Pitot's *.npz")
    made.add_argument("--repeats", type=int, default=5, help="samples of Pitot's sets (default: 5)")
    options = made.parse_args()
    results: list[object] = [{"name": "speed", **speed(options.rounds, options.seed)}]
    if options.pitot:
        results.append(
            {"name": "pitot", "accuracy": accuracy(options.pitot, options.repeats, options.seed)}
        )
    report("contention_models", options, results)


if __name__ == "__main__":
    main()
