"""The ladder of adaptation: what is done for a workload that is off its target (Quasar 4.1).

``Manager`` runs it after each event. More CPU on the server where it is, as the policy says how
much, at the cost of neighbours that have more than enough; then best-effort neighbours give way;
then it is moved, if it may be restarted. Who has more than enough for long gives back. *When* is
in ``adaptation``; here is *what*.
"""

from collections.abc import Callable
from dataclasses import replace

from wharfinger.core import events as ev
from wharfinger.core.adaptation import (
    can_give,
    gave_way_in_vain,
    is_limit_reached,
    is_settled,
    load_of,
    may_move,
    misses,
    off_target,
    resumes_at,
    second_allocation,
    surprise,
    who_gives_way,
)
from wharfinger.core.cluster_state import World
from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import AdjustmentKind, WorkloadRecord
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision, Plan, ReasonCode, Refusal, Stage
from wharfinger.model.view import OffTarget, PlacementRequest
from wharfinger.policies.placement.common import Policy
from wharfinger.policies.placement.resizing import lacking


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

    def run(self, now: float, event: ev.Event) -> None:
        """Resize those who want it: the newly changed, and all when there may be room.

        And those who have been off their targets for long enough, when they are measured.
        """
        world = self._world
        if world.suspended:
            self._resume(now)
        names = world.resize_wanted if world.room_changed else world.touched
        for name in [name for name in names if name in world.resize_wanted]:
            self._resize(now, self._world.state.workloads[name], None)
        follow = self._follow_load if self._policy.follows_load else self._follow
        for record in self._looked_at(event):
            if record.phase is Phase.RUNNING and not record.revoking:
                follow(now, record)

    def _looked_at(self, event: ev.Event) -> list[WorkloadRecord]:
        """Those that were measured; or miss targets beside one that has given or taken CPU."""
        world = self._world
        if isinstance(event, ev.AllocationResized) and not self._policy.follows_load:
            resized = world.running(event.key)
            return [r for r in self._neighbours(resized) if misses(r)] if resized else []
        samples = event.samples if isinstance(event, ev.ServerMeasured) else ()
        return [r for r in (world.running(sample.key) for sample in samples) if r is not None]

    def resumes_at(self, now: float) -> float | None:
        """When the next that is suspended goes on, if nothing changes; ``None`` = none does."""
        if self._recommends or not self._world.suspended:
            return None
        suspended = (self._world.state.workloads[name] for name in self._world.suspended)
        times = [
            resumes_at(record, self._neighbours(record), now)
            for record in suspended
            if not record.revoking
        ]
        return max(now, min(times)) if times else None

    def _follow_load(self, now: float, record: WorkloadRecord) -> None:
        """One that was measured: more or less for it by its load, and nothing else."""
        load, state = load_of(record), self._world.state
        # A changed reservation comes first, on the servers where it is.
        if load is None or record.resize_wanted:
            return
        if is_settled(record, now) and not is_limit_reached(state, now):
            self._ask(now, record, self._world.request(record, now, load=load))

    def _follow(self, now: float, record: WorkloadRecord) -> None:
        """One that was measured: learn from it, and do something where it is off its target."""
        platform = self._world.platform_of(record)
        slowed = self._world.slowdown_of(record)
        why = surprise(record, now, platform, slowed) if self._classifies else ""
        if why:
            decision = _adapted(self._classifies, ReasonCode.OK, f"classified anew: {why}")
            self._record(now, ev.ClassificationPlanned(record.name, decision))
        off = off_target(record, self._world.state, now)
        if off is None:
            self._try_second(now, record)
            return
        # What the engine could not do once, neighbours may mend.
        failed = off.pace < 1 and record.reason == "resize-failed"
        if failed and self._relieve(now, record, off):
            return
        if self._others_give(now, record, off):
            return  # What they give is there once they have been resized.
        if isinstance(self._resize(now, record, off), Refusal) and off.pace < 1:
            self._relieve(now, record, off)

    def _others_give(self, now: float, record: WorkloadRecord, off: OffTarget) -> bool:
        """There is less room than it asks for: those beside it give what they do not need.

        Returns:
            Whether any did.
        """
        if self._recommends or len(record.placements) != 1:
            return False
        here = record.placements[0]
        short = lacking(here, off, self._world.view())
        given = 0
        for other in self._neighbours(record):
            more = can_give(other, now) if given < short else None
            if more is None or is_limit_reached(self._world.state, now):
                continue
            request = self._world.request(other, now, off_target=more)
            verdict = self._policy.resize(request, other.placements, self._world.view())
            if isinstance(verdict, Plan):
                given += _cpu_on(here.server, other.placements)
                given -= _cpu_on(here.server, verdict.placements)
                message = f"{record.name} misses its target and lacks room: "
                message += verdict.decision.message
                decision = replace(verdict.decision, message=message)
                self._record(now, ev.AllocationPlanned(other.name, verdict.placements, decision))
        return given > 0

    def _try_second(self, now: float, record: WorkloadRecord) -> None:
        """Profiling live: one that was never copied runs under another allocation for a while."""
        if not self._classifies or self._recommends or is_limit_reached(self._world.state, now):
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

    def _resize(
        self, now: float, record: WorkloadRecord, off: OffTarget | None
    ) -> Plan | Refusal | None:
        """Ask the policy for another allocation; its answer, ``None`` = it has nothing to say."""
        if record.phase is not Phase.RUNNING or record.revoking:
            return None
        verdict = self._ask(now, record, self._world.request(record, now, off_target=off))
        if verdict is None and off is None:
            decision = _adapted(self._policy.name, ReasonCode.OK, "its allocation stays")
            self._record(now, ev.AllocationKept(record.name, decision))
        return verdict

    def _ask(
        self, now: float, record: WorkloadRecord, request: PlacementRequest
    ) -> Plan | Refusal | None:
        verdict = self._policy.resize(request, record.placements, self._world.view())
        match verdict:
            case Plan(decision=decision) if self._recommends:
                self._keep(now, record, recommended(decision))
            case Plan(placements, decision):
                self._record(now, ev.AllocationPlanned(record.name, placements, decision))
            case Refusal(decision):
                self._keep(now, record, decision)
        return verdict

    def _keep(self, now: float, record: WorkloadRecord, decision: Decision) -> None:
        """Nothing is done; why is logged when that changes."""
        # Who is loaded may keep its target all the while, and each time that clears why it is held.
        newest = record.adjustments[-1:] if self._policy.follows_load else []
        told = any(a.kind is AdjustmentKind.KEPT and a.reason == decision.reason for a in newest)
        if record.held is not decision.reason and not told:
            self._record(now, ev.AllocationKept(record.name, decision))

    def _relieve(self, now: float, record: WorkloadRecord, off: OffTarget) -> bool:
        """More CPU can't be had or would not help: best-effort neighbours, then another place.

        Returns:
            Whether there was something to do.
        """
        neighbours = self._neighbours(record)
        if not self._recommends:
            for other in gave_way_in_vain(neighbours, record):
                self._let_go_on(now, other, f"{record.name} did no better for it", in_vain=True)
        if self._world.state.capabilities.suspend:
            neighbour = who_gives_way(neighbours, record, now)
            if neighbour is not None:
                self._suspend(now, neighbour, record, off)
                return True
        return may_move(record, now) and self._move_away(now, record, off)

    def _neighbours(self, record: WorkloadRecord) -> list[WorkloadRecord]:
        """Who else is where it is, each once."""
        residents = (r for p in record.placements for r in self._world.residents_of(p.server))
        return list({r.uid: r for r in residents if r is not record}.values())

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

    def _move_away(self, now: float, record: WorkloadRecord, off: OffTarget) -> bool:
        """A restart costs its work so far: only to where the target is expected to be kept."""
        here = frozenset(self._world.columns.row(p.server) for p in record.placements)
        request = replace(self._world.request(record, now), excluded=here)
        verdict = self._policy.place(request, self._world.view())
        predicted = verdict.decision.predicted
        if isinstance(verdict, Refusal) or predicted is None:
            return False
        if predicted.mean < 1 - record.workload.tolerance or predicted.low <= off.pace:
            return False
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
        return True

    def _resume(self, now: float) -> None:
        """Let those go on that gave way, the longest suspended first."""
        suspended = [self._world.state.workloads[name] for name in self._world.suspended]
        for record in sorted(suspended, key=lambda record: (record.phase_since, record.uid)):
            neighbours = self._neighbours(record)
            if record.revoking or resumes_at(record, neighbours, now) > now:
                continue
            helps = any(map(misses, neighbours))
            why = "it has given way for long enough" if helps else "no neighbour misses its target"
            self._let_go_on(now, record, why)

    def _let_go_on(
        self, now: float, record: WorkloadRecord, why: str, *, in_vain: bool = False
    ) -> None:
        decision = _adapted(self._policy.name, ReasonCode.OK, f"{why}: it goes on")
        if self._recommends:
            self._keep(now, record, recommended(decision))
        else:
            self._record(now, ev.WorkloadResumed(record.name, decision, in_vain))


def _cpu_on(server: str, placements: tuple[Placement, ...]) -> int:
    """Thousandths of a CPU that these hold there."""
    return sum(p.allocation.cpu_millicpus for p in placements if p.server == server)


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
