"""``stack``, the default: a weighted mean of mixtures centred on known rows.

Members (``mixture.py``) differ in how close components keep to known rows, how strongly a far
component is given up, how rows count, and how far column effects are believed. No single one wins
on every matrix; which do is found by rehearsal: programs are left out, 2 and 4 entries revealed,
and members are taken one after the other, again and again, as each lowers the mean absolute
error of the mean of those taken most (Caruana, Niculescu-Mizil, Crew and Ksikes, "Ensemble
selection from libraries of models", 2004: weights that are not negative, and few of them). A few
programs would choose by chance, so there are picks to begin with, of the kind that does well on
most matrices; the fewer programs, the more of them. The variance is that of the mixture of
members: their own, and how much they disagree.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, inf, sqrt
from typing import ClassVar

import numpy as np

from wharfinger.estimators.conditional import MIN_VARIANCE, RIDGE, Gaussian, Prior
from wharfinger.estimators.estimator import Finish, FoldIn
from wharfinger.estimators.gaussian import SHRINKAGES, GaussianSettings, prior_of
from wharfinger.estimators.matrix import RowScale
from wharfinger.estimators.means import pack_prior, unpack_prior
from wharfinger.estimators.mixture import (
    FamilySettings,
    MemberSettings,
    MixtureFamily,
    MixtureMember,
    condition,
    family,
    predict_means,
)
from wharfinger.estimators.tasks import Indices, draw_seen, group_folds
from wharfinger.model.arrays import Array
from wharfinger.native import Mixtures

CLOSENESS = (0.0, 0.5, 0.8, 0.95, 0.99)
TUNED = (0.0, 0.8, 0.97)
"""Where covariances are chosen: about components that are near, another is better."""
FREEDOMS = (inf, 4.0)
DRAWN = (False, True)
EXPONENTS = (0.0, 0.5)
ROBUSTNESS = ((4.0, False), (1.0, False), (inf, True))
"""Freedom of the rows' weights, and whether entries far off count less for the mean row."""
TUNED_BY = ROBUSTNESS[0]
FOLDS = 10
DRAWS = 3
MIN_TASKS = 60
"""Rows to rehearse with each number of entries: where there are fewer, each is drawn more often."""
REVEALED = (2, 4)
MAX_ROWS = 500
"""Rows that settings are chosen on, and components of a mixture."""
PRIOR_PICKS = 40.0
"""Over the root of the programs: picks that the selection begins with."""
ROUNDS = 20
SAME = 1e-9
"""Errors that differ by this share of themselves are equal."""
MAX_MEMBERS = 8
LEAN_MEMBERS = 5
LEAN_ROWS = 50
"""From so many rows on fewer members are kept: folding in costs members times rows."""
DEFAULT = MemberSettings(FamilySettings(True, 0.5, inf, False), True, 0.0, inf, 0.5, False)
"""With fewer than two programs there is nothing to choose by."""


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Members as the compiled fold-in takes them: see ``native/kernels/_mixture.pyx``."""

    kernels: Array
    residuals: Array
    log_weights: Array
    means: Array
    of: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
    settings: Array


@dataclass(frozen=True, slots=True, eq=False)
class StackLearned:
    """Mixtures and their weights.

    Attributes:
        members: Those that count.
        weights: (members,), summing to one.
        packed: The same, for the compiled fold-in.
        alone: That fold-in, of transformed rows and with nothing after it.
    """

    members: tuple[MixtureMember, ...]
    weights: Array
    packed: Packed
    alone: FoldIn

    @classmethod
    def of(cls, members: Sequence[MixtureMember], weights: Array) -> "StackLearned":
        """With what the fold-in needs."""
        packed = pack(members, weights)
        alone = kernel(packed, Finish.nothing(packed.means.shape[1]))
        return cls(tuple(members), weights, packed, alone)

    def condition(self, row: Array) -> Gaussian:
        """Mean and variances at once; the covariance when it is asked for."""
        found = self.alone.fold_in(np.ascontiguousarray(row, dtype=np.float64))
        if found is None:
            return self.reference(row)
        mean, variances, values = found
        return Gaussian(mean, lambda: self.reference(values).covariance, variances)

    def compiled(self, finish: Finish) -> FoldIn:
        """The same with what comes before and after it."""
        return kernel(self.packed, finish)

    def reference(self, row: Array) -> Gaussian:
        """The same in NumPy, with the whole covariance."""
        found = [condition(one, row) for one in self.members]
        means = np.array([each.mean for each in found])
        mean = self.weights @ means
        apart = (means - mean) * np.sqrt(self.weights)[:, None]
        covariance = apart.T @ apart
        for weight, each in zip(self.weights, found, strict=True):
            covariance += weight * each.covariance
        seen = np.flatnonzero(~np.isnan(row))
        mean[seen] = row[seen]
        covariance[seen, :] = covariance[:, seen] = 0.0
        return Gaussian(mean, covariance)

    def relearn(self, values: Array, groups: Indices) -> "StackLearned":
        """The same members and weights on other rows."""
        families = Families(values, groups)
        members = [families.member(one.settings) for one in self.members]
        return StackLearned.of(members, self.weights)

    def arrays(self) -> dict[str, Array]:
        """Members, their families, and weights."""
        found: dict[str, Array] = {"weights": self.weights}
        families = list(dict.fromkeys(id(one.family) for one in self.members))
        for number, one in enumerate(self.members):
            found[f"{number}.settings"] = _pack_settings(one.settings)
            found |= {f"{number}.{name}": a for name, a in pack_prior(one.prior).items()}
            of = families.index(id(one.family))
            found[f"{number}.family"] = np.array(float(of))
            found[f"family{of}.residuals"] = one.family.residuals
            found[f"family{of}.log_weights"] = one.family.log_weights
        return found


def pack(members: Sequence[MixtureMember], weights: Array) -> Packed:
    """Each covariance and each family once."""
    kernels = {id(one.prior.covariance): one.prior.covariance for one in members}
    families = {id(one.family): one.family for one in members}
    of = [
        (
            list(kernels).index(id(one.prior.covariance)),
            list(families).index(id(one.family)),
            int(one.settings.family.free_level),
        )
        for one in members
    ]
    settings = [
        (one.settings.closeness, one.settings.freedom, weight)
        for one, weight in zip(members, weights, strict=True)
    ]
    return Packed(
        np.array(list(kernels.values())),
        np.array([found.residuals for found in families.values()]),
        np.array([found.log_weights for found in families.values()]),
        np.array([one.prior.mean for one in members]),
        np.array(of, dtype=np.int64),
        np.array(settings),
    )


def kernel(packed: Packed, finish: Finish) -> FoldIn:
    """The compiled fold-in."""
    return Mixtures(
        packed.kernels,
        packed.residuals,
        packed.log_weights,
        packed.means,
        packed.of,
        packed.settings,
        finish.factors,
        finish.unmeasured,
        finish.logarithms,
        RIDGE,
        MIN_VARIANCE,
    )


class Families:
    """Known rows, each way to take them worked out once."""

    def __init__(self, values: Array, groups: Indices) -> None:
        self._values, self._groups = values, groups
        self._families: dict[FamilySettings, MixtureFamily] = {}
        self._priors: dict[tuple[FamilySettings, float, bool], Prior] = {}

    def family(self, settings: FamilySettings) -> MixtureFamily:
        """Of these settings."""
        if settings not in self._families:
            found = family(self._values, self._groups, settings)
            self._families[settings] = found
        return self._families[settings]

    def member(self, settings: MemberSettings) -> MixtureMember:
        """Of these settings; equal covariances are one object."""
        found, of = self.family(settings.family), settings.family
        assert found.moments is not None, "worked out from rows, not read from a file"
        key = of, settings.shrinkage, settings.own_variances
        if key not in self._priors:
            kept = GaussianSettings(
                settings.shrinkage, settings.own_variances, of.exponent, of.free_level
            )
            self._priors[key] = prior_of(found.moments, kept)
        prior = self._priors[key]
        if not settings.drawn:
            prior = replace(prior, mean=found.moments.effects.columns)
        return MixtureMember(settings, prior, found)


# --- choosing -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class StackRehearsal:
    """Programs that are left out, and which of their entries are revealed.

    Attributes:
        families: Of the programs that are kept.
        rows: (rows, columns) of those left out.
        tasks: Rows and the columns of them that are revealed.
    """

    families: Families
    rows: Array
    tasks: list[tuple[Indices, Indices]]

    def errors(self, settings: MemberSettings) -> Array:
        """Predicted less true of all entries that were not revealed, one after the other."""
        one, found = self.families.member(settings), []
        for rows, seen in self.tasks:
            error = predict_means(one, self.rows[rows], seen) - self.rows[rows]
            np.put_along_axis(error, seen, np.nan, axis=1)
            found.append(error[~np.isnan(error)])
        return np.concatenate(found) if found else np.zeros(0)


def rehearsals(
    values: Array, groups: Indices, rng: np.random.Generator
) -> Iterator[StackRehearsal]:
    """Each program is left out once."""
    draws = max(DRAWS, ceil(MIN_TASKS / len(values)))
    for held in group_folds(groups, FOLDS, rng):
        rows = values[held]
        seen = [_draw(rows, known, draws, rng) for known in REVEALED]
        training = np.setdiff1d(np.arange(len(values)), held)
        families = Families(values[training], groups[training])
        yield StackRehearsal(families, rows, [(r, s) for r, s in seen if len(r)])


def _draw(rows: Array, known: int, draws: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Tasks of several draws in one: each row as often as it is drawn."""
    drawn = [draw_seen(rows, known, rng) for _ in range(draws)]
    return np.concatenate([r for r, _ in drawn]), np.concatenate([s for _, s in drawn])


