"""Which programs fit on one server, by kind: the set of programs that one does not fit with.

Of a new program the kind is a guess by Bayes' rule: those of the known ones that agree with what
was seen of it, each as likely as it is frequent.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wharfinger.estimators.tasks import Indices
from wharfinger.model.arrays import Array

WRONG = 0.02
"""Probability that whether two fit is seen wrongly, or that a kind is unlike all known ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """What was learnt from the known programs, on all platforms together.

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
        """From whole matrices.

        Args:
            relative: By platform: (K, K) performance beside over alone; 0 = the two do not fit,
                NaN = not measured.
        """
        found = {platform: _unfit(matrix) for platform, matrix in relative.items()}
        _, first, of, counts = np.unique(
            np.hstack(list(found.values())),
            axis=0,
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        unfit = {platform: each[np.ix_(first, first)] for platform, each in found.items()}
        return cls(of.reshape(-1), unfit, counts / counts.sum())

    @property
    def all_fit(self) -> bool:
        """Whether any two fit on any platform."""
        return not any(each.any() for each in self.unfit.values())

    def likely(self, platform: str, fits: Mapping[int, bool]) -> Array:
        """(G,) probability of each kind.

        Args:
            platform: Where it was seen.
            fits: By known program's place: whether it fits beside that one.
        """
        chances = self.share.copy()
        for place, fitted in fits.items():
            apart = WRONG + (1 - 2 * WRONG) * self.unfit[platform][:, self.of[place]]
            chances *= 1 - apart if fitted else apart
        return np.asarray(chances / chances.sum())

    def known(self, place: int) -> Array:
        """(G,) 1 at the kind of a known program."""
        return np.asarray(np.eye(len(self.share))[self.of[place]])


def _unfit(relative: Array) -> Array:
    """(K, K) whether two do not fit, whichever of them says so; unknown = as often as theirs do."""
    seen = ~np.isnan(relative)
    zero = relative == 0
    known = seen | seen.T
    unfit = (zero | zero.T).astype(np.float64)
    rate = unfit.sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return np.asarray(np.where(known, unfit, (rate[:, None] + rate) / 2))
