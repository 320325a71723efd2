"""Matrices of pairs on several platforms, as a model: profiles of known and of new programs.

Measurements of a new program on one platform inform its prediction on others: its row there is the
mean row plus a slope times its deviation here. The slope is the regression through the origin over
known programs, and its error the prediction's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wharfinger.contention.factors import Factors, Side, learn
from wharfinger.errors import InvalidInput, NotFound
from wharfinger.estimators.conditional import Gaussian
from wharfinger.estimators.design import variance_design
from wharfinger.estimators.gaussian import GaussianEstimator
from wharfinger.estimators.recommender import Recommender
from wharfinger.estimators.tasks import Indices, number_groups
from wharfinger.model.arrays import Array
from wharfinger.model.pairs import ANY_PLATFORM, PairProfile

ESTIMATOR = GaussianEstimator.name
"""As good as the default one for such short lines, and learns faster (docs/contention.md)."""
MAX_UNFIT = 0.5
"""Share of the known programs that a reference does not fit beside."""
WRONG = 0.02
"""Probability that an observed fit is wrong, or that a kind differs from all known ones."""
MIN_MEASURED = 0.25
"""Share of a platform's pairs below which row and column effects predict better than factors."""
MIN_RATIO = 1e-6


@dataclass(frozen=True, slots=True)
class Seen:
    """Measurements of a program: by known program, performance beside over alone; 0 = unfit.

    Attributes:
        beside: Its own, beside each of these.
        upon: That of each of these, beside it.
        error: Standard error of a measured slowdown, in logarithms.
    """

    beside: Mapping[str, float]
    upon: Mapping[str, float]
    error: float = 0.0


NOTHING = Seen({}, {})


