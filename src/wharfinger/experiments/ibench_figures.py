"""iBench's Figures 5.5 and 5.6: what knowing interference is worth to a scheduler, as data.

Source: iBench (dissertation 5.5.1). Performance is over that in isolation *on the server where it
runs*, as the paper normalizes it: platforms and waiting are apart from it, and stand beside it. The
interference oracle is the same rule with true slow-downs in the place of scores; it knows no
platforms either. Published numbers are over ``least-loaded``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from wharfinger.experiments.comparison import Compared, Comparison
from wharfinger.experiments.runs import Case, Figure, Published, RunExperiment, RunMeasure
from wharfinger.experiments.statistics import MeanInterval, interval
from wharfinger.simulator.pieces import (
    NO_PROFILING,
    NO_REACTION,
    TRUE_CONTENTION,
    TRUE_SCORES,
    informed,
)
from wharfinger.simulator.results.outcome import JobOutcome, Outcome
from wharfinger.simulator.truth.physics.regimes import REGIMES

IBENCH, LEAST_LOADED = "ibench", "least-loaded"
INTERFERENCE_ORACLE = informed(IBENCH, TRUE_CONTENTION, NO_PROFILING, NO_REACTION)
"""The same rule with true slow-downs, in no time."""
SCORES_KNOWN = informed(IBENCH, TRUE_SCORES, NO_PROFILING, NO_REACTION)
"""The policy itself, did it know its scores of all sources: what is lost to classification."""
MIX, HADOOP, MEMCACHED = "ibench-mix", "ibench-hadoop", "ibench-memcached"
ISOLATION, WHOLE = "performance_in_isolation_mean", "performance_mean"
PRIMARY, BEST_EFFORT = "qos_kept_fraction", "best_effort_performance_mean"
UTILIZATION, SERVERS = "utilization_cpu_to_95pct_mean", "servers_used_mean"
MAKESPAN = "makespan_seconds"
GAINED = 0.9
"""What ``ibench`` is to take of what the oracle gains over ``least-loaded``."""
PUBLISHED_GAIN = 1.157


def in_isolation(fate: JobOutcome) -> float | None:
    """Performance over that alone on the same servers; ``None`` = it never ran.

    >>> from types import SimpleNamespace as Fate
    >>> losses = {"platform_loss": 0.2, "allocation_loss": 0.0, "waiting_loss": 0.1}
    >>> round(in_isolation(Fate(performance=0.5, interference_loss=0.2, **losses)), 6)
    0.75
    """
    alone = 1.0 - fate.platform_loss - fate.allocation_loss
    beside = alone - fate.interference_loss
    return beside / alone if alone > 1e-9 and fate.performance > 0 else None


def mean_in_isolation(outcome: Outcome) -> float | None:
    """Of all workloads, best-effort ones too."""
    values = [value for fate in outcome.fates if (value := in_isolation(fate)) is not None]
    return fmean(values) if values else None


@dataclass(frozen=True, slots=True)
class IBenchFigure(RunExperiment):
    """Also says how much of the oracle's gain over ``least-loaded`` the policy takes."""

    def _notes(self, comparisons: Mapping[Case, Comparison]) -> Iterator[str]:
        yield from super(IBenchFigure, self)._notes(comparisons)
        for case, comparison in comparisons.items():
            yield from told(case.name, comparison)


def told(case: str, comparison: Comparison) -> Iterator[str]:
    """The gains of one case, in a sentence each for performance in isolation and for all of it."""
    floor = comparison[LEAST_LOADED]
    for key in (ISOLATION, WHOLE):
        own, bound = (_gain(comparison[name], floor, key) for name in (IBENCH, INTERFERENCE_ORACLE))
        known = _gain(comparison[SCORES_KNOWN], floor, key)
        before = floor.metrics.get(key)
        if own is None or bound is None or known is None or not before:
            continue
        apart = own.low is not None and own.low > 0
        gained = (
            f"{case}, {key}: the interference oracle gains {_percent(bound, before)} over "
            f"{LEAST_LOADED}, {IBENCH} {_percent(own, before)}, with its true scores "
            f"{_percent(known, before)}"
        )
        words = [gained]
        if bound.mean > 0:
            words.append(f"{own.mean / bound.mean:.2f} of the oracle's ({GAINED:g} is wanted)")
        words.append("apart from 0" if apart else "not apart from 0")
        if key == ISOLATION and bound.mean / before.mean >= PUBLISHED_GAIN - 1:
            reached = own.mean / before.mean >= PUBLISHED_GAIN - 1
            words.append("the published 15.7% are " + ("reached" if reached else "not reached"))
        yield f"{'; '.join(words)}."


