"""Arrays that users hand in: each task is a workload of one template, offered a few at a time.

All waiting tasks of an array are one record of Slurm's; a task becomes a job of its own when it
is changed. So an array of 10,000 costs one script read, and as many offers as the window has.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice

from wharfinger.core import events as ev
from wharfinger.engines.slurm.client.base import SlurmJob
from wharfinger.manifest.arrays import member_name
from wharfinger.model.workload import ArrayMember

MOST_TASKS = 64
"""Of one array that wait here at the same time; the next follow as these are let go."""
_PART = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_HANDLE = re.compile(r"job (\d+)(?:_(\d+))?")


def handle_of(job: SlurmJob) -> str:
    """What a job is offered as: it keeps that when Slurm gives a task a number of its own.

    >>> handle_of(SlurmJob(12, "w", "bob", "main", "PENDING", array_id=9, task_id=3))
    'job 9_3'
    """
    if job.task is not None:
        return f"job {job.array_id}_{job.task}"
    return f"job {job.job_id}"


def read_handle(handle: str) -> tuple[int, int | None]:
    """The number of a job, or of an array and its task; raises ``ValueError``."""
    match = _HANDLE.fullmatch(handle)
    if match is None:
        raise ValueError(handle)
    return int(match[1]), None if match[2] is None else int(match[2])


def is_array(job: SlurmJob) -> bool:
    """Whether it stands for several tasks of an array, which wait."""
    return bool(job.array_tasks) and job.task is None


def tasks_of(text: str) -> Iterator[int]:
    """The tasks that Slurm lists; what can't be read is none.

    >>> list(tasks_of("1,4-6,10-14:2%3")), list(tasks_of("1,x,..."))
    ([1, 4, 5, 6, 10, 12, 14], [1])
    """
    return chain.from_iterable(_ranges(text))


def _ranges(text: str) -> Iterator[range]:
    for part in text.partition("%")[0].split(","):
        match = _PART.fullmatch(part)
        if match is not None:
            first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
            yield range(first, last + 1, max(1, step))


def has_task(job: SlurmJob, array: int, task: int | None) -> bool:
    """Whether it stands for this task of this array, among others."""
    if task is None or job.array_id != array or not is_array(job):
        return False
    return any(task in part for part in _ranges(job.array_tasks))


def limit_of(text: str) -> int | None:
    """How many of the tasks that Slurm lists may run at a time; ``None`` = all.

    >>> limit_of("0-99%5"), limit_of("3"), limit_of("3%0")
    (5, None, None)
    """
    limit = text.partition("%")[2]
    return (int(limit) or None) if limit.isdecimal() else None


def offers_of(
    template: ev.WorkloadOffered, job: SlurmJob, at_once: int | None
) -> list[ev.WorkloadOffered]:
    """The offers of an array's first tasks, or of one task: members of one array.

    ``at_once`` of them may run at a time, which Slurm does not tell of a task that is a job.
    """
    if job.array_id is None:
        return [template]
    array = f"slurm-{job.array_id}"
    tasks = [job.task] if job.task is not None else tasks_of(job.array_tasks)
    return [
        replace(
            template,
            workload=replace(
                template.workload,
                name=member_name(array, task),
                array=ArrayMember(array, task, at_once),
            ),
            handle=f"job {job.array_id}_{task}",
        )
        for task in islice(tasks, MOST_TASKS)
    ]
