"""Quasar's Table 2: errors of the four classifications from two entries, and of the exhaustive one.

Source: Quasar 3.2, Table 2; ``quasar_classifications`` says what is classified.
"""

from collections.abc import Iterator

import numpy as np

from wharfinger.estimators.registry import DEFAULT_ESTIMATOR
from wharfinger.experiments import physics_plots
from wharfinger.experiments.ground_truth import GroundTruthStudy, Picture, StudyFindings, pooled
from wharfinger.experiments.quasar_classifications import (
    AXES,
    EXHAUSTIVE,
    HADOOP,
    KNOWN,
    MEMCACHED,
    SINGLE_NODE,
    WEBSERVER,
    by_kind,
    draw_rates,
    judge,
)
from wharfinger.model.arrays import Array
from wharfinger.simulator.truth.physics.regimes import Regime

ENTRIES, ENTRIES_OF_ALL = 2, 8
"""Known of a row: of each classification, and of the exhaustive one."""
MOST_EXHAUSTIVE = 5
"""Of each kind that the exhaustive one, which takes a second for each, is judged by."""
KINDS = (HADOOP, MEMCACHED, WEBSERVER, SINGLE_NODE)
_TABLE: dict[str, tuple[tuple[float, float, float] | None, ...]] = {
    HADOOP: ((5.2, 9.8, 11), (5.0, 14.5, 17), (4.1, 4.6, 5.0), (1.8, 5.1, 6), (14.1, 15.8, 16)),
    MEMCACHED: ((6.3, 9.2, 11), (6.6, 10.5, 12), (5.2, 5.7, 6.5), (7.2, 9.1, 10), (14.1, 16.5, 18)),
    WEBSERVER: ((8.0, 10.1, 13), (7.5, 11.6, 14), (4.1, 5.1, 5.2), (3.2, 8.1, 9), (16.5, 17.6, 18)),
    SINGLE_NODE: ((4.0, 8.1, 9), None, (3.5, 6.9, 8.0), (4.4, 9.2, 10), (11.6, 12.1, 13)),
}
"""In percent: average, 90th percentile and maximum, by axis and of the exhaustive one."""
LEAST_SHOWN = 0.1
"""Percent: the axis of the picture is logarithmic."""
OF_KIND = ("mean", "p90", "max")


def look(
    regime: Regime,
    seed: int,
    workloads: int | None = None,
    scale: float = 1.0,
    estimator: str = DEFAULT_ESTIMATOR,
) -> StudyFindings:
    """All classifications of one population; ``workloads`` of each kind."""
    rates = draw_rates(regime, seed, workloads, scale)
    numbers: dict[str, float] = {}
    drawn: dict[str, dict[str, Array]] = {}
    for name in (*AXES, EXHAUSTIVE):
        axis, joint = rates.axis(name), name == EXHAUSTIVE
        entries, most = (ENTRIES_OF_ALL, MOST_EXHAUSTIVE) if joint else (ENTRIES, None)
        found = by_kind(judge(axis, entries, seed, most, estimator))
        for kind, errors in found.items():
            drawn.setdefault(kind, {})[name] = np.maximum(errors * 100, LEAST_SHOWN)
            values = errors.mean(), np.percentile(errors, 90), errors.max()
            for which, value in zip(OF_KIND, values, strict=True):
                numbers[f"{kind}/{name}/{which}"] = float(value)
        if not joint:
            for kind, errors in by_kind(judge(axis, None, seed, estimator=estimator)).items():
                numbers[f"{kind}/{name}/all-but-one"] = float(errors.mean())
    return StudyFindings(numbers, {"errors": {k: drawn[k] for k in KINDS if k in drawn}})


def _published() -> Iterator[tuple[str, float]]:
    for kind, row in _TABLE.items():
        for name, values in zip((*AXES, EXHAUSTIVE), row, strict=True):
            for which, value in zip(OF_KIND, values or (), strict=False):
                yield f"{kind}/{name}/{which}", value / 100


def remarks(first: StudyFindings) -> Iterator[str]:
    """Of the first population: whose the misses are, the matrices' or those of few entries."""
    numbers, published = first.numbers, dict(_published())
    means = {n.rpartition("/")[0]: v for n, v in published.items() if n.endswith("/mean")}
    kept = {n: v for n, v in means.items() if f"{n}/all-but-one" in numbers}
    hard = [n for n, v in kept.items() if numbers[f"{n}/all-but-one"] > v]
    few = [n for n, v in kept.items() if n not in hard and numbers[f"{n}/mean"] > v]
    if hard:
        yield (
            "Missed even with all entries but one known, so that it is this physics' rows that are "
            f"less alike than the published: {', '.join(hard)}."
        )
    if few:
        yield f"Missed from two entries alone, by the classification: {', '.join(few)}."


QUASAR_TABLE2 = GroundTruthStudy(
    name="quasar-table2",
    about="errors of the four classifications from two entries each, and of an exhaustive one",
    source="Quasar 3.2, Table 2",
    measure=look,
    scale=1.0,
    pictures=(
        Picture(
            "errors",
            physics_plots.violins,
            "Quasar, Table 2: errors of workloads",
            {"ylabel": "error (%)"},
            pooled,
        ),
    ),
    published=dict(_published()),
    remarks=remarks,
    notes=(
        (
            f"The default estimator; {KNOWN} programs of all kinds are known in full. True rates, "
            "no noise. An error is a workload's mean over what was not measured of it: a share of "
            "performance, or points of a score over 100."
        ),
        (
            "Services answer n times as much on n servers in this physics, or nearly so, and are "
            "rated by what they can answer, not within a bound. Published are 413 single-node "
            "programs."
        ),
        "all-but-one: the mean error where all other entries of the row are known.",
        "--workloads: of each kind, and of each of the four pools of single-node programs.",
    ),
)
