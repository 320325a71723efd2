"""The seam of provisioning: which servers to acquire and which to release."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from wharfinger.core.seams.part import PolicyPart
from wharfinger.model.decisions import Decision
from wharfinger.model.view import View


@dataclass(frozen=True, slots=True)
class Order:
    """A server of this platform is to be acquired."""

    platform: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Release:
    """An acquired server is to be released: it takes no new work, and goes once it is empty."""

    server: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class ProvisioningView:
    """What a provisioning reads.

    Attributes:
        waiting: How many workloads wait, by queue.
        ordered: How many servers are ordered and have not joined yet, by platform.
        acquired: By name, when each acquired server joined, oldest first, in seconds since the
            epoch; without those that are being released.
        not_acquired: Platforms whose last order failed, and until when orders are ignored.
        now: Seconds since the epoch.
    """

    cluster: View
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
        """When it must be asked again if nothing happens; ``None`` = not at all."""