def _gain(policy: Compared, floor: Compared, key: str) -> MeanInterval | None:
    """Paired over seeds."""
    pairs = zip(policy.runs, floor.runs, strict=True)
    values = [(own.summary.get(key), other.summary.get(key)) for own, other in pairs]
    return interval(a - b for a, b in values if a is not None and b is not None)


def _percent(gain: MeanInterval, before: MeanInterval) -> str:
    if gain.low is None or gain.high is None:
        return f"{gain.mean / before.mean:+.1%}"
    low, high = gain.low / before.mean, gain.high / before.mean
    return f"{gain.mean / before.mean:+.1%} ({low:+.1%} to {high:+.1%})"


def _over(key: str) -> RunMeasure:
    return RunMeasure(f"{key}_over_{LEAST_LOADED}", "times", over=(key, LEAST_LOADED))


def _published(scenario: str, key: str, value: float, where: str) -> Iterator[Published]:
    for policy in (INTERFERENCE_ORACLE, IBENCH):
        yield Published(scenario, policy, f"{key}_over_{LEAST_LOADED}", value, where)


_OF_BOTH = IBenchFigure(
    name="",
    about="",
    source="",
    policies=(
        INTERFERENCE_ORACLE, IBENCH, SCORES_KNOWN, "paragon", "heterogeneity-oblivious",
        LEAST_LOADED, "random",
    ),
    measures=(),
    ceiling=INTERFERENCE_ORACLE,
    baselines=(LEAST_LOADED, "random"),
    scenarios=(MIX, HADOOP, MEMCACHED),
    regimes=tuple(REGIMES),
    notes=(
        (
            "Performance in isolation is over that alone on the same server, without what platform "
            "and waiting take; performance_mean has all of it. True slow-downs hold what each "
            "program does to each other one besides its pressure (idiosyncratic noise), which no "
            "score by source tells: the row with true scores says how much that is."
        ),
    ),
)  # fmt: skip

IBENCH_FIGURE55 = replace(
    _OF_BOTH,
    name="ibench-figure55",
    about="performance with and without knowing interference: a mix, Hadoop and memcached",
    source="iBench (dissertation) Figure 5.5, section 5.5.1",
    measures=(
        RunMeasure(ISOLATION, better=1, of=mean_in_isolation),
        _over(ISOLATION),
        RunMeasure(WHOLE, better=1),
        RunMeasure(PRIMARY, better=1),
        RunMeasure(BEST_EFFORT, better=1),
        RunMeasure("interference_loss_mean"),
        RunMeasure("waiting_loss_mean"),
        RunMeasure("unfinished", "workloads"),
    ),
    published=tuple(_published(MIX, ISOLATION, PUBLISHED_GAIN, "5.5.1, 15.7% on average")),
    figures=(
        Figure(
            "ranked",
            "figure55-{regime}-{scenario}",
            "{scenario}: {regime}",
            policies=(INTERFERENCE_ORACLE, IBENCH, LEAST_LOADED),
        ),
        Figure("bars", "isolation-{regime}", "Over isolation: {regime}", ISOLATION, "share"),
    ),
)

IBENCH_FIGURE56 = replace(
    _OF_BOTH,
    name="ibench-figure56",
    about="utilization, servers and time with and without knowing interference",
    source="iBench (dissertation) Figure 5.6, sections 5.1 and 5.5.1",
    measures=(
        RunMeasure(UTILIZATION, better=1),
        _over(UTILIZATION),
        RunMeasure(SERVERS, "servers"),
        _over(SERVERS),
        RunMeasure(MAKESPAN, "s", better=-1),
        _over(MAKESPAN),
        RunMeasure(BEST_EFFORT, better=1),
    ),
    published=(
        *_published(MIX, UTILIZATION, 1.42, "section 5.1"),
        *_published(HADOOP, UTILIZATION, 1.356, "section 5.5.1"),
        *_published(MEMCACHED, UTILIZATION, 1.271, "section 5.5.1"),
    ),
    figures=(
        Figure(
            "utilization",
            "figure56-{regime}-{scenario}",
            "{scenario}: {regime}",
            policies=(IBENCH, LEAST_LOADED),
        ),
        Figure("bars", "utilization-{regime}", "Utilization: {regime}", UTILIZATION, "share"),
    ),
)
