"""Paragon's comparisons of schedulers, Figures 8, 13 and 16, as data: see ``runs.py``.

What is published of Paragon stands beside the policy as it is, beside the rule that was published,
and beside the oracle, which shows what this physics allows.
"""

from collections.abc import Iterator
from dataclasses import replace

from wharfinger.experiments.runs import Figure, Published, RunExperiment, RunMeasure
from wharfinger.simulator.run import UNDER
from wharfinger.simulator.truth.physics.regimes import REGIMES

PUBLISHED_RULE = "paragon[rule=published,confidence=0.5,placement.sources=2,idle_share=0]"
"""Paragon 3.2 with the two runs against sources of 2.4, and no more runs than these."""
POLICIES = (
    "oracle", "paragon", PUBLISHED_RULE, "heterogeneity-oblivious", "interference-oblivious",
    "least-loaded",
)  # fmt: skip
WITH_ARQ = f"paragon{UNDER}arq"
MOST_WORKLOADS = 250
"""A tenth to a thirtieth of the published scale, at its load: one seed in one regime takes a minute
or two."""
KEPT, PERFORMANCE = "qos_kept_fraction", "performance_mean"
OVER_10PCT, OVER_20PCT = "degraded_over_10pct_fraction", "degraded_over_20pct_fraction"
MEASURES = (
    RunMeasure(KEPT, better=1),
    RunMeasure(PERFORMANCE, better=1),
    RunMeasure(OVER_10PCT, better=-1),
    RunMeasure(OVER_20PCT, better=-1),
    RunMeasure("platform_loss_mean"),
    RunMeasure("interference_loss_mean"),
    RunMeasure("waiting_loss_mean"),
    RunMeasure("unfinished", "workloads"),
)
RANKED = Figure("ranked", "performance-{regime}-{scenario}", "{scenario}: {regime}")
NOTE = (
    "What was published of Paragon stands in the rows of the oracle, of paragon and of the rule "
    "that was published; where the oracle is below, this physics can't show that figure."
)


def published(
    scenario: str,
    measure: str,
    where: str,
    paragon: float | None = None,
    *others: float | None,
) -> Iterator[Published]:
    """By Paragon, NH, NI and LL, in that order; ``None`` = not printed."""
    values = (paragon, paragon, paragon, *others)
    for policy, value in zip(POLICIES, values, strict=False):
        if value is not None:
            yield Published(scenario, policy, measure, value, where)


OF_SCHEDULERS = RunExperiment(
    name="",
    about="",
    source="",
    policies=POLICIES,
    ceiling="oracle",
    regimes=tuple(REGIMES),
    most_workloads=MOST_WORKLOADS,
    measures=MEASURES,
    figures=(RANKED,),
    notes=(NOTE,),
)
"""What all figures of the four schedulers have in common."""

PARAGON_FIGURE8 = replace(
    OF_SCHEDULERS,
    name="paragon-figure8",
    about="Paragon's four schedulers on its local cluster at medium load",
    source="Paragon (TOCS) Figure 8, section 6.1",
    scenarios=("paragon-local-medium",),
    published=(
        *published("paragon-local-medium", KEPT, "section 6.1", 0.79, 0.23, 0.19, 0.07),
        *published("paragon-local-medium", OVER_10PCT, "section 6.1, 95% have less", 0.05),
    ),
)

LOW, HIGH = "paragon-ec2-low", "paragon-ec2-high"
OVERSUBSCRIBED = "paragon-ec2-oversubscribed"

PARAGON_FIGURE13 = replace(
    OF_SCHEDULERS,
    name="paragon-figure13",
    about="Paragon's four schedulers on EC2 at low and high load and oversubscribed",
    source="Paragon (TOCS) Figure 13, sections 1 and 6.2",
    scenarios=(LOW, HIGH, OVERSUBSCRIBED),
    policies=(*POLICIES, WITH_ARQ),
    published=(
        *published(LOW, KEPT, "sections 1 and 6.2", 0.91, 0.14, 0.11, 0.03),
        *published(LOW, PERFORMANCE, "section 6.2", 0.96),
        *published(HIGH, KEPT, "section 6.2, Paragon without ARQ", 0.56, 0.04, 0.03),
        *published(HIGH, PERFORMANCE, "section 6.2, Paragon with ARQ", 0.96, 0.78, 0.66, 0.52),
        *published(HIGH, OVER_20PCT, "section 6.2, with ARQ", 0.006),
        Published(HIGH, WITH_ARQ, KEPT, 0.61, "section 6.2"),
        Published(HIGH, WITH_ARQ, PERFORMANCE, 0.96, "section 6.2"),
        Published(HIGH, WITH_ARQ, OVER_20PCT, 0.006, "section 6.2"),
        *published(OVERSUBSCRIBED, KEPT, "section 6.2", 0.52, 0.05, 0.01, 0.0009),
        *published(OVERSUBSCRIBED, OVER_10PCT, "section 6.2, 52% keep QoS, 33% lose less", 0.15),
    ),
    notes=(
        NOTE,
        (
            "Admission is in order of arrival but for the last policy. Published with ARQ: 61% "
            "kept at high load, and the mean and share over 20% there; 56% kept is without it."
        ),
    ),
)

AZURE, GCE = "paragon-azure", "paragon-gce"

PARAGON_FIGURE16 = replace(
    OF_SCHEDULERS,
    name="paragon-figure16",
    about="Paragon's four schedulers on Azure and Compute Engine",
    source="Paragon (TOCS) Figure 16, section 6.2",
    scenarios=(AZURE, GCE),
    published=(
        *published(AZURE, KEPT, "section 6.2", 0.61, 0.01, 0.02, 0.007),
        *published(AZURE, PERFORMANCE, "section 6.2", 0.943),
        *published(GCE, PERFORMANCE, "section 6.2", 0.968, 0.90),
    ),
)
