"""The oracle's admission: it knows how long each workload can wait, and for which servers.

For accounts of what any admission could add to a placement. A workload that can still keep its
target takes those platforms alone on which it would, undisturbed; the one that can wait least goes
first. Those whose target is lost come after them and take any server.
"""

from collections.abc import Sequence
from math import inf

import numpy as np

from wharfinger.core.seams.admission import AdmissionView, Servers
from wharfinger.core.seams.verdicts import Admit, Divert
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.view import Request
from wharfinger.policies.admission.fifo import BEST_EFFORT, Fifo
from wharfinger.simulator.oracle.colocations import SAFE
from wharfinger.simulator.oracle.demand import Knowledge
from wharfinger.simulator.scenario.setup import Setup

IN_TIME, LATE = "in-time", "late"
LEAST_WAIT = 1e-3
"""Seconds; a shorter wait is none."""


class OracleAdmission(Fifo):
    """Earliest deadline first, of those that true rates let keep their targets."""

    name = "oracle"
    queues = (IN_TIME, LATE, BEST_EFFORT)

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self._knowledge = Knowledge(setup)

    def enqueue(self, request: Request, view: AdmissionView) -> Admit:
        """In time until its fastest platform is too slow; then late."""
        if request.workload.best_effort:
            return Admit(queue=BEST_EFFORT)
        left = max((self._left(request, p) for p in self._knowledge.platforms), default=0.0)
        if left == inf:  # It serves, or has no such target: it gains nothing by waiting.
            return Admit(queue=IN_TIME)
        if left <= LEAST_WAIT:
            return Admit(self._told("its target is lost"), LATE)
        told = self._told(f"it keeps its target if it starts within {left:.1f} s")
        return Admit(told, IN_TIME, review_at=view.now + left, rank=view.now + left)

    def review(self, request: Request, queue: str, view: AdmissionView) -> Divert | None:
        """It has become too late."""
        return Divert(LATE, self._told("its target is lost")) if queue == IN_TIME else None

    def servers(self, request: Request, queue: str, view: AdmissionView) -> Sequence[Servers]:
        """Those on which it would keep its target alone; all where there are none."""
        if queue != IN_TIME or request.restarted or request.excluded:
            return ()
        platforms = view.cluster.platforms
        good = np.array([self._left(request, each) > 0 for each in platforms], dtype=np.bool_)
        return (good[view.cluster.platform],) if good.any() else ()

    def _left(self, request: Request, platform: str) -> float:
        """Seconds until it must start there; infinite = whenever."""
        wants, knowledge = self._knowledge.wants(request.workload.name), self._knowledge
        if wants is None or platform not in knowledge.cpu_millicpus:
            return 0.0
        value = knowledge.alone(wants, platform, knowledge.sizes(wants, platform)[-1])
        return wants.latest(value / SAFE) - request.waited_seconds - knowledge.start_seconds

    def _told(self, message: str) -> Decision:
        return Decision(Stage.ADMISSION, self.name, True, ReasonCode.OK, message=message)
