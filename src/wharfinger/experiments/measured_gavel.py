"""All baselines and the oracle on measured co-locations: numbers that nobody here wrote.

Named after the tables that it was made for, Gavel's of training jobs on three kinds of GPU (OSDI
2020), it runs on any directory of measured tables (docs/scenarios.md).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.errors import InvalidInput
from wharfinger.experiments import plots
from wharfinger.experiments.base import Arguments, Context, ExperimentResult, Row
from wharfinger.experiments.comparison import Compared, Comparison, compare_all
from wharfinger.experiments.statistics import CONFIDENCE, Interval
from wharfinger.experiments.workspace import INPUTS
from wharfinger.simulator.oracle.true_numbers import Oracle
from wharfinger.simulator.policies import policies
from wharfinger.simulator.run import RunSpec
from wharfinger.simulator.truth.tables import GROUPS, ISOLATED, PAIRS, SCALE_OUT, read_tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORACLE = Oracle.name
POLICIES = (
    "least-loaded", "random", "round-robin", "reservation", "sparrow", "feedback", "quasar",
)  # fmt: skip
LOADS: Mapping[str, float] = {"low": 0.2, "medium": 0.4, "high": 0.6}
"""CPU time that the workloads take alone, over what the servers have: two CPUs each, since pairs
were measured, so that half is one workload on each server."""
SCENARIO = """\
# The workloads of measured tables, each as often, on four servers of each platform that they have.
apiVersion: wharfinger.dev/v1alpha1
kind: Scenario
metadata: {{name: {name}, description: {words}}}
spec:
  truth: {{measured: {tables}}}
  population:
    - name: job
      duration: {{shape: lognormal, mean: 1500s, sigma: 0.8, from: 2m, to: 4h}}
  workloads: 300
  arrivals: {{pattern: poisson, load: {load}}}
  targets: {{of: random-platform, share: 90%, kind: rate}}
  fractionalCpu: false
  maxServers: 1
"""
METRICS: Mapping[str, bool] = {
    "qos_kept_fraction": True,
    "performance_mean": True,
    "target_performance_mean": True,
    "interference_loss_mean": False,
    "platform_loss_mean": False,
    "waiting_loss_mean": False,
}
"""Of the report, and whether higher is better."""
WHOLE = "performance_mean"
"""Of which the losses are parts: who loses less to one may lose more to another."""
_Held = tuple[str, Compared, str, Interval]
"""A load, a policy, a metric, and how far it is from the oracle's."""
FILES = (ISOLATED, PAIRS, SCALE_OUT, GROUPS)
WITHOUT_AUTOSCALE = (
    "autoscale was not run: it scales services with their load, and the tables have none."
)


class MeasuredGavel:
    """The experiment."""

    name = "measured-gavel"
    about = "all baselines and the oracle on measured tables, at low, medium and high load"
    source = "measurements of Gavel, OSDI 2020; nothing was published to hold this against"
    takes = frozenset({"tables", "servers", "workloads"})
    repeats = 7

    def check(self, arguments: Arguments) -> None:
        """Refuse to run without tables."""
        find_tables(arguments.tables)

    def run(self, context: Context) -> ExperimentResult:
        """Each policy at each load with each seed."""
        arguments, space = context.arguments, context.space
        tables = space.read(find_tables(arguments.tables), FILES)
        scenarios = [
            space.write(f"scenarios/{load}.yaml", _scenario(load, tables)) for load in LOADS
        ]
        names = [name for name in (ORACLE, *POLICIES) if name in policies()]
        found = compare_all(
            context.run,
            [_specs(scenario, names, arguments) for scenario in scenarios],
            arguments.repeats,
            context.processes,
            context.progress,
        )
        comparisons = dict(zip(LOADS, found, strict=True))
        return ExperimentResult(
            self.name,
            found[0].seeds,
            tuple(rows(comparisons)),
            (*beyond_oracle(comparisons), WITHOUT_AUTOSCALE),
            {f"{load} load": comparison for load, comparison in comparisons.items()},
            _pictures(comparisons),
        )


