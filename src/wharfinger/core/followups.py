"""What follows from an end or a time: another run, a limit reached, a record that expires.

Derived from the records. ``ClusterState`` tells it what changes; the pipeline asks what is due.
"""

from wharfinger.core.deadlines import Deadlines
from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import ManagerState, RunSummary, WorkloadRecord

_NOT_AGAIN = frozenset({Phase.REVOKED, Phase.REJECTED})
_NOT_STARTED = frozenset({Phase.PLACED, Phase.STARTING})


class FollowUps:
    """What workloads wait for besides room, and what happens after their end.

    Attributes:
        time_limits: When each that runs has reached its time limit.
        expiries: When the record of each that has ended is forgotten.
        ended: Those that have ended, and run again or are forgotten now.
        waiting: By name, the workloads that wait for something about it.
    """

    def __init__(self, state: ManagerState) -> None:
        self._state = state
        self.time_limits = Deadlines()
        self.expiries = Deadlines()
        self.ended: dict[str, None] = {}
        self.waiting: dict[str, dict[str, None]] = {}
        self._arrays: dict[str, dict[str, None]] = {}
        self._on_servers: dict[str, set[str]] = {}
        self._untold: dict[str, set[str]] = {}
        self._profiled: dict[str, str] = {}
        self._measured: dict[str, str] = {}
        self._programs: dict[tuple[str, ...], dict[str, None]] = {}

    def enter(self, record: WorkloadRecord) -> None:
        """A record is new."""
        if record.workload.array is not None:
            self._arrays.setdefault(record.workload.array.name, {})[record.name] = None
        self.changed(record)

    def leave(self, record: WorkloadRecord) -> None:
        """A record is gone."""
        self._forget_program(record)
        self.ended.pop(record.name, None)
        self.time_limits.drop(record.name)
        self.expiries.drop(record.name)
        if record.workload.array is not None:
            array = record.workload.array.name
            members = self._arrays.get(array, {})
            members.pop(record.name, None)
            self._on_servers.get(array, set()).discard(record.name)
            self._untold.get(array, set()).discard(record.name)
            if not members:
                self._arrays.pop(array, None)
                self._on_servers.pop(array, None)
                self._untold.pop(array, None)
            for known in (self._profiled, self._measured):
                if known.get(array) == record.name:
                    del known[array]

    def changed(self, record: WorkloadRecord) -> None:
        """Its phase, or what its user has stated, has changed."""
        limit, began = record.workload.run.time_limit_seconds, record.started_at
        # Before it has started again, what is known is its former start.
        runs = record.on_server and record.phase not in _NOT_STARTED
        if runs and began is not None and limit is not None and not record.stop_reason:
            self.time_limits.put(record.name, began + limit)
        else:
            self.time_limits.drop(record.name)
        if record.workload.array is not None:
            self._array_changed(record, record.workload.array.name)
        if record.measurements is not None and record.measurements.performance:
            self._programs.setdefault(record.workload.run.command, {})[record.name] = None
        if not record.ended:
            return
        ttl = record.workload.ttl_after_finished_seconds
        if record.forget or record.resubmitted is not None or runs_again(record):
            self.ended[record.name] = None
        elif ttl is not None and record.ended_at is not None:
            self.expiries.put(record.name, record.ended_at + ttl)

    def _array_changed(self, record: WorkloadRecord, array: str) -> None:
        there = self._on_servers.setdefault(array, set())
        (there.add if record.on_server else there.discard)(record.name)
        if record.phase is Phase.PROFILING:
            self._profiled[array] = record.name
        elif self._profiled.get(array) == record.name:
            del self._profiled[array]
        measured, untold = record.measurements, self._untold.setdefault(array, set())
        silent = measured is not None and not measured.performance
        (untold.add if silent else untold.discard)(record.name)
        if measured is not None and measured.performance:
            self._measured.setdefault(array, record.name)

    def wake_at(self) -> float | None:
        """When the next limit is reached or record expires; ``None`` = never."""
        due = [first[0] for times in (self.time_limits, self.expiries) if (first := times.first())]
        return min(due, default=None)

    def members(self, name: str) -> list[WorkloadRecord]:
        """The workload of this name, or those of the array of this name, by number; empty = none.

        The order is the same in a core that was made from a snapshot, after any changes.
        """
        workloads = self._state.workloads
        if name in workloads:
            return [workloads[name]]
        return sorted((workloads[each] for each in self._arrays.get(name, ())), key=_number)

    def measured_as(self, record: WorkloadRecord) -> tuple[WorkloadRecord | None, str]:
        """Who tells what it needs, and how that is known: itself, of a former run, or another.

        Another member of its array, which may still be being profiled, or the same program.
        """
        if record.measurements is not None:
            return record, f"measured in run {record.run - 1}"
        like = self.measured_sibling(record) or self.measured_program(record)
        if like is None:
            return None, ""
        if like.measurements is None:
            return like, "is profiled first, for the whole array"
        relation = "of the same array" if same_array(record, like) else "the same program"
        return like, f"measured as {like.name}, {relation}"

    def measured_sibling(self, record: WorkloadRecord) -> WorkloadRecord | None:
        """A member of its array that runs the same, and is measured or now being profiled."""
        array, workloads = record.workload.array, self._state.workloads
        if array is None:
            return None
        # Where one's profile has told nothing, others do not wait for each other's.
        untold = self._untold.get(array.name)
        for known in (self._measured,) if untold else (self._measured, self._profiled):
            other = workloads.get(known.get(array.name, ""))
            same = other is not None and other.workload.run.command == record.workload.run.command
            if same and other is not record:
                return other
        return None

    def measured_program(self, record: WorkloadRecord) -> WorkloadRecord | None:
        """One outside its array that runs the same program and is measured; ``None`` = unknown.

        How much work it is may differ, so whoever is sized by that is measured itself.
        """
        stated = record.workload
        if stated.target is None or (
            stated.target.completion_seconds is not None and stated.measure.progress_total is None
        ):
            return None
        names = self._programs.get(stated.run.command, ())
        known = (self._state.workloads[name] for name in names)
        same = [r for r in known if r is not record and stated.has_same_program(r.workload)]
        return max(same, key=lambda other: other.uid, default=None)

    def _forget_program(self, record: WorkloadRecord) -> None:
        command = record.workload.run.command
        known = self._programs.get(command, {})
        known.pop(record.name, None)
        if not known:
            self._programs.pop(command, None)

    def is_array_full(self, record: WorkloadRecord) -> bool:
        """Whether as many of its array are on servers as may be at once."""
        array = record.workload.array
        if array is None or array.at_once is None:
            return False
        return len(self._on_servers.get(array.name, ())) >= array.at_once

    def wait_for(self, record: WorkloadRecord, names: list[str]) -> None:
        """It waits for a change of these workloads."""
        for name in names:
            self.waiting.setdefault(name, {})[record.name] = None

    def woken(self, record: WorkloadRecord) -> dict[str, None]:
        """Names of those that have waited for a change of this one, and do so no more."""
        return self.waiting.pop(record.name, {})

    def last_run(self, record: WorkloadRecord, since: float) -> Phase | None:
        """How its newest run that ended since then did; ``None`` = it has not ended since."""
        if record.ended:
            return record.phase
        ends = (run for run in record.previous[-1:] if (run.ended_at or 0.0) >= since)
        return next((run.phase for run in ends), None)

    def forgotten_run(self, name: str) -> RunSummary | None:
        """The newest run of a name whose record is gone."""
        return next((run for run in reversed(self._state.history) if run.name == name), None)

    def forgotten_members(self, array: str, since: float) -> list[str]:
        """Names of an array's members that ended since then and whose record is gone."""
        gone = (r for r in self._state.history if r.name.startswith(f"{array}-"))
        names = {r.name: None for r in gone if (r.ended_at or 0.0) >= since}
        indexes = ((name, name.removeprefix(f"{array}-")) for name in names)
        workloads = self._state.workloads
        return [name for name, index in indexes if index.isdigit() and name not in workloads]


def same_array(record: WorkloadRecord, other: WorkloadRecord) -> bool:
    """Whether both are members of one array."""
    own, others = record.workload.array, other.workload.array
    return own is not None and others is not None and own.name == others.name


def runs_again(record: WorkloadRecord) -> bool:
    """Whether its schedule has another run for it."""
    return record.workload.schedule is not None and record.phase not in _NOT_AGAIN


def _number(record: WorkloadRecord) -> int:
    return record.workload.array.index if record.workload.array is not None else 0
