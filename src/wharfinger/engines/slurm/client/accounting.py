"""How jobs ended: what ``sacct``, ``jobcomp/filetxt`` and the controller tell of it.

Nothing that is asked of ``sacct`` was written by a user, so its lines can be taken apart at their
separators. In the file of ``jobcomp/filetxt`` the job's name stands as its user gave it, newlines
included; the fields behind it are therefore read from the end of the line, and what does not have
the form of a whole record is left out. A user who may name jobs can still write a record that looks
whole: who wants to be safe from that keeps accounts by slurmdbd, which is asked first.
"""

import pwd
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from wharfinger.engines.slurm.client import scalars
from wharfinger.engines.slurm.client.base import JobEnd, SlurmJob
from wharfinger.engines.slurm.client.hostlist import expand
from wharfinger.engines.slurm.client.records import BASE_STATES
from wharfinger.errors import SlurmUnavailable

ENDED = BASE_STATES - {"PENDING", "RUNNING", "SUSPENDED"}
SACCT_FIELDS = "JobIDRaw,State,ExitCode,Start,End,TotalCPU,MaxRSS,NodeList"
_JOBCOMP_TAIL_BYTES = 64 << 20  # Ends that are asked for are recent.
_JOBCOMP_LINE = re.compile(
    r"JobId=(?P<job>\d{1,10}) UserId=.* JobState=(?P<state>[A-Z_]{1,20})"
    r" Partition=\S+ TimeLimit=\S+ StartTime=(?P<start>\S+) EndTime=(?P<end>\S+)"
    r" NodeList=(?P<nodes>\S+) NodeCnt=\d+ .* ExitCode=(?P<exit>\d{1,3}:\d{1,3}) ?"
)


def sacct_command(job_ids: Sequence[int]) -> list[str]:
    """What asks accounting for the ends of jobs and their steps."""
    ids = ",".join(map(str, job_ids))
    return [
        "sacct", "--noheader", "--parsable2", "--noconvert", "--duplicates",
        f"--jobs={ids}", f"--format={SACCT_FIELDS}",
    ]  # fmt: skip


def ends_of_sacct(answer: bytes) -> list[JobEnd]:
    """The last end of each job in ``sacct``'s lines; none of a job that was put back in line."""
    last: dict[int, JobEnd | None] = {}
    for line in answer.decode("utf-8", "replace").splitlines():
        fields = line.split("|")
        if len(fields) != len(SACCT_FIELDS.split(",")):
            continue
        job_words, state_words, exit_words, start, end, cpu, memory, nodes = fields
        job, _, step = job_words.partition(".")
        job_id = scalars.number(job)
        if not job_id:
            continue
        if step:
            _add_step(last, job_id, cpu, memory)
            continue
        state, _, by = state_words.partition(" ")
        code, signal = scalars.exit_status(exit_words)
        last[job_id] = None
        if state in ENDED:
            last[job_id] = JobEnd(
                job_id=job_id,
                state=state,
                exit_code=code,
                signal=signal,
                start_time=scalars.time(start),
                end_time=scalars.time(end),
                cpu_seconds=scalars.duration(cpu),
                nodes=expand(nodes),
                cancelled_by=_user_name(by.removeprefix("by ")),
            )
    return [found for found in last.values() if found is not None]


def _user_name(uid: str) -> str:
    """Its name where this host knows it; ``sacct`` tells the number."""
    number = scalars.number(uid)
    try:
        return "" if number is None else pwd.getpwuid(number).pw_name
    except (KeyError, OverflowError):
        return str(number)


def _add_step(last: dict[int, JobEnd | None], job_id: int, cpu: str, memory: str) -> None:
    """Memory is told of steps only; so is a job's CPU time where its own line says nothing."""
    whole = last.get(job_id)
    if whole is None:
        return
    peak = max(scalars.size(memory) or 0, whole.memory_peak_bytes or 0) or None
    seconds = whole.cpu_seconds if whole.cpu_seconds is not None else scalars.duration(cpu)
    last[job_id] = replace(whole, memory_peak_bytes=peak, cpu_seconds=seconds)


def read_jobcomp(path: Path, job_ids: Iterable[int]) -> list[JobEnd]:
    """The last ends of jobs by the file of ``jobcomp/filetxt``, as far as it goes back.

    Raises ``SlurmUnavailable`` where it can't be read.
    """
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _JOBCOMP_TAIL_BYTES))
            content = file.read().decode("utf-8", "replace")
    except OSError as error:
        raise SlurmUnavailable(
            f"{path}: {error.strerror}: ends of jobs are read from it (JobCompLoc); let the "
            "manager's user read it, or keep accounts by slurmdbd"
        ) from error
    return ends_of_jobcomp(content, job_ids)


def ends_of_jobcomp(content: str, job_ids: Iterable[int]) -> list[JobEnd]:
    """As ``read_jobcomp``, of the file's content."""
    wanted = set(job_ids)
    last: dict[int, JobEnd] = {}
    for line in content.split("\n"):
        if not line.startswith("JobId="):
            continue
        match = _JOBCOMP_LINE.fullmatch(line)
        if match is None or int(match["job"]) not in wanted or match["state"] not in ENDED:
            continue
        code, signal = scalars.exit_status(match["exit"])
        last[int(match["job"])] = JobEnd(
            job_id=int(match["job"]),
            state=match["state"],
            exit_code=code,
            signal=signal,
            start_time=scalars.local_time(match["start"]),
            end_time=scalars.local_time(match["end"]),
            nodes=expand(match["nodes"]),
        )
    return [last[job_id] for job_id in sorted(last)]


def end_of_job(job: SlurmJob) -> JobEnd | None:
    """The end of a job that the controller still holds; ``None`` where it has not ended."""
    if job.state not in ENDED or job.flags & {"COMPLETING", "REQUEUED"}:
        return None
    return JobEnd(
        job_id=job.job_id,
        state=job.state,
        exit_code=job.exit_code,
        signal=job.signal,
        start_time=job.start_time,
        end_time=job.end_time,
        nodes=job.nodes,
    )
