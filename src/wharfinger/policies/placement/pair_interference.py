"""Who goes beside whom where interference is known between pairs: what it does to targets.

By source a score says from where on somebody minds (``placement.interference``). Between pairs the
slow-downs themselves are known, so targets are looked at: with the stated confidence no resident
may fall below what it must keep, nor the newcomer, if it would not on an empty server. Among the
servers where nobody does, the one is taken where the least performance is lost, in the sum of the
logarithms of all concerned.
"""

from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.prediction import quantile
from wharfinger.contention.by_pair import Felt, Harm, Newcomer, felt, harm
from wharfinger.model.pairs import profile_on
from wharfinger.model.profile import Classification
from wharfinger.model.view import ClusterView, PairLevels

Array = NDArray[np.float64]
POINTS = 100.0
"""A share that is lost, in the points of tolerated scores: so that both can be added."""
NEVER_BESIDE = 0.5
"""Probability that two do not fit on one server from which on it is not tried, whatever waits."""


@dataclass(frozen=True, slots=True)
class Company:
    """A newcomer among each server's residents.

    Attributes:
        felt: What they do to it.
        harm: What it does to them.
        levels: Of the residents.
        unfit_beyond: Probability of not fitting that is taken as a risk at most.
    """

    felt: Felt
    harm: Harm
    levels: PairLevels
    unfit_beyond: float

    @property
    def apart(self) -> NDArray[np.bool_]:
        """(S,) where it rather does not fit beside the residents."""
        return np.asarray(self.felt.unfit > NEVER_BESIDE)

    def violation(self, own: Array) -> Array:
        """(S,) in points: what is lost of targets, and a doubt too many that they fit.

        Args:
            own: (S,) share of its own target that it falls short by, because of the residents.
        """
        risk = np.where(self.felt.unfit > self.unfit_beyond, self.felt.unfit, 0.0)
        return POINTS * (own + self.harm.by_server(len(own)) + risk)

    def waste(self, behind: Array) -> Array:
        """(S,) from 0 to 1: the performance that is lost by putting it there, of all of them.

        Args:
            behind: (S,) logarithm by which it would be faster alone on the best server than there.
        """
        further = self.levels.pace - self.harm.pace
        at = np.maximum(self.harm.server, 0)
        return -np.expm1(-np.maximum(behind + np.bincount(at, further, len(behind)), 0.0))

    def numbers(self, row: int) -> dict[str, float]:
        """What was compared on one server."""
        found = {"performance_beside_residents": exp(-float(self.felt.drop[row]))}
        if self.felt.unfit[row] > 0:
            found["unfit_probability"] = float(self.felt.unfit[row])
        worst = self.harm.worst(row)
        if worst is not None:
            found["worst_resident_predicted_pace"] = exp(float(self.harm.pace[worst]))
        return found

    def victim(self, row: int) -> str:
        """Who would fall short most, and how far, for people; empty = no resident would."""
        worst = self.harm.worst(row)
        if worst is None or self.harm.shortfall[worst] == 0:
            return ""
        pace = exp(float(self.harm.pace[worst]))
        return f"{self.levels.names[worst]} would come to {pace:.0%} of its target"


def company(known: Classification | None, view: ClusterView, confidence: float) -> Company | None:
    """Of a newcomer; ``None`` where nothing is known between pairs of it, or of anybody there.

    Args:
        known: Its classification.
        view: With the residents.
        confidence: That nobody falls short, for each by itself.
    """
    levels = view.pairs
    if levels is None or known is None or not known.pairs or not len(view.names):
        return None
    newcomer = Newcomer.of(known.pairs, view.platforms, levels)
    does = harm(newcomer, view, levels, quantile(confidence))
    return Company(felt(newcomer, view, levels), does, levels, 1 - confidence)


def slowed_by(known: Classification, row: int, view: ClusterView) -> float | None:
    """What its neighbours take away of the logarithm of one that is on a server already.

    Returns:
        ``None`` where that is not known between pairs.
    """
    profile = profile_on(known.pairs, view.platforms[view.platform[row]])
    levels = view.pairs
    if profile is None or levels is None or levels.bases.get(profile.basis) != levels.basis[row]:
        return None
    others = levels.presses[row, : len(profile.presses)] - profile.presses
    return float(others @ np.array(profile.suffers))


@dataclass(frozen=True, slots=True)
class Own:
    """How a newcomer would do itself, against the best that it could have.

    Attributes:
        short: (S,) share of its target by which it falls short there, with the confidence, and
            would not alone on the best server.
        behind: (S,) logarithm by which it would be faster alone on the fastest.
    """

    short: Array
    behind: Array


def own_part(
    pace: Array, variance: Array, least: float, by: Felt, able: NDArray[np.bool_], confidence: float
) -> Own:
    """How it would do on each server.

    Args:
        pace: (S,) logarithm of its performance over target, beside the residents.
        variance: (S,) of that.
        least: Share of its target that it must keep.
        by: What the residents' part in both is.
        able: (S,) servers that would take it when empty.
        confidence: As for the residents.
    """
    z, kept = quantile(confidence), log(max(least, 1e-9))
    low = pace - z * np.sqrt(variance) - kept
    median = pace + by.drop
    alone = median - z * np.sqrt(np.maximum(variance - by.variance, 0.0)) - kept
    best = np.where(able, alone, -np.inf).max(initial=-np.inf)
    fastest = np.where(able, median, -np.inf).max(initial=-np.inf)
    further = np.minimum(np.maximum(alone, best), 0.0) - np.minimum(low, 0.0)
    short = -np.expm1(-np.maximum(further, 0.0))
    return Own(short, np.maximum(median, fastest) - pace)
