"""First in, first out: the baseline that ARQ is compared with (ARQ section 4).

Head-of-line blocking within a priority, so that small workloads do not starve a large one. One that
no server could take even when empty does not block. Best-effort work has its own queue. Those
behind a blocked one are placed ahead of it where that does not delay it (EASY backfilling; Lifka
1995).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from wharfinger.core.seams.admission import AdmissionView, QueueReport, Servers
from wharfinger.core.seams.verdicts import Admit, ReviewVerdict
from wharfinger.model.decisions import Decision, ReasonCode, Refuse, Stage
from wharfinger.model.view import Request

GUARANTEED = "guaranteed"
BEST_EFFORT = "best-effort"
_COMES_FREE = (
    ReasonCode.NO_ROOM,
    ReasonCode.NO_SERVERS,
    ReasonCode.DOES_NOT_FIT,
    ReasonCode.PREEMPTING,
)


@dataclass(frozen=True, slots=True)
class FifoSettings:
    """Settings of ``fifo``.

    Attributes:
        max_waiting: Most workloads that wait, in all queues together.
        backfill: How many behind a blocked one are tried ahead of it in a step; 0 = none.
    """

    max_waiting: int = 100_000
    backfill: int = 32


class Fifo:
    """Admits all until too many wait."""

    name = "fifo"
    queues: tuple[str, ...] = (GUARANTEED, BEST_EFFORT)

    def __init__(self, settings: FifoSettings | None = None) -> None:
        self.settings = settings or FifoSettings()

    @property
    def backfill(self) -> int:
        """As its settings say."""
        return self.settings.backfill

    def admit(self, request: Request, view: AdmissionView) -> Admit | Refuse:
        """All, up to the limit."""
        waiting, most = sum(view.waiting.values()), self.settings.max_waiting
        numbers = {"waiting": float(waiting), "max_waiting": float(most)}
        is_full = waiting >= most
        message = f"{waiting} waiting before it" if waiting else "none waits before it"
        if is_full:
            message = f"{waiting} workloads wait already, the most that may"
        decision = Decision(
            Stage.ADMISSION,
            self.name,
            accepted=not is_full,
            reason=ReasonCode.QUEUE_FULL if is_full else ReasonCode.OK,
            message=message,
            would_change="fewer waiting workloads: submit it again later" if is_full else "",
            numbers=numbers,
        )
        return Refuse(decision) if is_full else Admit(decision)

    def enqueue(self, request: Request, view: AdmissionView) -> Admit:
        """One queue for those with a claim on CPU time, one for those without."""
        return Admit(queue=BEST_EFFORT if request.workload.best_effort else GUARANTEED)

    def review(self, request: Request, queue: str, view: AdmissionView) -> ReviewVerdict | None:
        """It stays where it is."""
        return None

    def servers(self, request: Request, queue: str, view: AdmissionView) -> Sequence[Servers]:
        """All alike."""
        return ()

    def blocks(self, reason: ReasonCode) -> bool:
        """Only for want of room that will come free."""
        return reason in _COMES_FREE

    def report(self, queue: str, view: AdmissionView) -> QueueReport:
        """It expects nothing."""
        return QueueReport()

    def observe(self, view: AdmissionView) -> str | None:
        """Nothing is remembered."""
        return None
