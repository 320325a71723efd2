"""What Slurm and a run directory say of an end, made into the report that the core gets: pure.

A run's own exit record comes first, then accounting. Where neither knows, nothing is guessed: it
vanished, with an unknown exit status.
"""

from dataclasses import dataclass, replace

from wharfinger.core import events as ev
from wharfinger.engines.slurm.client.base import JobEnd, SlurmJob
from wharfinger.engines.slurm.script import NOT_SHARED
from wharfinger.host.reports import STOPPED, STOPPED_BEFORE_START, End, end_of
from wharfinger.host.run_dir import Claim, RunRecord
from wharfinger.model.ends import NODE_FAILURE, OUT_OF_MEMORY

CANCELLED, TIME_LIMIT = "cancelled", "time-limit"
"""Words of ends that neither the program nor the core has brought about."""

_OVER = frozenset(
    (
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT", "LAUNCH_FAILED"),
    )
)
_EVICTED = {
    "NODE_FAIL": NODE_FAILURE,
    "BOOT_FAIL": NODE_FAILURE,
    "PREEMPTED": "preempted",
    "REVOKED": "preempted",
}
_KILLED = frozenset({"CANCELLED", "TIMEOUT", "DEADLINE"})
_SLURMS_SIGNALS = frozenset({9, 15})
_WORDS = {"TIMEOUT": TIME_LIMIT, "DEADLINE": TIME_LIMIT, "OUT_OF_MEMORY": OUT_OF_MEMORY}


@dataclass(frozen=True, slots=True)
class RunReading:
    """What a run directory says.

    Attributes:
        stop_asked: We have asked its supervisor to stop it.
        last_line: Of its output.
        fault: What was said where nothing was started; empty = nothing.
        unshared: Its directory is not there any more.
        not_alive: That is why we have asked.
        part_failed: It has failed on one of several nodes, and goes on on others.
    """

    record: RunRecord
    stop_asked: bool = False
    last_line: str = ""
    fault: str = ""
    unshared: bool = False
    not_alive: bool = False
    part_failed: bool = False


def is_over(job: SlurmJob) -> bool:
    """Whether its script has ended and will not be started again."""
    return job.state.upper() in _OVER


def has_had_node(job: SlurmJob) -> bool:
    """Whether its script may have begun; what is put back in line has no node any more."""
    return bool(job.nodes) or was_requeued(job)


def never_began(ended: JobEnd) -> bool:
    """Whether it ended, by accounting, before it had a node."""
    return ended.state.upper() in _OVER and not ended.nodes


def was_taken_off(job: SlurmJob) -> bool:
    """Whether Slurm has ended it for its own reasons."""
    return job.state.upper() in _EVICTED


def had_no_script(job: SlurmJob) -> bool:
    """Whether Slurm ended it because no node had its script."""
    return job.state.upper() == "FAILED" and job.state_reason == "JobLaunchFailure"


def lost_script(key: str, job: SlurmJob) -> End:
    """The report that it was ended so."""
    return evicted(key, NODE_FAILURE, f"{_detail(job)}: the node with its script was lost")


def was_requeued(job: SlurmJob) -> bool:
    """Whether it ran and waits to run again, which ours never do of themselves."""
    return job.restarts > 0 or "REQUEUED" in job.flags


def evicted(key: str, word: str, detail: str) -> End:
    """The report that Slurm took it off."""
    return ev.WorkloadEvicted(key, f"{word}: {detail}")


