"""Quasar's Figures 6 and 7: jobs of several batch frameworks among best-effort programs.

Source: Quasar 5 and 6.2. The frameworks' own schedulers size jobs by themselves and are assigned
least-loaded; here they are ``stated+least-loaded``: what a user of a framework would reserve.
"""

from collections.abc import Iterator
from dataclasses import replace

from wharfinger.experiments.paragon_short_jobs import completion_seconds
from wharfinger.experiments.quasar_figures import (
    BEST_EFFORT,
    KEPT,
    NOTE,
    OF_QUASAR,
    OVER_TARGET,
    QUASAR,
    published,
)
from wharfinger.experiments.runs import Figure, Published, RunMeasure
from wharfinger.simulator.pieces import STATED, informed
from wharfinger.simulator.policies import ORACLE

BATCH = "quasar-batch"
FRAMEWORKS = informed("least-loaded", STATED)
"""The frameworks' own sizes, least-loaded."""
TIME, REDUCTION = "execution_seconds_mean", "time-over-frameworks"
UTILIZATION = "utilization_cpu_to_95pct_mean"


def _time(improvement: float) -> Iterator[Published]:
    """Published is a reduction of execution times."""
    return published(BATCH, REDUCTION, 1 - improvement, "section 6.2, Figure 6, 27% less")


OF_BATCH = replace(
    OF_QUASAR,
    policies=(ORACLE, QUASAR, FRAMEWORKS, "least-loaded"),
    scenarios=(BATCH,),
)
"""What both have in common."""

QUASAR_FIGURE6 = replace(
    OF_BATCH,
    name="quasar-figure6",
    about="execution times of Hadoop, Storm and Spark jobs, beside the frameworks' own sizes",
    source="Quasar Figure 6, section 6.2",
    measures=(
        RunMeasure(OVER_TARGET, better=1),
        RunMeasure(KEPT, better=1),
        RunMeasure(TIME, "s", better=-1, of=completion_seconds),
        RunMeasure(REDUCTION, "times", better=-1, over=(TIME, FRAMEWORKS)),
        RunMeasure(BEST_EFFORT, better=1),
        RunMeasure("unfinished", "workloads"),
    ),
    published=(
        *_time(0.27),
        *published(BATCH, OVER_TARGET, 0.947, "section 6.2, within 5.3%"),
        *published(BATCH, BEST_EFFORT, 0.922, "section 6.2, within 7.8% of peak"),
    ),
    figures=(
        Figure(
            "ranked", "target-{regime}", "Quasar, Figure 6: {regime}", of="target_performance",
            label="performance over target",
        ),
    ),
    notes=(
        NOTE,
        (
            f"{FRAMEWORKS} stands for the frameworks' schedulers: one server by what users state. "
            "Execution times are means from submission to end, of jobs that ended."
        ),
        "The target is the best that one server of any platform gives (6.1 has such a sweep).",
    ),
)  # fmt: skip

QUASAR_FIGURE7 = replace(
    OF_BATCH,
    name="quasar-figure7",
    about="utilization of the cluster under several batch frameworks and best-effort programs",
    source="Quasar Figure 7, section 6.2",
    measures=(
        RunMeasure(UTILIZATION, better=1),
        RunMeasure("utilization_cpu_mean", better=1),
        RunMeasure("servers_used_mean", "servers"),
        RunMeasure("makespan_seconds", "s", better=-1),
    ),
    published=(
        *published(BATCH, UTILIZATION, 0.62, "section 6.2"),
        Published(BATCH, FRAMEWORKS, UTILIZATION, 0.34, "section 6.2"),
    ),
    figures=(
        Figure(
            "utilization", "utilization-{regime}", "Quasar, Figure 7: {regime}",
            policies=(QUASAR, FRAMEWORKS),
        ),
    ),
    notes=(
        NOTE,
        (
            "Utilization until 95% of the workloads have ended: the published heat maps end with "
            "the experiment, whose last hours are best-effort work."
        ),
    ),
)  # fmt: skip
