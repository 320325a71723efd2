"""A Gaussian row given some of its entries, in closed form.

    x_u | x_o  ~  N( μ_u + β_u + K_uo K_oo⁻¹ (x_o − μ_o − β_o),  K_uu − K_uo K_oo⁻¹ K_ou )

With ``free_level`` a row's level carries no information: β is one unknown constant for the whole
row with a flat prior, estimated from the known entries by generalised least squares, and its
uncertainty is added ("universal kriging"; Rasmussen and Williams, Gaussian Processes for
Machine Learning, section 2.7). Without it β = 0, and the level is part of K.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.arrays import Array

RIDGE = 1e-9
"""Of the mean variance: keeps K_oo regular where two columns are the same."""
MIN_VARIANCE = 1e-12


class Gaussian:
    """A mean, (columns,), variances, (columns,), and a covariance, (columns, columns).

    The covariance is the matrix, or a function that computes it when it is first read; variances
    are its diagonal, by default taken from it.
    """

    __slots__ = ("_covariance", "mean", "variances")

    def __init__(
        self, mean: Array, covariance: Array | Callable[[], Array], variances: Array | None = None
    ) -> None:
        self.mean = mean
        self._covariance = covariance
        if variances is None:
            variances = self.covariance.diagonal().copy()
        self.variances = variances

    @property
    def covariance(self) -> Array:
        """The whole covariance, computed when it is first read."""
        if callable(self._covariance):
            self._covariance = self._covariance()
        return self._covariance

    def scaled(self, factor: float) -> "Gaussian":
        """The same mean, standard deviations times ``factor``."""
        return Gaussian(self.mean, lambda: self.covariance * factor**2, self.variances * factor**2)

    @classmethod
    def pinned(cls, mean: Array, covariance: Array, row: Array) -> "Gaussian":
        """With the known entries of ``row`` at their values, variance 0; changes its arguments."""
        seen = np.flatnonzero(~np.isnan(row))
        mean[seen] = row[seen]
        covariance[seen, :] = covariance[:, seen] = 0.0
        return cls(mean, covariance)


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """The distribution of a row before any entry of it is known.

    Attributes:
        mean: (columns,) the typical row, at the typical level.
        covariance: (columns, columns); about the row's own level where that is free.
        free_level: A row's level is estimated from its own entries alone.
        level_variance: Of the known rows' levels where the level is free; used only while no
            entry is known.
    """

    mean: Array
    covariance: Array
    free_level: bool
    level_variance: float = 0.0

    def condition(self, row: Array) -> Gaussian:
        """The row given its known entries; see the module for the equation."""
        seen = np.flatnonzero(~np.isnan(row))
        if not seen.size:
            level = self.level_variance if self.free_level else 0.0
            return Gaussian(self.mean.copy(), self.covariance + level)
        gain, covariance, level_weights = self.gain(seen)
        residual = row[seen] - self.mean[seen]
        mean = self.mean + gain @ residual
        if self.free_level:
            mean += (1 - gain.sum(axis=1)) * (level_weights @ residual)
        return Gaussian.pinned(mean, covariance, row)

    def gain(self, seen: NDArray[np.intp]) -> tuple[Array, Array, Array]:
        """K_ao K_oo⁻¹, the remaining covariance, and the weights that estimate the level."""
        cross = self.covariance[:, seen]
        row = cross[seen]
        ridge = RIDGE * row.trace() / seen.size + MIN_VARIANCE
        inverse = np.linalg.inv(row + ridge * np.eye(seen.size))
        gain = cross @ inverse
        covariance = self.covariance - gain @ cross.T
        precision = inverse.sum()
        weights = inverse.sum(axis=0) / precision
        if self.free_level:
            h = 1 - gain.sum(axis=1)
            covariance += np.outer(h, h) / precision
        return gain, covariance, weights

    def arrays(self) -> dict[str, Array]:
        """All fields, for a file."""
        level = np.array([float(self.free_level), self.level_variance])
        return {"mean": self.mean, "covariance": self.covariance, "level": level}

    @classmethod
    def restore(cls, arrays: Mapping[str, Array]) -> "Prior":
        """The inverse of ``arrays``."""
        free, variance = arrays["level"]
        return cls(arrays["mean"], arrays["covariance"], bool(free), float(variance))


def precisions(prior: Prior, seen: NDArray[np.intp]) -> Array:
    """(..., tasks, known, known) K_oo⁻¹ of rows that each know the same number of entries.

    The prior may have a stack of covariances, (..., columns, columns).
    """
    among = prior.covariance[..., seen[:, :, None], seen[:, None, :]]
    size = seen.shape[1]
    ridge = RIDGE * np.trace(among, axis1=-2, axis2=-1) / size + MIN_VARIANCE
    return np.asarray(np.linalg.inv(among + ridge[..., None, None] * np.eye(size)))


def predict_means(prior: Prior, rows: Array, seen: NDArray[np.intp]) -> Array:
    """(..., tasks, columns) conditional means of rows of which (tasks, known) columns are known.

    The prior may have a stack of covariances, (..., columns, columns).
    """
    inverse = precisions(prior, seen)
    residual = np.take_along_axis(rows, seen, axis=1) - prior.mean[seen]
    level = np.zeros(inverse.shape[:-2])
    if prior.free_level:
        totals = inverse.sum(axis=-2)
        level = (totals * residual).sum(axis=-1) / totals.sum(axis=-1)
    weights = np.einsum("...ij,...j->...i", inverse, residual - level[..., None])
    shift = np.einsum("...km,...k->...m", prior.covariance[..., seen, :], weights)
    return np.asarray(prior.mean + level[..., None] + shift)
