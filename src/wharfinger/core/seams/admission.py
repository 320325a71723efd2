"""The seam of admission: what may come in, where it waits, and what is served next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from wharfinger.core.events import Event
from wharfinger.core.seams.part import PolicyPart
from wharfinger.core.seams.verdicts import AdmissionVerdict, ReviewVerdict
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.view import ClusterView, PlacementRequest


@dataclass(frozen=True, slots=True)
class AdmissionView:
    """What an admission reads.

    Attributes:
        cluster: The servers.
        waiting: How many wait, by queue.
        now: Seconds since the epoch.
        note: What this admission has noted last; empty = nothing yet.
    """

    cluster: ClusterView
    waiting: Mapping[str, int]
    now: float = 0.0
    note: str = ""


class AdmissionPolicy(PolicyPart, Protocol):
    """Decides at the gate and in the queues. It keeps nothing between calls but its note."""

    @property
    def queues(self) -> tuple[str, ...]:
        """Its queues, in the order in which they are served."""

    def admit(self, request: PlacementRequest, view: AdmissionView) -> AdmissionVerdict:
        """Whether it may come in, before anything is spent on profiling it."""

    def enqueue(self, request: PlacementRequest, view: AdmissionView) -> AdmissionVerdict:
        """The queue in which it waits, when its classification is there."""

    def review(
        self, request: PlacementRequest, queue: str, view: AdmissionView
    ) -> ReviewVerdict | None:
        """Asked at the time that was named, while it still waits; ``None`` = it stays."""

    def blocks(self, reason: ReasonCode) -> bool:
        """Whether one that can't be placed for this reason holds up those behind it."""

    def observe(self, time: float, events: Sequence[Event], note: str) -> str | None:
        """What is to be remembered after a step, as a string; ``None`` = what was.

        The core logs it (``PolicyNoted``) and hands it back in ``AdmissionView.note``.
        """
