"""Random durations, as a scenario states them, and drawn."""

from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, log
from typing import Annotated

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.manifest.kinds import DURATION, TIME, choice
from wharfinger.manifest.sections import Section, section
from wharfinger.model.arrays import Array
from wharfinger.simulator.scenario.scenario_kinds import SIGMA, mapped


class Shape(StrEnum):
    """Families of distributions."""

    CONSTANT = "constant"
    UNIFORM = "uniform"
    """Between the two ends."""
    EXPONENTIAL = "exponential"
    LOGNORMAL = "lognormal"
    """By its mean, and sigma, the standard deviation of its logarithm."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of positive numbers, clipped to its two ends."""

    shape: Annotated[Shape, choice(Shape, "lognormal")("Which.")]
    mean: Annotated[float, DURATION("Before anything is cut.", default="none")] = 0.0
    sigma: Annotated[float, SIGMA("Of `lognormal`: of its logarithm.")] = 0.0
    low: Annotated[float, TIME("The least; `uniform`'s lower end.", name="from")] = 0.0
    high: Annotated[
        float, DURATION("The most; `uniform`'s upper end.", name="to", default="no end")
    ] = inf

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidInput("from is more than to; write them the other way round")
        if self.shape is Shape.UNIFORM and self.high == inf:
            raise InvalidInput("uniform needs its two ends; write from and to")
        if self.shape is not Shape.UNIFORM and not self.mean:
            raise InvalidInput(f"{self.shape} needs its mean; write e.g. mean: 25m")

    def scaled(self, factor: float) -> "Distribution":
        """The same with all values multiplied."""
        low, high = self.low * factor, self.high * factor
        return replace(self, mean=self.mean * factor, low=low, high=high)

    def draw(self, random: np.random.Generator, count: int) -> Array:
        """(count,) values.

        >>> wanted = Distribution(Shape.LOGNORMAL, 1500.0, 0.8, low=120.0, high=14400.0)
        >>> drawn = wanted.draw(np.random.Generator(np.random.Philox(key=1)), 10_000)
        >>> bool(drawn.min() >= 120) and round(float(drawn.mean()), -2)
        1500.0
        """
        match self.shape:
            case Shape.CONSTANT:
                values = np.full(count, self.mean)
            case Shape.UNIFORM:
                values = random.uniform(self.low, self.high, count)
            case Shape.EXPONENTIAL:
                values = random.exponential(self.mean, count)
            case Shape.LOGNORMAL:
                # exp(mu + sigma²/2) is the mean.
                values = random.lognormal(log(self.mean) - self.sigma**2 / 2, self.sigma, count)
        return values.clip(self.low, self.high)


def constant(value: float) -> Distribution:
    """A distribution of one value."""
    return Distribution(Shape.CONSTANT, value)


def distribution_fields(doc: str) -> Section:
    """The fields of a distribution; a duration alone is a constant."""
    return section(Distribution, doc, short=mapped(DURATION, constant))
