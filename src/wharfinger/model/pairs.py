"""How workloads slow one another, where that is known between pairs and not by source.

Source: Paragon 2.3 gives each workload what it tolerates and what it causes, source by source of
interference; here the sources are factors, found in a matrix of pairs (``contention/``).
In logarithms the performance of u beside v, relative to u alone on the same platform, is

    ln r(u, v) = −Σ_f suffers_u[f] · presses_v[f]

and beside several the sum over them: slow-downs multiply. Whether the two fit on one server at
all is apart: a probability that they do not, Σ_g excluded_u[g] · excludes_v[g], whose sum over
several is no less than the probability that one of them is in the way (Boole's inequality).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, sqrt

ANY_PLATFORM = ""
"""Key of a profile that holds on every platform that has none of its own."""


@dataclass(frozen=True, slots=True)
class PairProfile:
    """One workload's part in any pair, on one platform.

    Any matrix is held exactly by factors that are the workloads themselves: ``suffers`` the row,
    ``presses`` 1 at its own place.

    Attributes:
        basis: Name of the factors; profiles of different bases say nothing of one another.
        suffers: (F,) how it is slowed.
        presses: (F,) how it slows others.
        suffers_variance: (F,) of ``suffers``; empty = none, it is exact.
        presses_variance: (F,) of ``presses``; empty = none.
        excluded: (G,) probability that it does not fit beside one of each kind; empty = it fits
            beside any.
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
        """Performance beside others of the same basis, relative to alone."""
        drop = sum(_dot(self.suffers, other.presses) for other in others)
        unfit = sum(_dot(self.excluded, other.excludes) for other in others)
        return Relative(exp(-drop), sqrt(self._variance(others)), min(1.0, unfit))

    def _variance(self, others: "tuple[PairProfile, ...]") -> float:
        """Of the logarithm, each being unsure of its own: Var(s p) = s² Vp + p² Vs + Vs Vp."""
        none = (0.0,) * len(self.suffers)
        own = self.suffers_variance or none
        presses = [sum(each) for each in zip(none, *(o.presses for o in others), strict=True)]
        theirs = (other.presses_variance or none for other in others)
        its = [sum(each) for each in zip(none, *theirs, strict=True)]
        terms = zip(self.suffers, presses, own, its, strict=True)
        return float(sum(s * s * vp + p * p * vs + vs * vp for s, p, vs, vp in terms))


@dataclass(frozen=True, slots=True)
class Relative:
    """Performance beside others over performance alone, as it is predicted.

    Attributes:
        mean: The median; 1 = no slowdown.
        std: Of its logarithm.
        unfit: Probability that they do not fit on one server, or more.
    """

    mean: float
    std: float
    unfit: float = 0.0


def profile_on(pairs: Mapping[str, PairProfile], platform: str) -> PairProfile | None:
    """What holds on a platform; ``None`` = nothing is known there."""
    return pairs.get(platform) or pairs.get(ANY_PLATFORM)


def _dot(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) if one and other else 0.0
