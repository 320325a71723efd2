"""The seam of provisioning: which servers to acquire and which to release."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from wharfinger.core.seams.part import PolicyPart
from wharfinger.model.decisions import Decision
from wharfinger.model.view import ClusterView


@dataclass(frozen=True, slots=True)
class Order:
    """A server of this platform is to be acquired."""

    platform: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Release:
    """A server that was acquired is to be released.

    It takes no new work from now on, and goes once it is empty.
    """

    server: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class ProvisioningView:
    """What a provisioning reads.

    Attributes:
        cluster: The servers.
        waiting: How many workloads wait, by queue.
        ordered: How many servers are ordered and not there yet, by platform.
        acquired: Names of the servers that were acquired, oldest first, and when they joined, in
            seconds since the epoch. Those that are being released are not among them.
        not_acquired: Platforms of which no server could be acquired lately, and until when none is
            ordered: such an order is passed over.
        now: Seconds since the epoch.
    """

    cluster: ClusterView
    waiting: Mapping[str, int]
    ordered: Mapping[str, int]
    acquired: Mapping[str, float]
    not_acquired: Mapping[str, float]
    now: float


class ProvisioningPolicy(PolicyPart, Protocol):
    """Decides on servers. It keeps nothing between calls."""

    def provision(self, view: ProvisioningView) -> tuple[Order | Release, ...]:
        """What to acquire and release now; asked after every step."""

    def wake_at(self, view: ProvisioningView) -> float | None:
        """When it wants to be asked again if nothing happens; ``None`` = not at all."""
