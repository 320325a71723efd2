"""The seam of estimation: what to measure of a workload before it is placed (Quasar 3.4)."""

from dataclasses import dataclass
from typing import Protocol

from wharfinger.model.decisions import Decision
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.view import Request, View

AUTO, ALL = "auto", "all"
"""Of ``ProfilingNeeds.probes``."""


@dataclass(frozen=True, slots=True)
class Profiling:
    """Classify the workload before it is placed; without a plan, a cold start.

    Where the decision is not accepted, it waits for room for the runs. ``known`` = no runs, since
    what the request says of its program is enough. ``beside`` = it starts without a profile, and
    copies are profiled beside it. ``again_at`` = where it waits: when it accepts less room.
    """

    decision: Decision
    plan: ProfilingPlan | None = None
    known: bool = False
    beside: bool = False
    again_at: float | None = None


@dataclass(frozen=True, slots=True)
class ProfilingNeeds:
    """What a placement wants to be measured; the default: what a target's sizing takes.

    Attributes:
        stated: The allocation that the workload states, on several platforms (Paragon 2.4).
        sizes: On the first of them how many allocations are run, that one among them. With more
            than one a workload that states none, or may have several servers, gets a joint plan.
        sources: How many sources are injected; two where a target is sized on the only server.
        service_sources: The same for services where residents share cores, if that is more: they
            have no end to be late for.
        probes: On how many other platforms what is stated is run: ``auto`` = on those where a run
            repays what it costs (``classification.worth``), ``all`` = wherever there is room, or
            a number; ``idle_share`` is their limit.
        start_first: While no more than this share of all CPU is allocated, who would lose more
            of its target to the time of the runs than they tell starts without. 0 = none.
        beside: Whether copies of what starts so run beside it, where they repay that.
        idle_share: Of the idle CPU that the runs of one plan may take with the least allocation
            that is tried; in any case on two platforms.
        short_seconds: What its user expects to run for less is not profiled (Paragon 3.5).
        best_effort: Whether best-effort work is run on several platforms, while CPU is idle there.
        patience_seconds: How long a workload waits for room for a copy of what it states, before a
            smaller one does. ``None`` = without limit.
    """

    stated: bool = False
    sizes: int = 1
    sources: int = 2
    service_sources: int = 0
    idle_share: float = 0.0
    probes: str = ALL
    short_seconds: float = 0.0
    start_first: float = 0.0
    beside: bool = False
    best_effort: bool = False
    patience_seconds: float | None = None

    @property
    def gives_stated(self) -> bool:
        """Whether a workload gets what it states: then no other allocation is run."""
        return self.stated and self.sizes == 1


class ProfilingPlanner(Protocol):
    """Decides whether and how a workload is profiled."""

    @property
    def name(self) -> str:
        """As decisions' records name it."""

    def plan(self, request: Request, view: View) -> Profiling | None:
        """How it is profiled; ``None`` = it is placed without classification.

        Not on the ``excluded`` servers of the request: their room is kept for others.
        """

    def beside(self, request: Request, view: View) -> Profiling | None:
        """How copies of what has been placed are profiled beside it; ``None`` = there is no room.

        Asked once it has been placed, where ``plan`` has answered ``beside``.
        """
