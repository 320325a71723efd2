"""Load of services over time: as a scenario states it, by its shape, and for one service."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, cos, inf, pi, sin
from typing import Annotated

from wharfinger.errors import InvalidInput
from wharfinger.manifest.kinds import DURATION, RATE, TIME, choice
from wharfinger.manifest.sections import Section
from wharfinger.simulator.scenario.jobs import Load

_STEPS = 24  # of a period: the load is constant over each
_MAX_STEPS = 10_000  # of one service


class LoadShape(StrEnum):
    """How a load changes."""

    FLAT = "flat"
    FLUCTUATING = "fluctuating"
    """A sine from the base to the peak, once a period, from its middle upward."""
    SPIKE = "spike"
    """The base, and once the peak."""
    DIURNAL = "diurnal"
    """Nights at the base, and days that rise to the peak, once a period."""
    STEPS = "steps"
    """As listed."""


_STEPS_FIELDS = Section(
    "Of shape `steps`, ascending from `0s`.",
    {
        "at": TIME("From when on; the first `0s`.", required=True),
        "rate": RATE("What is asked then.", required=True),
    },
    lambda at, rate: (at, rate),
    many=True,
)


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Load of a service."""

    shape: Annotated[
        LoadShape, choice(LoadShape, "flat")("How it changes over time.", required=True)
    ] = LoadShape.FLAT
    base_per_second: Annotated[float, RATE("The least.", default="none")] = 0.0
    peak_per_second: Annotated[float, RATE("The most, of those that change.", default="none")] = 0.0
    period_seconds: Annotated[float, DURATION("Of `fluctuating` and `diurnal`.")] = 86_400.0
    at_seconds: Annotated[float, TIME("When the `spike` begins, after submission.")] = 600.0
    for_seconds: Annotated[float, DURATION("How long it lasts.")] = 300.0
    steps: Annotated[tuple[tuple[float, float], ...], _STEPS_FIELDS] = ()

    def __post_init__(self) -> None:
        if (self.shape is LoadShape.STEPS) != bool(self.steps):
            raise InvalidInput("steps belong to shape: steps, and it needs at least one")
        if self.shape is not LoadShape.STEPS and not self.base_per_second:
            raise InvalidInput(f"{self.shape} needs its base; write e.g. base: 200/s")
        changes = self.shape not in (LoadShape.FLAT, LoadShape.STEPS)
        if changes and self.peak_per_second < self.base_per_second:
            raise InvalidInput(f"{self.shape} needs a peak that is not below its base")
        if not changes and self.peak_per_second:
            raise InvalidInput(f"{self.shape} has no peak; remove it")
        times = [at for at, _ in self.steps]
        if times and (times[0] or sorted(set(times)) != times):
            raise InvalidInput("steps do not ascend from 0s; write the first with at: 0s")

    @property
    def most_per_second(self) -> float:
        """Its maximum."""
        if self.shape is LoadShape.FLAT:
            return self.base_per_second
        if self.shape is LoadShape.STEPS:
            return max(rate for _, rate in self.steps)
        return self.peak_per_second


def make_load(model: LoadModel, lifetime_seconds: float) -> Load:
    """The load over a service's lifetime; constant afterwards.

    >>> spike = LoadModel(LoadShape.SPIKE, 100.0, 500.0, at_seconds=60.0, for_seconds=30.0)
    >>> make_load(spike, 3600.0)
    Load(times=(0.0, 60.0, 90.0), per_second=(100.0, 500.0, 100.0))
    """
    times, rates = zip(*_steps(model, lifetime_seconds), strict=True)
    return Load(times, rates)


def _steps(model: LoadModel, lifetime_seconds: float) -> Sequence[tuple[float, float]]:
    base, peak = model.base_per_second, model.peak_per_second
    match model.shape:
        case LoadShape.FLAT:
            return [(0.0, base)]
        case LoadShape.STEPS:
            return model.steps
        case LoadShape.SPIKE:
            end = (model.at_seconds + model.for_seconds, base)
            start = [(0.0, base)] if model.at_seconds else []
            return [*start, (model.at_seconds, peak), end]
        case LoadShape.FLUCTUATING | LoadShape.DIURNAL:
            step = model.period_seconds / _STEPS
            life = lifetime_seconds if lifetime_seconds < inf else 7 * model.period_seconds
            number = max(1, min(_MAX_STEPS, ceil(life / step)))
            # The value of each step's middle.
            heights = (_height(model.shape, 2 * pi * (at + 0.5) / _STEPS) for at in range(number))
            return [(at * step, base + (peak - base) * each) for at, each in enumerate(heights)]


def _height(shape: LoadShape, phase: float) -> float:
    """From 0 at the base to 1 at the peak; days begin and end at night."""
    if shape is LoadShape.FLUCTUATING:
        return (1 + sin(phase)) / 2
    return max(0.0, -cos(phase))
