"""When a workload may begin, before any policy is asked: its schedule, and what it depends on.

The pipeline calls it for what is new; what follows from ends and times is logged here, too.
"""

from collections.abc import Callable

from wharfinger.core import events as ev
from wharfinger.core.cluster_state import ClusterState
from wharfinger.core.lifecycle import Phase
from wharfinger.core.own_decisions import dependency, dependency_failed, never_due, scheduled
from wharfinger.core.schedules import next_run
from wharfinger.core.settings import CoreSettings
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.decisions import Decision
from wharfinger.model.workload import After, MissedRun

SET_BACK_SECONDS = 3600.0
"""A clock that is set back by no more lets no scheduled time come twice."""
Record = Callable[[float, ev.Event], None]
Hold = Callable[[float, WorkloadRecord, Decision], None]


class Eligibility:
    """Schedules, dependencies, time limits and expiry of one core.

    Args:
        cluster: Read, and told who waits for whom.
        settings: The core's own.
        record: Logs an event.
        hold: Logs why a workload can't continue, where that is new.
    """

    def __init__(
        self, cluster: ClusterState, settings: CoreSettings, record: Record, hold: Hold
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._record = record
        self._hold = hold

    def may_begin(self, now: float, record: WorkloadRecord) -> bool:
        """Whether its schedule and what it depends on let it be admitted."""
        schedule, due = record.workload.schedule, record.due_at
        if schedule is not None:
            missed = due is not None and now - due > self._settings.missed_seconds
            if due is None or (missed and schedule.missed is MissedRun.SKIP):
                due = next_run(schedule, _since(now, record))
                if due is None:
                    self._record(now, ev.WorkloadRejected(record.name, never_due(schedule.cron)))
                    return False
                told = scheduled(due, schedule, skipped=missed)
                self._record(now, ev.RunScheduled(record.name, due, told))
            if now < due:
                if record.review_at is None:  # It was updated, or a clock was set back.
                    told = scheduled(due, schedule, skipped=False)
                    self._record(now, ev.RunScheduled(record.name, due, told))
                return False
        return record.workload.after is None or self._is_free(now, record, record.workload.after)

    def _is_free(self, now: float, record: WorkloadRecord, after: After) -> bool:
        """Whether what it depends on has ended, or is ready; rejects it where it never will."""
        followups, waits_for = self._cluster.followups, list[str]()
        for kind in ("completed", "ended", "ready"):
            for name in self._named(getattr(after, kind), record.submitted_at):
                other = self._cluster.state.workloads.get(name)
                if kind == "ready" and other is not None and not other.ended:
                    if other.ready_at is None:
                        waits_for.append(name)
                    continue
                if other is None:
                    gone = followups.forgotten_run(name)
                    phase = gone.phase if gone is not None else Phase.REJECTED
                else:
                    last = followups.last_run(other, record.submitted_at)
                    if last is None:
                        waits_for.append(name)
                        continue
                    phase = last
                if kind == "ready" or (kind == "completed" and phase is not Phase.COMPLETED):
                    told = dependency_failed(name, phase, kind)
                    self._record(now, ev.WorkloadRejected(record.name, told))
                    return False
        if waits_for:
            self.wait_for(now, record, waits_for, "must end or be ready first")
        return not waits_for

    def _named(self, stated: tuple[str, ...], since: float) -> list[str]:
        """The names that dependencies mean: workloads', and those of arrays' members."""
        followups, named = self._cluster.followups, list[str]()
        for name in stated:
            members = [member.name for member in followups.members(name)]
            if name not in members:
                # Some may have ended and be forgotten before the last has ended.
                members += followups.forgotten_members(name, since if members else 0.0)
            named += members or [name]
        return named

    def wait_for(self, now: float, record: WorkloadRecord, names: list[str], why: str) -> None:
        """Leave it where it is until something about these workloads changes."""
        self._hold(now, record, dependency(names, why))
        self._cluster.leave_unprofiled(record)
        self._cluster.undecided.pop(record.name, None)
        self._cluster.followups.wait_for(record, names)

    def follow_up(self, now: float) -> None:
        """Runs that begin after an end, time limits, and records that have expired."""
        followups = self._cluster.followups
        for name in list(followups.ended):
            record = self._cluster.state.workloads[name]
            if record.resubmitted is not None:
                self._record(now, ev.RunBegun(name, "resubmitted"))
            elif record.forget:
                self._record(now, ev.WorkloadForgotten(name))
            else:
                self._record(now, ev.RunBegun(name, "schedule"))
        while (first := followups.time_limits.first()) is not None and first[0] <= now:
            self._record(now, ev.TimeLimitReached(first[1]))
        while (first := followups.expiries.first()) is not None and first[0] <= now:
            self._record(now, ev.WorkloadForgotten(first[1]))


def _since(now: float, record: WorkloadRecord) -> float:
    """From when on its schedule's next time is looked for."""
    last = record.last_due_at
    return last if last is not None and now < last <= now + SET_BACK_SECONDS else now
