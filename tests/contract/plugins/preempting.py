"""A placement that preempts: what is less important leaves, where nothing else has room."""

from dataclasses import replace

from wharfinger.core.seams.verdicts import Preempt
from wharfinger.model.decisions import Place, ReasonCode, Refuse
from wharfinger.model.view import Request, View
from wharfinger.policies.placement.common import open_servers
from wharfinger.policies.placement.least_loaded import LeastLoaded


class Preempting(LeastLoaded):
    """Takes the fewest victims on one server."""

    name = "preempting"

    def place(self, request: Request, view: View) -> Place | Refuse | Preempt:
        verdict = super().place(request, view)
        full = isinstance(verdict, Refuse) and verdict.decision.reason is ReasonCode.NO_ROOM
        rows = open_servers(request, view).nonzero()[0].tolist() if full else []
        ways = [way for way in (_victims(request, view, row) for row in rows) if way]
        if not ways:
            return verdict
        victims = min(ways, key=len)
        message = f"{' and '.join(victims)} leave for {request.workload.name}"
        told = replace(verdict.decision, reason=ReasonCode.PREEMPTING, message=message)
        return Preempt(tuple(victims), told)


def _victims(request: Request, view: View, row: int) -> list[str]:
    """Which workloads to stop on one server, least important first; none if not enough."""
    need = request.reserved(view.capabilities)
    cpu = need.cpu_millicpus - int(view.cpu_capacity[row] - view.cpu_allocated[row])
    memory = need.memory_bytes - int(view.memory_capacity[row] - view.memory_allocated[row])
    occupants = view.occupants(view.names[row]) if view.occupants else ()
    victims = []
    for each in sorted(occupants, key=lambda each: each.priority):
        if cpu <= 0 and memory <= 0:
            break
        if each.stoppable and each.priority < request.workload.priority:
            victims.append(each.name)
            cpu -= each.allocation.cpu_millicpus
            memory -= each.allocation.memory_bytes
    return victims if cpu <= 0 and memory <= 0 else []
