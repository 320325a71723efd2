"""The seam of admission: what is admitted, where it waits, and what is served next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from wharfinger.core.events import Event
from wharfinger.core.seams.part import PolicyPart
from wharfinger.core.seams.verdicts import AdmissionVerdict, ReviewVerdict
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.view import Request, View


@dataclass(frozen=True, slots=True)
class AdmissionView:
    """What an admission reads.

    Attributes:
        waiting: How many workloads wait, by queue.
        now: Seconds since the epoch.
        note: Its newest note; empty = none.
    """

    cluster: View
    waiting: Mapping[str, int]
    now: float = 0.0
    note: str = ""


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

    def blocks(self, reason: ReasonCode) -> bool:
        """Whether a workload that can't be placed for this reason blocks those behind it."""

    def observe(self, time: float, events: Sequence[Event], note: str) -> str | None:
        """Its note after the events of a step; ``None`` = unchanged.

        The core logs it (``PolicyNoted``) and returns it in ``AdmissionView.note``.
        """
