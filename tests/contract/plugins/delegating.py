"""A placement that delegates, and the decider: it may be slow, and lose a conflict."""

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.seams.verdicts import Delegate
from wharfinger.model.decisions import Decision, Place, ReasonCode, Stage
from wharfinger.model.view import Request, View
from wharfinger.policies.placement.common import ByReservation
from wharfinger.policies.placement.least_loaded import LeastLoaded

DECIDER = "somewhere-else"


class Delegating(ByReservation):
    """Decides nothing itself."""

    name = "delegating"

    def place(self, request: Request, view: View) -> Delegate:
        decision = Decision(
            Stage.PLACEMENT,
            self.name,
            accepted=False,
            reason=ReasonCode.DELEGATED,
            message=f"{DECIDER} is asked for a place",
            would_change="its answer",
        )
        return Delegate(DECIDER, decision)


def propose(question: act.DecidePlacement) -> ev.PlacementProposed:
    """The least loaded server, as it was on the snapshot."""
    snapshot = question.snapshot
    verdict = LeastLoaded().place(question.request, snapshot)
    placements = verdict.placements if isinstance(verdict, Place) else ()
    assert snapshot.versions is not None
    versions = tuple(int(snapshot.versions[snapshot.row(p.server)]) for p in placements)
    return ev.PlacementProposed(question.key, placements, versions, verdict.decision)
