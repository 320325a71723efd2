"""Feedback: least-loaded placement, and CPU that follows each target (Quasar 4.1).

The part of Quasar's adaptation that needs no classification: a workload that misses its target gets
more of the server where it is, one that has more than it needs gives CPU back, in proportion, as
vertical autoscalers do. The baseline for policies with predictions.
"""

from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Plan, Refusal
from wharfinger.model.view import ClusterView, PlacementRequest
from wharfinger.policies.placement.least_loaded import LeastLoaded
from wharfinger.policies.placement.resizing import ResizeSettings, follow_target


class Feedback(LeastLoaded):
    """Places as least-loaded does; sizing by measurement begins at the reservation."""

    name = "feedback"

    def __init__(self, settings: ResizeSettings | None = None) -> None:
        self.settings: ResizeSettings = settings or ResizeSettings()

    def resize(
        self, request: PlacementRequest, placements: tuple[Placement, ...], view: ClusterView
    ) -> Plan | Refusal | None:
        """More where the target is missed, less where there is more than enough."""
        if request.workload.target is None:
            return super().resize(request, placements, view)
        return follow_target(self.name, request, placements, view, self.settings)
