"""Paragon's Figure 2 and what else it says of least-loaded, in each regime.

No policy of ours runs here but the oracle, and that only to be reported: where it keeps fewer
targets than a paper says of its own policy, this physics can't show that figure. The heterogeneity-
and interference-oblivious policies of the figure come with Paragon itself.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from wharfinger.experiments import plots
from wharfinger.experiments.base import Arguments, Context, ExperimentResult, Row
from wharfinger.experiments.comparison import Compared, Comparison
from wharfinger.experiments.papers_scenarios import ORACLE, Case, compare_cases, regimes_of
from wharfinger.experiments.statistics import Interval, interval
from wharfinger.simulator.results.outcome import Outcome
from wharfinger.simulator.truth.physics.regimes import REGIMES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASELINE = "least-loaded"
POLICIES = (ORACLE, BASELINE, "round-robin", "random")
FIGURE = "paragon-ec2-high"
"""Figure 2's scenario: 5,000 workloads on 1,000 servers."""


@dataclass(frozen=True, slots=True)
class Published:
    """What a paper says.

    Attributes:
        scenario: Of it.
        policy: Under which; the oracle's rows bear what the paper says of its own policy.
        metric: Of the report, or of ``DERIVED``.
        value: Its.
        where: Section or figure.
        unit: Of the value.
    """

    scenario: str
    policy: str
    metric: str
    value: float
    where: str
    unit: str = "fraction"


PUBLISHED = (
    Published(FIGURE, BASELINE, "performance_mean", 0.52, "Figure 2a, by 48%"),
    Published(FIGURE, BASELINE, "time_over_best_mean", 1.48, "Figure 2a, 48% more time", "ratio"),
    Published(FIGURE, BASELINE, "utilization_cpu_to_95pct_mean", 0.25, "Figure 2b, 20 to 30%"),
    Published("paragon-ec2-low", BASELINE, "qos_kept_fraction", 0.03, "section 1"),
    Published("paragon-ec2-oversubscribed", BASELINE, "qos_kept_fraction", 0.0009, "section 6.2"),
    Published("paragon-ec2-oversubscribed", BASELINE, "killed_fraction", 0.104, "section 6.2"),
    Published("paragon-local-low", BASELINE, "performance_mean", 0.54, "section 6.1, by 46%"),
    Published("paragon-local-medium", BASELINE, "qos_kept_fraction", 0.07, "section 6.1"),
    Published("paragon-azure", BASELINE, "qos_kept_fraction", 0.007, "section 6.2"),
    Published("paragon-ec2-low", ORACLE, "qos_kept_fraction", 0.91, "section 6.2, Paragon"),
    Published(FIGURE, ORACLE, "qos_kept_fraction", 0.61, "section 6.2, Paragon with ARQ"),
    Published(
        "paragon-ec2-oversubscribed", ORACLE, "qos_kept_fraction", 0.52, "section 6.2, Paragon"
    ),
    Published("paragon-local-low", ORACLE, "performance_mean", 0.99, "section 6.1, Paragon"),
    Published("paragon-local-medium", ORACLE, "qos_kept_fraction", 0.79, "section 6.1, Paragon"),
    Published("paragon-local-phases", ORACLE, "qos_kept_fraction", 0.66, "section 6.1, Paragon"),
    Published(
        "paragon-local-oversubscribed", ORACLE, "qos_kept_fraction", 0.825, "section 6.1, Paragon"
    ),
    Published("paragon-azure", ORACLE, "qos_kept_fraction", 0.61, "section 6.2, Paragon"),
    Published("paragon-gce", ORACLE, "performance_mean", 0.968, "section 6.2, Paragon"),
)  # fmt: skip
METRICS: Mapping[str, str] = {
    "qos_kept_fraction": "fraction",
    "performance_mean": "fraction",
    "time_over_best_mean": "ratio",
    "utilization_cpu_to_95pct_mean": "fraction",
    "utilization_cpu_mean": "fraction",
    "platform_loss_mean": "fraction",
    "interference_loss_mean": "fraction",
    "waiting_loss_mean": "fraction",
}


