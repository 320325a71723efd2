"""How long decisions take: a policy with a clock around it, for the report of a simulated run."""

import time

from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Plan, Refusal
from wharfinger.model.view import ClusterView, PlacementRequest
from wharfinger.policies.placement.common import Policy


class TimedPolicy:
    """A policy, and how long each of its decisions took.

    Args:
        policy: That decides.

    Attributes:
        seconds: Of each placement that was asked for.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name = policy.name
        self.adapts = policy.adapts
        self.follows_load = policy.follows_load
        self.seconds: list[float] = []

    def place(self, request: PlacementRequest, view: ClusterView) -> Plan | Refusal:
        """As the policy does."""
        began = time.perf_counter()
        verdict = self._policy.place(request, view)
        self.seconds.append(time.perf_counter() - began)
        return verdict

    def resize(
        self, request: PlacementRequest, placements: tuple[Placement, ...], view: ClusterView
    ) -> Plan | Refusal | None:
        """As the policy does."""
        return self._policy.resize(request, placements, view)
