"""Slurm by its own commands: the ``SlurmClient`` of every site."""

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, TypeVar

from wharfinger.engines.slurm.client import scalars, text
from wharfinger.engines.slurm.client.accounting import (
    end_of_job,
    ends_of_sacct,
    read_jobcomp,
    sacct_command,
)
from wharfinger.engines.slurm.client.base import (
    Accounting,
    JobEnd,
    Node,
    Partition,
    Site,
    SlurmJob,
)
from wharfinger.engines.slurm.client.commands import (
    DEFAULT_TIMEOUT_SECONDS,
    SlurmCommands,
    SlurmLacksJson,
)
from wharfinger.engines.slurm.client.hostlist import expand
from wharfinger.engines.slurm.client.records import (
    Poll,
    RawJob,
    RawNode,
    decode_jobs,
    decode_nodes,
    job_of,
    node_of,
)
from wharfinger.engines.slurm.client.versions import check_version, nodes_command, read_version
from wharfinger.errors import SlurmRefused, SlurmUnavailable

log = logging.getLogger(__name__)

MAX_IDS = 1000
"""Job ids in one call; a command line has room for more, a user's patience has not."""
_MAX_LINES = 64
"""Commands in one ``scontrol``, which has the same time limit as one alone."""
_SIGNAL_TIMEOUT_SECONDS = 5.0
_USAGE_TIMEOUT_SECONDS = 5.0  # It asks every node, and a look waits for it.
_OPTION = re.compile(r"[a-z][a-z0-9-]*")
_FIELD = re.compile(r"[A-Za-z]+")
_UNFIT = re.compile(r"[^!-~]|[\"'\\\\]")
_SIGNAL = re.compile(r"[A-Z0-9]+")

_Item = TypeVar("_Item")


