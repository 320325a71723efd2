"""Paragon's Figure 2 and what else it says of least-loaded, in each regime.

No policy of ours runs here but the oracle, and that only to be reported: where it keeps fewer
targets than a paper says of its own policy, this physics can't show that figure. The heterogeneity-
and interference-oblivious policies of the figure come with Paragon itself.
"""

from statistics import fmean

from wharfinger.experiments.runs import Figure, Published, RunExperiment, RunMeasure
from wharfinger.simulator.results.outcome import Outcome
from wharfinger.simulator.truth.physics.regimes import REGIMES

FIGURE = "paragon-ec2-high"
"""Figure 2's scenario: 5,000 workloads on 1,000 servers."""
PUBLISHED = tuple(
    Published(*each)
    for each in (
        (FIGURE, "least-loaded", "performance_mean", 0.52, "Figure 2a, by 48%"),
        (FIGURE, "least-loaded", "time_over_best_mean", 1.48, "Figure 2a, 48% more time"),
        (FIGURE, "least-loaded", "utilization_cpu_to_95pct_mean", 0.25, "Figure 2b, 20 to 30%"),
        ("paragon-ec2-low", "least-loaded", "qos_kept_fraction", 0.03, "section 1"),
        ("paragon-ec2-oversubscribed", "least-loaded", "qos_kept_fraction", 0.0009, "section 6.2"),
        ("paragon-ec2-oversubscribed", "least-loaded", "killed_fraction", 0.104, "section 6.2"),
        ("paragon-local-low", "least-loaded", "performance_mean", 0.54, "section 6.1, by 46%"),
        ("paragon-local-medium", "least-loaded", "qos_kept_fraction", 0.07, "section 6.1"),
        ("paragon-azure", "least-loaded", "qos_kept_fraction", 0.007, "section 6.2"),
        ("paragon-ec2-low", "oracle", "qos_kept_fraction", 0.91, "section 6.2, Paragon"),
        (FIGURE, "oracle", "qos_kept_fraction", 0.61, "section 6.2, Paragon with ARQ"),
        ("paragon-ec2-oversubscribed", "oracle", "qos_kept_fraction", 0.52, "section 6.2, Paragon"),
        ("paragon-local-low", "oracle", "performance_mean", 0.99, "section 6.1, Paragon"),
        ("paragon-local-medium", "oracle", "qos_kept_fraction", 0.79, "section 6.1, Paragon"),
        ("paragon-local-phases", "oracle", "qos_kept_fraction", 0.66, "section 6.1, Paragon"),
        (
            "paragon-local-oversubscribed",
            "oracle",
            "qos_kept_fraction",
            0.825,
            "section 6.1, Paragon",
        ),
        ("paragon-azure", "oracle", "qos_kept_fraction", 0.61, "section 6.2, Paragon"),
        ("paragon-gce", "oracle", "performance_mean", 0.968, "section 6.2, Paragon"),
    )
)


def killed(outcome: Outcome) -> float:
    """Share of the workloads that were killed."""
    return fmean(float(fate.end in ("failed", "vanished")) for fate in outcome.fates)


PARAGON_FIGURE2 = RunExperiment(
    name="paragon-figure2",
    about="how far least-loaded slows workloads, beside the published figures, and the oracle's",
    source="Paragon (TOCS) Figure 2, sections 1 and 6",
    policies=("oracle", "least-loaded", "round-robin", "random"),
    ceiling="oracle",
    scenarios=tuple(dict.fromkeys(each.scenario for each in PUBLISHED)),
    regimes=tuple(REGIMES),
    measures=(
        RunMeasure("qos_kept_fraction"),
        RunMeasure("performance_mean"),
        RunMeasure("time_over_best_mean", "ratio"),
        RunMeasure("utilization_cpu_to_95pct_mean"),
        RunMeasure("utilization_cpu_mean"),
        RunMeasure("platform_loss_mean"),
        RunMeasure("interference_loss_mean"),
        RunMeasure("waiting_loss_mean"),
        RunMeasure("killed_fraction", of=killed),
    ),
    published=PUBLISHED,
    figures=(
        Figure("ranked", "performance-{regime}", "Paragon, Figure 2a: {regime}", scenarios=FIGURE),
        Figure(
            "utilization",
            "utilization-{regime}",
            "Paragon, Figure 2b: {regime}",
            scenarios=FIGURE,
            policies=("least-loaded",),
        ),
    ),
    notes=(
        (
            "Published values in the oracle's rows are those of Paragon's own policy: where the "
            "oracle is below, this physics can't show that figure."
        ),
    ),
)
