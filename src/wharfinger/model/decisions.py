"""Verdicts, and the ``Decision`` that each records and ``explain`` prints."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.allocation import Placement
from wharfinger.model.workload import Target

CANDIDATES_KEPT = 10


class Stage(StrEnum):
    """Where in the pipeline something was decided, in the pipeline's order."""

    ADMISSION = "admission"
    PROFILING = "profiling"
    CLASSIFICATION = "classification"
    PLACEMENT = "placement"
    ADAPTATION = "adaptation"


class ReasonCode(StrEnum):
    """Why; stable, for machines. Each member says what happens next."""

    OK = "ok"
    """Done as asked."""
    NO_SERVERS = "no-servers"
    """No server accepts work; it waits until one does."""
    NO_ROOM = "no-room"
    """Some server would be large enough when empty; it waits until others end."""
    TOO_LARGE = "too-large"
    """No server is large enough even when empty; it waits for one, and does not block others."""
    NOT_ALLOWED = "not-allowed"
    """No server has the labels that it requires; it waits for one, and does not block others."""
    PROBES_BUSY = "probes-busy"
    """The servers that were drawn for it have no room; it waits for one of them, blocking
    none."""
    SERVERS_EXCLUDED = "servers-excluded"
    """The servers with room failed to start it; it waits for another."""
    BEHIND_OTHERS = "behind-others"
    """Others are served first and wait for room; it is looked at after them."""
    QUEUE_FULL = "queue-full"
    """Too many wait already; rejected, the user may submit it again later."""
    WOULD_NOT_HELP = "would-not-help"
    """The target is missed for another reason; things stay as they are."""
    OFF_PREDICTION = "off-prediction"
    """A resident there runs off its prediction; the server takes new work when it does not."""
    INTERFERENCE = "interference"
    """It and the residents would slow each other beyond what they tolerate; it waits."""
    DOES_NOT_FIT = "does-not-fit"
    """It would not run beside the residents, which are too large; it waits for their end."""
    TARGET_TOO_HIGH = "target-too-high"
    """In older logs: no server reaches the target even when empty; it waits for a larger one."""
    WILL_MISS = "will-miss"
    """The target is expected to be missed everywhere; it runs where that is most likely to be kept,
    or, where its manifest says ``onMiss: reject``, is rejected."""
    PLACED_FOR_TARGET = "placed-for-target"
    """Another place is expected to keep the target that is missed here; it is moved."""
    PLACED_AGAIN = "placed-again"
    """It keeps its target with less CPU elsewhere, and others wait for room; it is moved."""
    THROTTLED_FOR_TARGET = "throttled-for-target"
    """A neighbor misses its target; it may use more again, step by step, when that is kept."""
    SUSPENDED_FOR_TARGET = "suspended-for-target"
    """A neighbor misses its target; it goes on when that is kept again."""
    PREEMPTED_FOR_TARGET = "preempted-for-target"
    """A neighbor misses its target, and the engine can't suspend; it is started again later."""
    SIZED_BY_TARGET = "sized-by-target"
    """Its reservation of CPU was changed, and its CPU follows its target; things stay as they
    are."""
    RECOMMENDED = "recommended"
    """The manager only recommends; nothing is done."""
    PREEMPTING = "preempting"
    """Others leave their servers for its sake; it is placed when they have."""
    ACQUIRING = "acquiring"
    """A server is acquired for it; it waits until that is there."""
    DELEGATED = "delegated"
    """A decider outside the core is asked for a place."""
    CONFLICT = "conflict"
    """What was proposed on a snapshot does not hold any more; it is tried again."""
    SCHEDULED = "scheduled"
    """It runs at the next time of its schedule."""
    DEPENDENCY = "dependency"
    """It waits for other workloads to be ready or to end."""
    DEPENDENCY_FAILED = "dependency-failed"
    """A workload that had to complete first did not; rejected."""
    ARRAY_LIMIT = "array-limit"
    """As many of its array run as may at once; it waits for the end of one, blocking none."""
    PAUSED = "paused"
    """Its user has suspended it; it goes on when its user resumes it."""
    DRAINING = "draining"
    """Its server is drained; it is migrated."""
    WAITS_FOR_QUALITY = "waits-for-quality"
    """Only servers that are kept for others, or suit it less, have room; it waits in its slack."""
    NO_SLACK = "no-slack"
    """Its profile takes longer than it may wait; once that is made it may take any server."""
    WAITING = "waiting"
    """It waits for a time that its policy has named."""
    NOT_SUPPORTED = "not-supported"
    """The engine can't do that; things stay as they are."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One server that was considered; scores are lower for better ones, ``None`` = filtered out."""

    server: str
    score: float | None
    reason: ReasonCode = ReasonCode.OK
    numbers: Mapping[str, float] = field(default_factory=dict)


