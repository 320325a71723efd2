"""What the Slurm engine asks of Slurm, and the values that it gets.

``commands`` implements it by Slurm's own commands. Every call blocks for as long as Slurm takes,
up to a time limit, so the engine makes them on a thread of their own.

Times are in seconds since 1970, sizes in bytes. ``None`` is what Slurm does not know or say.
Text that users wrote (names, comments) is data: of any length, with any character in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import msgspec


class Accounting(StrEnum):
    """Where a site keeps what became of ended jobs."""

    SLURMDBD = "slurmdbd"
    """``sacct``: everything, for as long as the site keeps it."""
    JOBCOMP = "jobcomp"
    """``jobcomp/filetxt``: state and exit status, for as long as the file is kept."""
    NONE = "none"
    """Only what the controller still holds of an ended job, which ``MinJobAge`` limits."""


@dataclass(frozen=True, slots=True)
class Site:
    """What does not change while a controller runs.

    Attributes:
        version: As in ``(22, 5)``.
        min_job_age_seconds: How long the controller still holds an ended job.
        jobcomp_path: The file of ``jobcomp/filetxt``; empty = another kind, or none.
        select_type: ``select/cons_tres`` gives out CPUs, ``select/linear`` whole nodes.
        slurm_user: As whom the controller runs; it and root may alter every job.
    """

    version: tuple[int, int]
    cluster: str
    accounting: Accounting
    min_job_age_seconds: float
    jobcomp_path: str = ""
    select_type: str = ""
    proctrack_type: str = ""
    slurm_user: str = ""


# A poll makes thousands of these two: a frozen dataclass takes five times as long to make, and the
# garbage collector need not look into what holds only texts and numbers.
class Node(msgspec.Struct, frozen=True, gc=False):
    """A node of the cluster.

    Attributes:
        states: Lower-case words, the base state and its flags, as ``{"mixed", "drain"}``.
        reason: Why an administrator, or Slurm itself, took it from service; empty = did not.
        memory_allocated_bytes: What jobs hold, not what they use.
    """

    name: str
    states: frozenset[str]
    reason: str
    cpus: int
    cpus_allocated: int
    memory_bytes: int
    memory_allocated_bytes: int
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    architecture: str = ""
    weight: int = 1
    sockets: int = 1
    cores_per_socket: int = 1
    threads_per_core: int = 1
    boot_time: float | None = None
    address: str = ""


class SlurmJob(msgspec.Struct, frozen=True, gc=False):
    """A job that the controller holds: waiting, running, or ended a short while ago.

    Attributes:
        array_id: The array that it is of, and ``task_id`` which of it; ``None`` = of none, or all
            of an array that waits, whose tasks ``array_tasks`` then tells (``"0-99%5"``).
        state: The base state in Slurm's words, as ``"PENDING"``.
        flags: What Slurm says beside the state, as ``{"COMPLETING"}``.
        state_reason: Why it is in this state, one word, as ``"JobHeldUser"``.
        held: Whether it waits for a release, by its user's or an administrator's wish.
        nodes: Where it runs or ran; empty = not started yet.
        required_nodes: Where alone it may start, as ``update`` or its user said.
        cpus: Of all nodes together.
        memory_bytes: On each of its nodes; ``None`` = all of a node, or not said.
        priority: Slurm's own; zero = held.
        start_time: When it started; of a waiting job when Slurm expects that.
        time_limit_seconds: ``None`` = unlimited.
        restarts: How often it was requeued.
        exit_code, signal: Of the batch script; ``None`` before its end.
        working_directory: Of the batch script; empty = not said.
    """

    job_id: int
    name: str
    user: str
    partition: str
    state: str
    state_reason: str = ""
    flags: frozenset[str] = frozenset()
    comment: str = ""
    held: bool = False
    array_id: int | None = None
    task_id: int | None = None
    array_tasks: str = ""
    nodes: tuple[str, ...] = ()
    required_nodes: tuple[str, ...] = ()
    node_count: int = 1
    cpus: int = 1
    memory_bytes: int | None = None
    priority: int = 0
    features: str = ""
    account: str = ""
    qos: str = ""
    licenses: str = ""
    reservation: str = ""
    dependency: str = ""
    submit_time: float | None = None
    start_time: float | None = None
    end_time: float | None = None
    time_limit_seconds: float | None = None
    restarts: int = 0
    exit_code: int | None = None
    signal: int | None = None
    working_directory: str = ""

    @property
    def task(self) -> int | None:
        """Which task of its array it is, also as the last that waits; ``None`` = several, or none.

        >>> SlurmJob(9, "w", "bob", "main", "PENDING", array_id=9, array_tasks="3%2").task
        3
        """
        if self.array_id is None or self.task_id is not None:
            return self.task_id
        last = self.array_tasks.partition("%")[0]
        return int(last) if last.isdecimal() else None


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended, by accounting or by what the controller still holds.

    Attributes:
        state: Base state in Slurm's words: ``"COMPLETED"``, ``"FAILED"``, ``"CANCELLED"``,
            ``"TIMEOUT"``, ``"NODE_FAIL"``, ``"PREEMPTED"``, ``"OUT_OF_MEMORY"``, ...
        signal: What killed the batch script; ``None`` = nothing did.
        cancelled_by: The user, as far as known; empty = nobody, or not known.
    """

    job_id: int
    state: str
    exit_code: int | None
    signal: int | None
    start_time: float | None = None
    end_time: float | None = None
    cpu_seconds: float | None = None
    memory_peak_bytes: int | None = None
    nodes: tuple[str, ...] = ()
    cancelled_by: str = ""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: a queue over a set of nodes, with its limits.

    Attributes:
        accepts: Whether jobs may be submitted to it and started from it.
        max_time_seconds: ``None`` = unlimited.
    """

    name: str
    nodes: tuple[str, ...]
    is_default: bool
    accepts: bool
    max_time_seconds: float | None = None


class SlurmClient(Protocol):
    """One cluster's controller.

    Every call may raise ``SlurmUnavailable`` (no answer now; the same call may succeed later) or
    ``SlurmRefused`` (an answer, and it is no). After ``SlurmUnavailable`` a call that changes
    something may have had its effect: look before it is made again.
    """

    def site(self) -> Site:
        """What holds while this controller runs; asked once and remembered."""

    def nodes(self) -> Sequence[Node]:
        """Every node, by name. The very same object as the last call's if nothing changed."""

    def jobs(self) -> Sequence[SlurmJob]:
        """Every job that the controller holds, by id. The same object if nothing changed."""

    def partitions(self) -> Sequence[Partition]:
        """Every partition, by name."""

    def ends(self, job_ids: Sequence[int]) -> Sequence[JobEnd]:
        """How those of the jobs that are known to have ended did; never a guess for another.

        A requeued job has one end, its last; one that waits or runs again has none.
        """

    def submit(self, script: str, options: Mapping[str, str]) -> int:
        """Hand in a batch script, held, and return its id.

        ``options`` are those of ``sbatch`` by their long names, without dashes; an empty value
        is an option without one. The script goes by standard input.
        """

    def update(self, job_id: int, fields: Mapping[str, str], task: int | None = None) -> None:
        """Change fields of a job, by ``scontrol``'s names, as ``{"ReqNodeList": "n1"}``.

        Of an array that waits only ``task``, if that is given: it becomes a job of its own.
        """

    def update_all(self, changes: Mapping[int, Mapping[str, str]]) -> None:
        """As ``update``, of several jobs by id, whose values have no blanks and no quotes.

        ``SlurmRefused`` does not tell which; the others may have been changed.
        """

    def release(self, job_ids: Sequence[int]) -> None:
        """Let held jobs start."""

    def hold(self, job_ids: Sequence[int]) -> None:
        """Keep waiting jobs from starting."""

    def cancel(self, job_ids: Sequence[int]) -> None:
        """End jobs, waiting or running. One that has ended or is unknown is no error."""

    def signal(self, job_ids: Sequence[int], name: str) -> None:
        """Send a signal (``"USR1"``) to the batch scripts, not to their steps.

        It may be lost without a word, as just after ``resume``: who needs its effect looks for it.
        """

    def suspend(self, job_ids: Sequence[int]) -> None:
        """Stop running jobs; they keep their nodes."""

    def resume(self, job_ids: Sequence[int]) -> None:
        """Let suspended jobs go on."""

    def requeue(self, job_ids: Sequence[int]) -> None:
        """Take running jobs off and put them back in the queue, held, under the same id.

        Slurm lets them start again after two minutes at the earliest, unless their ``StartTime``
        is updated to ``now``.
        """

    def script(self, job_id: int) -> str:
        """The batch script of a job, as its user handed it in."""

    def scripts(self, job_ids: Sequence[int]) -> Mapping[int, str]:
        """The batch scripts of those of the jobs of which Slurm gives it."""

    def srun(self) -> tuple[str, Mapping[str, str]]:
        """The path of ``srun``, and what it needs in its environment to find the cluster.

        Raises ``SlurmRefused``: it is not installed. Does not ask Slurm.
        """

    def usage(self, job_ids: Sequence[int]) -> Mapping[int, tuple[float, int]]:
        """CPU seconds and peak memory in bytes so far, of those running jobs that are measured."""
