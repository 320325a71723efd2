"""All baselines and the oracle on measured co-locations: numbers measured by others.

Named after the tables that it was made for, Gavel's of training jobs on three kinds of GPU (OSDI
2020), it runs on any directory of measured tables (docs/scenarios.md).
"""

from wharfinger.experiments.runs import Figure, RunExperiment, RunMeasure

LOADS = {"low": 0.2, "medium": 0.4, "high": 0.6}
"""CPU time that the workloads take alone, over what the servers have: two CPUs each, since pairs
were measured, so that half is one workload on each server."""
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
  fractionalCpu: false
  maxServers: 1
"""

MEASURED_GAVEL = RunExperiment(
    name="measured-gavel",
    about="all baselines and the oracle on measured tables, at low, medium and high load",
    source="measurements of Gavel, OSDI 2020; nothing was published to hold this against",
    policies=(
        "oracle", "least-loaded", "random", "round-robin", "reservation", "sparrow", "feedback",
        "quasar",
    ),
    ceiling="oracle",
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
