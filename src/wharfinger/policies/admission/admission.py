"""What an admission is: who may come in, where they wait, and who is served next."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from wharfinger.model.decisions import Decision, ReasonCode
from wharfinger.model.view import ClusterView
from wharfinger.model.workload import Workload


@dataclass(frozen=True, slots=True)
class AdmissionView:
    """What an admission reads.

    Attributes:
        cluster: The servers.
        waiting: How many wait, by queue.
    """

    cluster: ClusterView
    waiting: Mapping[str, int]


class Admission(Protocol):
    """Decides at the gate. Like a policy, it keeps nothing between calls."""

    @property
    def name(self) -> str:
        """As in ``wharfinger up --admission NAME``."""

    @property
    def queues(self) -> tuple[str, ...]:
        """Its queues, in the order in which they are served."""

    def admit(self, workload: Workload, view: AdmissionView) -> Decision:
        """Whether the workload may come in at all."""

    def queue_for(self, workload: Workload, view: AdmissionView) -> str:
        """The queue in which it waits for a place."""

    def blocks(self, reason: ReasonCode) -> bool:
        """Whether one that can't be placed for this reason holds up those behind it."""
