"""Quasar's Figures 8 and 11 and its overheads: comparisons with baselines, as data (``runs.py``).

What is published of Quasar stands beside the policy and beside the oracle: where the oracle misses
it, this physics can't show it; where only the policy does, the notes say so.
"""

from collections.abc import Iterator
from dataclasses import replace

from wharfinger.experiments.runs import Figure, Published, RunExperiment, RunMeasure
from wharfinger.simulator.pieces import STATED, informed
from wharfinger.simulator.policies import ORACLE
from wharfinger.simulator.truth.physics.regimes import REGIMES

QUASAR = "quasar"
RESERVED_LEAST_LOADED = informed("autoscale", STATED)
"""The published baseline: services by autoscale, others by reservation, all least-loaded."""
RESERVED_PARAGON = "paragon[reservations=stated]"
OVER_TARGET, KEPT = "target_performance_mean", "qos_kept_fraction"
STEADY, OVER_USED = "utilization_cpu_steady_mean", "allocated_over_used_mean"
OVERHEAD, BEST_EFFORT = "overhead_fraction_mean", "best_effort_performance_mean"
NOTE = (
    "What was published of Quasar stands in the rows of the oracle and of quasar; where the oracle "
    "does not reach it, this physics can't show that number."
)


def published(scenario: str, measure: str, value: float, where: str) -> Iterator[Published]:
    """A number of Quasar, beside the policy and the oracle."""
    for policy in (ORACLE, QUASAR):
        yield Published(scenario, policy, measure, value, where)


OF_QUASAR = RunExperiment(
    name="",
    about="",
    source="",
    policies=(ORACLE, QUASAR, "autoscale", "least-loaded"),
    ceiling=ORACLE,
    regimes=tuple(REGIMES),
    measures=(),
    notes=(NOTE,),
)
"""What Quasar's comparisons have in common."""

# --- Figure 11 ------------------------------------------------------------------------------

EC2 = "quasar-ec2"

QUASAR_FIGURE11 = replace(
    OF_QUASAR,
    name="quasar-figure11",
    about="Quasar beside reservations with Paragon and with least-loaded, 1,200 workloads of all "
    "types on EC2",
    source="Quasar Figure 11, section 6.5",
    policies=(
        ORACLE,
        QUASAR,
        RESERVED_PARAGON,
        RESERVED_LEAST_LOADED,
        "reservation",
        "autoscale",
        "least-loaded",
    ),
    scenarios=(EC2,),
    most_workloads=120,
    measures=(
        RunMeasure(OVER_TARGET, better=1),
        RunMeasure(KEPT, better=1),
        RunMeasure(STEADY, better=1),
        RunMeasure("utilization_cpu_mean"),
        RunMeasure(OVER_USED, "ratio", better=-1),
        RunMeasure(OVERHEAD, better=-1),
        RunMeasure("requests_in_bound_fraction", better=1),
        RunMeasure("allocated_cpu_steady_mean"),
        RunMeasure("waiting_loss_mean", better=-1),
        RunMeasure("makespan_seconds", "s"),
    ),
    published=(
        *published(EC2, OVER_TARGET, 0.98, "section 6.5"),
        *published(EC2, STEADY, 0.62, "section 6.5, Figure 11b"),
        *published(EC2, OVER_USED, 1.1, "section 6.5, Figure 11d, roughly 10%"),
        *published(EC2, OVERHEAD, 0.041, "section 6.5"),
        Published(EC2, RESERVED_PARAGON, OVER_TARGET, 0.83, "section 6.5"),
        Published(EC2, RESERVED_LEAST_LOADED, OVER_TARGET, 0.62, "section 6.5"),
        Published(EC2, RESERVED_LEAST_LOADED, STEADY, 0.15, "section 6.5, Figure 11c"),
    ),
    figures=(
        Figure(
            "ranked",
            "target-{regime}",
            "Quasar, Figure 11a: {regime}",
            of="target_performance",
            label="performance over target",
        ),
        Figure(
            "utilization",
            "utilization-{regime}",
            "Quasar, Figure 11b and c: {regime}",
            policies=(QUASAR, RESERVED_LEAST_LOADED),
        ),
        Figure(
            "cores",
            "cores-{regime}",
            "Quasar, Figure 11d: {regime}",
            policies=(QUASAR, RESERVED_LEAST_LOADED),
        ),
    ),
    notes=(
        NOTE,
        (
            f"{RESERVED_LEAST_LOADED} is the published baseline: services by autoscale, others by "
            f"what users reserve, least-loaded. {RESERVED_PARAGON} does not scale services out, "
            "nor does reservation; autoscale and least-loaded are given what is really needed."
        ),
        (
            "Published utilization is of the whole run, that of the steady state leaves out how "
            "the cluster fills and empties."
        ),
        (
            "The published overhead has no waiting for room, of which Quasar had none; what is "
            "measured has it, and what failed counts as 1. quasar-overheads tells them apart."
        ),
    ),
)

