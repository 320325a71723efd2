"""The seam: what an estimator promises, and what comes out of it.

An estimator is one file: ``learn`` takes transformed values and gives a ``Learned``, which
conditions a new row on its known entries. Names, transform, calibration, corrected entries and
saving are in ``recommender.py``, the same for all. ``wharfinger.testing.check_recommender`` checks
the promises made here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from wharfinger.estimators.conditional import Gaussian
from wharfinger.estimators.matrix import RowScale, Transform
from wharfinger.model.arrays import Array

NORMAL_90 = 1.6448536269514722
"""Half the width of a normal's 90% interval, in standard deviations."""
MAX_LOG = 700.0
"""exp() of more is infinite, which no reader of JSON understands."""


class Learned(Protocol):
    """What an estimator learned from a matrix; no call changes it."""

    def condition(self, row: Array) -> Gaussian:
        """The whole row given its known entries, which have their values and variance 0.

        Args:
            row: (columns,) transformed values, NaN where not known; may be all NaN.
        """
        ...

    def relearn(self, values: Array, groups: NDArray[np.intp]) -> "Learned":
        """The same settings (those that validation chose) on other rows."""
        ...

    def arrays(self) -> dict[str, Array]:
        """All that ``Estimator.restore`` needs."""
        ...


class Finish(NamedTuple):
    """What a kernel does to a row before the estimator's equations, and to variances after them.

    Attributes:
        factors: (columns + 1,) to multiply deviations by, per number of known entries.
        unmeasured: (columns,) variance to add.
        logarithms: Rows are in the matrix's own scale, and logarithms are taken.
    """

    factors: Array
    unmeasured: Array
    logarithms: bool

    @classmethod
    def nothing(cls, columns: int) -> "Finish":
        """Rows are transformed already; variances stay the estimator's own."""
        return cls(np.ones(columns + 1), np.zeros(columns), logarithms=False)


class FoldIn(Protocol):
    """A compiled kernel (``wharfinger.native``): all of a prediction but its covariance."""

    def fold_in(self, row: Array) -> tuple[Array, Array, Array] | None:
        """Means, variances and transformed values of one row; ``None`` = use ``condition``."""
        ...

    def fold_in_many(self, rows: Array) -> tuple[Array, Array, Array, list[bool]]:
        """The same of (rows, columns), each as alone, and which rows the kernel could predict."""
        ...


@runtime_checkable
class Compiled(Protocol):
    """A ``Learned`` that has a compiled kernel besides its ``condition``; most have none."""

    def compiled(self, finish: Finish) -> FoldIn:
        """The kernel, with these steps before and after."""
        ...


class Estimator(Protocol):
    """A way to learn from a matrix. The same arguments give the same result.

    Attributes:
        name: As in the registry.
        version: Raised whenever the same data give other numbers; logged with predictions.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see above
    @property
    def version(self) -> int: ...  # noqa: D102

    def learn(
        self, values: Array, groups: NDArray[np.intp], scale: RowScale, rng: np.random.Generator
    ) -> Learned:
        """Learn from (rows, columns) of transformed values; only columns may be wholly unknown."""
        ...

    def restore(self, arrays: Mapping[str, Array]) -> Learned:
        """The inverse of ``Learned.arrays``."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RowPrediction:
    """A predicted row, with its uncertainty.

    ``gaussian`` is in the transformed scale (logarithms, unless the matrix says otherwise),
    calibrated: of programs that were held out, 90% intervals held 90% of the truths.
    """

    columns: tuple[str, ...]
    gaussian: Gaussian
    transform: Transform

    @property
    def log_mean(self) -> Array:
        """(columns,) mean in the transformed scale."""
        return self.gaussian.mean

    @property
    def covariance(self) -> Array:
        """(columns, columns) in the transformed scale; computed when it is first read."""
        return self.gaussian.covariance

    @property
    def mean(self) -> Array:
        """(columns,) medians in the matrix's own scale."""
        return self._backward(self.log_mean)

    @property
    def log_std(self) -> Array:
        """(columns,) standard deviations in the transformed scale."""
        return np.asarray(np.sqrt(np.maximum(self.gaussian.variances, 0.0)))

    @property
    def std(self) -> Array:
        """(columns,) in the matrix's own scale; after logarithms, that of a log-normal."""
        s = self.log_std
        if self.transform is Transform.IDENTITY:
            return s
        variance = np.minimum(s**2, MAX_LOG / 4)
        return self._backward(self.log_mean + variance / 2) * np.sqrt(np.expm1(variance))

    def interval_90(self) -> tuple[Array, Array]:
        """(columns,) low and high ends in the matrix's own scale."""
        half = NORMAL_90 * self.log_std
        return self._backward(self.log_mean - half), self._backward(self.log_mean + half)

    def _backward(self, values: Array) -> Array:
        if self.transform is Transform.LOG:
            values = np.clip(values, -MAX_LOG / 2, MAX_LOG / 2)
        return self.transform.backward(values)