def choose(
    values: Array, groups: Indices, levels: tuple[bool, ...], rng: np.random.Generator
) -> tuple[list[MemberSettings], Array]:
    """Members and weights by which programs that were left out are predicted best."""
    alone = [replace(DEFAULT, family=replace(DEFAULT.family, free_level=levels[0]))], np.ones(1)
    programs = len(np.unique(groups))
    if programs < 2:
        return alone
    stage = list(rehearsals(values, groups, rng))
    exponents = EXPONENTS if programs < len(groups) else EXPONENTS[:1]
    settings: list[MemberSettings] = []
    for free in levels:
        tuned = _tuned(FamilySettings(free, exponents[0], *TUNED_BY), stage)
        for exponent, robustness in product(exponents, ROBUSTNESS):
            settings += _library(FamilySettings(free, exponent, *robustness), tuned)
    errors = np.array([_errors(each, stage) for each in settings])
    if not errors.shape[1] or not np.abs(errors).max() > 0:
        return alone
    prior = np.array([_is_likely(each, exponents[-1]) for each in settings], dtype=np.float64)
    most = MAX_MEMBERS if len(values) < LEAN_ROWS else LEAN_MEMBERS
    kept, weights = select_few(errors, prior, PRIOR_PICKS / sqrt(programs), most)
    return [settings[i] for i in kept], weights