@dataclass(frozen=True, slots=True, eq=False)
class PairModel:
    """Predicts any program's pairs from those of known ones; factors are by platform."""

    names: tuple[str, ...]
    factors: Mapping[str, Factors]
    kinds: "Kinds"

    @classmethod
    def fit(
        cls,
        names: Sequence[str],
        relative: Mapping[str, Array],
        *,
        groups: Sequence[str] | None = None,
        estimator: str = ESTIMATOR,
        seed: int = 0,
    ) -> "PairModel":
        """Learn from matrices of pairs.

        Args:
            names: K known programs.
            relative: By platform, or ``ANY_PLATFORM`` for all: (K, K) performance of row beside
                column over that of row alone; 0 = the two do not fit on one server, NaN = not
                measured.
            groups: Per program, what it is a run of; ``None`` = each is its own group.
            estimator: Predicts rows and columns: a name in ``wharfinger.estimators.registry``.
            seed: Of rehearsals; the same gives the same result.

        Raises:
            InvalidInput: There is no matrix, one has another shape or an invalid value, or no
                two programs were measured beside one another.
        """
        if not relative:
            raise InvalidInput("pairs: on no platform were any measured; measure some")
        for platform, matrix in relative.items():
            _check(platform, names, matrix)
        with np.errstate(divide="ignore"):
            logs = {p: np.log(np.where(m > 0, m, np.nan)) for p, m in relative.items()}
        numbers = number_groups(names if groups is None else groups)
        factors = {
            p: learn(tuple(names), each, numbers, estimator, seed, f"{p}/" if p else "")
            for p, each in logs.items()
        }
        return cls(tuple(names), factors, Kinds.learn(relative))

    def completed(self, platform: str) -> Array:
        """(K, K) performance beside over alone: measured, or predicted, whether they fit or not."""
        return np.asarray(np.exp(self.factors[platform].logs))

    def of(self, name: str) -> dict[str, PairProfile]:
        """A known program's profile by platform, as measured.

        Raises:
            NotFound: It is not known.
        """
        place = self._place(name)
        kind = self.kinds.known(place)
        return {
            platform: self._profile(
                platform, factors.sensitivity(place), factors.pressure(place), kind
            )
            for platform, factors in self.factors.items()
        }

    def predict(self, seen: Seen = NOTHING, platform: str = ANY_PLATFORM) -> dict[str, PairProfile]:
        """A new program's profile by platform; without measurements, the mean of known programs.

        Args:
            seen: Its measurements.
            platform: Of the measurements; an unknown one is ``ANY_PLATFORM``, if that is known.

        Raises:
            NotFound: A program in it is unknown, or the platform is.
        """
        platform = platform if platform in self.factors else ANY_PLATFORM
        if platform not in self.factors and (seen.beside or seen.upon):
            raise NotFound(
                f"pairs are known on {', '.join(self.factors)}, and none where it was measured"
            )
        fits = {self._place(n): value > 0 for n, value in {**seen.upon, **seen.beside}.items()}
        kind = self.kinds.likely(platform, fits) if fits else self.kinds.share
        profiles = {}
        for other, factors in self.factors.items():
            row = self._line(seen.beside, seen.error, platform, other, of_rows=True)
            column = self._line(seen.upon, seen.error, platform, other, of_rows=False)
            sides = factors.sensitivity_of_row(row), factors.pressure_of_column(column)
            profiles[other] = self._profile(other, *sides, kind)
        return profiles

    def references(self, size: int) -> tuple[str, ...]:
        """Known programs to run beside a new one, to leave the least variance of its pairs.

        Programs that do not fit beside most others are used only if there are too few others.
        """
        kinds = np.ix_(self.kinds.of, self.kinds.of)
        crowded = np.mean([each[kinds].mean(axis=1) for each in self.kinds.unfit.values()], axis=0)
        possible = np.flatnonzero(crowded < MAX_UNFIT)
        candidates = possible if len(possible) >= size else np.arange(len(self.names))
        covariance = np.zeros((len(self.names), len(self.names)))
        for factors in self.factors.values():
            for lines in (factors.by_row, factors.by_column):
                covariance += lines.predict({}).covariance
        chosen = variance_design(covariance, candidates, min(size, len(candidates)))
        return tuple(self.names[at] for at in chosen)

    def _line(
        self, entries: Mapping[str, float], error: float, here: str, there: str, *, of_rows: bool
    ) -> Gaussian:
        """A row or column on platform ``there``, with entries known on platform ``here``."""
        positive = {name: value for name, value in entries.items() if value > 0}
        own = self._lines(there, of_rows=of_rows)
        if not positive:
            return own.predict({}).gaussian
        measured = self._lines(here, of_rows=of_rows)
        line = measured.predict(positive).gaussian
        line = Gaussian(line.mean, line.covariance + error**2 / len(positive))
        if here == there:
            return line
        logs = (self.factors[here].logs, self.factors[there].logs)
        slope, explained = _regression(*(each if of_rows else each.T for each in logs))
        typical = own.predict({}).gaussian
        mean = typical.mean + slope * (line.mean - measured.predict({}).log_mean)
        return Gaussian(mean, slope**2 * line.covariance + (1 - explained) * typical.covariance)

    def _lines(self, platform: str, *, of_rows: bool) -> Recommender:
        factors = self.factors[platform]
        return factors.by_row if of_rows else factors.by_column

    def _profile(
        self, platform: str, sensitivity: Side, pressure: Side, kind: Array
    ) -> PairProfile:
        excluded = kind @ self.kinds.unfit[platform]
        return PairProfile(
            self.factors[platform].basis,
            suffers=tuple(sensitivity.values.tolist()),
            presses=tuple(pressure.values.tolist()),
            suffers_variance=tuple(sensitivity.variances.tolist()),
            presses_variance=tuple(pressure.variances.tolist()),
            excluded=() if self.kinds.all_fit else tuple(excluded.tolist()),
            excludes=() if self.kinds.all_fit else tuple(kind.tolist()),
        )

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise NotFound(f"no program {name!r} is known by its pairs")
        return self.names.index(name)


def _regression(here: Array, there: Array) -> tuple[float, float]:
    """Of rows' deviations on one platform by those on another, through the origin.

    Returns:
        The slope, from 0 to 1, and the share of variance that it explains.
    """
    one, other = here - here.mean(axis=0), there - there.mean(axis=0)
    both, own, its = (one * other).sum(), (one**2).sum(), (other**2).sum()
    if both <= 0 or own <= 0 or its <= 0:
        return 0.0, 0.0
    return float(min(both / own, 1.0)), float(both**2 / (own * its))


