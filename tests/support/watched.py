"""A cluster that checks, at each step, what users were told about runs."""

from collections import Counter

from tests.support.cluster import Cluster
from tests.support.drawn import AT_ONCE
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Step
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.workload import After, RestartPolicy, Workload


class WatchedCluster(Cluster):
    """As a cluster; arrays keep to their limits, dependents and schedules to their times."""

    def tell(self, *events: ev.Report | ev.ClientRequest) -> Step:
        """As a cluster does, and look at each step."""
        step = Step((), ())
        for event in events:
            known = {name: r.workload for name, r in self.manager.state.workloads.items()}
            step = super().tell(event)
            self._check_step(step, known)
            self._check_records()
        return step

    def _check_step(self, step: Step, known: dict[str, Workload]) -> None:
        for event in step.events:
            match event:
                case ev.WorkloadAdmitted(name=name):
                    record = self.record(name)
                    assert record.due_at is None or record.due_at <= self.now, "before its time"
                    if record.workload.after is not None:
                        self._check_waited(record, record.workload.after)
                case ev.WorkloadPlaced(name=name):
                    assert not self.record(name).paused, "placed while its user has suspended it"
                case ev.RunScheduled(due_at=due):
                    assert due > self.now
                case ev.TimeLimitReached(name=name):
                    record = self.record(name)
                    limit = record.workload.run.time_limit_seconds
                    assert limit is not None
                    assert record.phase not in (Phase.PLACED, Phase.STARTING)
                    assert record.started_at is not None
                    assert self.now >= record.started_at + limit
                case ev.WorkloadForgotten(name=name) if name in known:
                    assert known[name].schedule is None or name not in self._unfinished()
                case _:
                    pass

    def _unfinished(self) -> set[str]:
        return {name for name, r in self.manager.state.workloads.items() if not r.ended}

    def _check_waited(self, record: WorkloadRecord, after: After) -> None:
        """What it waits for has come about: by the records of what it names, not by the core."""
        for name in after.ready:
            for other in self._meant(name):
                assert other.ready_at is not None, f"{record.name} before {name} is ready"
                assert not other.ended
        for name in (*after.completed, *after.ended):
            for other in self._meant(name):
                ends = [run.phase for run in other.previous] + [other.phase] * other.ended
                assert ends, f"{record.name} before {name} has ended"
                assert name in after.ended or Phase.COMPLETED in ends

    def _meant(self, name: str) -> list[WorkloadRecord]:
        found = self.manager.state.workloads.items()
        return [r for other, r in found if name in (other, other.partition("-")[0])]

    def _check_records(self) -> None:
        at_once: Counter[str] = Counter()
        for record in self.manager.state.workloads.values():
            rule = record.workload.run.restart
            if record.workload.array is not None and record.on_server:
                at_once[record.workload.array.name] += 1
            if record.ended:
                assert record.resubmitted is None
                assert not record.forget
                again = record.workload.schedule is not None
                assert not again or record.phase in (Phase.REVOKED, Phase.REJECTED), record.name
            if not record.on_server and not record.ended:
                assert not record.stop_reason, (record.name, record.phase, record.stop_reason)
                assert record.ready_at is None, (record.name, record.phase)
            if rule.policy is RestartPolicy.NEVER and not record.restarts:
                assert record.restarts_in_row == 0
        assert not at_once or max(at_once.values()) <= AT_ONCE, at_once
