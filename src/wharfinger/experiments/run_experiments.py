"""The experiments with policies, as data: see ``runs.py`` for the form."""

from dataclasses import replace
from statistics import fmean

from wharfinger.experiments.runs import Figure, Published, RunExperiment, RunMeasure
from wharfinger.simulator.results.outcome import Outcome
from wharfinger.simulator.truth.physics.regimes import REGIMES

# --- Paragon --------------------------------------------------------------------------------

FIGURE = "paragon-ec2-high"
"""Figure 2's scenario: 5,000 workloads on 1,000 servers."""
OVERSUBSCRIBED = "paragon-local-oversubscribed"
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
        (FIGURE, "heterogeneity-oblivious", "performance_mean", 0.78, "Figure 2a, by 22%"),
        (FIGURE, "interference-oblivious", "performance_mean", 0.66, "Figure 2a, by 34%"),
    )
) + tuple(
    Published(scenario, policy, measure, value, where)
    for scenario, measure, value, where in (
        ("paragon-ec2-low", "qos_kept_fraction", 0.91, "section 6.2, Paragon"),
        (FIGURE, "qos_kept_fraction", 0.61, "section 6.2, Paragon with ARQ"),
        ("paragon-ec2-oversubscribed", "qos_kept_fraction", 0.52, "section 6.2, Paragon"),
        ("paragon-local-low", "performance_mean", 0.99, "section 6.1, Paragon"),
        ("paragon-local-medium", "qos_kept_fraction", 0.79, "section 6.1, Paragon"),
        ("paragon-local-phases", "qos_kept_fraction", 0.66, "section 6.1, Paragon"),
        (OVERSUBSCRIBED, "qos_kept_fraction", 0.825, "section 6.1, Paragon"),
        ("paragon-azure", "qos_kept_fraction", 0.61, "section 6.2, Paragon"),
        ("paragon-gce", "performance_mean", 0.968, "section 6.2, Paragon"),
    )
    for policy in ("oracle", "paragon")
)


def killed(outcome: Outcome) -> float:
    """Share of the workloads that were killed."""
    return fmean(float(fate.end in ("failed", "vanished")) for fate in outcome.fates)


PARAGON_FIGURE2 = RunExperiment(
    name="paragon-figure2",
    about="how far schedulers slow workloads, beside the published figures, and the oracle's",
    source="Paragon (TOCS) Figure 2, sections 1 and 6",
    policies=(
        "oracle", "paragon", "heterogeneity-oblivious", "interference-oblivious", "least-loaded",
        "round-robin", "random",
    ),
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
            "Published values in the rows of oracle and paragon are those of Paragon's own policy: "
            "where the oracle is below, this physics can't show that figure."
        ),
    ),
)  # fmt: skip

# --- all of the papers' scenarios -----------------------------------------------------------

SERVICES = ("quasar-ec2*", "quasar-stateful", "*webserver*")
"""Scenarios with services, which autoscale scales."""

PAPERS_SCENARIOS = RunExperiment(
    name="papers-scenarios",
    about="every scenario of Paragon and Quasar: paragon, baselines and oracle in each regime",
    source="Paragon (TOCS) 5, Quasar 5; paragon-figure2 has what was published of baselines",
    policies=(
        "oracle", "paragon", "heterogeneity-oblivious", "interference-oblivious", "least-loaded",
        "round-robin", "random", "sparrow", "reservation", "feedback",
    ),
    more_policies=dict.fromkeys(SERVICES, ("autoscale",)),
    scenarios=("paragon-*", "quasar-*"),
    regimes=tuple(REGIMES),
    repeats=1,
    measures=(
        RunMeasure("qos_kept_fraction"),
        RunMeasure("performance_mean"),
        RunMeasure("target_performance_mean"),
        RunMeasure("best_effort_performance_mean"),
        RunMeasure("utilization_cpu_to_95pct_mean"),
        RunMeasure("failed", "workloads"),
    ),
)  # fmt: skip

# --- do no harm -----------------------------------------------------------------------------

