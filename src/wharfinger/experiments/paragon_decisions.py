"""Paragon's Figures 9 and 14: what each scheduler's choice of platform and of neighbors costs.

A loss is a part of 1 minus a workload's performance (docs/simulator.md). One that never ran loses
all to waiting, and nothing to platform or neighbors.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from wharfinger.experiments.paragon_figures import (
    HIGH,
    LOW,
    NOTE,
    OF_SCHEDULERS,
    OVERSUBSCRIBED,
    published,
)
from wharfinger.experiments.paragon_plots import BAND_EDGES, band_shares
from wharfinger.experiments.runs import Figure, RunMeasure
from wharfinger.model.workload import WorkloadType
from wharfinger.simulator.results.outcome import Outcome

MEDIUM = "paragon-local-medium"
NONE, BELOW_10PCT, OVER_20PCT = "unharmed", "under-10pct", "over-20pct"
BAND_OF = {NONE: 0, BELOW_10PCT: 1, OVER_20PCT: 3}
CAUSES = {"platform": "the choice of platform", "interference": "neighbors"}


def band(cause: str, name: str, outcome: Outcome) -> float:
    """Share of workloads whose loss to a cause is in a band."""
    wanted = [fate for fate in outcome.fates if fate.type != WorkloadType.BEST_EFFORT]
    losses = np.array([getattr(fate, f"{cause}_loss") for fate in wanted])
    return float(band_shares(losses)[BAND_OF[name]])


def _measures() -> Iterator[RunMeasure]:
    for cause in CAUSES:
        for name, better in ((NONE, 1), (BELOW_10PCT, 0), (OVER_20PCT, -1)):
            of = partial(band, cause, name)
            yield RunMeasure(f"{cause}/{name}", better=better, of=of)
    yield RunMeasure("failed", "workloads")
    yield RunMeasure("unfinished", "workloads")


_DECISIONS = replace(
    OF_SCHEDULERS,
    measures=tuple(_measures()),
    figures=tuple(
        Figure(
            "breakdown",
            f"{cause}-{{regime}}-{{scenario}}",
            f"Loss to {words}: {{regime}}",
            of=f"{cause}_loss",
            label="workloads (%)",
        )
        for cause, words in CAUSES.items()
    ),
    notes=(
        NOTE,
        (
            f"Unharmed: at most {BAND_EDGES[0]:.0%} of performance is lost to that cause; the "
            "paper states no threshold. under-10pct has those above it and below 10%."
        ),
    ),
)

PARAGON_FIGURE9 = replace(
    _DECISIONS,
    name="paragon-figure9",
    about="what choices of platform and of neighbors cost on Paragon's local cluster",
    source="Paragon (TOCS) Figure 9, section 6.1",
    scenarios=(MEDIUM,),
    published=(
        *published(MEDIUM, f"platform/{NONE}", "section 6.1", 0.88, None, 0.47),
        *published(MEDIUM, f"platform/{BELOW_10PCT}", "section 6.1", None, None, 0.38),
        *published(MEDIUM, f"interference/{NONE}", "section 6.1", 0.89),
    ),
)

PARAGON_FIGURE14 = replace(
    _DECISIONS,
    name="paragon-figure14",
    about="what choices of platform and of neighbors cost on EC2",
    source="Paragon (TOCS) Figure 14, section 6.2",
    scenarios=(LOW, HIGH, OVERSUBSCRIBED),
    published=tuple(
        each
        for scenario in (LOW, HIGH, OVERSUBSCRIBED)
        for each in (
            *published(scenario, f"platform/{NONE}", "section 6.2, mean of the three", 0.65),
            *published(scenario, f"interference/{NONE}", "section 6.2, mean of the three", 0.75),
            *published(scenario, f"interference/{OVER_20PCT}", "section 6.2, at most", 0.08),
        )
    ),
)
