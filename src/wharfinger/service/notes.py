"""What else holds for a workload, in sentences: readiness, restarts, schedule, array, pauses.

Called by ``explanations``; the decisions on it stand beside them.
"""

from collections.abc import Iterator

from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.workload import Probe, RestartPolicy
from wharfinger.service.models import timestamp
from wharfinger.service.workloads import HAS_PROGRAM


def notes(manager: Core, record: WorkloadRecord) -> list[str]:
    """Sentences without a full stop, the most urgent first."""
    return [
        *_pause(record),
        *_readiness(record),
        *_restarts(record),
        *_evictions(record),
        *_schedule(record),
        *_dependencies(manager, record),
        *_array(manager, record),
        *_cordons(manager, record),
    ]


def _pause(record: WorkloadRecord) -> Iterator[str]:
    if record.paused and not record.ended:
        what = "it gets no CPU time" if record.on_server else "it is not placed"
        yield f"its user has suspended it: {what} until it is resumed"


def _readiness(record: WorkloadRecord) -> Iterator[str]:
    probe = record.workload.run.ready
    if probe is None or record.phase not in HAS_PROGRAM:
        return
    if record.ready_at is not None:
        yield f"it is ready since {timestamp(record.ready_at)}: {_seen_by(probe)}"
    else:
        yield (
            f"it is not ready yet: it counts, is measured and gets load when {_seen_by(probe)} "
            f"(tried every {probe.every_seconds:g} s)"
        )


def _seen_by(probe: Probe) -> str:
    if probe.port is not None:
        return f"it accepts connections on port {probe.port}"
    if probe.http is not None:
        return f"it answers {probe.http}"
    if probe.line is not None:
        return f"a line of its output matches {probe.line!r}"
    return f"`{' '.join(probe.command or ())}` ends with status 0"


def _restarts(record: WorkloadRecord) -> Iterator[str]:
    restart = record.workload.run.restart
    if not record.restarts:
        if restart.policy is not RestartPolicy.NEVER and not record.ended:
            when = "however it ends"
            if restart.policy is RestartPolicy.ON_FAILURE:
                when = "when it fails"
            yield f"it is started again {when}{_at_most(restart.limit)}"
        return
    row = f", {record.restarts_in_row} in a row{_at_most(restart.limit)}"
    yield f"it was started again {_times(record.restarts)} in run {record.run}{row}"
    if record.last_output:
        yield f"the last line before it failed: {record.last_output}"
    waits = record.phase is Phase.QUEUED and record.not_before is not None
    if waits and record.not_before is not None:
        yield (
            f"it is not started again before {timestamp(record.not_before)}: the pause doubles "
            f"with each failure in a row, from {restart.backoff_seconds:g} s"
        )
    if record.ended and restart.limit is not None and record.restarts_in_row >= restart.limit:
        yield f"it is not started again: run.restart allows {restart.limit} restarts in a row"


def _evictions(record: WorkloadRecord) -> Iterator[str]:
    if record.evictions:
        again = "" if record.run == 1 else f" in run {record.run}"
        yield f"the engine took it off its servers {_times(record.evictions)}{again}"
    if record.lost:
        servers = " and ".join(placement.server for placement in record.lost)
        yield f"what it held on {servers} is lost; another server is looked for"


def _at_most(limit: int | None) -> str:
    return "" if limit is None else f" (at most {limit} in a row)"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _schedule(record: WorkloadRecord) -> Iterator[str]:
    schedule = record.workload.schedule
    if schedule is not None:
        when = "" if record.due_at is None else f": next at {timestamp(record.due_at)}"
        yield f"it runs on the schedule '{schedule.cron}' ({schedule.time_zone}){when}"


def _dependencies(manager: Core, record: WorkloadRecord) -> Iterator[str]:
    after = record.workload.after
    if after is None or record.started_at is not None:
        return
    for names, what in (
        (after.completed, "must complete"),
        (after.ended, "must end"),
        (after.ready, "must be ready"),
    ):
        if names:
            told = ", ".join(f"{name} ({_state(manager, name)})" for name in names)
            yield f"before it is started, {told} {what}"


def _state(manager: Core, name: str) -> str:
    if not manager.knows(name):
        return "unknown"
    record = manager.state.workloads.get(name)
    if record is not None:
        ready = record.phase in HAS_PROGRAM and record.workload.run.ready is not None
        return (
            f"{record.phase}, {'' if record.ready_at else 'not '}ready" if ready else record.phase
        )
    members = [one for one in manager.state.workloads.values() if _is_of(one, name)]
    ended = sum(one.ended for one in members)
    return f"{ended} of {len(members)} have ended" if members else "deleted"


def _is_of(record: WorkloadRecord, array: str) -> bool:
    return record.workload.array is not None and record.workload.array.name == array


def _array(manager: Core, record: WorkloadRecord) -> Iterator[str]:
    member = record.workload.array
    if member is None:
        return
    line = f"it is number {member.index} of array {member.name}"
    if member.at_once is not None and not record.ended:
        there = sum(one.on_server for one in manager.members(member.name))
        line += f", of which {member.at_once} may be on servers at once; {there} are"
    yield line


def _cordons(manager: Core, record: WorkloadRecord) -> Iterator[str]:
    """Of the servers where it is; while it waits, of all."""
    if record.ended:
        return
    here = {placement.server for placement in record.placements} if record.on_server else None
    if here is None and record.phase is not Phase.QUEUED:
        return
    for server, cordon in manager.state.cordoned.items():
        if here is None or server in here:
            how = "drained" if cordon.drain else "cordoned: it takes no new work"
            why = f" ({cordon.reason})" if cordon.reason else ""
            yield f"server {server} is {how}, since {timestamp(cordon.since)}{why}"
