"""The seam at which classification enters the pipeline (Quasar 3.4, figure 4).

The manager asks a planner whether a workload is to be profiled before it is placed; the
engine runs the plan, a classifier estimates, and the estimate comes back as an event.
"""

from typing import Protocol

from wharfinger.model.decisions import Decision
from wharfinger.model.view import ClusterView
from wharfinger.model.workload import Workload


class ProfilingPlanner(Protocol):
    """Decides whether and how a workload is profiled."""

    @property
    def name(self) -> str:
        """Stands in the decision's record."""

    def plan(self, workload: Workload, view: ClusterView) -> Decision | None:
        """The decision to profile it; ``None`` = place it without."""
