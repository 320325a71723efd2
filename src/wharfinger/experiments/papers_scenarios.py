"""The papers' scenarios under every baseline and the oracle, in each regime.

``paragon-figure2`` holds some of them against what was published; this one shows all, so that who
brings a policy knows beforehand what each scenario asks of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wharfinger.errors import InvalidInput
from wharfinger.experiments.base import Arguments, Context, ExperimentResult, Row
from wharfinger.experiments.comparison import Comparison, compare_all
from wharfinger.simulator.oracle.true_numbers import Oracle
from wharfinger.simulator.run import RunSpec
from wharfinger.simulator.scenario.scenario_files import shipped
from wharfinger.simulator.truth.physics.regimes import REGIMES, find_regime

ORACLE = Oracle.name
BASELINES = ("least-loaded", "round-robin", "random", "sparrow", "reservation", "feedback")
WITH_SERVICES = ("autoscale",)
"""Baselines that do something of their own where there are services alone."""
METRICS: Mapping[str, str] = {
    "qos_kept_fraction": "fraction",
    "performance_mean": "fraction",
    "target_performance_mean": "fraction",
    "best_effort_performance_mean": "fraction",
    "utilization_cpu_to_95pct_mean": "fraction",
    "failed": "workloads",
}
"""Of the report, with their units."""


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison.

    Attributes:
        scenario: Its name.
        regime: The calibration.
        policies: The oracle first.
    """

    scenario: str
    regime: str
    policies: tuple[str, ...]

    @property
    def name(self) -> str:
        """As rows begin."""
        return f"{self.regime}/{self.scenario}"


def regimes_of(arguments: Arguments) -> tuple[str, ...]:
    """The one that was asked for, or all."""
    regime = arguments.regime
    return (find_regime(regime).name,) if regime else tuple(REGIMES)


def compare_cases(context: Context, cases: Sequence[Case]) -> dict[str, Comparison]:
    """Each case's policies on the same draws, by the case's name."""
    arguments = context.arguments
    groups = [
        [
            RunSpec(
                case.scenario,
                policy,
                seed=arguments.seed,
                regime=case.regime,
                servers=arguments.servers,
                workloads=arguments.workloads,
                series=policy != ORACLE,
            )
            for policy in case.policies
        ]
        for case in cases
    ]
    found = compare_all(context.run, groups, arguments.repeats, context.processes, context.progress)
    return dict(zip((case.name for case in cases), found, strict=True))


def papers_scenarios() -> tuple[str, ...]:
    """Names of those that papers describe."""
    return tuple(name for name in shipped() if name.startswith(("paragon-", "quasar-")))


def policies_for(scenario: str) -> tuple[str, ...]:
    """The oracle and the baselines that mean something there."""
    services = scenario in ("quasar-ec2", "quasar-stateful") or "webserver" in scenario
    return (ORACLE, *BASELINES, *(WITH_SERVICES if services else ()))


class PapersScenarios:
    """The experiment."""

    name = "papers-scenarios"
    about = "every scenario of Paragon and Quasar, under baselines and oracle in each regime"
    source = "Paragon (TOCS) 5, Quasar 5; paragon-figure2 has what was published of baselines"
    takes = frozenset({"servers", "workloads", "regime"})
    repeats = 1

    def check(self, arguments: Arguments) -> None:
        """Nothing but the regime's name can be wrong.

        Raises:
            InvalidInput: There is no such regime.
        """
        regimes_of(arguments)

    def run(self, context: Context) -> ExperimentResult:
        """All of them, one after the other."""
        cases = [
            Case(scenario, regime, policies_for(scenario))
            for regime in regimes_of(context.arguments)
            for scenario in papers_scenarios()
        ]
        if not cases:
            raise InvalidInput("no scenario of a paper is shipped")
        found = compare_cases(context, cases)
        seeds = next(iter(found.values())).seeds
        return ExperimentResult(self.name, seeds, tuple(_rows(found)), comparisons=found)


def _rows(found: Mapping[str, Comparison]) -> Iterator[Row]:
    for name, comparison in found.items():
        for policy in comparison.policies:
            for metric, unit in METRICS.items():
                yield Row.of(f"{name}/{policy.name}/{metric}", policy.metrics.get(metric), unit)
