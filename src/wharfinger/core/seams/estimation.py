"""The seam of estimation: what to measure of a workload before it is placed (Quasar 3.4)."""

from dataclasses import dataclass
from typing import Protocol

from wharfinger.model.decisions import Decision
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.view import Request, View


@dataclass(frozen=True, slots=True)
class Profiling:
    """Classify the workload before it is placed; without a plan, a cold start.

    Where the decision is not accepted, it waits for room for the runs.
    """

    decision: Decision
    plan: ProfilingPlan | None = None


class ProfilingPlanner(Protocol):
    """Decides whether and how a workload is profiled."""

    @property
    def name(self) -> str:
        """As decisions' records name it."""

    def plan(self, request: Request, view: View) -> Profiling | None:
        """How it is profiled; ``None`` = it is placed without classification."""
