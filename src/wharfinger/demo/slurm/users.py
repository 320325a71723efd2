"""The demo's workloads as users hand them to Slurm, with no manager: the baseline of its scheduler.

Each is a batch job with the CPUs that its user reserves. Slurm's own backfill scheduler places it;
a user of plain Slurm states no target and no platform, and best-effort work is a job like others,
handed in last. The clients of services are started by their user once the service runs.

It is asked the same questions as ``demo.cluster.DemoCluster``.
"""

import contextlib
import math
import re
import shlex
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from wharfinger.demo.slurm.cluster import SlurmCluster
from wharfinger.errors import EngineFault, Unavailable
from wharfinger.host.processes import measure_tree
from wharfinger.manifest import load_manifests
from wharfinger.model.workload import Workload

POLICY = "slurm-backfill"
END_SECONDS = 20.0
POLL_SECONDS = 0.1
_PHASES = {
    "PENDING": "queued",
    "CONFIGURING": "starting",
    "RUNNING": "running",
    "COMPLETING": "running",
    "SUSPENDED": "suspended",
    "COMPLETED": "completed",
    "CANCELLED": "revoked",
}
_FORMAT = "%i|%T|%V|%S|%e|%N|%r"
_ON_NODE = frozenset({"running", "suspended"})
_MIB = 1 << 20


@dataclass(slots=True)
class UserJob:
    """A job, and what its user watches.

    Attributes:
        handed_in_at: Seconds since 1970; Slurm tells whole seconds only.
        pid: Of its script; 0 = not started.
        cpu_seconds: As last seen.
        state: The last in Slurm's words.
    """

    job_id: int
    workload: Workload
    handed_in_at: float
    state: str = "PENDING"
    reason: str = ""
    nodes: tuple[str, ...] = ()
    pid: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    cpu_seconds: float = 0.0
    clients: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)


