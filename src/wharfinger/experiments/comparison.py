"""Several policies on identical draws: means over seeds, and paired differences.

``wharfinger simulate --compare`` and the experiments call ``compare``; ``as_json`` is what they
print. With one seed two policies get the same arrivals, times, noise and faults, so what differs
between their runs is theirs: the difference is taken seed by seed, and its interval is narrower
than that of either mean.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wharfinger.experiments import parallel
from wharfinger.experiments.statistics import Interval, interval
from wharfinger.simulator.results.outcome import Outcome
from wharfinger.simulator.run import RunSpec

Run = Callable[[RunSpec], Outcome]
"""Simulates; a module's function."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """One policy.

    Attributes:
        name: The policy's.
        metrics: By the summary's keys; ``None`` = no run had a value.
        difference: From the first policy, over the seeds where both have a value; empty for the
            first itself.
        outcomes: Its runs, by seed.
    """

    name: str
    metrics: Mapping[str, Interval | None]
    difference: Mapping[str, Interval | None]
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Policies on the same draws.

    Attributes:
        seeds: One a run of each policy.
        policies: In the order in which they were given; the first is what others are held against.
    """

    seeds: tuple[int, ...]
    policies: tuple[Compared, ...]

    def __getitem__(self, name: str) -> Compared:
        """The policy of that name.

        Raises:
            KeyError: It was not compared.
        """
        found = {policy.name: policy for policy in self.policies}
        return found[name]


def compare(
    run: Run,
    specs: Sequence[RunSpec],
    repeats: int,
    processes: int | None = None,
    progress: parallel.Progress | None = None,
) -> Comparison:
    """Run each policy with the seeds seed, seed + 1, ... and compare.

    Args:
        run: Simulates one; a module's function, since it runs in other processes.
        specs: One a policy, alike in all else. Series, where they are asked for, are kept of the
            first seed only: they are for pictures.
        repeats: Seeds.
        processes: At most so many at once; ``None`` = one for each CPU. Times and memory of a run
            are its own only with one.
        progress: Is told how many runs are done, of how many.

    Raises:
        WharfingerError: A run failed; the message says which.
    """
    return compare_all(run, [specs], repeats, processes, progress)[0]


def compare_all(
    run: Run,
    groups: Sequence[Sequence[RunSpec]],
    repeats: int,
    processes: int | None = None,
    progress: parallel.Progress | None = None,
) -> list[Comparison]:
    """As ``compare``, of several groups of specs with nobody waiting between them."""
    specs = [spec for group in groups for each in group for spec in repeated(each, repeats)]
    found = iter(parallel.each(run, specs, _name, processes, progress))
    return [
        summarise([(spec.policy, [next(found) for _ in range(repeats)]) for spec in group])
        for group in groups
    ]


def repeated(spec: RunSpec, repeats: int) -> list[RunSpec]:
    """The runs of one policy."""
    return [
        replace(spec, seed=spec.seed + k, series=spec.series and k == 0) for k in range(repeats)
    ]


def _name(spec: RunSpec) -> str:
    return f"{Path(spec.scenario).stem} under {spec.policy}, seed {spec.seed}"


def summarise(runs: Iterable[tuple[str, Sequence[Outcome]]]) -> Comparison:
    """Compare what was run.

    Args:
        runs: Each policy's name and its outcomes, all with the same seeds in the same order.

    Raises:
        ValueError: Seeds differ: nothing could be paired.
    """
    policies: list[Compared] = []
    for name, outcomes in runs:
        first = policies[0].outcomes if policies else ()
        policies.append(
            Compared(name, _metrics(outcomes), _difference(outcomes, first), tuple(outcomes))
        )
    seeds = tuple(outcome.seed for outcome in policies[0].outcomes) if policies else ()
    return Comparison(seeds, tuple(policies))


def _metrics(outcomes: Sequence[Outcome]) -> dict[str, Interval | None]:
    return {
        key: interval(outcome.summary.get(key) for outcome in outcomes) for key in _keys(outcomes)
    }


def _difference(
    outcomes: Sequence[Outcome], first: Sequence[Outcome]
) -> dict[str, Interval | None]:
    if not first:
        return {}
    if [outcome.seed for outcome in outcomes] != [outcome.seed for outcome in first]:
        raise ValueError("only runs with the same seeds can be paired")
    pairs = list(zip(outcomes, first, strict=True))
    return {
        key: interval(_minus(a.summary.get(key), b.summary.get(key)) for a, b in pairs)
        for key in _keys(outcomes)
    }


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def _keys(outcomes: Sequence[Outcome]) -> list[str]:
    return list(dict.fromkeys(key for outcome in outcomes for key in outcome.summary))


def as_json(comparison: Comparison) -> list[dict[str, Any]]:
    """For ``-o json``: an object a policy.

    ``difference`` is ``null`` for the first policy; ``differs`` says whether 0 lies outside of the
    interval, and is ``null`` where one seed does not tell.
    """
    return [
        {
            "name": policy.name,
            "seeds": list(comparison.seeds),
            "metrics": {key: _bounds(found) for key, found in policy.metrics.items()},
            "difference": {
                key: _bounds(found) | {"differs": found and found.excludes_zero}
                for key, found in policy.difference.items()
            }
            or None,
        }
        for policy in comparison.policies
    ]


def _bounds(found: Interval | None) -> dict[str, Any]:
    if found is None:
        return {"mean": None, "low": None, "high": None}
    return {"mean": found.mean, "low": found.low, "high": found.high}