class CommandClient:
    """One cluster's controller, asked by Slurm's commands.

    Args:
        environment: More for the commands' environment: ``SLURM_CONF`` names the cluster, ``PATH``
            where the commands are.
        timeout_seconds: How long one command may take.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        self._commands = SlurmCommands(environment, timeout_seconds)
        self._site: Site | None = None
        self._has_json = True
        self._jobs = jobs_poll()
        self._nodes = nodes_poll()
        self._listed: Sequence[SlurmJob] = ()
        self._tasks: Mapping[int, str] = {}

    def site(self) -> Site:
        """What holds while this controller runs; asked once and remembered."""
        if self._site is None:
            self._commands.check_configuration()
            self._site = site_of(self._commands.run("scontrol", "show", "config"))
        return self._site

    def nodes(self) -> Sequence[Node]:
        """Every node, by name. The very same object as the last call's if nothing changed."""
        command = nodes_command(self.site().version)
        if (answer := self._json(command)) is not None:
            with answer:
                return self._nodes.fold(answer)
        return self._nodes.take(text.nodes_of_text(self._commands.run(*text.NODES_COMMAND)))

    def jobs(self) -> Sequence[SlurmJob]:
        """Every job that the controller holds, by id. The same object if nothing changed."""
        self.site()  # refuses a version that is too old by name
        if (answer := self._json(["squeue", "--all", "--states=all", "--json"])) is not None:
            with answer:
                return self._listing(self._jobs.fold(answer))
        mark = text.new_mark()
        told = self._commands.run(*text.jobs_command(mark))
        figures = self._commands.run(*text.FIGURES_COMMAND)
        return self._listing(self._jobs.take(text.jobs_of_text(told, mark, figures)))

    def _listing(self, jobs: Sequence[SlurmJob]) -> Sequence[SlurmJob]:
        """The jobs; which of them are an array's last task is kept for ``_name``."""
        if jobs is not self._listed:
            self._listed = jobs
            self._tasks = {
                job.job_id: f"{job.array_id}_{job.task}"
                for job in jobs
                if job.array_id == job.job_id and job.task is not None
            }
        return jobs

    def _json(self, command: Sequence[str]) -> BinaryIO | None:
        """The answer; ``None`` = this Slurm has no JSON, as was found out by asking it once."""
        if self._has_json:
            try:
                return self._commands.open_answer(*command)
            except SlurmLacksJson as error:
                log.warning("%s; until then its text is read", error)
                self._has_json = False
        return None

    def partitions(self) -> Sequence[Partition]:
        """Every partition, by name."""
        return partitions_of(self._commands.run("scontrol", "--all", "-o", "show", "partition"))

    def ends(self, job_ids: Sequence[int]) -> Sequence[JobEnd]:
        """How those of the jobs that are known to have ended did; never a guess for another."""
        if not job_ids:
            return ()
        site = self.site()
        if site.accounting is Accounting.SLURMDBD:
            try:
                return self._ends_by_accounting(job_ids)
            except SlurmUnavailable:
                pass  # What the controller still holds of them is as true.
        return self._ends_by_controller(set(job_ids), site.jobcomp_path)

    def _ends_by_accounting(self, job_ids: Sequence[int]) -> list[JobEnd]:
        answers = (self._commands.run(*sacct_command(ids)) for ids in _in_parts(job_ids))
        wanted = set(job_ids)
        return [end for answer in answers for end in ends_of_sacct(answer) if end.job_id in wanted]

    def _ends_by_controller(self, wanted: set[int], jobcomp_path: str) -> list[JobEnd]:
        held = {job.job_id: job for job in self.jobs() if job.job_id in wanted}
        ends = {job_id: end for job_id, job in held.items() if (end := end_of_job(job))}
        # What the controller holds is not over by an older record: it may run again.
        rest = wanted - held.keys()
        if rest and jobcomp_path:
            ends |= {end.job_id: end for end in read_jobcomp(Path(jobcomp_path), rest)}
        return [ends[job_id] for job_id in sorted(ends)]

    def submit(self, script: str, options: Mapping[str, str]) -> int:
        """Hand in a batch script, held, and return its id."""
        if not script.startswith("#!"):
            raise SlurmRefused("a batch script begins with '#!' and its interpreter")
        words = ["--hold", "--parsable", *_options(options)]
        answer = self._commands.run("sbatch", *words, stdin=os.fsencode(script))
        job_id = scalars.number(answer.decode("ascii", "replace").strip().partition(";")[0])
        if not job_id:
            raise SlurmUnavailable("sbatch: told no job id; look for the job before trying again")
        return job_id

    def update(self, job_id: int, fields: Mapping[str, str], task: int | None = None) -> None:
        """Change fields of a job, or of one task of an array, by ``scontrol``'s names."""
        name = self._name(job_id) if task is None else f"{job_id}_{task}"
        self._commands.run("scontrol", "update", f"JobId={name}", *_assignments(fields))

    def update_all(self, changes: Mapping[int, Mapping[str, str]]) -> None:
        """As ``update``, of several jobs by id, whose values have no blanks and no quotes."""
        words = {job_id: _assignments(fields) for job_id, fields in changes.items()}
        if unfit := [word for each in words.values() for word in each if _UNFIT.search(word)]:
            raise SlurmRefused(f"scontrol: {unfit[0]!r} can't stand among other updates")
        self._by_lines(
            [" ".join(("update", f"JobId={self._name(n)}", *each)) for n, each in words.items()]
        )

    def _by_lines(self, lines: Sequence[str]) -> None:
        """Commands of ``scontrol``, by as few processes as its time limit allows.

        What one refuses does not keep the next from being made.
        """
        refused: SlurmRefused | None = None
        for part in _in_parts(lines, _MAX_LINES):
            try:
                self._commands.run_all("scontrol", part)
            except SlurmRefused as error:
                refused = refused or error
        if refused is not None:
            raise refused

    def _name(self, job_id: int) -> str:
        """How commands call a job: by its number alone the last task of an array is all of it."""
        return self._tasks.get(job_id, str(job_id))

    def release(self, job_ids: Sequence[int]) -> None:
        """Let held jobs start."""
        self._change(job_ids, "release")

    def hold(self, job_ids: Sequence[int]) -> None:
        """Keep waiting jobs from starting."""
        self._change(job_ids, "hold")

    def suspend(self, job_ids: Sequence[int]) -> None:
        """Stop running jobs; they keep their nodes."""
        self._change(job_ids, "suspend")

    def resume(self, job_ids: Sequence[int]) -> None:
        """Let suspended jobs go on."""
        self._change(job_ids, "resume")

    def requeue(self, job_ids: Sequence[int]) -> None:
        """Take running jobs off and put them back in the queue, held, under the same id."""
        self._change(job_ids, "requeuehold")

    def cancel(self, job_ids: Sequence[int]) -> None:
        """End jobs, waiting or running. One that has ended or is unknown is no error."""
        for ids in _in_parts(job_ids):
            self._commands.run_for_those_left("scancel", *map(self._name, ids))

    def signal(self, job_ids: Sequence[int], name: str) -> None:
        """Send a signal to the batch scripts, not to their steps."""
        if not _SIGNAL.fullmatch(name):
            raise SlurmRefused(f"scancel: {name!r} is no signal's name, as USR1")
        for ids in _in_parts(job_ids):
            words = ["--batch", f"--signal={name}", *map(self._name, ids)]
            # Of a job that has just been requeued scancel would try again for a minute.
            self._commands.run_for_those_left(
                "scancel", *words, timeout_seconds=_SIGNAL_TIMEOUT_SECONDS
            )

    def script(self, job_id: int) -> str:
        """The batch script of a job, as its user handed it in."""
        answer = self._commands.run("scontrol", "write", "batch_script", str(job_id), "-")
        return answer.decode("utf-8", "surrogateescape")

    def scripts(self, job_ids: Sequence[int]) -> Mapping[int, str]:
        """The batch scripts of those of the jobs of which Slurm gives it."""
        with TemporaryDirectory(prefix="wharfinger-scripts-") as folder:
            files = {job_id: Path(folder) / str(job_id) for job_id in job_ids}
            with suppress(SlurmRefused):  # Of one that is gone; the others are there.
                lines = [f"write batch_script {n} {file}" for n, file in files.items()]
                self._by_lines(lines)
            return {
                job_id: file.read_bytes().decode("utf-8", "surrogateescape")
                for job_id, file in files.items()
                if file.exists()
            }

    def srun(self) -> tuple[str, Mapping[str, str]]:
        """The path of ``srun``, and what it needs in its environment to find the cluster."""
        return self._commands.path("srun"), self._commands.cluster()

    def usage(self, job_ids: Sequence[int]) -> Mapping[int, tuple[float, int]]:
        """CPU seconds and peak memory in bytes so far, of those running jobs that are measured."""
        used: dict[int, tuple[float, int]] = {}
        for ids in _in_parts(job_ids):
            listed = ",".join(map(str, ids))
            words = ["--noheader", "--parsable2", "--noconvert", "--allsteps", f"--jobs={listed}"]
            answer = self._commands.run_for_what_is_known(
                "sstat",
                *words,
                "--format=JobID,AveCPU,NTasks,MaxRSS",
                timeout_seconds=_USAGE_TIMEOUT_SECONDS,
            )
            used |= usage_of(answer)
        return used

    def _change(self, job_ids: Sequence[int], verb: str) -> None:
        for ids in _in_parts(job_ids):
            self._commands.run("scontrol", verb, ",".join(map(self._name, ids)))