# --- Figure 8 -------------------------------------------------------------------------------

FLAT, FLUCTUATING, SPIKE = (
    f"quasar-webserver-{shape}" for shape in ("flat", "fluctuating", "spike")
)
IN_BOUND, ANSWERED = "requests_in_bound_fraction", "throughput_kept_mean"
IN_BOUND_THEN = "requests_in_bound_after_rise_fraction"
ANSWERED_THEN = "throughput_kept_after_rise_mean"

QUASAR_FIGURE8 = replace(
    OF_QUASAR,
    name="quasar-figure8",
    about="a web server under flat, fluctuating and spiking load among best-effort programs, "
    "beside autoscale",
    source="Quasar Figure 8, section 6.3",
    scenarios=(FLAT, FLUCTUATING, SPIKE),
    measures=(
        RunMeasure(IN_BOUND, better=1),
        RunMeasure(ANSWERED, better=1),
        RunMeasure(IN_BOUND_THEN, better=1),
        RunMeasure(ANSWERED_THEN, better=1),
        RunMeasure(BEST_EFFORT, better=1),
        RunMeasure("utilization_cpu_to_95pct_mean"),
    ),
    published=(
        *published(FLAT, BEST_EFFORT, 1 / 1.05, "section 6.3, within 5% of minimum"),
        Published(FLAT, "autoscale", BEST_EFFORT, 1 / 1.24, "section 6.3, within 24% of minimum"),
        Published(FLUCTUATING, "autoscale", ANSWERED, 0.82, "section 6.3, 18% lower QPS"),
        *published(SPIKE, ANSWERED, 0.96, "section 6.3, within 4% on average"),
        Published(SPIKE, "autoscale", IN_BOUND_THEN, 0.8, "section 6.3, fails for over 20%"),
    ),
    figures=(
        Figure("throughput", "throughput-{regime}-{scenario}", "{scenario}: {regime}"),
        Figure(
            "cores", "cores-{regime}-fluctuating", "Quasar, Figure 8c: {regime}",
            scenarios=FLUCTUATING, policies=(ORACLE, QUASAR, "autoscale"),
        ),
        Figure(
            "bars", "best-effort-{regime}", "Best-effort work: {regime}", of=BEST_EFFORT,
            label="performance",
        ),
    ),
    notes=(
        NOTE,
        (
            "..._after_rise_...: in the ten minutes after a rise of the load by half or more, so "
            "of the spike only. 'Around the spike' has no published length."
        ),
        (
            "The web server is one of 601 workloads, and its load stays as it is: with --scale or "
            "--servers it meets fewer servers, and they may be too few for it."
        ),
        "Published runtimes within p% of the minimum stand as a performance of 1 / (1 + p).",
        (
            "Under 'autoscale' and 'least-loaded' the web server's servers are of the size that "
            "it can use; best-effort programs are least-loaded."
        ),
    ),
)  # fmt: skip
