"""Paragon's Figures 10, 11 and 15: performance and allocated CPUs over time."""

from dataclasses import replace
from functools import partial

import numpy as np

from wharfinger.experiments.paragon_decisions import MEDIUM
from wharfinger.experiments.paragon_figures import (
    HIGH,
    KEPT,
    MEASURES,
    NOTE,
    OF_SCHEDULERS,
    OVER_10PCT,
    OVERSUBSCRIBED,
    PERFORMANCE,
    RANKED,
    WITH_ARQ,
    published,
)
from wharfinger.experiments.runs import Figure, Published, RunMeasure
from wharfinger.simulator.pieces import ONE_A_SERVER, informed
from wharfinger.simulator.results.outcome import Outcome

LOCAL_LOW, LOCAL_OVERSUBSCRIBED = "paragon-local-low", "paragon-local-oversubscribed"
PHASES = "paragon-local-phases"
WINDOWS = {"before": (-60.0, 0.0), "after": (0.0, 30.0), "recovered": (120.0, 180.0)}
"""Seconds since a workload entered a phase."""


def around_change(window: str, outcome: Outcome) -> float | None:
    """Mean performance of workloads in a window around their changes of phase."""
    series = outcome.series
    assert series is not None
    low, high = WINDOWS[window]
    inside = (series.after_edges[:-1] >= low) & (series.after_edges[1:] <= high)
    values = series.after_change[inside]
    return float(np.nanmean(values)) if np.isfinite(values).any() else None


PARAGON_FIGURE10 = replace(
    OF_SCHEDULERS,
    name="paragon-figure10",
    about="the schedulers at low load, oversubscribed, and with phases: also as these begin",
    source="Paragon (TOCS) Figure 10, section 6.1",
    scenarios=(LOCAL_LOW, LOCAL_OVERSUBSCRIBED, PHASES),
    measures=(
        *MEASURES,
        *(
            RunMeasure(f"phases/{name}", better=1, of=partial(around_change, name), series=True)
            for name in WINDOWS
        ),
    ),
    published=(
        *published(LOCAL_LOW, PERFORMANCE, "section 6.1; LL: by 46%", 0.99, None, None, 0.54),
        *published(LOCAL_OVERSUBSCRIBED, KEPT, "section 6.1; dissertation 75%", 0.825),
        *published(LOCAL_OVERSUBSCRIBED, OVER_10PCT, "section 6.1, 99% have less", 0.01),
        *published(PHASES, KEPT, "section 6.1", 0.66),
    ),
    figures=(
        RANKED,
        Figure(
            "performance",
            "over-time-{regime}-{scenario}",
            "{scenario}, over time: {regime}",
            scenarios=PHASES,
        ),
        Figure(
            "after-change",
            "after-change-{regime}-{scenario}",
            "{scenario}, as phases begin: {regime}",
            scenarios=PHASES,
        ),
    ),
    notes=(
        NOTE,
        (
            "phases/: mean performance of a workload in the minute before it enters a phase, in "
            "the half minute after, and in the third minute; of phases that last so long. Standing "
            "still counts as 0. The paper prints no number of how it recovers."
        ),
    ),
)


def allocated_off(outcome: Outcome) -> float | None:
    """|Allocated - required| over required CPUs, while no more are required than there are."""
    series = outcome.series
    assert series is not None
    there = series.ideal_cpus <= series.total_cpus
    required = float(series.ideal_cpus[there].sum())
    off = np.abs(series.allocated_cpus - series.ideal_cpus)[there].sum()
    return float(off) / required if required > 0 else None


ALLOCATED, TIME = "allocated-off", "time-over-paragons"
UTILIZATION, GAIN = "utilization_cpu_to_95pct_mean", "utilization-over-one-a-server"
EXCLUSIVE = informed("least-loaded", ONE_A_SERVER)
"""Without co-location."""
_ALLOCATION = replace(
    OF_SCHEDULERS,
    measures=(
        RunMeasure(ALLOCATED, better=-1, of=allocated_off, series=True),
        RunMeasure("makespan_seconds", "s"),
        RunMeasure(TIME, "times", over=("makespan_seconds", "paragon")),
        RunMeasure(UTILIZATION),
    ),
    figures=(
        Figure("ideal-cores", "cores-{regime}-{scenario}", "CPUs required and allocated: {regime}"),
    ),
    notes=(
        NOTE,
        (
            f"{ALLOCATED}: |allocated - required| over required CPUs, while no more are required "
            "than the cluster has. Required: by arrivals, and time alone on the best platform. It "
            "can't be small where no such platform is free, since a slower one is held for longer."
        ),
    ),
)

PARAGON_FIGURE11 = replace(
    _ALLOCATION,
    name="paragon-figure11",
    about="allocated beside required CPUs, and utilization, on Paragon's local cluster",
    source="Paragon (TOCS) Figure 11, section 6.1",
    policies=(*OF_SCHEDULERS.policies, EXCLUSIVE),
    scenarios=(MEDIUM,),
    measures=(
        *_ALLOCATION.measures,
        RunMeasure(GAIN, "times", over=(UTILIZATION, EXCLUSIVE)),
    ),
    figures=(
        *_ALLOCATION.figures,
        Figure("utilization", "utilization-{regime}-{scenario}", "How busy: {regime}"),
    ),
    published=(
        *published(MEDIUM, ALLOCATED, "section 6.1, less than", 0.035),
        *published(MEDIUM, GAIN, "section 6.1, 47% higher than without co-location", 1.47),
        Published(MEDIUM, "least-loaded", TIME, 1.28, "section 6.1, 28% more time"),
    ),
    notes=(*_ALLOCATION.notes, f"{EXCLUSIVE} is without co-location."),
)

PARAGON_FIGURE15 = replace(
    _ALLOCATION,
    name="paragon-figure15",
    about="allocated beside required CPUs on EC2, at high load and oversubscribed",
    source="Paragon (TOCS) Figure 15, section 6.2: no number is printed of its lines",
    scenarios=(HIGH, OVERSUBSCRIBED),
    policies=(*OF_SCHEDULERS.policies, WITH_ARQ),
)