def _check(platform: str, names: Sequence[str], matrix: Array) -> None:
    place = f"pairs on {platform!r}" if platform else "pairs"
    if matrix.shape != (len(names), len(names)):
        raise InvalidInput(f"{place}: {len(names)} programs and a matrix of shape {matrix.shape}")
    if np.isinf(matrix).any() or (matrix < 0).any():
        i, j = np.argwhere(np.isinf(matrix) | (matrix < 0))[0]
        raise InvalidInput(
            f"{place}: {names[i]!r} beside {names[j]!r}: {matrix[i, j]:g}; write its performance "
            "over that alone, 0 where the two do not fit, and leave a gap where it is unknown"
        )
    if not (matrix > 0).any():
        raise InvalidInput(f"{place}: no two programs were measured beside one another")


# --- which programs fit ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """Kinds of known programs: a kind is the set of programs that one does not fit beside.

    The kind of a new program is inferred by Bayes' rule from the observed fits, with the
    frequencies of the kinds as the prior.

    Attributes:
        of: (K,) kind of each known program.
        unfit: By platform: (G, G) probability that two of such kinds do not fit.
        share: (G,) of the known programs.
    """

    of: Indices
    unfit: Mapping[str, Array]
    share: Array

    @classmethod
    def learn(cls, relative: Mapping[str, Array]) -> "Kinds":
        """From matrices as for ``PairModel.fit``."""
        unfit = {platform: _unfit(matrix) for platform, matrix in relative.items()}
        rows = np.hstack(list(unfit.values()))
        _, first, of, counts = np.unique(
            rows, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        unfit = {platform: each[np.ix_(first, first)] for platform, each in unfit.items()}
        return cls(of.reshape(-1), unfit, counts / counts.sum())

    @property
    def all_fit(self) -> bool:
        """Whether all programs fit beside each other on all platforms."""
        return not any(each.any() for each in self.unfit.values())

    def likely(self, platform: str, fits: Mapping[int, bool]) -> Array:
        """(G,) probability of each kind, by observed fits with known programs on a platform."""
        chances = self.share.copy()
        for place, fitted in fits.items():
            apart = WRONG + (1 - 2 * WRONG) * self.unfit[platform][:, self.of[place]]
            chances *= 1 - apart if fitted else apart
        return np.asarray(chances / chances.sum())

    def known(self, place: int) -> Array:
        """(G,) 1 at the kind of a known program."""
        return np.asarray(np.eye(len(self.share))[self.of[place]])


def _unfit(relative: Array) -> Array:
    """(K, K) whether two do not fit in one of the directions; unknown = their mean rates."""
    seen = ~np.isnan(relative)
    zero = relative == 0
    measured = seen | seen.T
    unfit = (zero | zero.T).astype(np.float64)
    rate = unfit.sum(axis=1) / np.maximum(measured.sum(axis=1), 1)
    return np.asarray(np.where(measured, unfit, (rate[:, None] + rate) / 2))


# --- matrices with gaps ---------------------------------------------------------------------


def completed_pairs(ratios: Array, otherwise: Callable[[Array], Array]) -> Array:
    """Fill the gaps of a measured ground truth, with values above 0 and at most 1.

    Args:
        ratios: (P, W, W) performance of row beside column over that of row alone, NaN = not
            measured.
        otherwise: Fills the gaps where too little was measured.

    >>> matrix = np.array([[[0.5, np.nan, 0.8], [0.4, 0.6, 0.7], [0.5, 0.7, 0.9]]])
    >>> whole = completed_pairs(matrix, np.nan_to_num)
    >>> bool(0 < whole[0, 0, 1] <= 1), float(whole[0, 2, 2])
    (True, 0.9)
    """
    whole = otherwise(ratios).copy()
    names = [str(place) for place in range(ratios.shape[1])]
    for platform, matrix in enumerate(ratios):
        holes = np.isnan(matrix)
        if not holes.any() or 1 - holes.mean() < MIN_MEASURED:
            continue
        predicted = PairModel.fit(names, {"": matrix}).completed("")
        whole[platform] = np.where(holes, np.clip(predicted, MIN_RATIO, 1.0), matrix)
    return whole
