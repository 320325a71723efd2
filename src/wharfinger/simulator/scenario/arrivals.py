"""Arrivals of workloads: as a scenario states them, and drawn."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.files.tabular import read_table
from wharfinger.manifest.kinds import DURATION, FILE, choice, number
from wharfinger.manifest.sections import section
from wharfinger.model.arrays import Array
from wharfinger.simulator.scenario.scenario_kinds import COUNT, FRACTION, TEXT


class Pattern(StrEnum):
    """Distribution of the gaps between arrivals."""

    REGULAR = "regular"
    GAUSSIAN = "gaussian"
    """Normally distributed, none below 0."""
    POISSON = "poisson"
    """Exponentially distributed."""
    AT_ONCE = "at-once"
    """All workloads arrive at the beginning."""


@dataclass(frozen=True, slots=True)
class Bursts:
    """Many arrivals at once, in addition to the others; the first after one gap."""

    every_seconds: Annotated[float, DURATION("From one to the next.")]
    size: Annotated[int, COUNT("Workloads of each.")]
    within_seconds: Annotated[float, DURATION("They come within this.")] = 60.0
    times: Annotated[int | None, COUNT("So many.", default="as long as workloads come")] = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """Recorded arrivals."""

    path: Annotated[str, FILE("A CSV file.", name="file")]
    column: Annotated[str, TEXT("Of the times.")]
    unit_seconds: Annotated[float, DURATION("What 1 means in it.")] = 1.0
    share: Annotated[float, FRACTION("Of the arrivals, evenly chosen.")] = 1.0


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When workloads are submitted; all else is ignored where it is recorded."""

    pattern: Annotated[Pattern, choice(Pattern, "poisson")("How they follow.")] = Pattern.POISSON
    every_seconds: Annotated[float | None, DURATION("Mean gap between two.")] = None
    load: Annotated[
        float | None,
        number(0.001, 1000, 0.8)(
            "Instead: CPU time of all workloads, alone at their best, over what the cluster has "
            "while they come; 1 = all of it."
        ),
    ] = None
    spread_seconds: Annotated[
        float, DURATION("Of `gaussian`: standard deviation.", default="none")
    ] = 0.0
    bursts: Annotated[
        Bursts | None, section(Bursts, "Many at once, on top; the load counts them in.")
    ] = None
    recorded: Annotated[
        Recorded | None, section(Recorded, "Arrivals of a trace, for a population.")
    ] = None

    def __post_init__(self) -> None:
        if self.pattern is Pattern.AT_ONCE or self.recorded is not None:
            if self.every_seconds or self.load or self.bursts:
                raise InvalidInput("these arrivals have no gap; remove every, load and bursts")
        elif (self.every_seconds is None) == (self.load is None):
            raise InvalidInput("write either every, e.g. 10s, or load, e.g. 0.7")
        if bool(self.spread_seconds) != (self.pattern is Pattern.GAUSSIAN):
            raise InvalidInput("spread belongs to pattern: gaussian, and it needs one")


def arrival_times(
    arrivals: Arrivals, count: int, gap_seconds: float, random: np.random.Generator
) -> Array:
    """(count,) seconds from the beginning, ascending; the mean gap is that outside of bursts.

    ``InvalidInput`` if recorded ones can't be read, or are fewer than the workloads.
    """
    if arrivals.recorded is not None:
        return _recorded(arrivals.recorded, count)
    base = _base(arrivals, count, gap_seconds, random)
    if arrivals.bursts is None or not count:
        return base
    both = np.concatenate([base, _burst_times(arrivals.bursts, base, random)])
    return np.sort(both)[:count]


def _recorded(recorded: Recorded, count: int) -> Array:
    column = recorded.column
    lines = read_table(recorded.path, [column], exact=False)
    times: Array = np.sort(np.array([line.number_of(column) for line in lines]))
    times = times[
        np.floor(np.arange(round(len(times) * recorded.share)) / recorded.share).astype(int)
    ]
    if len(times) < count:
        raise InvalidInput(
            f"{recorded.path}: {len(times)} arrivals for {count} workloads; ask for fewer"
        )
    return (times[:count] - times[:1]) * recorded.unit_seconds


def base_gap(gap_seconds: float, bursts: Bursts | None) -> float:
    """Mean gap outside of bursts, for one of both together; ``InvalidInput`` if bursts are more."""
    if bursts is None:
        return gap_seconds
    rest = 1 / gap_seconds - bursts.size / bursts.every_seconds
    if rest <= 0:
        raise InvalidInput(
            f"bursts of {bursts.size} every {bursts.every_seconds:g} s are more than the load that "
            "is stated; write fewer, or a higher load"
        )
    return 1 / rest


def _base(arrivals: Arrivals, count: int, gap_seconds: float, random: np.random.Generator) -> Array:
    gaps = np.full(count, gap_seconds)
    match arrivals.pattern:
        case Pattern.AT_ONCE:
            return np.zeros(count)
        case Pattern.REGULAR:
            gaps[:1] = 0.0
        case Pattern.GAUSSIAN:
            gaps = np.maximum(random.normal(gap_seconds, arrivals.spread_seconds, count), 0.0)
        case Pattern.POISSON:
            gaps = random.exponential(gap_seconds, count)
    return np.cumsum(gaps)


def _burst_times(bursts: Bursts, base: Array, random: np.random.Generator) -> Array:
    # Only those before the last other arrival, and no more than the population can have.
    number = min(int(base[-1] // bursts.every_seconds), len(base) // bursts.size + 1)
    number = number if bursts.times is None else min(number, bursts.times)
    starts = (1 + np.arange(number)) * bursts.every_seconds
    within = random.uniform(0.0, bursts.within_seconds, (number, bursts.size))
    return (starts[:, None] + within).ravel()
