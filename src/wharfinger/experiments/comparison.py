"""Several policies on identical draws: means over seeds, and paired differences.

``wharfinger simulate --compare`` and the experiments call ``compare`` and print ``as_json``. With
one seed two policies get the same arrivals, times, noise and faults, so differences are taken seed
by seed. Fates are written to files by the process that makes the run: they would fill the memory.
"""

import dataclasses
import gzip
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from wharfinger.experiments import parallel
from wharfinger.experiments.statistics import MeanInterval, interval
from wharfinger.files.tabular import csv_text
from wharfinger.model.arrays import Array
from wharfinger.model.workload import WorkloadType
from wharfinger.policies.registry import split_spec
from wharfinger.simulator.pieces import ENGINE_WORDS
from wharfinger.simulator.policies import ORACLE
from wharfinger.simulator.results.outcome import JobOutcome, Outcome, Series
from wharfinger.simulator.run import UNDER, RunSpec

Run = Callable[[RunSpec], Outcome]
"""Simulates one run; a module's function."""
JOB_COLUMNS = ("case", "policy", "seed", *(each.name for each in dataclasses.fields(JobOutcome)))


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Policies that run on the same draws, and what is kept of their runs.

    ``specs`` differ in policy and admission; series are kept of the first seed only, and recorded
    of others with ``all_series``, for ``derived``. ``ratios`` are of a number to that of another
    policy with the same seed, by key: the number's key, and the policy. ``fields`` are those of
    fates whose values are kept, ``derived`` numbers to add to the summary, by module functions.
    """

    name: str
    specs: Sequence[RunSpec]
    fields: tuple[str, ...] = ()
    derived: Mapping[str, Callable[[Outcome], float | None]] = field(default_factory=dict)
    all_series: bool = False
    ratios: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class KeptRun:
    """What is kept of a run: the report's and the derived numbers, and series if requested.

    ``values`` are by field of fates, of all workloads but best-effort ones. ``taken_from`` is the
    policy whose schedule the oracle took, having found no better one; empty = its own.
    """

    scenario: str
    admission: str
    seed: int
    summary: Mapping[str, float | int | None]
    values: Mapping[str, Array] = field(default_factory=dict)
    series: Series | None = None
    taken_from: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """One policy, with its settings in the name, and its runs by seed.

    Numbers are by the summary's keys; ``None`` = no run had a value. ``difference`` is from the
    first policy, over the seeds where both have a value; empty for the first itself.
    """

    name: str
    metrics: Mapping[str, MeanInterval | None]
    difference: Mapping[str, MeanInterval | None]
    runs: tuple[KeptRun, ...]

    def values(self, name: str) -> Array:
        """A field of the fates of all seeds, without missing values."""
        joined = np.concatenate([run.values[name] for run in self.runs])
        return np.asarray(joined[np.isfinite(joined)])

    def over(self, other: "Compared") -> dict[str, MeanInterval | None]:
        """Differences from another policy, seed by seed.

        Raises:
            ValueError: Seeds differ.
        """
        return _difference(self.runs, other.runs)

    def taken_from(self) -> dict[str, int]:
        """Of the oracle: in how many runs it took the schedule of which other policy."""
        return dict(Counter(run.taken_from for run in self.runs if run.taken_from))


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Policies on the same draws; differences are from the first of them."""

    seeds: tuple[int, ...]
    policies: tuple[Compared, ...]

    def __getitem__(self, name: str) -> Compared:
        return {policy.name: policy for policy in self.policies}[name]

    def series(self) -> dict[str, Series]:
        """By policy, of the first seed, if requested."""
        firsts = {policy.name: policy.runs[0].series for policy in self.policies}
        return {name: series for name, series in firsts.items() if series is not None}


def compare(
    run: Run,
    groups: Sequence[RunGroup],
    repeats: int,
    processes: int | None = None,
    progress: parallel.Progress | None = None,
    fates: Path | None = None,
) -> list[Comparison]:
    """Run each policy of each group with the seeds seed, seed + 1, ... and compare.

    Args:
        run: A module's function, since it runs in other processes.
        groups: What to compare.
        repeats: Number of seeds.
        processes: Limit; ``None`` = one for each CPU. Only with one are times and memory of a run
            its own.
        progress: As for ``parallel.each``.
        fates: Directory to make, for a file of each run's fates, named in order.

    Raises:
        WharfingerError: A run failed; the message says which.
    """
    specs = [
        (
            replace(group, specs=()),
            replace(spec, seed=spec.seed + k, series=spec.series and (k == 0 or group.all_series)),
            k == 0,
        )
        for group in groups
        for k in range(repeats)  # Those that differ in their policy alone after one another:
        for spec in group.specs  # ``run_in_turn`` draws them once.
    ]
    if fates is not None:
        fates.mkdir()
    tasks = [
        _Task(run, group, spec, fates and fates / f"{number:06d}.csv.gz", is_first)
        for number, (group, spec, is_first) in enumerate(specs)
    ]
    kept = iter(parallel.each(_run, tasks, _name, processes, progress))
    found: list[Comparison] = []
    for group in groups:
        by_seed = [[next(kept) for _ in group.specs] for _ in range(repeats)]
        runs = [(spec.label, [own[at] for own in by_seed]) for at, spec in enumerate(group.specs)]
        found.append(summarise(_with_ratios(_bounded(runs), group.ratios)))
    return found


_Runs = list[tuple[str, list[KeptRun]]]


