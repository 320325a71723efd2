"""The papers' scenarios under every baseline and the oracle, in each regime.

``paragon-figure2`` holds some of them against what was published; this one shows all, so that who
brings a policy knows beforehand what each scenario asks of it.
"""

from wharfinger.experiments.runs import RunExperiment, RunMeasure
from wharfinger.simulator.truth.physics.regimes import REGIMES

SERVICES = ("quasar-ec2", "quasar-stateful", "*webserver*")
"""Here autoscale does something of its own."""

PAPERS_SCENARIOS = RunExperiment(
    name="papers-scenarios",
    about="every scenario of Paragon and Quasar, under baselines and oracle in each regime",
    source="Paragon (TOCS) 5, Quasar 5; paragon-figure2 has what was published of baselines",
    policies=(
        "oracle", "least-loaded", "round-robin", "random", "sparrow", "reservation", "feedback",
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
