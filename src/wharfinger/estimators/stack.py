"""``stack``, the default: a weighted mean of mixtures centred on known rows.

No single member (``mixture.py``) wins on every matrix. They are selected by rehearsal: programs are
held out, 2 and 4 entries revealed, and members are added one after the other, with repetition, as
each lowers the mean absolute error of their mean (Caruana, Niculescu-Mizil, Crew and Ksikes,
"Ensemble selection from libraries of models", 2004). A few programs would choose by chance, so
selection begins with prior picks, of the kind that does well on most matrices and of the one
Gaussian that does best; the fewer programs and columns, the more of them. The variance is that of
the mixture: the members' own, and their disagreement.

Whether a row's level is free is learnt from the same rehearsal, where nobody said it: q is the
probability that the best Gaussian that makes use of levels has a smaller error than the best that
does not, over programs. A share q of the prior picks makes use of levels, 1 − q does not; what is
hardly possible has no member at all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cache, partial
from itertools import product
from math import ceil, inf, sqrt
from statistics import NormalDist
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from wharfinger.estimators.conditional import MIN_VARIANCE, RIDGE, Gaussian, Prior
from wharfinger.estimators.estimator import Finish, FoldIn
from wharfinger.estimators.gaussian import SHRINKAGES, GaussianSettings, Moments, prior_of
from wharfinger.estimators.levels import levels_of
from wharfinger.estimators.matrix import RowScale
from wharfinger.estimators.mixture import (
    FamilySettings,
    MemberSettings,
    MixtureFamily,
    MixtureMember,
    condition,
    family,
    predict_means,
)
from wharfinger.estimators.tasks import Indices, draw_seen, leave_out, sample_rows
from wharfinger.model.arrays import Array
from wharfinger.native import Mixtures

CLOSENESS = (0.0, 0.5, 0.8, 0.95, 0.99)
TUNED = (0.0, 0.8, 0.97)
"""Closeness for which a covariance is chosen: components near known rows need another one."""
FREEDOMS = (inf, 4.0)
DRAWN = (False, True)
EXPONENTS = (0.0, 0.5)
ROBUSTNESS = ((4.0, False), (1.0, False), (inf, True))
"""``row_freedom`` and ``robust_columns`` of families."""
TUNED_BY = ROBUSTNESS[0]
FOLDS = 10
DRAWS = 3
MIN_TASKS = 60
"""Rows to rehearse with each number of entries; fewer rows are each drawn more often."""
REVEALED = (2, 4)
MAX_ROWS = 500
"""Rows that settings are chosen on, and components of a mixture."""
PRIOR_PICKS = 40.0
"""Picks that the selection begins with, times the root of the number of programs."""
MANY_COLUMNS = 12
"""With c < 12 there are (12 / c)² times as many prior picks: little is left to err on."""
SIMPLE_SHARE = 0.4
"""Of the prior picks: how many are the best Gaussian, which few rows and columns suffice for."""
UNLIKELY = 0.05
"""A kind of level that is less probable than that has no members."""
ROUNDS = 20
SAME = 1e-9
"""Errors that differ by this share of themselves are equal."""
MAX_MEMBERS = 8
LEAN_MEMBERS = 5
LEAN_ROWS = 50
"""From this many rows on, ``LEAN_MEMBERS`` are kept: folding in costs members times rows."""
DEFAULT = MemberSettings(FamilySettings(True, 0.5, inf, False), True, 0.0, inf, 0.5, False)
"""Used with fewer than two programs."""


@dataclass(frozen=True, slots=True, eq=False)
class StackLearned:
    """Mixtures and their weights, (members,), summing to one.

    ``packed`` are the same as arguments of the compiled fold-in, ``alone`` is that fold-in, of
    transformed rows and without further steps.
    """

    members: tuple[MixtureMember, ...]
    weights: Array
    packed: "_Packed"
    alone: FoldIn

    @classmethod
    def of(cls, members: Sequence[MixtureMember], weights: Array) -> "StackLearned":
        """With the compiled fold-in."""
        packed = _pack(members, weights)
        alone = _kernel(packed, Finish.nothing(len(members[0].prior.mean)))
        return cls(tuple(members), weights, packed, alone)

    def condition(self, row: Array) -> Gaussian:
        """Mean and variances by the kernel; the covariance when it is first read."""
        folded = self.alone.fold_in(np.ascontiguousarray(row, dtype=np.float64))
        if folded is None:
            return self.reference(row)
        mean, variances, values = folded
        return Gaussian(mean, lambda: self.reference(values).covariance, variances)

    def compiled(self, finish: Finish) -> FoldIn:
        """The kernel, with these steps before and after."""
        return _kernel(self.packed, finish)

    def reference(self, row: Array) -> Gaussian:
        """The same in NumPy, with the whole covariance."""
        parts = [condition(one, row) for one in self.members]
        means = np.array([part.mean for part in parts])
        mean = self.weights @ means
        apart = (means - mean) * np.sqrt(self.weights)[:, None]
        covariance = apart.T @ apart
        for weight, part in zip(self.weights, parts, strict=True):
            covariance += weight * part.covariance
        return Gaussian.pinned(mean, covariance, row)

    def relearn(self, values: Array, groups: Indices) -> "StackLearned":
        """The same members and weights on other rows."""
        families = Families(values, groups)
        members = [families.member(one.settings) for one in self.members]
        return StackLearned.of(members, self.weights)

    def arrays(self) -> dict[str, Array]:
        """Members, their families, and weights."""
        arrays: dict[str, Array] = {"weights": self.weights}
        families = list(dict.fromkeys(id(one.family) for one in self.members))
        for number, one in enumerate(self.members):
            of_family, *of_member = astuple(one.settings)
            of = families.index(id(one.family))
            arrays |= {f"{number}.{name}": a for name, a in one.prior.arrays().items()}
            arrays |= {
                f"{number}.settings": np.array([*of_family, *of_member], dtype=np.float64),
                f"{number}.family": np.array(float(of)),
                f"family{of}.residuals": one.family.residuals,
                f"family{of}.log_weights": one.family.log_weights,
            }
        return arrays

    @classmethod
    def restore(cls, arrays: Mapping[str, Array]) -> "StackLearned":
        """The inverse of ``arrays``."""
        families: dict[int, MixtureFamily] = {}
        members = []
        for number in range(len(arrays["weights"])):
            of = int(arrays[f"{number}.family"])
            if of not in families:
                rows = arrays[f"family{of}.residuals"], arrays[f"family{of}.log_weights"]
                families[of] = MixtureFamily(*rows)
            own = {name.removeprefix(f"{number}."): array for name, array in arrays.items()}
            settings = _unpack_settings(own["settings"])
            members.append(MixtureMember(settings, Prior.restore(own), families[of]))
        return cls.of(members, arrays["weights"])


def _unpack_settings(numbers: Array) -> MemberSettings:
    free, exponent, rows, columns, *of_member = map(float, numbers)
    drawn, closeness, freedom, shrinkage, own = of_member
    of = FamilySettings(bool(free), exponent, rows, bool(columns))
    return MemberSettings(of, bool(drawn), closeness, freedom, shrinkage, bool(own))


_Packed = tuple[Array, Array, Array, Array, NDArray[np.int64], Array]


def _pack(members: Sequence[MixtureMember], weights: Array) -> _Packed:
    """The members for ``native/kernels/_mixture.pyx``, each covariance and each family once."""
    kernels = {id(one.prior.covariance): one.prior.covariance for one in members}
    families = {id(one.family): one.family for one in members}
    of, settings = [], []
    for one, weight in zip(members, weights, strict=True):
        kernel = list(kernels).index(id(one.prior.covariance))
        rows = list(families).index(id(one.family))
        of.append((kernel, rows, int(one.settings.family.free_level)))
        settings.append((one.settings.closeness, one.settings.freedom, weight))
    return (
        np.array(list(kernels.values())),
        np.array([each.residuals for each in families.values()]),
        np.array([each.log_weights for each in families.values()]),
        np.array([one.prior.mean for one in members]),
        np.array(of, dtype=np.int64),
        np.array(settings),
    )


def _kernel(packed: _Packed, finish: Finish) -> FoldIn:
    return Mixtures(*packed, *finish, RIDGE, MIN_VARIANCE)


class Families:
    """Makes families and priors of known rows, each once."""

    def __init__(self, values: Array, groups: Indices) -> None:
        self.family = cache(partial(family, values, groups))
        self._prior = cache(self._make_prior)

    def _make_prior(self, of: FamilySettings, shrinkage: float, own_variances: bool) -> Prior:
        settings = GaussianSettings(shrinkage, own_variances, of.exponent, of.free_level)
        return prior_of(self._moments(of), settings)

    def _moments(self, of: FamilySettings) -> Moments:
        moments = self.family(of).moments
        assert moments is not None, "learned, not restored from a file"
        return moments

    def member(self, settings: MemberSettings) -> MixtureMember:
        """With these settings; equal covariances are one object."""
        of = settings.family
        prior = self._prior(of, settings.shrinkage, settings.own_variances)
        if not settings.drawn:
            prior = replace(prior, mean=self._moments(of).effects.columns)
        return MixtureMember(settings, prior, self.family(of))


# --- choosing -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Rehearsal:
    """Families of programs, rows of held-out ones, and their revealed columns by task.

    ``groups`` are the programs of the rows.
    """

    families: Families
    rows: Array
    groups: Indices
    tasks: list[tuple[Indices, Indices]]

    def errors(self, settings: MemberSettings) -> Array:
        """Predicted less true of all entries that were not revealed, one after the other."""
        one, errors = self.families.member(settings), [np.zeros(0)]
        for rows, seen in self.tasks:
            error = predict_means(one, self.rows[rows], seen) - self.rows[rows]
            np.put_along_axis(error, seen, np.nan, axis=1)
            errors.append(error[~np.isnan(error)])
        return np.concatenate(errors)

    def programs(self) -> Indices:
        """The program of each of ``errors``."""
        programs = [self.groups[:0]]
        for rows, seen in self.tasks:
            hidden = (~np.isnan(self.rows[rows])).sum(axis=1) - seen.shape[1]
            programs.append(np.repeat(self.groups[rows], hidden))
        return np.concatenate(programs)


def _rehearsals(values: Array, groups: Indices, rng: np.random.Generator) -> Iterator[_Rehearsal]:
    draws = max(DRAWS, ceil(MIN_TASKS / len(values)))
    for training, held in leave_out(groups, FOLDS, rng):
        seen = [_draw(values[held], count, draws, rng) for count in REVEALED]
        families = Families(values[training], groups[training])
        tasks = [(r, s) for r, s in seen if len(r)]
        yield _Rehearsal(families, values[held], groups[held], tasks)


def _draw(rows: Array, count: int, draws: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    drawn = [draw_seen(rows, count, rng) for _ in range(draws)]
    return np.concatenate([r for r, _ in drawn]), np.concatenate([s for _, s in drawn])


def choose(
    values: Array, groups: Indices, scale: RowScale, rng: np.random.Generator
) -> tuple[list[MemberSettings], Array]:
    """The members and weights that best predict programs that are held out."""
    levels = levels_of(scale)
    programs = len(np.unique(groups))
    stage = list(_rehearsals(values, groups, rng)) if programs > 1 else []
    exponents = EXPONENTS if programs < len(groups) else EXPONENTS[:1]
    simple = [_best_gaussian(free, exponents, stage) for free in levels]
    errors = np.array([_errors(each, stage) for each in simple])
    if not errors.shape[1] or not np.abs(errors).max() > 0:
        return [replace(DEFAULT, family=replace(DEFAULT.family, free_level=levels[0]))], np.ones(1)
    shares = np.full(len(levels), 1 / len(levels))
    if scale is RowScale.AUTO:
        shares = likely_shares(errors, np.concatenate([each.programs() for each in stage]))
    settings, prior = [], []
    for gaussian, share in zip(simple, shares.tolist(), strict=True):
        if share > 0:
            mixtures = _mixtures(gaussian.family.free_level, exponents, stage)
            likely = np.array([_is_likely(each, exponents[-1]) for each in mixtures])
            settings += [gaussian, *mixtures]
            prior += [share * SIMPLE_SHARE, *(share * (1 - SIMPLE_SHARE) * likely / likely.sum())]
    errors = np.array([_errors(each, stage) for each in settings])
    most = MAX_MEMBERS if len(values) < LEAN_ROWS else LEAN_MEMBERS
    picks = PRIOR_PICKS / sqrt(programs) * max(1.0, MANY_COLUMNS / values.shape[1]) ** 2
    kept, weights = select_few(errors, np.array(prior), picks, most)
    return [settings[i] for i in kept], weights


def likely_shares(errors: Array, programs: Indices) -> Array:
    """(2,) how probably each of two predictors has the smaller mean error; 0 for hardly.

    By Student's t of the mean difference (as a normal's: Abramowitz and Stegun, 26.7.8).

    Args:
        errors: (2, entries) predicted less true.
        programs: (entries,) the program of each: those of one vary together.

    >>> errors = np.array([[1.0, 1.0, 1.0, 1.0], [2.0, 2.5, 2.2, 1.9]])
    >>> likely_shares(errors, np.arange(4)).tolist()
    [1.0, 0.0]
    >>> likely_shares(np.array([[1.0, 3.0], [3.0, 1.0]]), np.arange(2)).tolist()
    [0.5, 0.5]
    """
    counts = np.bincount(programs)
    worse = np.bincount(programs, np.abs(errors[0]) - np.abs(errors[1]))[counts > 0]
    weights = counts[counts > 0] / len(programs)
    mean = worse.sum() / len(programs)
    apart = worse / len(programs) - weights * mean
    freedom = max(len(worse) - 1, 1)
    variance = float(apart @ apart) * len(worse) / freedom
    t = float(mean) / sqrt(variance + MIN_VARIANCE)
    second = NormalDist().cdf(t * (1 - 1 / (4 * freedom)) / sqrt(1 + t * t / (2 * freedom)))
    shares = np.array([1 - second, second])
    shares[shares < UNLIKELY] = 0.0
    return np.asarray(shares / shares.sum())


def _best_gaussian(
    free: bool, exponents: tuple[float, ...], stage: Sequence[_Rehearsal]
) -> MemberSettings:
    """As ``gaussian.py`` has it."""
    return _best(
        [
            MemberSettings(FamilySettings(free, exponent, inf, False), True, 0.0, inf, alpha, own)
            for exponent, own, alpha in product(exponents, (False, True), SHRINKAGES)
        ],
        stage,
    )


def _mixtures(
    free: bool, exponents: tuple[float, ...], stage: Sequence[_Rehearsal]
) -> list[MemberSettings]:
    tuned = _tuned(FamilySettings(free, exponents[0], *TUNED_BY), stage)
    return [
        each
        for exponent, robustness in product(exponents, ROBUSTNESS)
        for each in _library(FamilySettings(free, exponent, *robustness), tuned)
    ]


def _is_likely(settings: MemberSettings, exponent: float) -> bool:
    """Of the kind that does well on most matrices: robust against outliers."""
    of = settings.family
    robust = of.row_freedom == min(freedom for freedom, _ in ROBUSTNESS)
    return robust and of.exponent == exponent and settings.freedom < inf


def select_few(errors: Array, prior: Array, picks: float, most: int) -> tuple[Indices, Array]:
    """Indices and weights of at most ``most`` predictors; ``errors`` as for ``select``.

    Those with most weight are kept, and weighted again among themselves. The number of prior
    ``picks`` is distributed by ``prior``, (predictors,).
    """
    first = select(errors, prior * picks / prior.sum())
    kept = np.argsort(-first, kind="stable")[:most]
    kept = kept[first[kept] > 0]
    left = prior[kept] if prior[kept].any() else np.ones(len(kept))
    weights = select(errors[kept], left * picks / left.sum())
    return kept[weights > 0], weights[weights > 0]


def select(errors: Array, counts: Array) -> Array:
    """Weights of predictors, by adding one after the other.

    Args:
        errors: (predictors, entries) predicted less true.
        counts: (predictors,) how often each is picked at first; not all zero.

    Returns:
        (predictors,) not negative, summing to one: those of the round with the least error.

    >>> select(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([1.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    best, least = counts, np.inf
    for _ in range(ROUNDS + 1):
        size = counts.sum()
        total = counts @ errors
        reached = float(np.abs(total).mean() / size)
        if reached < least * (1 - SAME):
            best, least = counts, reached
        nexts = np.abs(total + errors).mean(axis=1) / (size + 1)
        counts = counts.copy()
        counts[int(_in_order(nexts)[0])] += 1
    return np.asarray(best / best.sum())


def _in_order(scores: Array) -> Indices:
    """The least first; ties up to rounding errors keep their order, whatever the rows' unit."""
    unit = SAME * max(float(np.abs(scores).max()), MIN_VARIANCE)
    return np.argsort(np.round(scores / unit), kind="stable")


def _errors(settings: MemberSettings, stage: Sequence[_Rehearsal]) -> Array:
    return np.concatenate([np.zeros(0), *(rehearsal.errors(settings) for rehearsal in stage)])


def _tuned(of: FamilySettings, stage: Sequence[_Rehearsal]) -> dict[float, MemberSettings]:
    best = {}
    for closeness in TUNED:
        tried = [
            MemberSettings(of, True, closeness, inf, shrinkage, own)
            for shrinkage, own in product(SHRINKAGES, (False, True))
        ]
        best[closeness] = _best(tried, stage)
    return best


def _best(tried: Sequence[MemberSettings], stage: Sequence[_Rehearsal]) -> MemberSettings:
    scores = np.array([np.abs(_errors(each, stage)).sum() for each in tried])
    return tried[int(_in_order(scores)[0])]


def _library(of: FamilySettings, tuned: Mapping[float, MemberSettings]) -> list[MemberSettings]:
    members = []
    for drawn, a, freedom in product(DRAWN, CLOSENESS, FREEDOMS):
        if a > 0 or freedom == inf:
            like = tuned[nearest_tuned(a)]
            members.append(replace(like, family=of, drawn=drawn, closeness=a, freedom=freedom))
    return members


def nearest_tuned(closeness: float) -> float:
    """The nearest closeness for which a covariance was chosen.

    >>> [nearest_tuned(closeness) for closeness in CLOSENESS]
    [0.0, 0.0, 0.8, 0.97, 0.97]
    """
    return min(TUNED, key=lambda tuned: abs(tuned**2 - closeness**2))


@dataclass(frozen=True, slots=True)
class StackEstimator:
    """The default."""

    name: ClassVar[str] = "stack"
    version: ClassVar[int] = 3

    def learn(
        self, values: Array, groups: Indices, scale: RowScale, rng: np.random.Generator
    ) -> StackLearned:
        """Choose members and weights, then learn from all rows that become components."""
        values, groups = sample_rows(values, groups, MAX_ROWS, rng)
        settings, weights = choose(values, groups, scale, rng)
        families = Families(values, groups)
        return StackLearned.of([families.member(each) for each in settings], weights)

    def restore(self, arrays: Mapping[str, Array]) -> StackLearned:
        """The inverse of ``StackLearned.arrays``."""
        return StackLearned.restore(arrays)
