"""How workloads slow one another, where that is known between pairs instead of by source.

Source: Paragon 2.3 gives each workload tolerated and caused interference by source; here the
sources are factors of a matrix of pairs (``contention/``). In logarithms the performance of u with
co-runner v, relative to u alone on the same platform, is

    ln r(u, v) = −Σ_f suffers_u[f] · presses_v[f]

and with several the sum over them: slowdowns multiply. Separately, Σ_g excluded_u[g] ·
excludes_v[g] is the probability that the two do not fit on one server; its sum over several is an
upper bound (Boole's inequality).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, sqrt

ANY_PLATFORM = ""
"""Key of a profile that holds on every platform that has none of its own."""


@dataclass(frozen=True, slots=True)
class PairProfile:
    """One workload's part in any pair, on one platform.

    Any matrix is represented exactly by factors that are the workloads themselves: ``suffers`` the
    row, ``presses`` a unit vector.

    Attributes:
        basis: Name of the factors; profiles of different bases are not comparable.
        suffers: (F,) how it is slowed.
        presses: (F,) how it slows others.
        suffers_variance: (F,) of ``suffers``; empty = exact. So with ``presses_variance``.
        excluded: (G,) probability that it does not fit with one of each kind; empty = it fits
            with any.
        excludes: (G,) probability that it is of each kind.

    >>> one = PairProfile("two", suffers=(0.0, 0.5), presses=(1.0, 0.0))
    >>> other = PairProfile("two", suffers=(0.1, 0.0), presses=(0.0, 1.0))
    >>> [round(each.mean, 2) for each in (one.beside(other), other.beside(one))]
    [0.61, 0.9]
    """

    basis: str
    suffers: tuple[float, ...]
    presses: tuple[float, ...]
    suffers_variance: tuple[float, ...] = ()
    presses_variance: tuple[float, ...] = ()
    excluded: tuple[float, ...] = ()
    excludes: tuple[float, ...] = ()

    def beside(self, *others: "PairProfile") -> "Relative":
        """Performance with co-runners of the same basis, relative to alone."""
        drop = sum(_dot(self.suffers, other.presses) for other in others)
        unfit = sum(_dot(self.excluded, other.excludes) for other in others)
        return Relative(exp(-drop), sqrt(self._variance(others)), min(1.0, unfit))

    def _variance(self, others: "tuple[PairProfile, ...]") -> float:
        """Of the logarithm, with independent errors: Var(s p) = s² Vp + p² Vs + Vs Vp."""
        none = (0.0,) * len(self.suffers)
        own = self.suffers_variance or none
        presses = [sum(each) for each in zip(none, *(o.presses for o in others), strict=True)]
        theirs = (other.presses_variance or none for other in others)
        its = [sum(each) for each in zip(none, *theirs, strict=True)]
        terms = zip(self.suffers, presses, own, its, strict=True)
        return float(sum(s * s * vp + p * p * vs + vs * vp for s, p, vs, vp in terms))


@dataclass(frozen=True, slots=True)
class Relative:
    """Predicted performance with co-runners over performance alone.

    Attributes:
        mean: The median; 1 = no slowdown.
        std: Of its logarithm.
        unfit: Upper bound of the probability that they do not fit on one server.
    """

    mean: float
    std: float
    unfit: float = 0.0


def profile_on(pairs: Mapping[str, PairProfile], platform: str) -> PairProfile | None:
    """The profile that holds on a platform; ``None`` = unknown."""
    return pairs.get(platform) or pairs.get(ANY_PLATFORM)


def _dot(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) if one and other else 0.0
