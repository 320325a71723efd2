"""The model of a matrix of pairs, on several platforms: profiles of known and of new programs.

What was seen of a new program on one platform says something of the others: its row there is the
usual one, with what is unusual about it on the one times what that was worth for the known
programs (a regression through the origin), and as unsure as that was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wharfinger.contention.factors import Factors, Side
from wharfinger.contention.kinds import Kinds
from wharfinger.contention.pair_rows import Line, PairRows
from wharfinger.contention.rehearsal import learn
from wharfinger.errors import InvalidInput, NotFound
from wharfinger.estimators.design import variance_design
from wharfinger.estimators.gaussian import GaussianEstimator
from wharfinger.estimators.tasks import number_groups
from wharfinger.model.arrays import Array
from wharfinger.model.pairs import ANY_PLATFORM, PairProfile

ESTIMATOR = GaussianEstimator.name
"""As good as the default one for lines so short, and sooner learnt (docs/contention.md)."""
MOSTLY = 0.5
"""A reference fits beside more than this share of the others."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was measured of a program: by known program, performance beside over alone; 0 = unfit.

    Attributes:
        beside: Its own, beside each of these.
        upon: That of each of these, beside it.
        error: Standard error of a measured slow-down, in logarithms.
    """

    beside: Mapping[str, float]
    upon: Mapping[str, float]
    error: float = 0.0


NOTHING = Seen({}, {})


@dataclass(frozen=True, slots=True, eq=False)
class PairModel:
    """What known programs' pairs tell of any program's.

    Attributes:
        names: Of the known programs.
        factors: By platform.
        kinds: Which programs fit on one server.
    """

    names: tuple[str, ...]
    factors: Mapping[str, Factors]
    kinds: Kinds

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
            relative: By platform, ``ANY_PLATFORM`` where they are alike: (K, K) performance of row
                beside column over that of row alone; 0 = the two do not fit on one server, NaN =
                not measured.
            groups: Per program, what it is a run of; ``None`` = each is one of its own.
            estimator: Fills in rows and columns: a name in ``wharfinger.estimators.registry``.
            seed: The same gives the same.

        Raises:
            InvalidInput: There is no matrix, one has another shape or a value that is none, or no
                two programs were measured beside one another.
        """
        if not relative:
            raise InvalidInput("pairs: on no platform were any measured; measure some")
        for platform, matrix in relative.items():
            _check(platform, names, matrix)
        with np.errstate(divide="ignore"):
            logs = {p: np.log(np.where(m > 0, m, np.nan)) for p, m in relative.items()}
        numbers = number_groups(names if groups is None else groups)
        found = {
            p: learn(tuple(names), each, numbers, estimator, seed, f"{p}/" if p else "")
            for p, each in logs.items()
        }
        return cls(tuple(names), found, Kinds.learn(relative))

    def completed(self, platform: str) -> Array:
        """(K, K) performance beside over alone: measured, or filled in; whether they fit or not."""
        return np.asarray(np.exp(self.factors[platform].logs))

    def of(self, name: str) -> dict[str, PairProfile]:
        """A known program's profile by platform, as measured.

        Raises:
            NotFound: It is not known.
        """
        place = self._place(name)
        kind = self.kinds.known(place)
        return {
            platform: self._profile(platform, factors.suffers(place), factors.presses(place), kind)
            for platform, factors in self.factors.items()
        }

    def predict(self, seen: Seen = NOTHING, platform: str = ANY_PLATFORM) -> dict[str, PairProfile]:
        """A new program's profile by platform.

        Args:
            seen: What was measured of it; nothing = it is like any known one (cold start).
            platform: Where; one that was not learnt stands for any, if that was.

        Raises:
            NotFound: A program in it is not known, or neither platform was learnt.
        """
        platform = platform if platform in self.factors else ANY_PLATFORM
        if platform not in self.factors and (seen.beside or seen.upon):
            raise NotFound(
                f"pairs are known on {', '.join(self.factors)}, and none where it was measured"
            )
        fits = {self._place(n): value > 0 for n, value in {**seen.upon, **seen.beside}.items()}
        kind = self.kinds.likely(platform, fits) if fits else self.kinds.share
        found = {}
        for other, factors in self.factors.items():
            row = self._line(seen.beside, seen.error, platform, other, of_rows=True)
            column = self._line(seen.upon, seen.error, platform, other, of_rows=False)
            sides = factors.suffering(row), factors.pressing(column)
            found[other] = self._profile(other, *sides, kind)
        return found

    def references(self, size: int) -> tuple[str, ...]:
        """Known programs to run beside a new one: those that leave the least unknown of its pairs.

        Those that do not fit beside most others tell less, and are left out while there are others.
        """
        kinds = np.ix_(self.kinds.of, self.kinds.of)
        crowded = np.mean([each[kinds].mean(axis=1) for each in self.kinds.unfit.values()], axis=0)
        possible = np.flatnonzero(crowded < MOSTLY)
        candidates = possible if len(possible) >= size else np.arange(len(self.names))
        covariance = np.zeros((len(self.names), len(self.names)))
        for factors in self.factors.values():
            for lines in (factors.by_row, factors.by_column):
                covariance += lines.filled({}).covariance
        chosen = variance_design(covariance, candidates, min(size, len(candidates)))
        return tuple(self.names[at] for at in chosen)

    def _line(
        self, entries: Mapping[str, float], error: float, here: str, there: str, *, of_rows: bool
    ) -> Line:
        """A row or column on one platform, of which entries are known on another, or the same."""
        known = {name: value for name, value in entries.items() if value > 0}
        own = self._lines(there, of_rows=of_rows)
        if not known:
            return own.filled({})
        other = self._lines(here, of_rows=of_rows)
        found = other.filled(known)
        found = Line(found.mean, found.covariance + error**2 / len(known))
        if here == there:
            return found
        logs = (self.factors[here].logs, self.factors[there].logs)
        worth, told = _worth(*(each if of_rows else each.T for each in logs))
        usual = own.filled({})
        mean = usual.mean + worth * (found.mean - other.filled({}).mean)
        return Line(mean, worth**2 * found.covariance + (1 - told) * usual.covariance)

    def _lines(self, platform: str, *, of_rows: bool) -> PairRows:
        factors = self.factors[platform]
        return factors.by_row if of_rows else factors.by_column

    def _profile(self, platform: str, suffers: Side, presses: Side, kind: Array) -> PairProfile:
        fitting = not self.kinds.all_fit
        excluded = kind @ self.kinds.unfit[platform]
        return PairProfile(
            self.factors[platform].basis,
            suffers=tuple(suffers.values.tolist()),
            presses=tuple(presses.values.tolist()),
            suffers_variance=tuple(suffers.variances.tolist()),
            presses_variance=tuple(presses.variances.tolist()),
            excluded=tuple(excluded.tolist()) if fitting else (),
            excludes=tuple(kind.tolist()) if fitting else (),
        )

    def _place(self, name: str) -> int:
        try:
            return self.names.index(name)
        except ValueError:
            raise NotFound(f"no program {name!r} is known by its pairs") from None


def _worth(here: Array, there: Array) -> tuple[float, float]:
    """What is unusual about a row on one platform, on another: its share, and how much that tells.

    Returns:
        The slope of the regression through the origin, from 0 to 1, and the share of variance
        that it explains.
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