def _is_likely(settings: MemberSettings, exponent: float) -> bool:
    """Of the kind that does well on most matrices: hardly moved by what lies far off."""
    of = settings.family
    robust = of.row_freedom == min(freedom for freedom, _ in ROBUSTNESS)
    return robust and of.exponent == exponent and settings.freedom < inf


def select_few(errors: Array, prior: Array, picks: float, most: int) -> tuple[Indices, Array]:
    """At most ``most`` predictors and their weights.

    Those that have most weight are kept, and weighed once more among themselves.

    Args:
        errors: (predictors, entries) predicted less true.
        prior: (predictors,) what the picks to begin with are shared out by.
        picks: How many those are.
        most: To keep.
    """
    first = select(errors, prior * picks / prior.sum())
    kept = np.argsort(-first, kind="stable")[:most]
    kept = kept[first[kept] > 0]
    left = prior[kept] if prior[kept].any() else np.ones(len(kept))
    weights = select(errors[kept], left * picks / left.sum())
    return kept[weights > 0], weights[weights > 0]


def select(errors: Array, counts: Array) -> Array:
    """Weights of predictors, by taking one after the other.

    Args:
        errors: (predictors, entries) predicted less true.
        counts: (predictors,) how often each is taken to begin with; not all zero.

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
        counts[int(in_order(nexts)[0])] += 1
    return np.asarray(best / best.sum())


def in_order(scores: Array) -> Indices:
    """The least first; those that differ by rounding errors only are equal, in their own order.

    So the same rows in another unit give the same choice.
    """
    unit = SAME * max(float(np.abs(scores).max()), MIN_VARIANCE)
    return np.argsort(np.round(scores / unit), kind="stable")


def _errors(settings: MemberSettings, stage: Sequence[StackRehearsal]) -> Array:
    return np.concatenate([rehearsal.errors(settings) for rehearsal in stage])


def _tuned(of: FamilySettings, stage: Sequence[StackRehearsal]) -> dict[float, MemberSettings]:
    """The covariances that suit a family best, far from a = 1 and near to it."""
    best = {}
    for closeness in TUNED:
        tried = [
            MemberSettings(of, True, closeness, inf, shrinkage, own)
            for shrinkage, own in product(SHRINKAGES, (False, True))
        ]
        scores = np.array([np.abs(_errors(each, stage)).sum() for each in tried])
        best[closeness] = tried[int(in_order(scores)[0])]
    return best


def _library(of: FamilySettings, tuned: Mapping[float, MemberSettings]) -> list[MemberSettings]:
    """All members of one family."""
    return [
        replace(
            tuned[nearest_tuned(closeness)],
            family=of,
            drawn=drawn,
            closeness=closeness,
            freedom=freedom,
        )
        for drawn, closeness, freedom in product(DRAWN, CLOSENESS, FREEDOMS)
        if closeness > 0 or freedom == inf
    ]


def nearest_tuned(closeness: float) -> float:
    """Where covariances were chosen, as near as may be.

    >>> [nearest_tuned(closeness) for closeness in CLOSENESS]
    [0.0, 0.0, 0.8, 0.97, 0.97]
    """
    return min(TUNED, key=lambda tuned: abs(tuned**2 - closeness**2))


@dataclass(frozen=True, slots=True)
class StackEstimator:
    """The default."""

    name: ClassVar[str] = "stack"
    version: ClassVar[int] = 2

    def learn(
        self, values: Array, groups: Indices, scale: RowScale, rng: np.random.Generator
    ) -> StackLearned:
        """Choose members and weights on some rows, then learn from all that may be components."""
        levels = (True,) if scale is RowScale.ARBITRARY else (False, True)
        if len(values) > MAX_ROWS:
            rows = np.sort(rng.choice(len(values), MAX_ROWS, replace=False))
            values, groups = values[rows], groups[rows]
        settings, weights = choose(values, groups, levels, rng)
        families = Families(values, groups)
        return StackLearned.of([families.member(each) for each in settings], weights)

    def restore(self, arrays: Mapping[str, Array]) -> StackLearned:
        """As saved."""
        families: dict[int, MixtureFamily] = {}
        members = []
        for number in range(len(arrays["weights"])):
            of = int(arrays[f"{number}.family"])
            if of not in families:
                families[of] = MixtureFamily(
                    arrays[f"family{of}.residuals"],
                    arrays[f"family{of}.log_weights"],
                )
            settings = _unpack_settings(arrays[f"{number}.settings"])
            own = {name.removeprefix(f"{number}."): array for name, array in arrays.items()}
            members.append(MixtureMember(settings, unpack_prior(own), families[of]))
        return StackLearned.of(members, arrays["weights"])


def _pack_settings(settings: MemberSettings) -> Array:
    of = settings.family
    return np.array(
        [
            of.free_level,
            of.exponent,
            of.row_freedom,
            of.robust_columns,
            settings.drawn,
            settings.closeness,
            settings.freedom,
            settings.shrinkage,
            settings.own_variances,
        ],
        dtype=np.float64,
    )


def _unpack_settings(numbers: Array) -> MemberSettings:
    free, exponent, rows, columns, *of_member = map(float, numbers)
    drawn, closeness, freedom, shrinkage, own = of_member
    of = FamilySettings(bool(free), exponent, rows, bool(columns))
    return MemberSettings(of, bool(drawn), closeness, freedom, shrinkage, bool(own))
