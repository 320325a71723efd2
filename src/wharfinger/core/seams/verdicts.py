"""What a placement or an admission may answer, each with its ``Decision``.

``Place`` (place it here) and ``Refuse`` (not now, and why) are in ``model.decisions``.
"""

from dataclasses import dataclass

from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision, Place, Refuse


@dataclass(frozen=True, slots=True)
class Preempt:
    """Other workloads are stopped for its sake; it is tried again when they have left.

    The victims, running and restartable (``View.occupants``), return to their queue. Only
    best-effort work is stopped for what is not, and of each only what has a lower priority. What
    they free is held for it until it is placed, and so is what is free of ``placements``, where it
    is to go; empty = not stated.
    """

    victims: tuple[str, ...]
    decision: Decision
    placements: tuple[Placement, ...] = ()


@dataclass(frozen=True, slots=True)
class Acquire:
    """A server of this platform is to be acquired; it waits for it. One order per workload."""

    platform: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Delegate:
    """A decider outside the core is asked, on a snapshot; the core checks its proposal."""

    decider: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """It waits, and is tried again at this time, in seconds since the epoch.

    One that waits for a placement is tried earlier where there may be more room.
    """

    time: float
    decision: Decision


@dataclass(frozen=True, slots=True)
class Admit:
    """It is admitted, or, once classified, waits in this queue until it is reviewed.

    ``decision`` may be ``None`` for a queue, ``review_at`` is in seconds since the epoch. Of one
    priority, lower ``rank`` is served first; of one rank, who came first. So are they profiled
    where room for that is short, by the ranks with which they were admitted.
    """

    decision: Decision | None = None
    queue: str = ""
    review_at: float | None = None
    rank: float = 0.0


@dataclass(frozen=True, slots=True)
class Divert:
    """It leaves its queue for another one; ``rank`` as in ``Admit``."""

    queue: str
    decision: Decision
    review_at: float | None = None
    rank: float = 0.0


PlacementVerdict = Place | Refuse | Preempt | Acquire | Delegate | WaitUntil
AdmissionVerdict = Admit | WaitUntil | Refuse
ReviewVerdict = Divert | WaitUntil | Refuse
