"""Resource quality: of what a workload needs, and of what a server has left.

Source: ARQ, equation 1, with the interference that is tolerated as well as that which is caused
(dissertation 6.3.1 defines a workload's by the one, a server's by the other).
"""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.contention import Array
from wharfinger.model.interference import QUALITY_SOURCES, SharedResource
from wharfinger.model.profile import Classification
from wharfinger.model.view import View
from wharfinger.native import needed_quality

COUNTED = frozenset(tuple(SharedResource)[:QUALITY_SOURCES])


class QualityMeasure(StrEnum):
    """What counts for resource quality."""

    BOTH = "both"
    """What is caused, and what is not tolerated."""
    CAUSED = "caused"
    """What is caused alone, as Paragon (TOCS) 4.1 prints it."""


class Ranges(StrEnum):
    """How the range of qualities is divided."""

    EQUAL = "equal"
    """Into ranges of one width, as published."""
    QUANTILE = "quantile"
    """So that equally many workloads are in each class, and equally many servers in each pool."""


def demand(classification: Classification, measure: QualityMeasure) -> float:
    """The quality that a workload needs, from 0 to 1; sources that are unknown need none."""
    tolerated = classification.tolerated if measure is QualityMeasure.BOTH else None
    return needed_quality(classification.caused, tolerated, COUNTED)


def has_scores(view: View) -> bool:
    """Whether servers have a quality: their contention model knows scores of interference."""
    return view.contention is not None and view.contention.has_scores


def qualities(view: View, measure: QualityMeasure) -> Array | None:
    """(S,) of each server with its residents, from 0 to 1; ``None`` = no scores are known."""
    if view.contention is None:
        return None
    columns = view.contention.quality_columns(len(view.names))
    if columns is None:
        return None
    return columns.both if measure is QualityMeasure.BOTH else columns.caused


def edges(queues: int, ranges: Ranges, found: Array) -> Array:
    """(queues - 1,) where one range ends and the next begins, ascending.

    ``found`` are the qualities of which equally many are to be in each range.

    >>> edges(4, Ranges.EQUAL, np.ones(3)).tolist()
    [0.25, 0.5, 0.75]
    """
    inner = np.arange(1, queues) / queues
    if ranges is Ranges.EQUAL or not found.size:
        return inner
    return np.quantile(found, inner)


def class_of(quality: Array, between: Sequence[float]) -> NDArray[np.intp]:
    """(S,) the range in which each quality lies: 0 is the lowest.

    >>> class_of(np.array([0.0, 0.25, 1.0]), [0.25, 0.5, 0.75]).tolist()
    [0, 1, 3]
    """
    return np.asarray(np.searchsorted(between, quality, side="right"))
