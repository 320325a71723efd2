"""What the default estimator is compared with: other people's factorisations of a matrix.

Estimators as ``wharfinger.estimators`` knows them, so that ``accuracy`` evaluates them
like its own. They say nothing of how sure they are: their variances are 1, and are not to be read.
"""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wharfinger.estimators import Matrix, Recommender, RowScale
from wharfinger.estimators.conditional import Gaussian
from wharfinger.estimators.recommender import Calibration
from wharfinger.estimators.tasks import Indices, number_groups
from wharfinger.model.arrays import Array

PACKAGE = "scikit-surprise"
EPOCHS = 100
RATE = 0.02
REGULARISATION = 0.02
Completion = Callable[[Array, int], Array]
"""From (rows, columns) with gaps and a seed: the last row, whole."""


@dataclass(frozen=True, slots=True, eq=False)
class PlainSgd:
    """SVD with gaps at 0, then gradient descent on r_ui = q_u · p_i: no mean, no biases.

    A new row gets its q_u by the same steps, while the p_i stay.
    """

    p: Array

    @classmethod
    def of(cls, values: Array, rng: np.random.Generator) -> "PlainSgd":
        known = ~np.isnan(values)
        filled = np.where(known, values, 0.0)
        q, singular, right = np.linalg.svd(filled, full_matrices=False)
        p = right.T * singular
        for _ in range(EPOCHS):
            for u in rng.permutation(len(values)):
                seen = known[u]
                error = filled[u, seen] - p[seen] @ q[u]
                by_q = _rate(q[u]) * (np.outer(error, q[u]) - REGULARISATION * p[seen])
                q[u] += _rate(p[seen]) * (error @ p[seen] - REGULARISATION * q[u])
                p[seen] += by_q
        return cls(p)

    def condition(self, row: Array) -> Gaussian:
        seen = ~np.isnan(row)
        part, q = self.p[seen], np.zeros(self.p.shape[1])
        for _ in range(EPOCHS):
            q += _rate(part) * ((row[seen] - part @ q) @ part - REGULARISATION * q)
        return _told(self.p @ q, row)

    def relearn(self, values: Array, groups: Indices) -> "PlainSgd":
        return PlainSgd.of(values, np.random.default_rng(0))

    def arrays(self) -> dict[str, Array]:
        return {"p": self.p}


def _rate(factors: Array) -> float:
    """A step no longer than the curvature allows; a longer one would diverge."""
    return min(RATE, 1 / max(float((factors**2).sum()), 1.0))


def _told(mean: Array, row: Array) -> Gaussian:
    known = ~np.isnan(row)
    return Gaussian(np.where(known, row, mean), np.diag(np.where(known, 0.0, 1.0)))


def surprise_with(make: Callable[[Any, int], Any]) -> Completion:
    """One of scikit-surprise's, fitted again with the new row."""

    def complete(values: Array, seed: int) -> Array:
        import pandas  # noqa: PLC0415
        import surprise  # noqa: PLC0415

        users, items = np.nonzero(~np.isnan(values))
        ratings = values[users, items]
        frame = pandas.DataFrame({"user": users, "item": items, "rating": ratings})
        reader = surprise.Reader(rating_scale=(float(ratings.min()), float(ratings.max())))
        training = surprise.Dataset.load_from_df(frame, reader).build_full_trainset()
        model = make(surprise, seed).fit(training)
        last = len(values) - 1
        return np.array([model.predict(last, j, clip=False).est for j in range(values.shape[1])])

    return complete


SURPRISE: dict[str, Completion] = {
    f"{PACKAGE}, SVD": surprise_with(lambda s, seed: s.SVD(random_state=seed)),
    f"{PACKAGE}, SVD, no biases": surprise_with(
        lambda s, seed: s.SVD(biased=False, random_state=seed)
    ),
    f"{PACKAGE}, KNNBaseline": surprise_with(lambda s, _: s.KNNBaseline(verbose=False)),
}
PLAIN = "svd-sgd, no biases"
FACTORS = (PLAIN, *SURPRISE)


def installed() -> list[str]:
    """Names of those that can run here."""
    there = importlib.util.find_spec("surprise") is not None
    return [name for name in FACTORS if there or name == PLAIN]


@dataclass(frozen=True, slots=True, eq=False)
class Appended:
    """Known rows, to which each new one is appended."""

    complete: Completion
    values: Array
    seed: int

    def condition(self, row: Array) -> Gaussian:
        """Everything is worked out anew."""
        return _told(self.complete(np.vstack([self.values, row]), self.seed), row)

    def relearn(self, values: Array, groups: Indices) -> "Appended":
        """On other rows."""
        return Appended(self.complete, values, self.seed)

    def arrays(self) -> dict[str, Array]:
        """The rows are all there is."""
        return {"values": self.values}


@dataclass(frozen=True, slots=True)
class Factors:
    """One of ``FACTORS``."""

    name: str
    version: int = 1

    def learn(
        self, values: Array, groups: Indices, scale: RowScale, rng: np.random.Generator
    ) -> PlainSgd | Appended:
        if self.name == PLAIN:
            return PlainSgd.of(values, rng)
        return Appended(SURPRISE[self.name], values, int(rng.integers(2**31)))

    def restore(self, arrays: Mapping[str, Array]) -> PlainSgd | Appended:
        if self.name == PLAIN:
            return PlainSgd(arrays["p"])
        return Appended(SURPRISE[self.name], arrays["values"], 0)


def fit_factors(name: str, matrix: Matrix, *, scale: RowScale, seed: int) -> Recommender:
    """As ``recommender.fit``, not calibrated: refitting for each rehearsed row takes hours."""
    way = Factors(name)
    usable = np.flatnonzero((~np.isnan(matrix.values)).any(axis=1))
    groups = number_groups([matrix.groups[i] for i in usable])
    learned = way.learn(matrix.transformed[usable], groups, scale, np.random.default_rng(seed))
    calibration = Calibration((1.0, 1.0, 1.0), np.zeros(len(matrix.columns)))
    return Recommender(way, matrix, scale, seed, learned, calibration)
