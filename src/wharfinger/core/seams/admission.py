"""The seam of admission: what is admitted, where it waits, and what is served next."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.part import PolicyPart
from wharfinger.core.seams.verdicts import AdmissionVerdict, ReviewVerdict
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.profile import Measurements
from wharfinger.model.queue_accounts import QueueAccount
from wharfinger.model.view import Request, View

Servers = NDArray[np.bool_]
"""(S,) whether each server may be taken."""


class ServerSets(tuple[Servers, ...]):
    """Sets of servers, the preferred first.

    Attributes:
        awaited: (S,) which servers may come into one of them when they change; a workload that
            none of the sets has a place for waits for these.
    """

    awaited: Servers

    @classmethod
    def of(cls, sets: Sequence[Servers], awaited: Servers) -> "ServerSets":
        """These sets, into which these servers may come."""
        made = cls(sets)
        made.awaited = awaited
        return made


Positions = Callable[[Sequence[str], int, float, str], list[int]]
"""Of queues, a priority, a rank and a name."""


@dataclass(frozen=True, slots=True)
class AdmissionView:
    """What an admission reads.

    Attributes:
        waiting: How many workloads wait, by queue.
        now: Seconds since the epoch.
        note: Its newest note; empty = none.
        accounts: What has gone through each queue that was used, by its name; not to be changed.
        positions: How many of those that wait in each of some queues are served before one of this
            priority, rank and name; one that does not wait yet comes last of its rank. ``None`` =
            all.
        known: What is measured of its program, in a former run or another workload.
        profile_seconds: Of the profile that is due; 0 = none, or there is no room for it yet. The
            planner is asked, so not on every decision.
    """

    cluster: View
    waiting: Mapping[str, int]
    now: float = 0.0
    note: str = ""
    accounts: Mapping[str, QueueAccount] = field(default_factory=dict)
    positions: Positions | None = field(default=None, compare=False)
    known: Callable[[Request], Measurements | None] = field(default=lambda _: None, compare=False)
    profile_seconds: Callable[[Request], float] = field(default=lambda _: 0.0, compare=False)

    def before(self, queues: Sequence[str], priority: int, rank: float, name: str) -> list[int]:
        """How many of each of these queues are served before such a workload."""
        if self.positions is None:
            return [self.waiting.get(queue, 0) for queue in queues]
        return self.positions(queues, priority, rank, name)


@dataclass(frozen=True, slots=True)
class QueueReport:
    """What is expected of a queue.

    Attributes:
        servers: That those of this queue may take at first; ``free`` of these have room for what a
            resident holds in the mean, and would be taken.
        wait_seconds: Until the next that comes should be served: the median; ``wait_low`` and
            ``wait_high`` bound it with 80% probability; ``None`` = unknown, or longer than is kept.
        over_slack: Probability that the next that comes waits beyond its slack, if it has the usual
            tolerance and runs as long as others.
        load: Load factor of its servers; from 1 on the queue grows without end.
        load_parts: Of that, by the queue into which the work came from outside.
        warning: In words, where the load is near 1 or over it; empty = it is not.
        quality: The least and the highest resource quality of its servers.
    """

    servers: int | None = None
    free: int | None = None
    wait_seconds: float | None = None
    wait_low: float | None = None
    wait_high: float | None = None
    over_slack: float | None = None
    load: float | None = None
    load_parts: Mapping[str, float] = field(default_factory=dict)
    warning: str = ""
    quality: tuple[float, float] | None = None


class AdmissionPolicy(PolicyPart, Protocol):
    """Decides on entry and in the queues. It keeps nothing between calls but its note."""

    @property
    def queues(self) -> tuple[str, ...]:
        """Its queues, in the order in which they are served."""

    @property
    def backfill(self) -> int:
        """How many behind a blocked one are tried in a step; 0 = they wait for it.

        They are placed only where that does not delay it (``core.backfill``).
        """

    def admit(self, request: Request, view: AdmissionView) -> AdmissionVerdict:
        """Whether to admit it, before anything is spent on profiling it."""

    def enqueue(self, request: Request, view: AdmissionView) -> AdmissionVerdict:
        """The queue in which it waits, once it is classified."""

    def review(self, request: Request, queue: str, view: AdmissionView) -> ReviewVerdict | None:
        """Asked at the named time, if it still waits; ``None`` = it stays."""

    def servers(self, request: Request, queue: str, view: AdmissionView) -> Sequence[Servers]:
        """Servers that it may take from its queue, the preferred first; empty = all alike.

        The placement is asked about each set in turn until it finds a place. Where servers may
        come into a set, it is a ``ServerSets``, which says which.
        """

    def blocks(self, reason: ReasonCode) -> bool:
        """Whether a workload that can't be placed for this reason blocks those behind it."""

    def report(self, queue: str, view: AdmissionView) -> QueueReport:
        """What it expects of a queue."""

    def observe(self, view: AdmissionView) -> str | None:
        """Its note after the events of a step; ``None`` = unchanged.

        The core logs it (``PolicyNoted``) and returns it in ``AdmissionView.note``.
        """
