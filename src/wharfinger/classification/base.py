"""The seam at which classification enters the pipeline (Quasar 3.4, figure 4).

The manager asks a planner whether a workload is to be profiled before it is placed; the
engine runs the plan, a classifier estimates, and the estimate comes back as an event.
"""

from dataclasses import dataclass
from typing import Protocol

from wharfinger.model.decisions import Decision
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.view import ClusterView
from wharfinger.model.workload import Workload


@dataclass(frozen=True, slots=True)
class Profiling:
    """That a workload is classified before it is placed.

    Attributes:
        decision: Where it is not accepted, there is no room for the runs now: it waits.
        plan: The runs that give its entries; ``None`` = none, it is classified by its like.
    """

    decision: Decision
    plan: ProfilingPlan | None = None


class ProfilingPlanner(Protocol):
    """Decides whether and how a workload is profiled."""

    @property
    def name(self) -> str:
        """Stands in the decision's record."""

    def plan(self, workload: Workload, view: ClusterView) -> Profiling | None:
        """How it is profiled; ``None`` = it is placed without."""