def killed(outcome: Outcome) -> float:
    """Share of the workloads that were killed."""
    return fmean(float(fate.end in ("failed", "vanished")) for fate in outcome.fates)


DERIVED: Mapping[str, tuple[str, Callable[[Outcome], float]]] = {
    "killed_fraction": ("fraction", killed),
}
"""Metrics that the report has not, with their units."""


class ParagonFigure2:
    """The experiment."""

    name = "paragon-figure2"
    about = "how far least-loaded slows workloads, beside the published figures, and the oracle's"
    source = "Paragon (TOCS) Figure 2, sections 1 and 6"
    takes = frozenset({"servers", "workloads", "regime"})
    repeats = 7

    def check(self, arguments: Arguments) -> None:
        """Refuse a regime that there is not."""
        regimes_of(arguments)

    def run(self, context: Context) -> ExperimentResult:
        """Each scenario of which something was published, in each regime."""
        scenarios = tuple(dict.fromkeys(each.scenario for each in PUBLISHED))
        cases = [
            Case(scenario, regime, POLICIES)
            for regime in regimes_of(context.arguments)
            for scenario in scenarios
        ]
        found = compare_cases(context, cases)
        seeds = next(iter(found.values())).seeds
        return ExperimentResult(
            self.name,
            seeds,
            tuple(row for case in cases for row in _rows(case, found[case.name])),
            tuple(_notes(cases, found)),
            found,
            _pictures(cases, found),
        )


def _rows(case: Case, comparison: Comparison) -> Iterator[Row]:
    """The oracle's first."""
    for policy in comparison.policies:
        for metric, unit in (*METRICS.items(), *((key, each[0]) for key, each in DERIVED.items())):
            name = f"{case.name}/{policy.name}/{metric}"
            yield Row.of(name, _found(policy, metric), unit, _published(case, policy.name, metric))


def _found(policy: Compared, metric: str) -> Interval | None:
    if metric in DERIVED:
        return interval(DERIVED[metric][1](outcome) for outcome in policy.outcomes)
    return policy.metrics.get(metric)


def _published(case: Case, policy: str, metric: str) -> float | None:
    for each in PUBLISHED:
        if (each.scenario, each.policy, each.metric) == (case.scenario, policy, metric):
            return each.value
    return None


def _notes(cases: list[Case], found: Mapping[str, Comparison]) -> Iterator[str]:
    """What each regime stands for, and which published figures are out of its reach."""
    for regime in dict.fromkeys(case.regime for case in cases):
        yield f"{regime}: {REGIMES[regime].about}."
    yield (
        "Published values in the oracle's rows are those of Paragon's own policy: where the oracle "
        "is below, this physics can't show that figure."
    )
    for case in cases:
        for each in PUBLISHED:
            if (each.scenario, each.policy) != (case.scenario, ORACLE):
                continue
            reached = _found(found[case.name][ORACLE], each.metric)
            if reached is not None and reached.mean < each.value:
                yield (
                    f"{case.name}: the oracle's {each.metric} is {reached.mean:.3g}, below the "
                    f"published {each.value:g} ({each.where})."
                )


def _pictures(
    cases: list[Case], found: Mapping[str, Comparison]
) -> "dict[str, Callable[[], Figure]]":
    """Figure 2a and 2b, for each regime."""
    drawn: dict[str, Callable[[], Figure]] = {}
    for case in cases:
        if case.scenario != FIGURE:
            continue
        policies = found[case.name].policies
        drawn[f"performance-{case.regime}"] = partial(
            plots.performance,
            {policy.name: policy.outcomes for policy in policies},
            f"Paragon, Figure 2a: {case.regime}",
        )
        series = {
            policy.name: policy.outcomes[0].series
            for policy in policies
            if policy.name == BASELINE and policy.outcomes[0].series is not None
        }
        drawn[f"utilization-{case.regime}"] = partial(
            plots.utilization, series, f"Paragon, Figure 2b: {case.regime}"
        )
    return drawn