def jobs_poll() -> Poll[RawJob, SlurmJob]:
    """What ``squeue --json`` tells, folded from poll to poll."""
    return Poll(decode_jobs, job_of, "job_id")


def nodes_poll() -> Poll[RawNode, Node]:
    """What ``nodes_command`` tells, folded from poll to poll."""
    return Poll(decode_nodes, node_of, "name")


def _in_parts(whole: Sequence[_Item], most: int = MAX_IDS) -> Iterator[Sequence[_Item]]:
    return (whole[at : at + most] for at in range(0, len(whole), most))


def _assignments(fields: Mapping[str, str]) -> list[str]:
    for name in fields:
        if not _FIELD.fullmatch(name):
            raise SlurmRefused(f"scontrol: {name!r} is no field of a job")
    return [f"{name}={value}" for name, value in fields.items()]


def _options(options: Mapping[str, str]) -> Iterator[str]:
    for name, value in options.items():
        if not _OPTION.fullmatch(name):
            raise SlurmRefused(f"sbatch: {name!r} is no option's long name, as job-name")
        yield f"--{name}={value}" if value else f"--{name}"


def site_of(answer: bytes) -> Site:
    """The lines of ``scontrol show config``, which an administrator wrote."""
    lines = (line.partition("=") for line in answer.decode("utf-8", "replace").splitlines())
    config = {name.strip(): value.strip() for name, equals, value in lines if equals}
    version = read_version(config.get("SLURM_VERSION", ""))
    if version is None:
        raise SlurmUnavailable("scontrol show config: tells no SLURM_VERSION; see what it prints")
    check_version(version)
    jobcomp = config.get("JobCompType", "") == "jobcomp/filetxt"
    accounting = Accounting.JOBCOMP if jobcomp else Accounting.NONE
    if config.get("AccountingStorageType", "") == "accounting_storage/slurmdbd":
        accounting = Accounting.SLURMDBD
    age = config.get("MinJobAge", "").split()
    return Site(
        version=version,
        cluster=config.get("ClusterName", ""),
        accounting=accounting,
        min_job_age_seconds=float(scalars.number(age[0]) or 0) if age else 0.0,
        jobcomp_path=config.get("JobCompLoc", "") if jobcomp else "",
        select_type=config.get("SelectType", ""),
        proctrack_type=config.get("ProctrackType", ""),
        slurm_user=config.get("SlurmUser", "").partition("(")[0],
    )


def partitions_of(answer: bytes) -> list[Partition]:
    """The lines of ``scontrol -o show partition``, which an administrator wrote."""
    partitions = []
    for line in answer.decode("utf-8", "replace").splitlines():
        fields = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
        if not fields.get("PartitionName"):
            continue
        partitions.append(
            Partition(
                name=scalars.text(fields["PartitionName"]),
                nodes=expand(fields.get("Nodes", "")),
                is_default=fields.get("Default") == "YES",
                accepts=fields.get("State") == "UP",
                max_time_seconds=scalars.duration(fields.get("MaxTime")),
            )
        )
    return sorted(partitions, key=lambda partition: partition.name)


def usage_of(answer: bytes) -> dict[int, tuple[float, int]]:
    """The lines of ``sstat``: CPU of all steps together, memory of the largest."""
    used: dict[int, tuple[float, int]] = {}
    for line in answer.decode("utf-8", "replace").splitlines():
        fields = line.split("|")
        job_id = scalars.number(fields[0].partition(".")[0])
        if len(fields) != 4 or not job_id:
            continue
        cpu, tasks, peak = fields[1], scalars.number(fields[2]), scalars.size(fields[3])
        seconds, most = used.get(job_id, (0.0, 0))
        spent = (scalars.duration(cpu) or 0.0) * (tasks or 1)
        used[job_id] = (seconds + spent, max(most, peak or 0))
    return used
