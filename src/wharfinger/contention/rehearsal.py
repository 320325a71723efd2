"""How wrong predictions of new pairs are: known programs are left out, and predicted.

Estimators are calibrated for a row of known columns (``learning.recommender``). What factors make
of it, and of two programs that are both new, is wrong by more: as much variance is added as it
takes for nine of ten left-out pairs to lie within their 90% intervals.
"""

from dataclasses import dataclass, replace

import numpy as np

from wharfinger.contention.factors import Doubt, Factors, Side
from wharfinger.contention.pair_rows import PairRows
from wharfinger.estimators.estimator import NORMAL_90
from wharfinger.estimators.tasks import Indices, group_folds
from wharfinger.model.arrays import Array

FOLDS = 5
REVEALED = 2
LEAST_KNOWN = 3
"""Of fewer programs nothing can be learnt about another."""


@dataclass(frozen=True, slots=True, eq=False)
class _Errors:
    """Of predicted pairs: what they were wrong by, squared, and the variance that was told."""

    squares: Array
    variances: Array

    def lacking(self) -> float:
        """The variance that is to be added."""
        if not self.squares.size:
            return 0.0
        return max(0.0, float(np.quantile(self.squares / NORMAL_90**2 - self.variances, 0.9)))


def rehearsed(factors: Factors, logs: Array, groups: Indices, seed: int) -> Doubt:
    """What is lacking in the variances of new programs.

    Args:
        factors: Learnt from all programs.
        logs: (K, K) what they were learnt from, NaN where it was not measured.
        groups: (K,) number of each program's group; a group is left out as a whole.
        seed: Of which rows are left out, and which of their entries are revealed.
    """
    rng = np.random.default_rng(seed)
    folds = [held for held in group_folds(groups, FOLDS, rng) if _can_spare(logs, held)]
    if not folds:
        return _of_nothing(logs)
    found = [_Fold.of(factors, logs, held, rng) for held in folds]
    suffering = _joined([fold.suffering() for fold in found]).lacking()
    pressing = _joined([fold.pressing() for fold in found]).lacking()
    both = _joined([fold.both(suffering + pressing) for fold in found]).lacking()
    return Doubt(suffering, pressing, both)


def _can_spare(logs: Array, held: Indices) -> bool:
    """Whether enough is known without these."""
    kept = np.setdiff1d(np.arange(len(logs)), held)
    return len(kept) >= LEAST_KNOWN and not np.isnan(logs[np.ix_(kept, kept)]).all()


def _of_nothing(logs: Array) -> Doubt:
    """With too few programs to leave one out: as much as what was measured differs."""
    spread = float(np.nanvar(logs))
    return Doubt(spread, spread, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Fold:
    """Some programs left out: what was measured of them, and how they were predicted.

    Attributes:
        beside: (held, kept) logarithms, NaN where not measured, or revealed.
        upon: (kept, held).
        among: (held, held).
        suffers: Of each that is held out.
        presses: Of each that is held out.
        known_suffers: Of each that is kept.
        known_presses: Of each that is kept.
    """

    beside: Array
    upon: Array
    among: Array
    suffers: list[Side]
    presses: list[Side]
    known_suffers: list[Side]
    known_presses: list[Side]

    @classmethod
    def of(cls, factors: Factors, logs: Array, held: Indices, rng: np.random.Generator) -> "_Fold":
        """Leave some out, reveal a little of each, and predict it."""
        kept = np.setdiff1d(np.arange(len(logs)), held)
        known = factors.among(kept, logs)
        beside, upon = logs[np.ix_(held, kept)].copy(), logs[np.ix_(kept, held)].copy()
        suffers, presses = [], []
        for at in range(len(held)):
            both = np.flatnonzero(~np.isnan(beside[at]) & ~np.isnan(upon[:, at]))
            seen = rng.permutation(both)[:REVEALED]
            row, column = _told(known, beside[at], seen), _told(known, upon[:, at], seen)
            suffers.append(known.suffering(known.by_row.filled(row)))
            presses.append(known.pressing(known.by_column.filled(column)))
            beside[at, seen] = upon[seen, at] = np.nan
        places = range(len(kept))
        return cls(
            beside,
            upon,
            logs[np.ix_(held, held)],
            suffers,
            presses,
            [known.suffers(at) for at in places],
            [known.presses(at) for at in places],
        )

    def suffering(self) -> _Errors:
        """Those held out beside those kept."""
        return _errors(self.beside, self.suffers, self.known_presses)

    def pressing(self) -> _Errors:
        """Those kept beside those held out."""
        return _errors(self.upon, self.known_suffers, self.presses)

    def both(self, further: float) -> _Errors:
        """Those held out beside one another, with so much variance more."""
        found = _errors(self.among, self.suffers, self.presses)
        return replace(found, variances=found.variances + further)


def _told(known: Factors, logs: Array, seen: Indices) -> dict[str, float]:
    return {known.names[at]: float(np.exp(logs[at])) for at in seen}


def _errors(logs: Array, suffers: list[Side], presses: list[Side]) -> _Errors:
    s, vs = (np.array([getattr(each, f) for each in suffers]) for f in ("values", "variances"))
    p, vp = (np.array([getattr(each, f) for each in presses]) for f in ("values", "variances"))
    wrong = (logs + s @ p.T) ** 2
    variances = (s**2 + vs) @ vp.T + vs @ (p**2).T
    there = ~np.isnan(logs)
    return _Errors(wrong[there], variances[there])


def _joined(found: list[_Errors]) -> _Errors:
    squares = np.concatenate([each.squares for each in found])
    return _Errors(squares, np.concatenate([each.variances for each in found]))


def learn(
    names: tuple[str, ...], logs: Array, groups: Indices, how: str, seed: int, label: str
) -> Factors:
    """Factors of a matrix with gaps, and how unsure they are of new programs.

    Args:
        names: K programs.
        logs: (K, K) victim by neighbor; NaN where it was not measured.
        groups: (K,) number of each program's group.
        how: Fills in rows and columns: a name in ``wharfinger.estimators.registry``.
        seed: The same gives the same.
        label: Begins the basis' name.
    """
    labels = tuple(str(number) for number in groups)
    by_row = PairRows.learn(names, labels, logs, how, seed)
    by_column = PairRows.learn(names, labels, logs.T, how, seed)
    factors = Factors.of(names, logs, by_row, by_column, label)
    return factors.with_doubt(rehearsed(factors, logs, groups, seed))
