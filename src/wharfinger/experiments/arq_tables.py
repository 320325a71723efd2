"""ARQ with the shortest first, and with priorities: the dissertation's Tables 6.2 and 6.3, as data.

Source: dissertation 6.5.1. The deviation of a workload is what its time from submission to its end
is above its ideal time, as a share of that: alone at once on its best platform. The tables do not
say how they take the harmonic mean of deviations that are zero or negative: here the least is
``LEAST_DEVIATION``. Below it a workload ran as in its ideal, or better than that by its own noise.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from statistics import fmean, harmonic_mean, stdev

from wharfinger.experiments.arq_figures import LOCAL
from wharfinger.experiments.paragon_figures import KEPT, OF_SCHEDULERS, PERFORMANCE
from wharfinger.experiments.runs import Figure, Published, RunMeasure
from wharfinger.simulator.results.outcome import JobOutcome, Outcome
from wharfinger.simulator.scenario.scenario_files import SHIPPED

LEAST_DEVIATION = 1e-4
SHORTEST_FIRST, IN_ORDER, WITHOUT = "paragon + arq[order=shortest]", "paragon + arq", "paragon"
SHORTEST = {
    5: (0.0020, 0.0015), 10: (0.0030, 0.0008), 25: (0.0120, 0.0030), 50: (0.0145, 0.0034),
    75: (0.0178, 0.0026), 90: (0.0231, 0.0055), 95: (0.0232, 0.0057), 100: (0.0228, 0.0053),
}  # fmt: skip
"""Table 6.2: harmonic mean and standard deviation of the shortest so many percent."""
STATED, PRIORITIES = "durations-stated", "priorities"
HIGH, LOW = "high", "low"
BY_PRIORITY = {HIGH: (0.0080, 0.0006), LOW: (0.0274, 0.0032)}
"""Table 6.3: harmonic mean and standard deviation."""
PRIORITY = 10
STATISTICS: Mapping[str, Callable[[Sequence[float]], float | None]] = {
    "hmean": lambda values: harmonic_mean([max(each, LEAST_DEVIATION) for each in values]),
    "sd": lambda values: stdev(values) if len(values) > 1 else None,
    "mean": fmean,
}
"""Of deviations."""


def shortest(percent: int, outcome: Outcome) -> list[float]:
    """Deviations of that part of the workloads that is shortest by ideal time, the shortest first.

    Without those that failed or have not ended.
    """
    ranked = sorted(outcome.ended, key=lambda fate: fate.ideal_seconds)
    return [_deviation(each) for each in ranked[: ceil(percent / 100 * len(ranked))]]


def of_priority(priority: str, outcome: Outcome) -> list[float]:
    """Deviations of workloads of ``high`` or ``low`` priority, those that ended."""
    return [_deviation(each) for each in _having(priority, outcome.ended)]


def kept(priority: str, outcome: Outcome) -> float | None:
    """Share of those with a target that kept it."""
    wanted = [e.kept for e in _having(priority, outcome.fates) if e.target_performance is not None]
    return fmean(wanted) if wanted else None


def _having(priority: str, fates: Sequence[JobOutcome]) -> list[JobOutcome]:
    is_high = priority == HIGH
    return [each for each in fates if each.name.startswith(f"{HIGH}-") == is_high]


def _deviation(fate: JobOutcome) -> float:
    return 1 / fate.performance - 1


def statistic(name: str, of: "partial[list[float]]", outcome: Outcome) -> float | None:
    """One of ``STATISTICS`` of the deviations of a run; ``None`` = there are none."""
    values = of(outcome)
    return STATISTICS[name](values) if values else None


def _measures(group: str, of: "partial[list[float]]") -> Iterator[RunMeasure]:
    for name in STATISTICS:
        better = 0 if name == "sd" else -1
        yield RunMeasure(f"{group}/{name}", better=better, of=partial(statistic, name, of))


# --- scenarios ------------------------------------------------------------------------------

_CLASS = re.compile(r"    - name: .+\n(?:      .+\n)+")


def _shipped() -> str:
    return (SHIPPED / f"{LOCAL}.yaml").read_text(encoding="utf-8")


def _with(block: str, *lines: str) -> str:
    return block + "".join(f"      {line}\n" for line in lines)


def stated() -> str:
    """The shipped scenario, but users say how long their workloads run, as SJF has to know."""
    return _CLASS.sub(lambda found: _with(found[0], "expectsDuration: true"), _shipped())


def priorities() -> str:
    """The same, with every class twice: a fifth of it has a higher priority."""

    def twice(found: "re.Match[str]") -> str:
        high = found[0].replace("- name: ", f"- name: {HIGH}-", 1)
        return _with(found[0], "share: 4") + _with(high, "share: 1", f"priority: {PRIORITY}")

    return _CLASS.sub(twice, stated())


# --- experiments ----------------------------------------------------------------------------


def _published(
    where: str, scenario: str, policy: str, group: str, numbers: Sequence[float]
) -> Iterator[Published]:
    """A harmonic mean and a standard deviation, beside the policy and the oracle."""
    for name, number in zip(("hmean", "sd"), numbers, strict=True):
        for each in (policy, "oracle"):
            yield Published(scenario, each, f"{group}/{name}", number, where)


_BY_LENGTH = {percent: f"shortest-{percent}%" for percent in SHORTEST}
_FLOOR_NOTE = (
    f"hmean: deviations below {LEAST_DEVIATION:.2%} count as that much; the tables do not say how "
    "they take those. A few such workloads decide it; mean and sd are of deviations as they are."
)
_TIME_NOTE = (
    "Time is from submission to the end, profiling and waiting included; 0 = alone, at once, on "
    "the best platform."
)

ARQ_TABLE62 = replace(
    OF_SCHEDULERS,
    name="arq-table6.2",
    about="how far workloads are from their ideal time by length, if ARQ serves the shortest first",
    source="dissertation Table 6.2, section 6.5.1",
    policies=(WITHOUT, IN_ORDER, SHORTEST_FIRST, "oracle"),
    scenarios=(LOCAL,),
    documents={STATED: stated()},
    measures=(
        *(
            measure
            for percent, group in _BY_LENGTH.items()
            for measure in _measures(group, partial(shortest, percent))
        ),
        RunMeasure(KEPT, better=1),
        RunMeasure(PERFORMANCE, better=1),
        RunMeasure("waiting_loss_mean", better=-1),
        RunMeasure("failed", "workloads"),
        RunMeasure("unfinished", "workloads"),
    ),
    figures=(
        Figure(
            "bars",
            "mean-{regime}",
            "Time over the ideal, all: {regime}",
            of="shortest-100%/mean",
            label="mean deviation (1 = twice the ideal)",
        ),
    ),
    published=tuple(
        number
        for scenario in (LOCAL, STATED)
        for percent, group in _BY_LENGTH.items()
        for number in _published("Table 6.2", scenario, SHORTEST_FIRST, group, SHORTEST[percent])
    ),
    notes=(
        _FLOOR_NOTE,
        _TIME_NOTE,
        f"In {STATED} users say how long their workloads run; else ARQ knows it of few that come.",
    ),
)

ARQ_TABLE63 = replace(
    OF_SCHEDULERS,
    name="arq-table6.3",
    about="how far workloads of high and low priority are from their ideal time with ARQ",
    source="dissertation Table 6.3, section 6.5.1",
    policies=(WITHOUT, IN_ORDER, "oracle"),
    documents={PRIORITIES: priorities()},
    measures=(
        *(
            measure
            for group in BY_PRIORITY
            for measure in (
                *_measures(group, partial(of_priority, group)),
                RunMeasure(f"{group}/kept", better=1, of=partial(kept, group)),
            )
        ),
        RunMeasure(PERFORMANCE, better=1),
        RunMeasure("failed", "workloads"),
        RunMeasure("unfinished", "workloads"),
    ),
    figures=(
        Figure(
            "bars",
            "mean-{regime}",
            "Time over the ideal, high priority: {regime}",
            of=f"{HIGH}/mean",
            label="mean deviation (1 = twice the ideal)",
        ),
        Figure(
            "bars",
            "kept-{regime}",
            "Targets kept, high priority: {regime}",
            of=f"{HIGH}/kept",
            label="share",
        ),
    ),
    published=tuple(
        number
        for group, numbers in BY_PRIORITY.items()
        for number in _published("Table 6.3", PRIORITIES, IN_ORDER, group, numbers)
    ),
    notes=(
        _FLOOR_NOTE,
        _TIME_NOTE,
        (
            f"A fifth of each class has priority {PRIORITY}, the rest 0; users say how long their "
            "workloads run."
        ),
    ),
)