def find_tables(directory: Path | None) -> Path:
    """The directory, if it has the tables and they can be read.

    Raises:
        InvalidInput: They can't; says what they must be.
    """
    if directory is None:
        raise InvalidInput(
            "measured-gavel needs --tables DIR, with isolated.csv (workload,platform,performance) "
            "and pairs.csv (platform,workload,beside,performance), as docs/scenarios.md says; no "
            "data are shipped"
        )
    read_tables(directory)
    return directory


def _scenario(load: str, tables: Path) -> str:
    """Names the tables by their place beside it, where they are kept with it."""
    place = f"../{INPUTS}" if tables.name == INPUTS else str(tables)
    words = f"measured tables at {load} load"
    # Any string of JSON is one of YAML.
    return SCENARIO.format(
        name=f"measured-{load}", words=words, tables=json.dumps(place), load=LOADS[load]
    )


def _specs(scenario: Path, names: Sequence[str], arguments: Arguments) -> list[RunSpec]:
    return [
        RunSpec(
            str(scenario),
            name,
            seed=arguments.seed,
            servers=arguments.servers,
            workloads=arguments.workloads,
            series=True,
        )
        for name in names
    ]


def rows(comparisons: Mapping[str, Comparison]) -> Iterator[Row]:
    """One for each load, policy and metric."""
    for load, comparison in comparisons.items():
        for policy in comparison.policies:
            for metric in METRICS:
                name = f"{load}/{policy.name}/{metric}"
                yield Row.of(name, policy.metrics.get(metric), "fraction")


def beyond_oracle(comparisons: Mapping[str, Comparison]) -> list[str]:
    """Says in words whether anything beats the oracle in any metric, so that it can be explained.

    The oracle knows the truth but decides one workload at a time, so it can be beaten; what is
    beaten in a loss may be paid for in another.
    """
    held: list[_Held] = [
        (load, policy, metric, found)
        for load, comparison in comparisons.items()
        for policy in comparison.policies
        for metric in METRICS
        if (found := policy.difference.get(metric)) is not None
    ]
    told = [each for each in held if each[3].excludes_zero is not None]
    if not told:
        return ["Whether anything beats the oracle can't be told from one seed."]
    better = [each for each in told if _better(each[2], each[3])]
    chance = (
        f"Of {len(told)} comparisons about {len(told) * (1 - CONFIDENCE) / 2:.0f} would seem "
        "better by chance alone."
    )
    if not better:
        return [f"Nothing beats the oracle in any metric, by paired 95% intervals. {chance}"]
    head = f"The oracle is beaten {len(better)} times, by paired 95% intervals. {chance}"
    names = dict.fromkeys(policy.name for _, policy, _, _ in better)
    return [head, *(_sentence([each for each in better if each[1].name == name]) for name in names)]


def _better(metric: str, difference: Interval) -> bool:
    if not difference.excludes_zero:
        return False
    return (difference.mean > 0) is METRICS[metric]


def _sentence(better: Sequence[_Held]) -> str:
    """Of one policy; a smaller loss is told with what became of performance in all."""
    name = better[0][1].name
    return f"{name} beats the oracle in " + "; ".join(map(_told, better)) + "."


def _told(held: _Held) -> str:
    load, policy, metric, found = held
    words = (
        f"{metric} at {load} load by {abs(found.mean):.2g} ({found.low:+.2g} to {found.high:+.2g})"
    )
    whole = policy.difference.get(WHOLE)
    if METRICS[metric] or whole is None:
        return words
    return f"{words}, where its {WHOLE} differs by {whole.mean:+.2g}"


def _pictures(comparisons: Mapping[str, Comparison]) -> "dict[str, Callable[[], Figure]]":
    found: dict[str, Callable[[], Figure]] = {}
    for load, comparison in comparisons.items():
        words = f"at {load} load"
        found[f"performance-{load}"] = partial(
            plots.performance,
            {policy.name: policy.outcomes for policy in comparison.policies},
            f"Performance of each workload {words}",
        )
        series = {
            policy.name: policy.outcomes[0].series
            for policy in comparison.policies
            if policy.outcomes[0].series is not None
        }
        if series:
            found[f"utilization-{load}"] = partial(
                plots.utilization, series, f"How busy the servers are {words}"
            )
            found[f"cores-{load}"] = partial(
                plots.cores, series, f"CPUs required, allocated and used {words}"
            )
    return found