DO_NO_HARM = RunExperiment(
    name="do-no-harm",
    about="where a policy that estimates does worse than least-loaded and random, in each regime",
    source="nothing published: a policy that claims to beat the baselines must not lose to them",
    policies=("oracle", "least-loaded", "random", "quasar", "paragon"),
    ceiling="oracle",
    baselines=("least-loaded", "random"),
    scenarios=("paragon-*", "quasar-*"),
    regimes=tuple(REGIMES),
    repeats=3,
    most_workloads=250,
    measures=(
        RunMeasure("qos_kept_fraction"),
        RunMeasure("performance_mean"),
        RunMeasure("unfinished", "workloads"),
        RunMeasure("waiting_loss_mean"),
        RunMeasure("decision_microseconds_p50", "µs"),
    ),
)

PARAGON_AHEAD = replace(
    DO_NO_HARM,
    name="paragon-ahead",
    about="where paragon is better than its oblivious baselines, least-loaded and quasar",
    source="Paragon (TOCS) 6: better everywhere, in words",
    policies=(
        "oracle", "paragon", "heterogeneity-oblivious", "interference-oblivious", "least-loaded",
        "quasar",
    ),
    baselines=(),
    ahead="paragon",
    scenarios=("paragon-*",),
    repeats=7,
)  # fmt: skip

# --- measured tables ------------------------------------------------------------------------

LOADS = {"low": 0.2, "medium": 0.4, "high": 0.6}
"""CPU time that the workloads take alone, over that of the servers: two CPUs each, since pairs were
measured, so 0.5 is one workload on each server."""
SCENARIO = """\
# The workloads of measured tables, each as often, on four servers of each platform that they have.
apiVersion: wharfinger.dev/v1alpha1
kind: Scenario
metadata: {name: measured-$name, description: measured tables at $name load}
spec:
  truth: {measured: $tables}
  population:
    - name: job
      duration: {shape: lognormal, mean: 1500s, sigma: 0.8, from: 2m, to: 4h}
  workloads: 300
  arrivals: {pattern: poisson, load: $load}
  targets: {of: random-platform, share: 90%, kind: rate}
  engine: {fractionalCpu: false}
  maxServers: 1
"""

MEASURED_GAVEL = RunExperiment(
    name="measured-gavel",
    about="all baselines and the oracle on measured tables, at low, medium and high load",
    source="measurements of Gavel, OSDI 2020; nothing was published to hold this against",
    policies=(
        "oracle", "least-loaded", "random", "round-robin", "reservation", "sparrow", "feedback",
        "quasar", "paragon",
    ),
    ceiling="oracle",
    baselines=("least-loaded", "random"),
    ahead="paragon",
    documents={
        name: SCENARIO.replace("$name", name).replace("$load", str(load))
        for name, load in LOADS.items()
    },
    label="{scenario} load",
    measures=(
        RunMeasure("qos_kept_fraction", better=1),
        RunMeasure("performance_mean", better=1),
        RunMeasure("target_performance_mean", better=1),
        RunMeasure("interference_loss_mean", better=-1),
        RunMeasure("platform_loss_mean", better=-1),
        RunMeasure("waiting_loss_mean", better=-1),
    ),
    figures=tuple(
        Figure(kind, f"{name}-{{scenario}}", f"{words} at {{scenario}} load")
        for kind, name, words in (
            ("ranked", "performance", "Performance of each workload"),
            ("utilization", "utilization", "How busy the servers are"),
            ("cores", "cores", "CPUs required, allocated and used"),
        )
    ),
    notes=(
        "autoscale was not run: it scales services with their load, and the tables have none.",
    ),
)  # fmt: skip

MEASURED_TABLES = replace(
    MEASURED_GAVEL,
    name="measured-tables",
    about="paragon, quasar, baselines and the oracle on several measured clusters, side by side",
    source="measurements of Gavel (OSDI 2020) and Pitot (MLSys 2025); nothing was published",
    policies=(
        "oracle", "paragon", "quasar", "heterogeneity-oblivious", "interference-oblivious",
        "least-loaded", "random",
    ),
    measures=(*MEASURED_GAVEL.measures, RunMeasure("unfinished", "workloads")),
    repeats=3,
    label="{scenario}",
    figures=(Figure("bars", "kept", "Targets kept", of="qos_kept_fraction", label="share"),),
    notes=(
        ("--tables names a directory of directories of tables, such as gavel and pitot "
        "(benchmarks/pitot_tables.py makes the latter): each is run at each load."),
    ),
)  # fmt: skip
