"""The ladder of adaptation: what is done for a workload that is off its target (Quasar 4.1).

``Manager`` runs it after each event. More CPU on the server where it is, as the policy says how
much; then best-effort neighbours give way; then it is moved, if it may be restarted. Who has more
than enough gives back. *When* is in ``adaptation``; here is *what*.
"""

from collections.abc import Callable
from dataclasses import replace

from wharfinger.manager import events as ev
from wharfinger.manager.adaptation import (
    may_resume,
    off_target,
    second_allocation,
    surprise,
    who_gives_way,
)
from wharfinger.manager.lifecycle import Phase
from wharfinger.manager.state import WorkloadRecord
from wharfinger.manager.world import World
from wharfinger.model.decisions import Decision, Plan, ReasonCode, Refusal, Stage
from wharfinger.model.view import OffTarget
from wharfinger.placement.base import Policy


class Adaptation:
    """Looks at those who run.

    Args:
        world: What is known.
        policy: Says how much CPU, and where else.
        record: Logs a decision and folds it.
        classifies: Name of the planner; empty = nothing is classified.
        recommends: It says what it would do, and does nothing.
    """

    def __init__(
        self,
        world: World,
        policy: Policy,
        record: Callable[[float, ev.Event], None],
        *,
        classifies: str,
        recommends: bool,
    ) -> None:
        self._world = world
        self._policy = policy
        self._record = record
        self._classifies = classifies
        self._recommends = recommends

    def run(self, now: float) -> None:
        """Resize those who want it: the newly changed, and all when there may be room.

        And those who have been off their targets for long enough.
        """
        world = self._world
        names = world.resize_wanted if world.room_changed else world.touched
        for name in [name for name in names if name in world.resize_wanted]:
            self._resize(now, self._world.state.workloads[name], None)
        measured = [self._world.state.workloads.get(name) for name in world.measured]
        world.measured.clear()
        for record in measured:
            if record is not None and record.phase is Phase.RUNNING and not record.revoking:
                self._follow(now, record)
        self._resume(now)

    def _follow(self, now: float, record: WorkloadRecord) -> None:
        """One that was measured: learn from it, and do something where it is off its target."""
        why = surprise(record) if self._classifies else ""
        if why:
            decision = _adapted(self._classifies, ReasonCode.OK, f"classified anew: {why}")
            self._record(now, ev.ClassificationPlanned(record.name, decision))
        off = off_target(record, self._world.state, now)
        if off is None:
            self._try_second(now, record)
            return
        if not self._resize(now, record, off) and off.pace < 1:
            self._relieve(now, record, off)

    def _try_second(self, now: float, record: WorkloadRecord) -> None:
        """Profiling live: one that was never copied runs under another allocation for a while."""
        if not self._classifies or self._recommends:
            return
        placements = second_allocation(record, self._world.view())
        if placements:
            held, tried = record.placements[0].allocation, placements[0].allocation
            message = (
                f"profiling live: {held.cpu_millicpus}m CPU become {tried.cpu_millicpus}m, to "
                "measure it under a second allocation"
            )
            decision = _adapted(self._classifies, ReasonCode.OK, message)
            self._record(now, ev.AllocationPlanned(record.name, placements, decision))

    def _resize(self, now: float, record: WorkloadRecord, off: OffTarget | None) -> bool:
        """Ask the policy for another allocation; whether there is one."""
        if record.phase is not Phase.RUNNING or record.revoking:
            return False
        request = self._world.request(record, now, off_target=off)
        match self._policy.resize(request, record.placements, self._world.view()):
            case Plan(decision=decision) if self._recommends:
                self._keep(now, record, recommended(decision))
                return True
            case Plan(placements, decision):
                self._record(now, ev.AllocationPlanned(record.name, placements, decision))
                return True
            case Refusal(decision):
                self._keep(now, record, decision)
            case None if off is None:
                decision = _adapted(self._policy.name, ReasonCode.OK, "its allocation stays")
                self._record(now, ev.AllocationKept(record.name, decision))
        return False

    def _keep(self, now: float, record: WorkloadRecord, decision: Decision) -> None:
        if record.held is not decision.reason:
            self._record(now, ev.AllocationKept(record.name, decision))

    def _relieve(self, now: float, record: WorkloadRecord, off: OffTarget) -> None:
        """More CPU can't be had or would not help: best-effort neighbours, then another place."""
        if self._world.state.capabilities.suspend:
            neighbour = who_gives_way(self._neighbours(record))
            if neighbour is not None:
                self._suspend(now, neighbour, record, off)
                return
        if record.workload.run.restartable:
            self._move_away(now, record, off)

    def _neighbours(self, record: WorkloadRecord) -> list[WorkloadRecord]:
        names = (name for p in record.placements for name in self._world.residents[p.server])
        return [self._world.state.workloads[name] for name in names if name != record.name]

    def _suspend(
        self, now: float, neighbour: WorkloadRecord, record: WorkloadRecord, off: OffTarget
    ) -> None:
        message = (
            f"{record.name} has missed its target at {off.pace:.0%} for {off.for_seconds:.0f} s: "
            f"best-effort {neighbour.name} gives way"
        )
        decision = _adapted(self._policy.name, ReasonCode.SUSPENDED_FOR_TARGET, message)
        if self._recommends:
            self._keep(now, record, recommended(decision))
        else:
            self._record(now, ev.WorkloadSuspended(neighbour.name, record.name, decision))

    def _move_away(self, now: float, record: WorkloadRecord, off: OffTarget) -> None:
        here = frozenset(self._world.columns.row(p.server) for p in record.placements)
        request = replace(self._world.request(record, now), excluded=here)
        verdict = self._policy.place(request, self._world.view())
        predicted = verdict.decision.predicted
        if isinstance(verdict, Refusal) or predicted is None or predicted.mean <= off.pace:
            return
        place = verdict.placements[0]
        message = (
            f"target missed at {off.pace:.0%} for {off.for_seconds:.0f} s, and nothing helps "
            f"here: {place.server} should give {predicted.mean:.0%}"
        )
        decision = replace(
            verdict.decision,
            stage=Stage.ADAPTATION,
            reason=ReasonCode.PLACED_FOR_TARGET,
            message=message,
        )
        if self._recommends:
            self._keep(now, record, recommended(decision))
        else:
            self._record(now, ev.WorkloadMoved(record.name, decision))

    def _resume(self, now: float) -> None:
        """Let those go on that gave way, one at a time on each server."""
        servers: set[str] = set()
        for name in list(self._world.suspended):
            record = self._world.state.workloads[name]
            here = {placement.server for placement in record.placements}
            if record.revoking or self._recommends or here & servers:
                continue
            if may_resume(record, self._neighbours(record), now):
                servers |= here
                message = "no neighbour misses its target: it goes on"
                decision = _adapted(self._policy.name, ReasonCode.OK, message)
                self._record(now, ev.WorkloadResumed(name, decision))


def _adapted(decided_by: str, reason: ReasonCode, message: str) -> Decision:
    return Decision(Stage.ADAPTATION, decided_by, True, reason, message)


def recommended(decision: Decision) -> Decision:
    """What would have been done, had the manager been told to act."""
    return replace(
        decision,
        accepted=False,
        reason=ReasonCode.RECOMMENDED,
        message=f"recommended: {decision.message}",
        would_change="a manager that acts: wharfinger up --mode act",
    )