class SlurmUsers:
    """The users of a Slurm cluster that is up; ends as a context, the cluster goes on.

    Methods raise ``Unavailable`` or ``EngineFault`` where Slurm does not do what was asked.
    """

    def __init__(self, slurm: SlurmCluster, work: Path) -> None:
        self.policy = POLICY
        self.work = work
        self.cpu_numbers = sorted({cpu for nodes in slurm.node_sets for cpu in nodes.machine_cpus})
        self._slurm = slurm
        self._jobs: dict[str, UserJob] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(EngineFault, Unavailable):
            self.clear()

    def start(self) -> None:
        """Make the working directory; the cluster is up already."""
        self.work.mkdir(parents=True, exist_ok=True, mode=0o700)

    def submit(self, text: str) -> None:
        """Hand in each workload of the manifests: those with targets first."""
        workloads = load_manifests(text, working_directory=str(self.work))
        for workload in sorted(workloads, key=lambda each: each.best_effort):
            run = workload.run
            body = "\n".join(
                (
                    f"cd {shlex.quote(run.working_directory)} || exit 1",
                    *(f"export {name}={shlex.quote(value)}" for name, value in run.env.items()),
                    f"echo $$ > {shlex.quote(str(self._file(workload.name, 'pid')))}",
                    f"{shlex.join(run.command)}",
                    "status=$?",
                    f"date +%s.%N > {shlex.quote(str(self._file(workload.name, 'end')))}",
                    "exit $status",
                )
            )
            reservation = workload.reservation
            job_id = self._slurm.submit(
                body,
                f"--job-name={workload.name}",
                f"--cpus-per-task={max(1, math.ceil(reservation.cpu_millicpus / 1000))}",
                f"--mem={math.ceil(reservation.memory_bytes / _MIB)}",
                f"--output={self._file(workload.name, 'log')}",
                "--nodes=1",
                "--no-requeue",
            )
            self._jobs[workload.name] = UserJob(job_id, workload, time.time())

    def _file(self, name: str, kind: str) -> Path:
        return self.work / f"{name}.{kind}"

    # --- what they see ------------------------------------------------------------------------

    def workloads(self) -> list[dict[str, Any]]:
        """All jobs, in the form of the API's workloads."""
        self._look()
        return [self._row(job) for job in self._jobs.values()]

    def usage(self) -> Mapping[str, float | None]:
        """CPU seconds of those that run, by name."""
        return {name: job.cpu_seconds for name, job in self._jobs.items()}

    def events_after(self, _sequence: int) -> list[dict[str, Any]]:
        """None: Slurm explains nothing."""
        return []

    def output(self, name: str) -> str:
        """The end of a job's output."""
        file = self._file(name, "log")
        return file.read_bytes()[-4096:].decode(errors="replace") if file.exists() else ""

    def _look(self) -> None:
        lines = self._slurm.run("squeue", "-h", "-t", "all", "-o", _FORMAT)
        seen = {line.split("|")[0]: line.split("|") for line in lines.splitlines()}
        for job in self._jobs.values():
            if (words := seen.get(str(job.job_id))) is not None:
                job.state, job.reason = words[1], words[6]
                job.nodes = tuple(filter(None, words[5].split(",")))
            self._look_at_process(job)
            if job.clients is None and job.workload.measure.load_command:
                self._serve(job)

    def _look_at_process(self, job: UserJob) -> None:
        name = job.workload.name
        pid, end = self._file(name, "pid"), self._file(name, "end")
        if job.started_at is None and pid.exists() and (text := pid.read_text().strip()):
            job.pid, job.started_at = int(text), pid.stat().st_mtime
        if job.pid and job.ended_at is None:
            job.cpu_seconds = max(job.cpu_seconds, measure_tree(job.pid).cpu_seconds)
        if job.ended_at is None and end.exists() and (text := end.read_text().strip()):
            job.ended_at = float(text)
            job.exit_code = 0 if job.state in {"COMPLETED", "COMPLETING", "RUNNING"} else None

    def _serve(self, job: UserJob) -> None:
        """Start a service's clients once it listens."""
        command = job.workload.measure.load_command
        if job.state == "RUNNING" and command and "listening" in self.output(job.workload.name):
            log = self._file(job.workload.name, "load").open("wb")
            with log:
                job.clients = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.work
                )

    def _row(self, job: UserJob) -> dict[str, Any]:
        workload, phase = job.workload, _PHASES.get(job.state, "failed")
        if job.ended_at is not None and phase in _ON_NODE:
            phase = "completed"
        target = asdict(workload.target) if workload.target else None
        waited = (job.started_at or time.time()) - job.handed_in_at
        return {
            "name": workload.name,
            "type": str(workload.type),
            "phase": phase,
            "target": target,
            "predicted": None,
            "achieved": self._achieved(job),
            "met": None,
            "servers": list(job.nodes),
            "cpus": workload.reservation.cpu_millicpus / 1000,
            "starts": int(job.started_at is not None),
            "exit_code": job.exit_code if phase == "completed" else None,
            "reason": job.reason,
            "message": f"job {job.job_id} is {job.state.lower()}",
            "wait_seconds": max(0.0, waited),
            "submitted_at": _timestamp(job.handed_in_at),
            "started_at": _timestamp(job.started_at),
            "ended_at": _timestamp(job.ended_at),
            "key": str(job.job_id),
            "cpu_seconds": job.cpu_seconds,
        }

    def _achieved(self, job: UserJob) -> dict[str, float | None] | None:
        """Of a batch job that runs: when it would be complete at its mean rate so far."""
        workload, now = job.workload, job.ended_at or time.time()
        total, regex = workload.measure.progress_total, workload.measure.progress_regex
        if job.started_at is None or not total or not regex:
            return None
        found = re.findall(regex, self.output(workload.name))
        done = float(found[-1]) if found else 0.0
        if done <= 0:
            return None
        expected = job.started_at - job.handed_in_at + (now - job.started_at) * total / done
        return {"completion_seconds": expected}

    # --- the end ------------------------------------------------------------------------------

    def clear(self) -> None:
        """Cancel every job, and wait until all have ended."""
        for job in self._jobs.values():
            if job.clients is not None:
                job.clients.kill()
                job.clients.wait()
        if not self._jobs:
            return
        self._slurm.run("scancel", *(str(job.job_id) for job in self._jobs.values()))
        deadline = time.monotonic() + END_SECONDS
        while any(_PHASES.get(job.state) in (*_ON_NODE, "queued") for job in self._jobs.values()):
            if time.monotonic() > deadline:
                raise Unavailable("the jobs of Slurm's users do not end")
            time.sleep(POLL_SECONDS)
            self._look()
        self._jobs.clear()


def _timestamp(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()
