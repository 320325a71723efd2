"""ARQ's comparisons with admission in the order of arrival, Figures 3 to 6, as data.

``arq`` as it is stands beside the published rules: higher classes only where nobody waits for them.
"""

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean

from wharfinger.experiments.paragon_figures import (
    KEPT,
    MEASURES,
    OF_SCHEDULERS,
    OVER_10PCT,
    OVERSUBSCRIBED,
    PERFORMANCE,
)
from wharfinger.experiments.paragon_over_time import ALLOCATED, allocated_off
from wharfinger.experiments.runs import Figure, Published, RunMeasure
from wharfinger.simulator.results.outcome import Outcome

PARAGON = "paragon[placement.sources=2]"
"""With the two runs against sources of Paragon 2.4: what is predicted of them tells few apart."""
PUBLISHED = "higher=empty,platforms=any,late=first"
"""The paper's rules."""
ARQ, PUBLISHED_ARQ = f"{PARAGON} + arq[ranges=quantile]", f"{PARAGON} + arq[{PUBLISHED}]"
PUBLISHED_QUANTILE = f"{PARAGON} + arq[{PUBLISHED},ranges=quantile]"
CAUSED = f"{PARAGON} + arq[quality=caused]"
"""Equation 1 as TOCS prints it."""
POLICIES = (
    PARAGON, f"{PARAGON} + arq", ARQ, PUBLISHED_ARQ, PUBLISHED_QUANTILE, f"{PARAGON} + oracle",
    "oracle", "oracle + arq", "oracle + oracle", "heterogeneity-oblivious",
    "interference-oblivious", "least-loaded",
)  # fmt: skip
BY_QUEUES = {
    count: f"{PARAGON} + arq[queues={count},{PUBLISHED},ranges=quantile]"
    for count in (1, 2, 3, 5, 10, 15, 20)
}
UTILIZATION = "utilization_cpu_to_95pct_mean"
PHASES, LOCAL = "paragon-local-phases", "paragon-local-oversubscribed"
NOTES = (
    (
        "Differences are from paragon in the order of arrival. What was published without ARQ "
        "stands beside it and the oracle, what was published with ARQ beside the paper's rules."
    ),
    (
        "ARQ knows how long a workload takes. Here it does where its program ran before; else it "
        "takes the median of what has run."
    ),
    "The admission 'oracle' knows who can still keep its target, where, and how long: a ceiling.",
)
LESS = "section 6, less than 10% for 99%"


def with_and_without(
    scenario: str, measure: str, where: str, without: float | None, with_arq: float
) -> Iterator[Published]:
    """By Paragon without and with ARQ."""
    if without is not None:
        yield Published(scenario, PARAGON, measure, without, where)
        yield Published(scenario, "oracle", measure, without, where)
    for policy in (PUBLISHED_ARQ, PUBLISHED_QUANTILE):
        yield Published(scenario, policy, measure, with_arq, where)


def queueing_of_kept(outcome: Outcome) -> float | None:
    """Mean share of the time in which those did no work that have kept their targets."""
    shares = [fate.overhead for fate in outcome.ended if fate.kept]
    return fmean(shares) if shares else None


QUEUEING, OF_KEPT = "overhead_fraction_mean", "overhead-of-kept"

_OF_ADMISSIONS = replace(
    OF_SCHEDULERS,
    policies=POLICIES,
    measures=(*MEASURES, RunMeasure(UTILIZATION)),
    figures=(Figure("bars", "kept-{regime}", "Targets kept: {regime}", of=KEPT, label="share"),),
    notes=NOTES,
)

ARQ_FIGURE3 = replace(
    _OF_ADMISSIONS,
    name="arq-figure3",
    about="Paragon with ARQ and without, with phases and oversubscribed, on its local cluster",
    source="ARQ Figure 3, section 5.1",
    policies=(*POLICIES, CAUSED),
    scenarios=(PHASES, LOCAL),
    published=(
        *with_and_without(PHASES, KEPT, "section 5.1", 0.66, 0.91),
        *with_and_without(PHASES, PERFORMANCE, "section 5.1", None, 0.993),
        *with_and_without(LOCAL, KEPT, "section 5.1", 0.64, 0.88),
    ),
)

ARQ_FIGURE4 = replace(
    _OF_ADMISSIONS,
    name="arq-figure4",
    about="how much of their time workloads wait, with ARQ and without, oversubscribed",
    source="ARQ Figure 4, section 5.1",
    policies=(PARAGON, f"{PARAGON} + arq", ARQ, PUBLISHED_ARQ, PUBLISHED_QUANTILE),
    ceiling="",
    scenarios=(LOCAL,),
    measures=(
        RunMeasure(OF_KEPT, better=-1, of=queueing_of_kept),
        RunMeasure(QUEUEING, better=-1),
        RunMeasure(KEPT, better=1),
    ),
    figures=(
        Figure("bars", "queueing-{regime}", "Of all: {regime}", of=QUEUEING, label="share"),
        Figure(
            "bars", "queueing-of-kept-{regime}", "Kept: {regime}", of=OF_KEPT, label="share of time"
        ),
    ),
    published=(
        *with_and_without(LOCAL, OF_KEPT, "section 5.1, less than", None, 0.05),
        *with_and_without(LOCAL, QUEUEING, "section 5.1, less than", None, 0.05),
    ),
    notes=(
        (
            f"{QUEUEING}: share of the time from submission to end in which a workload did no "
            "work, profiling included. The paper shows some workloads, and says: below 5% for all."
        ),
        (
            "Whoever keeps a target within 5% of the best performance can't have waited longer: "
            f"{OF_KEPT} is below that by its definition, with any admission."
        ),
    ),
)

ARQ_FIGURE5 = replace(
    _OF_ADMISSIONS,
    name="arq-figure5",
    about="how many queues ARQ needs, and what it costs utilization, oversubscribed",
    source="ARQ Figure 5, section 5.1",
    policies=(PARAGON, *BY_QUEUES.values(), "least-loaded"),
    scenarios=(LOCAL,),
    ceiling="",
    measures=(
        RunMeasure(KEPT, better=1),
        RunMeasure(PERFORMANCE, better=1),
        RunMeasure(UTILIZATION, better=1),
        RunMeasure("utilization-over-ll", "times", over=(UTILIZATION, "least-loaded")),
        RunMeasure(ALLOCATED, better=-1, of=allocated_off, series=True),
    ),
    figures=(
        Figure("bars", "performance-{regime}", "{regime}", of=PERFORMANCE, label="performance"),
        Figure("bars", "utilization-{regime}", "{regime}", of=UTILIZATION, label="utilization"),
        Figure(
            "ideal-cores",
            "cores-{regime}",
            "CPUs required and allocated: {regime}",
            policies=(PARAGON, BY_QUEUES[10]),
        ),
    ),
    published=(
        Published(LOCAL, PARAGON, "utilization-over-ll", 1.47, "section 5.1, 47% above LL"),
        Published(LOCAL, BY_QUEUES[10], "utilization-over-ll", 1.455, "section 5.1, 45.5%"),
    ),
)

ARQ_FIGURE6 = replace(
    _OF_ADMISSIONS,
    name="arq-figure6",
    about="Paragon with ARQ and without on EC2, oversubscribed",
    source="ARQ Figure 6, section 5.1",
    scenarios=(OVERSUBSCRIBED,),
    published=(
        *with_and_without(OVERSUBSCRIBED, KEPT, "section 5.1", 0.61, 0.83),
        *with_and_without(OVERSUBSCRIBED, OVER_10PCT, LESS, 0.21, 0.01),
    ),
)
