"""Quasar's Figure 3: errors by the number of entries that are known of a row, and what they cost.

Source: Quasar 3.2, Figure 3: the 90th percentile of errors falls until four or five entries; of
profiling and deciding the text says that the exhaustive classification takes "often two orders of
magnitude" longer to decide. ``quasar_classifications`` says what is classified.
"""

from collections.abc import Mapping

import numpy as np

from wharfinger.estimators.registry import DEFAULT_ESTIMATOR
from wharfinger.experiments import physics_plots
from wharfinger.experiments.ground_truth import (
    GroundTruthStudy,
    Picture,
    StudyFindings,
    mean_curve,
)
from wharfinger.experiments.plots import Curve
from wharfinger.experiments.quasar_classifications import (
    AXES,
    EXHAUSTIVE,
    HADOOP,
    MEMCACHED,
    SINGLE_NODE,
    TrueAxis,
    by_kind,
    draw_rates,
    judge,
    seconds,
)
from wharfinger.model.workload import Profile
from wharfinger.simulator.truth.physics.regimes import Regime

ENTRIES = tuple(range(1, 9))
SHOWN = (HADOOP, MEMCACHED, SINGLE_NODE)
"""Web servers are left out there, too: they are like memcached."""
COSTS = "costs"
TIMED = (2, 8)
EXHAUSTIVE_PER_AXIS = 4
"""As many runs are made for all four as for the one that stands in their place."""


def look(
    regime: Regime,
    seed: int,
    workloads: int | None = None,
    scale: float = 1.0,
    estimator: str = DEFAULT_ESTIMATOR,
    *,
    part: str,
) -> StudyFindings:
    """All entries of one classification of one population, or what those of all cost."""
    rates = draw_rates(regime, seed, workloads, scale)
    if part == COSTS:
        axes = {name: rates.axis(name) for name in (*AXES, EXHAUSTIVE)}
        return StudyFindings(_costs(axes, estimator))
    axis, numbers = rates.axis(part), dict[str, float]()
    errors = {kind: np.full(len(ENTRIES), np.nan) for kind in SHOWN}
    for at, entries in enumerate(ENTRIES):
        found = by_kind(judge(axis, entries, seed, estimator=estimator))
        for kind in [kind for kind in SHOWN if kind in found]:
            errors[kind][at] = value = float(np.percentile(found[kind], 90))
            numbers[f"{kind}/{part}/{entries}"] = value
    known = {kind: own for kind, own in errors.items() if not np.isnan(own).all()}
    curves: dict[str, Curve] = {k: (list(ENTRIES), 100 * own) for k, own in known.items()}
    return StudyFindings(numbers, {"entries": {part: curves}})


def _costs(axes: Mapping[str, TrueAxis], estimator: str) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for entries in TIMED:
        four, all_of_it = [axes[name] for name in AXES], [axes[EXHAUSTIVE]]
        learning, deciding = seconds(four, entries, estimator)
        of_all = seconds(all_of_it, EXHAUSTIVE_PER_AXIS * entries, estimator)
        numbers |= {
            f"overhead/profiling/{entries}": entries * Profile().seconds,
            f"overhead/four/deciding/{entries}": deciding,
            f"overhead/four/learning/{entries}": learning,
            f"overhead/exhaustive/deciding/{entries}": of_all[1],
            f"overhead/exhaustive/learning/{entries}": of_all[0],
            f"overhead/ratio/deciding/{entries}": of_all[1] / deciding,
            f"overhead/ratio/learning/{entries}": of_all[0] / learning,
        }
    return numbers


QUASAR_FIGURE3 = GroundTruthStudy(
    name="quasar-figure3",
    about="errors of the classifications by how many entries are known, and what these cost",
    source="Quasar 3.2, Figure 3",
    measure=look,
    parts=(*AXES, COSTS),
    scale=1.0,
    pictures=(
        Picture(
            "entries",
            physics_plots.curves,
            "Quasar, Figure 3: 90th percentile of errors",
            {"axes_labels": ("entries known of a row", "error (%)"), "legend": "upper right"},
            mean_curve,
        ),
    ),
    published={f"overhead/ratio/deciding/{TIMED[0]}": 100.0},
    units={"overhead/ratio/*": "times", "overhead/*": "s", "*": "fraction"},
    notes=(
        "The figure's lines have no printed number; 'two orders' is for 'often'.",
        (
            "profiling: entries of one classification, one after the other, each as long as "
            "manifests have it by default. deciding: this machine's time to predict one new row of "
            "each matrix; learning: to learn from the known rows, which is not done at an arrival."
        ),
        (
            "The published procedure decomposes the whole matrix at each arrival; here one row is "
            "folded in, which hardly depends on the number of columns. No error stands for as many "
            "entries as a row has."
        ),
    ),
)