def end_of_run(
    key: str,
    reading: RunReading,
    job: SlurmJob | JobEnd | None,
    *,
    stop_asked: bool,
    lost: bool = False,
) -> End | None:
    """How a run ended by its own records; ``None`` = they do not say, or nothing was started.

    ``lost``: it had several nodes, and has lost some: with the first Slurm ends the rest.
    """
    record = reading.record.exit
    if record is None:
        return None
    asked = stop_asked or reading.stop_asked
    was_killed = record.stop_requested or record.signal is not None
    by_slurm = record.stop_requested or record.signal in _SLURMS_SIGNALS
    word = _eviction_of(job) if job is not None else ""
    word = word or (NODE_FAILURE if lost and by_slurm else "")
    if job is not None and was_killed and not asked and word:
        return evicted(key, word, _detail(job))
    end = end_of(key, record, last_output=reading.last_line, not_alive=reading.not_alive)
    if isinstance(end, ev.WorkloadFinished) and end.reason == STOPPED and not asked:
        state = job.state.upper() if job is not None else ""
        end = replace(end, reason=_WORDS.get(state, CANCELLED), last_output=reading.last_line)
    elif isinstance(end, ev.WorkloadFinished) and _ran_out_of_memory(job) and end.exit_code != 0:
        end = replace(end, reason=OUT_OF_MEMORY)
    return end


def _ran_out_of_memory(job: SlurmJob | JobEnd | None) -> bool:
    return job is not None and job.state.upper() == "OUT_OF_MEMORY"


def end_without_record(
    key: str,
    job: SlurmJob | None,
    ended: JobEnd | None,
    *,
    stop_asked: bool,
) -> End:
    """How a job ended that has begun and left no record, by what Slurm knows.

    Its script ends as the program does, supervised or not.
    """
    state = (ended.state if ended else job.state if job else "").upper()
    node = ", ".join((ended.nodes if ended else ()) or (job.nodes if job else ()))
    if (word := _EVICTED.get(state)) and not stop_asked:
        return evicted(key, word, f"Slurm says {state} of {node or 'its node'}")
    code, signal = (
        (ended.exit_code, ended.signal)
        if ended
        else ((job.exit_code, job.signal) if job else (None, None))
    )
    if not state or (code is None and signal is None) or state in _EVICTED:
        said = f"Slurm says {state}" if state else "Slurm does not know its job any more"
        return ev.WorkloadVanished(key, f"{said}, and it has left no exit status")
    if signal:
        code = None
    elif state in _KILLED and not code:
        code, signal = None, 15  # Slurm tells 0:0, as of one that ended well.
    reason = (
        STOPPED
        if stop_asked
        else _WORDS.get(state)
        or (CANCELLED if state == "CANCELLED" else "killed" if signal else "exited")
    )
    return ev.WorkloadFinished(
        key,
        code,
        signal or None,
        reason,
        ended.cpu_seconds if ended else None,
        ended.end_time if ended else job.end_time if job else None,
        (ended.memory_peak_bytes if ended else None) or None,
    )


def failed_start(
    key: str, reading: RunReading | None, job: SlurmJob | JobEnd | None, *, stop_asked: bool
) -> ev.StartFailed:
    """Why nothing was started under a key, and nothing will be."""
    claim = reading.record.claim if reading else Claim.NONE
    if stop_asked or (reading is not None and reading.stop_asked) or claim is Claim.CANCELLED:
        return ev.StartFailed(key, STOPPED_BEFORE_START, retryable=False)
    if job is None:
        return ev.StartFailed(key, "Slurm lost its job before it began", retryable=True)
    node = ", ".join(job.nodes) or "its node"
    if job.state.upper() == "CANCELLED" and not job.nodes:
        return ev.StartFailed(
            key, "its job was cancelled at Slurm before it began", retryable=False
        )
    if job.exit_code == NOT_SHARED:
        why = f"{node} does not see the shared directory; mount it there under the same path"
    elif reading is not None and reading.fault:
        why = f"{node}: {reading.fault}"
    else:
        why = f"Slurm ended its job before it began: {_detail(job)}"
    return ev.StartFailed(key, why, retryable=True)


def _eviction_of(job: SlurmJob | JobEnd) -> str:
    if isinstance(job, SlurmJob) and job.state.upper() == "PENDING" and was_requeued(job):
        return "requeued"
    return _EVICTED.get(job.state.upper(), "")


def _detail(job: SlurmJob | JobEnd) -> str:
    said = f"Slurm says {job.state}"
    reason = job.state_reason if isinstance(job, SlurmJob) else ""
    return f"{said} ({reason})" if reason not in {"", "None"} else said
