"""An admission with two queues that diverts, waits, and remembers."""

from collections.abc import Sequence
from dataclasses import dataclass

from wharfinger.core.seams.admission import AdmissionView, QueueReport, Servers
from wharfinger.core.seams.verdicts import Admit, Divert, WaitUntil
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.view import Request

FAST, SLOW = "fast", "slow"


@dataclass(frozen=True, slots=True)
class FastLaneSettings:
    """Tunables.

    Attributes:
        small_millicpus: Up to this a workload is small, and served first.
        patience_seconds: After so long in the fast queue it goes to the slow one.
        max_waiting: While so many wait, those that come are asked to come again later.
        again_seconds: So much later.
        max_diverted: After so many were diverted, small ones are queued with all others.
    """

    small_millicpus: int = 1000
    patience_seconds: float = 5.0
    max_waiting: int = 3
    again_seconds: float = 2.0
    max_diverted: int = 2


class FastLane:
    """Small workloads first, as long as that works."""

    name = "fast-lane"
    queues = (FAST, SLOW)
    backfill = 8

    def __init__(self, settings: FastLaneSettings | None = None) -> None:
        self.settings = settings or FastLaneSettings()

    def admit(self, request: Request, view: AdmissionView) -> Admit | WaitUntil:
        waiting = sum(view.waiting.values())
        if waiting < self.settings.max_waiting:
            return Admit(self._decision(True, ReasonCode.OK, f"{waiting} wait"))
        message = f"{waiting} wait already: it is asked to come again"
        time = view.now + self.settings.again_seconds
        return WaitUntil(time, self._decision(False, ReasonCode.WAITING, message))

    def enqueue(self, request: Request, view: AdmissionView) -> Admit:
        small = request.reserved(view.cluster.capabilities).cpu_millicpus
        diverted = int(view.note or 0)
        if small > self.settings.small_millicpus or diverted >= self.settings.max_diverted:
            return Admit(queue=SLOW)
        return Admit(queue=FAST, review_at=view.now + self.settings.patience_seconds)

    def review(self, request: Request, queue: str, view: AdmissionView) -> Divert | None:
        if queue != FAST:
            return None
        message = f"it has waited for {request.waited_seconds:.0f} s in the fast queue"
        return Divert(SLOW, self._decision(False, ReasonCode.WAITING, message))

    def servers(self, request: Request, queue: str, view: AdmissionView) -> Sequence[Servers]:
        return ()

    def report(self, queue: str, view: AdmissionView) -> QueueReport:
        return QueueReport()

    def blocks(self, reason: ReasonCode) -> bool:
        return reason is ReasonCode.NO_ROOM

    def observe(self, view: AdmissionView) -> str | None:
        """How many were diverted."""
        diverted = str(sum(sum(each.diverted.values()) for each in view.accounts.values()))
        return diverted if diverted != (view.note or "0") else None

    def _decision(self, accepted: bool, reason: ReasonCode, message: str) -> Decision:
        would_change = "" if accepted else "fewer waiting workloads"
        return Decision(Stage.ADMISSION, self.name, accepted, reason, message, would_change)
