"""First in, first out: the baseline that ARQ is compared with (ARQ section 4).

Within a priority nobody overtakes: when the first in line finds no room, those behind it
wait too, so that a large workload is not starved by small ones. What no server could take
even when empty holds nobody up. Best-effort work, which claims no CPU time, has a line of
its own.
"""

from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.workload import Workload
from wharfinger.policies.admission.admission import AdmissionView

GUARANTEED = "guaranteed"
BEST_EFFORT = "best-effort"
_COMES_FREE = (
    ReasonCode.NO_ROOM,
    ReasonCode.NO_SERVERS,
    ReasonCode.OFF_PREDICTION,
    ReasonCode.DOES_NOT_FIT,
)


class Fifo:
    """Admits all until too many wait.

    Args:
        max_waiting: The most that may wait in all queues together.
    """

    name = "fifo"
    queues = (GUARANTEED, BEST_EFFORT)

    def __init__(self, max_waiting: int = 100_000) -> None:
        self._max_waiting = max_waiting

    def admit(self, workload: Workload, view: AdmissionView) -> Decision:
        """Everyone, up to the limit."""
        waiting = sum(view.waiting.values())
        numbers = {"waiting": float(waiting), "max_waiting": float(self._max_waiting)}
        if waiting >= self._max_waiting:
            return Decision(
                Stage.ADMISSION,
                self.name,
                accepted=False,
                reason=ReasonCode.QUEUE_FULL,
                message=f"{waiting} workloads wait already, the most that may",
                would_change="fewer waiting workloads: hand it in again later",
                numbers=numbers,
            )
        return Decision(
            Stage.ADMISSION,
            self.name,
            accepted=True,
            reason=ReasonCode.OK,
            message=f"{waiting} waiting before it" if waiting else "nobody waits before it",
            numbers=numbers,
        )

    def queue_for(self, workload: Workload, view: AdmissionView) -> str:
        """One line for those with a claim on CPU time, one for those without."""
        return BEST_EFFORT if workload.best_effort else GUARANTEED

    def blocks(self, reason: ReasonCode) -> bool:
        """Only for want of room that will come free."""
        return reason in _COMES_FREE
