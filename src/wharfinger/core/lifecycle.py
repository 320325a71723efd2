"""A workload's life as a table of phases and transitions.

The manager moves workloads by this table alone, the tests walk every edge of it, and
``docs/pictures/lifecycle.svg`` is drawn from it.
"""

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """Where a workload is in its life."""

    SUBMITTED = "submitted"
    """Acknowledged: it is on disk and will not be lost."""
    ADMITTED = "admitted"
    """It may be profiled and placed."""
    PROFILING = "profiling"
    """Short runs measure what it needs."""
    CLASSIFYING = "classifying"
    """An estimator is asked what it needs."""
    CLASSIFIED = "classified"
    """An estimator has said what it needs, and how sure it is."""
    QUEUED = "queued"
    """It waits for a placement."""
    PLACED = "placed"
    """Servers hold room for it; the engine has been asked to start it."""
    STARTING = "starting"
    """The engine has taken the start and has not yet said that it runs."""
    RUNNING = "running"
    ADJUSTING = "adjusting"
    """It runs while its allocation changes."""
    SUSPENDED = "suspended"
    """It gets no CPU time for a while, so that a neighbor keeps its target."""
    MIGRATING = "migrating"
    """It is stopped to be started again: on another server, or once there is room."""
    COMPLETED = "completed"
    """It ended with exit status 0."""
    FAILED = "failed"
    """It ended otherwise, or could not be started."""
    VANISHED = "vanished"
    """It is gone; its exit status is unknown."""
    REVOKED = "revoked"
    """Its user wanted it stopped, and it is."""
    REJECTED = "rejected"
    """It was not admitted; the reason says what would have to change."""


class Trigger(StrEnum):
    """What moves a workload from one phase to another."""

    ADMIT = "admit"
    REJECT = "reject"
    PROFILE = "profile"
    PROFILED = "profiled"
    ASK = "classify without profiling"
    CLASSIFY = "classified"
    ENQUEUE = "enqueue"
    PLACE = "place"
    ACCEPT = "start accepted"
    START = "started"
    RETRY = "start failed, retry"
    RESTART = "ended, restart"
    EVICT = "evicted, restart"
    GIVE_UP = "start failed"
    SUCCEED = "exit 0"
    FAIL = "exit not 0"
    VANISH = "vanished"
    ADJUST = "adjust"
    SETTLE = "resized or not"
    SUSPEND = "suspend"
    RESUME = "resume"
    MIGRATE = "migrate"
    REQUEUE = "stopped to migrate"
    REVOKE = "revoke"


@dataclass(frozen=True, slots=True)
class Transition:
    """One edge of the table."""

    source: Phase
    trigger: Trigger
    target: Phase


def _from(*sources: Phase, **edges: Phase) -> tuple[Transition, ...]:
    return tuple(
        Transition(source, Trigger[trigger], target)
        for source in sources
        for trigger, target in edges.items()
    )


_NOT_STOPPED = (Phase.PLACED, Phase.STARTING, Phase.RUNNING, Phase.ADJUSTING, Phase.SUSPENDED)

TRANSITIONS: tuple[Transition, ...] = (
    *_from(Phase.SUBMITTED, ADMIT=Phase.ADMITTED, REJECT=Phase.REJECTED, REVOKE=Phase.REVOKED),
    *_from(
        Phase.ADMITTED,
        PROFILE=Phase.PROFILING,
        ASK=Phase.CLASSIFYING,
        ENQUEUE=Phase.QUEUED,
        REJECT=Phase.REJECTED,
        REVOKE=Phase.REVOKED,
    ),
    *_from(
        Phase.PROFILING,
        PROFILED=Phase.CLASSIFYING,
        GIVE_UP=Phase.FAILED,
        REVOKE=Phase.REVOKED,
    ),
    *_from(Phase.CLASSIFYING, CLASSIFY=Phase.CLASSIFIED, REVOKE=Phase.REVOKED),
    *_from(Phase.CLASSIFIED, ENQUEUE=Phase.QUEUED, REJECT=Phase.REJECTED, REVOKE=Phase.REVOKED),
    *_from(Phase.QUEUED, PLACE=Phase.PLACED, REJECT=Phase.REJECTED, REVOKE=Phase.REVOKED),
    *_from(Phase.PLACED, ACCEPT=Phase.STARTING),
    # The engine's reports may overtake one another: a start can be known by its end first.
    *_from(
        Phase.PLACED,
        Phase.STARTING,
        START=Phase.RUNNING,
        RETRY=Phase.QUEUED,
        GIVE_UP=Phase.FAILED,
    ),
    *_from(Phase.RUNNING, ADJUST=Phase.ADJUSTING),
    *_from(Phase.ADJUSTING, SETTLE=Phase.RUNNING),
    *_from(Phase.RUNNING, SUSPEND=Phase.SUSPENDED),
    *_from(Phase.SUSPENDED, RESUME=Phase.RUNNING),
    *_from(Phase.RUNNING, Phase.SUSPENDED, MIGRATE=Phase.MIGRATING),
    *_from(Phase.MIGRATING, REQUEUE=Phase.QUEUED, REVOKE=Phase.REVOKED),
    *_from(
        *_NOT_STOPPED,
        SUCCEED=Phase.COMPLETED,
        RESTART=Phase.QUEUED,
        EVICT=Phase.QUEUED,
        FAIL=Phase.FAILED,
        VANISH=Phase.VANISHED,
        REVOKE=Phase.REVOKED,
    ),
)

NEXT: dict[tuple[Phase, Trigger], Phase] = {(t.source, t.trigger): t.target for t in TRANSITIONS}

ENDED = frozenset(Phase) - {t.source for t in TRANSITIONS}
"""Phases that nothing leads out of."""

ON_SERVER = frozenset({*_NOT_STOPPED, Phase.MIGRATING})
"""Phases in which a workload holds resources on servers."""
