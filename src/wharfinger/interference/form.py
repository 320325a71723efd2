"""The seam: what a form of the model promises, and what it predicts with.

A form is one file: ``fit`` takes measured sets and gives a ``Predictor`` for each setting. Names,
contention, probabilities and saving are in ``model.py``, the same for all.
``wharfinger.testing.check_interference`` checks the promises made here.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from wharfinger.interference.measurements import ContentionSetting, Members, ServiceSets
from wharfinger.model.arrays import Array

State = Mapping[str, object]
"""What JSON can hold."""


class Predictor(Protocol):
    """What a form learned of one setting; no call changes it."""

    def drops(self, members: Members) -> tuple[Array, Array]:
        """Minus the logarithm of performance beside sets, and its standard deviation.

        Args:
            members: (n, degree) places among the names, degree 1 or more, in any order.

        Returns:
            (n,) and (n,); NaN = unknown.
        """
        ...

    def drop(self, members: Sequence[int]) -> tuple[float, float]:
        """The same of one set."""
        ...

    def state(self) -> State:
        """All that ``Form.restore`` needs besides names, singles and scale."""
        ...


class Form(Protocol):
    """A way to predict a set from its single neighbors. The same arguments give the same result.

    Attributes:
        name: As in the registry.
        version: Raised whenever the same data give other numbers.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see above
    @property
    def version(self) -> int: ...  # noqa: D102

    def fit(self, services: Sequence[ServiceSets]) -> Mapping[ContentionSetting, Predictor]:
        """Learn from all sets of all settings."""
        ...

    def restore(self, service: ServiceSets, state: State) -> Predictor:
        """The inverse of ``Predictor.state``; of the service only names, singles and scale."""
        ...


def floats(state: State, key: str) -> Array:
    """An array that ``listed`` wrote."""
    numbers = np.array(state[key], dtype=object)
    return np.where(numbers == None, np.nan, numbers).astype(np.float64)  # noqa: E711 - by element


def listed(array: Array) -> list[object]:
    """For JSON: numbers, ``None`` where unknown."""
    numbers = array.astype(object)
    numbers[np.isnan(array)] = None
    return list(numbers.tolist())