class Term(StrEnum):
    """What a target may state, with its unit: the terms in which performance is predicted."""

    THROUGHPUT = "throughput_per_second"
    LATENCY = "latency_seconds"
    RATE = "rate_per_second"
    COMPLETION = "completion_seconds"


@dataclass(frozen=True, slots=True)
class Interval:
    """A predicted number with its bounds, in its own unit; see ``Prediction``."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted performance over target; 1 = exactly the target.

    Attributes:
        mean: The median.
        low: Reached with ``confidence``: workloads are sized by it.
        high: Not exceeded with ``confidence``.
        confidence: From one half to 1.
        performance: The same in the target's own terms, if the workload is classified.
        alone: The mean without neighbors; ``None`` = their effect is not known between pairs.
        alone_std: Of its logarithm.
        target: Over which target; ``None`` = the workload's, unchanged (version 0.1).
        cpu_millicpus: With which allocation of CPU; 0 = unknown.
    """

    mean: float
    low: float
    high: float
    confidence: float
    performance: Mapping[Term, Interval] = field(default_factory=dict)
    alone: float | None = None
    alone_std: float = 0.0
    target: Target | None = None
    cpu_millicpus: int = 0

    def is_of(self, target: Target | None, cpu_millicpus: int | None = None) -> bool:
        """Whether it is for this target and, unless ``None``, for so much CPU."""
        same = self.target is None or self.target == target
        return same and (not self.cpu_millicpus or cpu_millicpus in (None, self.cpu_millicpus))


@dataclass(frozen=True, slots=True)
class Decision:
    """The record of one decision.

    Attributes:
        decided_by: Name of the part of the policy.
        accepted: Whether the workload continues to the next stage.
        message: One sentence for the operator.
        would_change: What would have to change for another outcome; empty when accepted.
        considered: How many servers were considered.
        candidates: The best ``CANDIDATES_KEPT`` of them, best first.
        numbers: What was compared beyond the candidates' own numbers; units in the keys.
    """

    stage: Stage
    decided_by: str
    accepted: bool
    reason: ReasonCode
    message: str
    would_change: str = ""
    considered: int = 0
    candidates: tuple[Candidate, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    predicted: Prediction | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a workload goes, and why; the placement's new note, ``None`` = unchanged."""

    placements: tuple[Placement, ...]
    decision: Decision
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """Why it can't be placed now, and what would change that.

    Attributes:
        waits_for: Names of servers; asking again is useless before one of them has more room or
            changes. Empty = it depends on all servers.
        cpu_needed: (S,) thousandths of a CPU that it would get on each server of the view, 0 =
            nothing would do; ``None`` = its reservation.
        servers_needed: On how many servers at once it would get that.
    """

    decision: Decision
    waits_for: tuple[str, ...] = ()
    cpu_needed: NDArray[np.int64] | None = field(default=None, compare=False, repr=False)
    servers_needed: int = 1


RECOMMENDS = "a manager that acts: wharfinger up --mode act"
"""What would change a recommendation of a manager that makes no other."""


def recommended(decision: Decision, would_change: str = RECOMMENDS) -> Decision:
    """The decision, not carried out, where it is only to be recommended."""
    return replace(
        decision,
        accepted=False,
        reason=ReasonCode.RECOMMENDED,
        message=f"recommended: {decision.message}",
        would_change=would_change,
    )