def _bounded(runs: _Runs) -> _Runs:
    """The oracle takes a compared policy's schedule where that keeps more targets than its own.

    So it is an upper bound of all on the same engine in targets kept, and of those that keep as
    many in performance.
    """
    for name, own in runs:
        engine, policy = _on_engine(name)
        if policy != ORACLE:
            continue
        beside = [(n, each) for n, each in runs if _on_engine(n)[0] == engine]
        for at, of_seed in enumerate(own):
            taken, best = max(((n, each[at]) for n, each in beside), key=lambda r: _worth(r[1]))
            if _worth(best) > _worth(of_seed):
                own[at] = replace(best, taken_from=taken)
    return runs


def _on_engine(name: str) -> tuple[frozenset[str], str]:
    """The words of a run's name that are about its engine, and its policy with all other words."""
    *words, policy = split_spec(name.partition(UNDER)[0], "")[0].split("+")
    others = [word for word in words if word not in ENGINE_WORDS]
    return frozenset(words) - frozenset(others), "+".join([*others, policy])


def _with_ratios(runs: _Runs, ratios: Mapping[str, tuple[str, str]]) -> _Runs:
    by_policy = dict(runs)

    def numbers(run: KeptRun, at: int) -> Iterator[tuple[str, float | None]]:
        for key, (of, over) in ratios.items():
            own, other = run.summary.get(of), by_policy[over][at].summary.get(of)
            yield key, own / other if own is not None and other else None

    return [
        (n, [replace(r, summary={**r.summary, **dict(numbers(r, at))}) for at, r in enumerate(own)])
        for n, own in runs
    ]


def _worth(run: KeptRun) -> tuple[float, ...]:
    return tuple(run.summary.get(key) or 0.0 for key in ("qos_kept_fraction", "performance_mean"))


# --- one run --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Task:
    run: Run
    group: RunGroup
    spec: RunSpec
    fates: Path | None
    is_first: bool


def _name(task: _Task) -> str:
    spec = task.spec
    return f"{Path(spec.scenario).stem} under {spec.label}, seed {spec.seed}"


def _run(task: _Task) -> KeptRun:
    outcome = task.run(task.spec)
    if task.fates is not None:
        head = [task.group.name, task.spec.label, outcome.seed]
        values = ([getattr(fate, name) for name in JOB_COLUMNS[3:]] for fate in outcome.fates)
        write_rows(task.fates, [head + each for each in values])
    kept = kept_of(outcome, task.group)
    return kept if task.is_first else replace(kept, series=None)


def kept_of(outcome: Outcome, group: RunGroup) -> KeptRun:
    """What the group keeps of a run."""
    wanted = [fate for fate in outcome.fates if fate.type != WorkloadType.BEST_EFFORT]
    values = {
        name: np.array([getattr(fate, name) for fate in wanted], dtype=np.float64)
        for name in group.fields
    }
    derived = {key: number(outcome) for key, number in group.derived.items()}
    summary = {**outcome.summary, **derived}
    return KeptRun(
        outcome.scenario, outcome.admission, outcome.seed, summary, values, outcome.series
    )


def write_rows(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """CSV without a header; ``.gz`` is packed, reproducibly, and such files can be concatenated."""
    content = csv_text(map(_cells, rows)).encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _cells(row: Sequence[Any]) -> list[Any]:
    return [str(value).lower() if isinstance(value, bool) else value for value in row]


# --- what differs ---------------------------------------------------------------------------


def summarise(runs: Iterable[tuple[str, Sequence[KeptRun]]]) -> Comparison:
    """Compare the runs of each policy, all with the same seeds in the same order.

    Raises:
        ValueError: Seeds differ.
    """
    policies: list[Compared] = []
    for name, own in runs:
        metrics = {key: interval(run.summary.get(key) for run in own) for key in _keys(own)}
        difference = _difference(own, policies[0].runs) if policies else {}
        policies.append(Compared(name, metrics, difference, tuple(own)))
    seeds = tuple(run.seed for run in policies[0].runs) if policies else ()
    return Comparison(seeds, tuple(policies))


def _difference(own: Sequence[KeptRun], first: Sequence[KeptRun]) -> dict[str, MeanInterval | None]:
    if [run.seed for run in own] != [run.seed for run in first]:
        raise ValueError("only runs with the same seeds can be paired")
    pairs = [(a.summary, b.summary) for a, b in zip(own, first, strict=True)]
    numbers = {key: [(a.get(key), b.get(key)) for a, b in pairs] for key in _keys(own)}
    return {
        key: interval(a - b for a, b in each if a is not None and b is not None)
        for key, each in numbers.items()
    }


def _keys(runs: Sequence[KeptRun]) -> list[str]:
    return list(dict.fromkeys(key for run in runs for key in run.summary))


def as_json(comparison: Comparison) -> list[dict[str, Any]]:
    """For ``-o json``: one object per policy.

    ``taken_from`` counts the runs of which the oracle took another policy's schedule.
    ``difference`` is ``null`` for the first policy; ``differs`` says whether the interval excludes
    0, and is ``null`` with one seed.
    """
    return [
        {
            "name": policy.name,
            "seeds": list(comparison.seeds),
            "metrics": {key: _bounds(each) for key, each in policy.metrics.items()},
            "difference": {
                key: _bounds(each) | {"differs": each and each.excludes_zero}
                for key, each in policy.difference.items()
            }
            or None,
            "taken_from": policy.taken_from(),
        }
        for policy in comparison.policies
    ]


def _bounds(of: MeanInterval | None) -> dict[str, Any]:
    if of is None:
        return {"mean": None, "low": None, "high": None}
    return {"mean": of.mean, "low": of.low, "high": of.high}
