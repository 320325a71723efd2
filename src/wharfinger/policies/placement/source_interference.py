"""Who goes beside whom: tolerated against caused interference, both ways (Paragon 3.1, 3.2).

D1 is what a server's residents tolerate less what the newcomer causes, D2 what the newcomer
tolerates less what the residents cause. Where both are 0 or more for every source, nobody is
slowed beyond the tolerance; among those servers the one with the least ‖D1 + D2‖₁ wastes the
least of what could be tolerated. Scores are uncertain: D counts as kept when it is with the
stated confidence.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.prediction import quantile
from wharfinger.model.profile import Classification
from wharfinger.model.view import SOURCES, ClusterView


@dataclass(frozen=True, slots=True)
class Fit:
    """How a newcomer and each server's residents get on.

    Attributes:
        violation: (S,) by how many points tolerated scores are exceeded, over all sources and
            both ways; 0 = nobody is slowed beyond the tolerance.
        norm: (S,) ‖D1 + D2‖₁ over the sources that are known, in points.
        worst: (S,) index in ``SOURCES`` of the source that is exceeded most.
        sources: How many sources are known of the newcomer.
    """

    violation: NDArray[np.float64]
    norm: NDArray[np.float64]
    worst: NDArray[np.intp]
    sources: int


def fit(newcomer: Classification | None, view: ClusterView, confidence: float) -> Fit:
    """Compare with every server.

    Args:
        newcomer: Its classification; ``None`` = nothing is known, everyone fits.
        view: With what residents tolerate and cause.
        confidence: That no score is exceeded, for each source by itself.
    """
    servers = len(view.names)
    exceeded = np.zeros((len(SOURCES), servers))
    norm = np.zeros(servers)
    z, known = quantile(confidence), 0
    for at, source in enumerate(SOURCES):
        caused = newcomer.caused.get(source) if newcomer else None
        tolerated = newcomer.tolerated.get(source) if newcomer else None
        both = np.zeros(servers)
        if caused is not None:
            d1 = view.tolerated[at] - caused.mean
            d1_std = np.sqrt(view.tolerated_variance[at] + caused.std**2)
            # Nobody there, nobody to slow.
            exceeded[at] += np.where(view.residents > 0, _beyond(d1 - z * d1_std), 0.0)
            both = both + d1
        if tolerated is not None:
            d2 = tolerated.mean - view.caused[at]
            d2_std = np.sqrt(view.caused_variance[at] + tolerated.std**2)
            pressed = view.caused[at] > 0
            exceeded[at] += np.where(pressed, _beyond(d2 - z * d2_std), 0.0)
            both = both + d2
        known += caused is not None or tolerated is not None
        norm += np.abs(both)
    return Fit(exceeded.sum(axis=0), norm, exceeded.argmax(axis=0), known)


def _beyond(kept: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(-kept, 0.0)
