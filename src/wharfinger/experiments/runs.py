"""Experiments that are policies × scenarios × seeds, as data.

A ``RunExperiment`` names the runs, their numbers, the published numbers, and the pictures.
docs/experiments.md shows a whole one; ``registry.py`` lists all.
"""

import fnmatch
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.errors import InvalidInput
from wharfinger.experiments import paragon_plots, plots, service_plots
from wharfinger.experiments.base import Arguments, Context, ExperimentResult, ResultRow
from wharfinger.experiments.comparison import Compared, Comparison, RunGroup, compare
from wharfinger.experiments.statistics import CONFIDENCE, MeanInterval
from wharfinger.experiments.workspace import Workspace, file_name
from wharfinger.model.arrays import Array
from wharfinger.simulator.results.outcome import Outcome, Series
from wharfinger.simulator.run import UNDER, RunSpec
from wharfinger.simulator.scenario.build import scale_to
from wharfinger.simulator.scenario.scenario_files import load_scenario, shipped
from wharfinger.simulator.truth.physics.regimes import REGIMES, find_regime
from wharfinger.simulator.truth.tables import GROUPS, ISOLATED, PAIRS, SCALE_OUT, read_tables

if TYPE_CHECKING:
    from matplotlib import figure as mpl

WHOLE = "performance_mean"
"""The losses are parts of it: a policy that reduces one may increase another."""
TABLES = "$tables"
"""Placeholder in a scenario's text for the directory of measured tables."""
HARM = 0.01
"""A point: what a policy may do worse than the better of the baselines."""
ENOUGH = 0.15
"""Where the ceiling keeps no more, no policy can be told from another."""
HARMED = {"qos_kept_fraction": 1, WHOLE: 1, "unfinished": -1}
"""In these numbers; -1 = lower is better. What never ran performs at 0."""
SERIES: "Mapping[str, Callable[[Mapping[str, Series], str], mpl.Figure]]" = {
    "utilization": plots.utilization,
    "cores": plots.cores,
    "ideal-cores": partial(plots.cores, ideal=True),
    "performance": paragon_plots.performance,
    "after-change": paragon_plots.after_change,
    "latency": plots.latency,
    "throughput": service_plots.throughput,
}
"""Kinds of figures of the cluster over time."""
VALUES: "Mapping[str, Callable[[Mapping[str, Array], str, str], mpl.Figure]]" = {
    "ranked": plots.ranked,
    "breakdown": paragon_plots.breakdown,
}
"""Kinds of figures of a field of each workload's fate."""


@dataclass(frozen=True, slots=True)
class RunMeasure:
    """A number of each run, by its key in the report; ``of`` computes one that is not there.

    ``better``: 1 = higher is better, -1 = lower; 0 = neither. ``series``: ``of`` reads those of the
    outcome. ``over``: it is the ratio of a number, by key, to that of a policy with the same seed.
    """

    key: str
    unit: str = "fraction"
    better: int = 0
    of: Callable[[Outcome], float | None] | None = None
    series: bool = False
    over: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """A paper's number for a measure under a policy; ``where`` is the section or figure."""

    scenario: str
    policy: str
    measure: str
    value: float
    where: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture of the runs.

    ``{scenario}`` and ``{regime}`` in name and title are filled in; cases that give the same name
    are drawn in one picture.

    Attributes:
        kind: ``"ranked"``: a field of each workload's fate, from worst to best. ``"breakdown"``: a
            loss, by how many lose how much. ``"bars"``: a measure's means, with the published
            ones. ``"utilization"``: a heat map of servers over time. ``"cores"``: CPUs over time;
            ``"ideal-cores"``: those required had nobody been slowed. ``"performance"``: of those
            that run, over time; ``"after-change"``: since a phase began. ``"latency"``: over its
            bound. ``"throughput"``: requests asked, answered and in their bound, over time.
        of: The field, or the measure.
        scenarios: A pattern of names.
        policies: Empty = all.
    """

    kind: str
    name: str
    title: str
    of: str = "performance"
    label: str = plots.PERFORMANCE
    scenarios: str = "*"
    policies: tuple[str, ...] = ()

    def shows(self, scenario: str, policy: str) -> bool:
        """Whether the picture includes the runs of that policy."""
        among = not self.policies or policy in self.policies
        return among and fnmatch.fnmatchcase(scenario, self.scenarios)


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario in one regime; ``""`` = the scenario's own regime."""

    scenario: str
    regime: str = ""

    @property
    def name(self) -> str:
        """The prefix of its rows."""
        return f"{self.regime}/{self.scenario}" if self.regime else self.scenario

    def fill(self, template: str) -> str:
        """The template with ``{scenario}`` and ``{regime}`` filled in."""
        return template.replace("{scenario}", self.scenario).replace("{regime}", self.regime)


