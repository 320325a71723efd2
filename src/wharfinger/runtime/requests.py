"""What requests about workloads do: checked before they are made events, and told in the answer."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter

from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.core.state import WorkloadRecord
from wharfinger.errors import Conflict, InvalidInput
from wharfinger.manifest.fields import DEFAULT_TTL_SECONDS
from wharfinger.manifest.rules import SERVICE_RESTART
from wharfinger.model.workload import Reservation, Restart, Workload, WorkloadType


class RequestOutcome(StrEnum):
    """What a submission or an application of a manifest did."""

    CREATED = "created"
    UNCHANGED = "unchanged"
    """The same is there already."""
    RUNS_AGAIN = "runs-again"
    """It had ended, and a new run begins."""
    RUNS_AFTER_END = "runs-again-after-its-end"
    """It is being stopped, and a new run begins then."""
    UPDATED = "updated"
    """What it must reach or may use has changed; its program runs on."""
    REPLACED = "replaced"
    """It runs another program, or will when the one before has ended."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A workload is on disk and will not be lost; ``run`` counts the runs of its name."""

    name: str
    outcome: RequestOutcome
    run: int = 1

    @property
    def created(self) -> bool:
        """Whether there is something new."""
        return self.outcome is not RequestOutcome.UNCHANGED


def submission(core: Core, workload: Workload, *, once: bool = False) -> Acknowledgement:
    """What a submission does; ``once`` = nothing where the name is known.

    Raises:
        Conflict: Another workload that has not ended has its name.
    """
    record = core.state.workloads.get(workload.name)
    if record is None:
        return Acknowledgement(workload.name, RequestOutcome.CREATED)
    if record.ended and not once:
        return Acknowledgement(workload.name, RequestOutcome.RUNS_AGAIN, record.run + 1)
    if record.revoking and not record.ended and record.resubmitted != workload:
        return Acknowledgement(workload.name, RequestOutcome.RUNS_AFTER_END, record.run + 1)
    if workload in (record.workload, record.resubmitted) or _as_of_0_1(workload) == record.workload:
        return Acknowledgement(workload.name, RequestOutcome.UNCHANGED, record.run)
    raise Conflict(
        f"workload {workload.name!r} exists ({record.phase}) and is another: use update or apply, "
        "or choose another name"
    )


def _as_of_0_1(workload: Workload) -> Workload | None:
    """As version 0.1 read the same manifest, without defaults that it did not have yet.

    ``None`` = the manifest states what that version did not know.
    """
    if workload.ttl_after_finished_seconds != DEFAULT_TTL_SECONDS:
        return None
    run, reservation, before = workload.run, workload.reservation, Reservation()
    if workload.type is WorkloadType.LATENCY_CRITICAL and run.restart == SERVICE_RESTART:
        run = replace(run, restart=Restart())
    if reservation.elastic_cpu:
        cpu = before.cpu_millicpus
        reservation = replace(reservation, cpu_millicpus=cpu, elastic_cpu=False)
    if reservation.elastic_memory:
        memory = before.memory_bytes
        reservation = replace(reservation, memory_bytes=memory, elastic_memory=False)
    return replace(workload, run=run, reservation=reservation, ttl_after_finished_seconds=None)


def application(
    core: Core, workload: Workload
) -> tuple[Acknowledgement, tuple[ev.ClientRequest, ...]]:
    """What an application of a manifest does, and the requests that do it."""
    name, record = workload.name, core.state.workloads.get(workload.name)
    submitted = ev.WorkloadSubmitted(workload)
    if record is None:
        return Acknowledgement(name, RequestOutcome.CREATED), (submitted,)
    same = record.workload == workload
    if record.ended:
        if same and record.phase is Phase.COMPLETED:
            return Acknowledgement(name, RequestOutcome.UNCHANGED, record.run), ()
        outcome = RequestOutcome.RUNS_AGAIN if same else RequestOutcome.REPLACED
        return Acknowledgement(name, outcome, record.run + 1), (submitted,)
    if record.revoking:
        if record.resubmitted == workload:
            return Acknowledgement(name, RequestOutcome.UNCHANGED, record.run + 1), ()
        outcome = RequestOutcome.RUNS_AFTER_END if same else RequestOutcome.REPLACED
        return Acknowledgement(name, outcome, record.run + 1), (submitted,)
    if same:
        return Acknowledgement(name, RequestOutcome.UNCHANGED, record.run), ()
    if is_update(record, workload):
        return Acknowledgement(name, RequestOutcome.UPDATED, record.run), (
            ev.WorkloadUpdated(workload),
        )
    replaced = Acknowledgement(name, RequestOutcome.REPLACED, record.run + 1)
    return replaced, (ev.WorkloadRevoked(name), submitted)


def is_update(record: WorkloadRecord, workload: Workload) -> bool:
    """Whether what is there becomes this while its program runs on.

    Before it runs, what it was profiled for would be of no use with another ``measure``.
    """
    former = record.workload
    if not record.on_server and not workload.is_measured_as(former):
        return False
    same_run = all(
        getattr(former.run, part) == getattr(workload.run, part)
        for part in ("command", "env", "working_directory", "user", "stop_signal", "ready", "alive")
    )
    return former.type is workload.type and former.array == workload.array and same_run


def check_update(core: Core, workload: Workload) -> None:
    """Check that a live workload may be changed to this.

    Raises:
        NotFound: There is no such workload.
        Conflict: It has ended, or the change needs another program.
    """
    record = core.find(workload.name)
    if record.ended:
        raise Conflict(f"workload {workload.name!r} has ended ({record.phase})")
    if record.revoking:
        raise Conflict(f"workload {workload.name!r} is being stopped")
    if not is_update(record, workload):
        raise Conflict(
            f"workload {workload.name!r}: its type and program can't be changed while it runs, nor "
            "its measure before; apply the manifest, which replaces it"
        )


def check_dependencies(core: Core, workloads: Sequence[Workload]) -> None:
    """Check names: each once, and what each depends on is there, or in the same request.

    Raises:
        Conflict: A name stands twice.
        InvalidInput: What one depends on is not there, or depends on it.
    """
    for name, times in Counter(workload.name for workload in workloads).items():
        if times > 1:
            raise Conflict(f"workload {name!r} stands {times} times in one request")
    given = {workload.name: workload for workload in workloads}
    arrays = {w.array.name for w in workloads if w.array is not None}
    for workload in workloads:
        for name in _waited_for(workload):
            of_itself = {workload.name, workload.array.name if workload.array else ""}
            if name in of_itself:
                raise InvalidInput(f"workload {workload.name!r}: after: it can't wait for itself")
            if name not in given and name not in arrays and not core.knows(name):
                raise InvalidInput(
                    f"workload {workload.name!r}: after: there is no workload or array {name!r}; "
                    "submit it before, or in the same file"
                )
    _check_circles(given)


def _check_circles(given: dict[str, Workload]) -> None:
    """What waits for itself through others would wait for ever."""
    members: dict[str, list[str]] = {}
    for workload in given.values():
        if workload.array is not None:
            members.setdefault(workload.array.name, []).append(workload.name)
    waits = {
        name: [each for wanted in _waited_for(workload) for each in members.get(wanted, [wanted])]
        for name, workload in given.items()
        if workload.after is not None
    }
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        message = f"after: these wait for one another: {circle}; remove one of the dependencies"
        raise InvalidInput(message) from None


def _waited_for(workload: Workload) -> tuple[str, ...]:
    after = workload.after
    return (*after.completed, *after.ended, *after.ready) if after else ()