_Comparisons = Mapping[Case, Comparison]
_Shown = Mapping[tuple[Case, str], Compared]


@dataclass(frozen=True, slots=True)
class RunExperiment:
    """Policies × scenarios × seeds: a table beside published numbers, and figures.

    Attributes:
        source: Paper and section, table or figure; or that nothing was published.
        policies: With their settings, perhaps under another admission than their own (``paragon +
            arq``); differences are from the first.
        scenarios: Files, names, or patterns of the names of shipped ones.
        documents: Texts of further scenarios, by name. ``$tables`` in them stands for the
            measured tables, which ``--tables`` must name then.
        regimes: Each scenario runs in each; empty = each in its own.
        more_policies: Further policies, by a pattern of scenarios.
        label: Name of a case in comparisons, such as ``"{scenario} load"``; empty = as in rows.
        ceiling: A policy that knows the truth. Notes say which published numbers it does not
            reach; and if it is the first, what beats it in a measure with a ``better`` side.
        servers: Of the cluster; ``None`` = the scenario's. So is ``workloads``.
        most_workloads: Scenarios with more are scaled down to so many, at the same load; ``None`` =
            none is.
        baselines: Notes say where another policy than these and the ceiling does harm: what it
            keeps or performs on average is more than ``HARM`` below the better of these, or it
            leaves more workloads unfinished. Empty = nothing is said.
        ahead: A policy. Notes say in which cases it is not better than which other, in targets kept
            and in performance, by paired intervals. Cases count where the ceiling keeps more than
            ``ENOUGH``.
    """

    name: str
    about: str
    source: str
    policies: tuple[str, ...]
    measures: tuple[RunMeasure, ...]
    scenarios: tuple[str, ...] = ()
    documents: Mapping[str, str] = field(default_factory=dict)
    regimes: tuple[str, ...] = ()
    more_policies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    published: tuple[Published, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    label: str = ""
    ceiling: str = ""
    repeats: int = 7
    servers: int | None = None
    workloads: int | None = None
    most_workloads: int | None = None
    baselines: tuple[str, ...] = ()
    ahead: str = ""

    @property
    def takes(self) -> frozenset[str]:
        """The options for the cluster's size, and those that its scenarios need."""
        needed = {"regime": self.regimes, "tables": self._on_tables}
        return frozenset(
            {"servers", "workloads", "scale"} | {name for name, on in needed.items() if on}
        )

    @property
    def _on_tables(self) -> bool:
        return any(TABLES in text for text in self.documents.values())

    def check(self, arguments: Arguments) -> None:
        """Refuse an unknown regime, and tables that are missing or wrong."""
        if arguments.regime:
            find_regime(arguments.regime)
        if self._on_tables:
            self._tables(arguments.tables)

    def _tables(self, directory: Path | None) -> dict[str, Path]:
        """Directories of tables by name: those in the given one, or ``""`` for itself."""
        if directory is None:
            raise InvalidInput(
                f"{self.name} needs --tables DIR, with isolated.csv (workload,platform,performance)"
                " and pairs.csv (platform,workload,beside,performance), as docs/scenarios.md says; "
                "no data are shipped"
            )
        inside = {} if (directory / ISOLATED).exists() else _holding(directory)
        found = inside or {"": directory}
        for each in found.values():
            read_tables(each)
        return found

    def run(self, context: Context) -> ExperimentResult:
        """Each policy in each case with each seed."""
        arguments = context.arguments
        files = self._files(context.space, arguments)
        groups = {case: self._group(case, files, arguments) for case in self.cases(arguments)}
        compared = compare(
            context.run,
            list(groups.values()),
            arguments.repeats,
            context.processes,
            context.progress,
            context.space.fates,
        )
        comparisons = dict(zip(groups, compared, strict=True))
        return ExperimentResult(
            self.name,
            arguments.seeds,
            tuple(self._rows(comparisons)),
            tuple(self._notes(comparisons)),
            {self._label(case): each for case, each in comparisons.items()},
            self._pictures(comparisons),
        )

    # --- what is run ------------------------------------------------------------------------

    def cases(self, arguments: Arguments) -> list[Case]:
        """Every scenario in every regime, or in the requested one."""
        names_shipped = list(shipped())
        # A pattern without a match is a file.
        matching = (fnmatch.filter(names_shipped, each) or [each] for each in self.scenarios)
        documents = self._documents(arguments)
        names = dict.fromkeys(name for group in (*matching, documents) for name in group)
        regimes = (arguments.regime,) if arguments.regime else self.regimes or ("",)
        return [Case(name, regime) for regime in regimes for name in names]

    def policies_in(self, scenario: str) -> list[str]:
        """All policies that run in the scenario, in order."""
        names = list(self.policies)
        for pattern, more in self.more_policies.items():
            names += more if fnmatch.fnmatchcase(scenario, pattern) else ()
        return names

    def _files(self, space: Workspace, arguments: Arguments) -> dict[str, str]:
        places = {"": ""}
        if self._on_tables:
            for name, directory in self._tables(arguments.tables).items():
                tables = space.read(directory, (ISOLATED, PAIRS, SCALE_OUT, GROUPS), name)
                copied = tables.is_relative_to(space.folder)
                places[name] = f"../{tables.relative_to(space.folder)}" if copied else str(tables)
        files: dict[str, str] = {}
        for name, (text, of) in self._documents(arguments).items():
            # Any string of JSON is one of YAML.
            filled = text.replace(TABLES, json.dumps(places[of]))
            files[name] = str(space.write(f"scenarios/{name}.yaml", filled))
        return files

    def _documents(self, arguments: Arguments) -> dict[str, tuple[str, str]]:
        """Texts by case, each with the name of its tables: all of them in each of the tables."""
        if not self._on_tables or arguments.tables is None:
            return {name: (text, "") for name, text in self.documents.items()}
        return {
            f"{of}-{name}" if of else name: (text, of)
            for of in self._tables(arguments.tables)
            for name, text in self.documents.items()
        }

    def _group(self, case: Case, files: Mapping[str, str], arguments: Arguments) -> RunGroup:
        policies = self.policies_in(case.scenario)
        drawn = {
            policy: [each for each in self.figures if each.shows(case.scenario, policy)]
            for policy in policies
        }
        read = any(measure.series for measure in self.measures)
        specs = [
            RunSpec(
                files.get(case.scenario, case.scenario),
                policy.partition(UNDER)[0],
                policy.partition(UNDER)[2],
                seed=arguments.seed,
                regime=case.regime or None,
                servers=arguments.servers or self.servers,
                workloads=arguments.workloads or self.workloads,
                scale=self._scale(files.get(case.scenario, case.scenario), arguments),
                series=read or any(each.kind in SERIES for each in drawn[policy]),
            )
            for policy in policies
        ]
        figures = [each for of_policy in drawn.values() for each in of_policy]
        fields = dict.fromkeys(each.of for each in figures if each.kind in VALUES)
        derived = {each.key: each.of for each in self.measures if each.of is not None}
        ratios = {each.key: each.over for each in self.measures if each.over is not None}
        return RunGroup(self._label(case), specs, tuple(fields), derived, read, ratios)

    def _scale(self, scenario: str, arguments: Arguments) -> float:
        if arguments.scale is not None:
            return arguments.scale
        sized = arguments.servers or arguments.workloads or self.servers or self.workloads
        if self.most_workloads is None or sized:
            return 1.0
        return scale_to(load_scenario(scenario), self.most_workloads)

    def _label(self, case: Case) -> str:
        return case.fill(self.label) or case.name

    # --- rows and notes ---------------------------------------------------------------------

    def _published(self, scenario: str, policy: str, measure: str) -> float | None:
        numbers = {(p.scenario, p.policy, p.measure): p.value for p in self.published}
        return numbers.get((scenario, policy, measure))

    def _rows(self, comparisons: _Comparisons) -> Iterator[ResultRow]:
        for case, policy in _each(comparisons):
            for measure in self.measures:
                yield ResultRow.of(
                    f"{case.name}/{policy.name}/{measure.key}",
                    policy.metrics.get(measure.key),
                    measure.unit,
                    self._published(case.scenario, policy.name, measure.key),
                )

    def _notes(self, comparisons: _Comparisons) -> Iterator[str]:
        for regime in dict.fromkeys(case.regime for case in comparisons if case.regime):
            yield f"{regime}: {REGIMES[regime].about}."
        if self.ceiling == self.policies[0] and any(measure.better for measure in self.measures):
            yield from self.leads(comparisons)
        if self.baselines:
            yield from self.harm(comparisons)
        if self.ahead:
            yield from self.not_ahead(comparisons)
        yield from self.notes
        for case, policy in _each(comparisons):
            for name, count in policy.taken_from().items():
                yield (
                    f"{case.name}: the {policy.name} takes the schedule of {name}, which is better "
                    f"than its own, in {count} of {len(policy.runs)} runs."
                )
            yield from self._not_reached(case, policy, comparisons[case])

    def _not_reached(self, case: Case, policy: Compared, beside: Comparison) -> Iterator[str]:
        """Sentences: which published numbers are not reached, by this physics or by a policy.

        What was published of the ceiling too is what the policy should reach.
        """
        for each in self.published:
            if (each.scenario, each.policy) != (case.scenario, policy.name) or not self.ceiling:
                continue
            bound = self._published(each.scenario, self.ceiling, each.measure)
            worst = next(m.better for m in self.measures if m.key == each.measure) or 1
            best = beside[self.ceiling].metrics.get(each.measure)
            own = policy.metrics.get(each.measure)
            if bound != each.value or best is None or own is None:
                continue
            side = "below" if worst > 0 else "above"
            physics = (best.mean - each.value) * worst < 0
            if policy.name == self.ceiling and physics:
                yield (
                    f"{case.name}: the {self.ceiling}'s {each.measure} is {best.mean:.3g}, "
                    f"{side} the published {each.value:g} ({each.where})."
                )
            elif not physics and (own.mean - each.value) * worst < 0:
                yield (
                    f"{case.name}: {each.measure} of {policy.name} is {own.mean:.3g}, {side} the "
                    f"published {each.value:g}; the {self.ceiling}'s {best.mean:.3g} reaches it: "
                    "it is the policy that does not."
                )

    def harm(self, comparisons: _Comparisons) -> list[str]:
        """Sentences: where a policy does worse than the baselines together, worst first."""
        count, found = 0, list[tuple[float, str]]()
        for case, comparison in comparisons.items():
            for policy in comparison.policies:
                if policy.name in (*self.baselines, self.ceiling):
                    continue
                for key, better in HARMED.items():
                    count += 1
                    values = {b: _mean(comparison[b], key) * better for b in self.baselines}
                    best = max(values, key=values.__getitem__)
                    short = values[best] - _mean(policy, key) * better
                    if short > HARM:
                        mean, than = _mean(policy, key), abs(values[best])
                        words = f"{policy.name} at {self._label(case)}: {key} {mean:.3g}"
                        found.append((short, f"{words}, under {best} {than:.3g}."))
        what = f"by more than {HARM:g}, in means over the seeds"
        if not found:
            return [f"No policy does harm {what}, in any of {count} comparisons."]
        in_order = [words for _, words in sorted(found, reverse=True)]
        return [f"Harm is done {len(found)} times in {count}, {what}:", *in_order]

    def not_ahead(self, comparisons: _Comparisons) -> list[str]:
        """Sentences: where ``ahead`` is not shown to be better than another, worst first."""
        count, found = 0, list[tuple[float, str]]()
        for case, comparison in comparisons.items():
            if _mean(comparison[self.ceiling], "qos_kept_fraction") <= ENOUGH:
                continue
            own = comparison[self.ahead]
            for other in comparison.policies:
                if other.name in (self.ahead, self.ceiling):
                    continue
                differences = own.over(other)
                for key in ("qos_kept_fraction", WHOLE):
                    by = differences.get(key)
                    count += 1
                    if by is None:
                        found.append((0.0, f"{other.name} at {self._label(case)}: no {key}."))
                    elif by.low is None or by.low <= 0:
                        words = f"{other.name} at {self._label(case)}: {key} by {_interval(by)}"
                        found.append((by.mean, f"{words}."))
        what = f"{self.ahead} is better than another policy"
        where = f"where the {self.ceiling} keeps over {ENOUGH:.0%}"
        if not count:
            return [f"The {self.ceiling} keeps over {ENOUGH:.0%} nowhere: nothing is compared."]
        if not found:
            return [f"{what} in all of {count} comparisons {where}, by paired 95% intervals."]
        in_order = [words for _, words in sorted(found)]
        shown = f"{count - len(found)} of {count} comparisons {where}, by paired 95% intervals"
        return [f"{what} in {shown}; not shown against:", *in_order]

    def leads(self, comparisons: _Comparisons) -> list[str]:
        """Sentences: which policies beat the ceiling, in which measures.

        The ceiling knows the truth but may decide one workload at a time, so it can be beaten; a
        policy that reduces one loss may pay for it in another.
        """
        count, better = 0, dict[str, list[str]]()
        for case, policy in _each(comparisons):
            for measure in self.measures:
                by = policy.difference.get(measure.key)
                if not measure.better or by is None or by.excludes_zero is None:
                    continue
                count += 1
                if by.excludes_zero and by.mean * measure.better > 0:
                    lead = self._lead(case, policy, measure, by)
                    better.setdefault(policy.name, []).append(lead)
        if not count:
            return [f"Whether anything beats the {self.ceiling} can't be told from one seed."]
        chance = (
            f"by paired 95% intervals. Of {count} comparisons about "
            f"{count * (1 - CONFIDENCE) / 2:.0f} would seem better by chance alone."
        )
        if not better:
            return [f"Nothing beats the {self.ceiling} in any metric, {chance}"]
        times = sum(map(len, better.values()))
        return [
            f"The {self.ceiling} is beaten {times} times, {chance}",
            *(f"{name} beats the {self.ceiling} in {'; '.join(better[name])}." for name in better),
        ]

    def _lead(self, case: Case, policy: Compared, measure: RunMeasure, by: MeanInterval) -> str:
        """A smaller loss is stated with the difference in performance."""
        words = (
            f"{measure.key} at {self._label(case)} by {abs(by.mean):.2g} "
            f"({by.low:+.2g} to {by.high:+.2g})"
        )
        whole = policy.difference.get(WHOLE)
        if measure.better > 0 or whole is None:
            return words
        return f"{words}, where its {WHOLE} differs by {whole.mean:+.2g}"

    # --- pictures ---------------------------------------------------------------------------

    def _pictures(self, comparisons: _Comparisons) -> "dict[str, Callable[[], mpl.Figure]]":
        drawn: dict[str, Callable[[], mpl.Figure]] = {}
        for figure in self.figures:
            together: dict[str, dict[tuple[Case, str], Compared]] = {}
            for case, policy in _each(comparisons):
                if figure.shows(case.scenario, policy.name):
                    shown = together.setdefault(case.fill(figure.name), {})
                    shown[case, policy.name] = policy
            for name, shown in together.items():
                drawn[file_name(name)] = partial(self._draw, figure, shown)
        return drawn

    def _draw(self, figure: Figure, shown: _Shown) -> "mpl.Figure":
        cases = list(dict.fromkeys(case for case, _ in shown))
        title = cases[0].fill(figure.title)
        if figure.kind == "bars":
            return self._bars(figure, shown, title)
        named = {
            policy if len(cases) == 1 else f"{case.name}, {policy}": each
            for (case, policy), each in shown.items()
        }
        if figure.kind in VALUES:
            values = {name: each.values(figure.of) for name, each in named.items()}
            return VALUES[figure.kind](values, title, figure.label)
        series = {name: each.runs[0].series for name, each in named.items()}
        recorded = {name: each for name, each in series.items() if each is not None}
        return SERIES[figure.kind](recorded, title)

    def _bars(self, figure: Figure, shown: _Shown, title: str) -> "mpl.Figure":
        groups: dict[str, dict[str, MeanInterval]] = {}
        published: dict[tuple[str, str], float] = {}
        regimes = {case.regime for case, _ in shown}
        for (case, name), policy in shown.items():
            label = case.name if len(regimes) > 1 else case.scenario
            if (mean := policy.metrics.get(figure.of)) is not None:
                groups.setdefault(label, {})[name] = mean
            if (value := self._published(case.scenario, name, figure.of)) is not None:
                published[label, name] = value
        return plots.bars(groups, title, figure.label, published)


def _holding(directory: Path) -> dict[str, Path]:
    inside = directory.glob(f"*/{ISOLATED}")
    return {path.parent.name: path.parent for path in sorted(inside)}


def _interval(of: MeanInterval) -> str:
    bounds = "" if of.low is None else f" ({of.low:+.2g} to {of.high:+.2g})"
    return f"{of.mean:+.2g}{bounds}"


def _mean(policy: Compared, key: str) -> float:
    mean = policy.metrics.get(key)
    return 0.0 if mean is None else mean.mean


def _each(comparisons: _Comparisons) -> Iterator[tuple[Case, Compared]]:
    for case, comparison in comparisons.items():
        yield from ((case, policy) for policy in comparison.policies)
