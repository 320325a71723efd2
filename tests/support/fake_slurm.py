"""A Slurm without Slurm: jobs are processes of this machine, so that scripts really run.

It promises what ``SlurmClient`` does, and forgets what it is told to forget. Nodes are made up.
"""

import os
import pwd
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.support import wait_until
from tests.support.live import kill_processes_with, processes_with
from wharfinger.engines.slurm.client.base import (
    Accounting,
    JobEnd,
    Node,
    Partition,
    Site,
    SlurmJob,
)
from wharfinger.engines.slurm.user_arrays import tasks_of
from wharfinger.errors import EngineFault, SlurmRefused

GIBIBYTE = 1 << 30
OWN_USER = pwd.getpwuid(os.geteuid()).pw_name
"""Who submits."""


def node(name: str, *, cpus: int = 4, memory_bytes: int = 8 * GIBIBYTE, **more: object) -> Node:
    """A node that is idle; its jobs are processes of this machine."""
    plain = Node(name, frozenset({"idle"}), "", cpus, 0, memory_bytes, 0, (), ("main",), "x86_64")
    return replace(plain, **{"address": "127.0.0.1", **more})


_SRUN = """#!/bin/sh
nodes= beside=
while :; do
    case $1 in
        --nodelist=*) nodes=${1#--nodelist=};;
        --overlap) beside=1;;
        --*) ;;
        *) break;;
    esac
    shift
done
exec 3<&0
pids= status=0
# Of one that has just begun, the group may not be there yet, nor be noted.
trap 'for pid in $pids $!; do kill -9 -$pid || kill -9 $pid; done 2>/dev/null; exit 143' TERM
for node in $(echo $nodes | tr , ' '); do
    SLURMD_NODENAME=$node setsid "$@" <&3 &
    pids="$pids $!"
    [ "$beside" ] || echo $! >$FAKE_STEPS.$node
done
for pid in $pids; do wait $pid || status=$?; done
exit $status
"""
"""What Slurm starts on each node of a step, here on this machine."""
_LIVE = {"RUNNING", "PENDING"}


def _end_of(job: SlurmJob) -> JobEnd:
    return JobEnd(job.job_id, job.state, job.exit_code, job.signal, nodes=job.nodes)


@dataclass(slots=True)
class _Job:
    job: SlurmJob
    script: str
    options: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None


@dataclass
class FakeSlurm:
    """One controller; any number of clients may be this same object.

    Attributes:
        away: It does not answer.
        lose_answers: So many submissions have their effect, and no answer.
        before: Called before each call, with its name.
        calls: The names of all calls.
    """

    directory: Path
    nodes_by_name: dict[str, Node] = field(
        default_factory=lambda: {name: node(name) for name in ("n1", "n2")}
    )
    away: bool = False
    lose_answers: int = 0
    held_back: bool = False
    forbids_updates: bool = False
    accounting: Accounting = Accounting.SLURMDBD
    version: tuple[int, int] = (22, 5)
    max_time_seconds: float | None = None
    before: Callable[[str], None] = lambda name: None
    calls: list[str] = field(default_factory=list)
    _jobs: dict[int, _Job] = field(default_factory=dict)
    _forgotten: dict[int, JobEnd] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def _called(self, name: str) -> None:
        self.before(name)
        with self._lock:
            self.calls.append(name)
            if self.away:
                raise EngineFault("Unable to contact slurm controller", retryable=True)

    # --- what an administrator, or chance, does -------------------------------------------------

    def foreign(
        self,
        comment: str = "",
        *,
        server: str = "",
        cpus: int = 1,
        memory: int = 0,
        user: str = "bob",
    ) -> int:
        """A job of somebody else: held, or running on a node in name only."""
        with self._lock:
            number = self._next()
            job = SlurmJob(number, "foreign", user, "main", "PENDING", comment=comment, held=True)
            if server:
                job = replace(
                    job, state="RUNNING", held=False, nodes=(server,), cpus=cpus,
                    memory_bytes=memory,
                )  # fmt: skip
            self._jobs[number] = _Job(job, "#!/bin/sh\n", {})
            return number

    def hand_in(self, script: str, comment: str, **more: Any) -> int:
        """A user's job, held."""
        with self._lock:
            number = self._next()
            job = SlurmJob(number, "script", "bob", "main", "PENDING", comment=comment, held=True)
            job = replace(job, memory_bytes=64 << 20, **more)
            if job.array_tasks:
                job = replace(job, array_id=number)
            self._jobs[number] = _Job(job, script, {})
            return number

    def end(self, job_id: int, state: str, *, kill: bool = True) -> None:
        """End a job in this state, as Slurm does it."""
        with self._lock:
            job = self._jobs[job_id]
            if job.process is not None and kill:
                self._kill_all(job_id, job.process)
                job.process = None
            job.job = replace(job.job, state=state, exit_code=0, signal=None)

    def _commands(self) -> Path:
        commands = self.directory / "commands"
        commands.mkdir(exist_ok=True)
        if not (commands / "srun").exists():
            (commands / "srun").write_text(_SRUN)
            (commands / "srun").chmod(0o700)
        return commands

    def _steps(self, job_id: int) -> Path:
        return self.directory / f"steps.{job_id}"

    def _kill_all(self, job_id: int, script: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):
            os.killpg(script.pid, signal.SIGKILL)
        script.wait()
        # Also a step that has just begun, and that nobody has noted.
        mark = f"FAKE_STEPS={self._steps(job_id)}\0"
        while processes_with(mark):
            kill_processes_with(mark)
            time.sleep(0.01)
        for file in self.directory.glob(f"steps.{job_id}.*"):
            file.unlink()

    def _kill_step(self, job_id: int, node: str) -> None:
        file = Path(f"{self._steps(job_id)}.{node}")
        wait_until(lambda: file.exists() and file.read_text().endswith("\n"), what=file.name)
        with suppress(ProcessLookupError):
            os.killpg(int(file.read_text()), signal.SIGKILL)
        file.unlink()

    def lose(self, job_id: int, node: str) -> None:
        """A job is no more on this node of its several; without its last it has failed."""
        with self._lock:
            job = self._jobs[job_id]
            left = tuple(name for name in job.job.nodes if name != node)
            if not left:
                self.end(job_id, "NODE_FAIL")
                return
            self._kill_step(job_id, node)
            job.job = replace(job.job, nodes=left, node_count=len(left))

    def requeue_behind(self, job_id: int) -> None:
        """Requeue a job as an administrator does."""
        self.end(job_id, "RUNNING")
        with self._lock:
            job = self._jobs[job_id]
            job.job = replace(job.job, state="PENDING", nodes=(), restarts=1)

    def forget(self, job_id: int, *, accounted: bool = False) -> None:
        """The controller no longer knows a job; accounting knows how it ended, if told so.

        The number of the newest job is given out again.
        """
        with self._lock:
            self._update(self._jobs[job_id])
            job = self._jobs.pop(job_id)
            if accounted:
                self._forgotten[job_id] = _end_of(job.job)
            if job.process is not None:
                self._kill_all(job_id, job.process)

    def let_begin(self, job_id: int) -> None:
        """Run a job that was held back, without a look at whether it is held."""
        with self._lock:
            self._run(self._jobs[job_id])

    def options_of(self, job_id: int) -> Mapping[str, str]:
        """With which a job was submitted."""
        return self._jobs[job_id].options

    def own(self) -> dict[str, list[SlurmJob]]:
        """Jobs of any engine by the key in their comment."""
        found: dict[str, list[SlurmJob]] = {}
        for job in self.jobs_now():
            if job.comment.startswith("wharfinger-run "):
                found.setdefault(job.comment.split()[2], []).append(job)
        return found

    def close(self) -> None:
        """End everything."""
        for job_id in list(self._jobs):
            self.forget(job_id)

    # --- the client -----------------------------------------------------------------------------

    def site(self) -> Site:
        self._called("site")
        return Site(self.version, "fake", self.accounting, 300.0)

    def partitions(self) -> Sequence[Partition]:
        self._called("partitions")
        names = sorted({p for n in self.nodes_by_name.values() for p in n.partitions})
        return [
            Partition(
                name,
                tuple(n.name for n in self.nodes_by_name.values() if name in n.partitions),
                name == "main",
                accepts=True,
                max_time_seconds=self.max_time_seconds,
            )
            for name in names
        ]

    def nodes(self) -> Sequence[Node]:
        self._called("nodes")
        running = [job for job in self.jobs_now() if job.state == "RUNNING"]
        found = []
        for known in self.nodes_by_name.values():
            here = [job for job in running if known.name in job.nodes]
            found.append(
                replace(
                    known,
                    cpus_allocated=sum(job.cpus // len(job.nodes) for job in here),
                    memory_allocated_bytes=sum(job.memory_bytes or 0 for job in here),
                )
            )
        return found

    def jobs(self) -> Sequence[SlurmJob]:
        self._called("jobs")
        return self.jobs_now()

    def jobs_now(self) -> list[SlurmJob]:
        with self._lock:
            for job in self._jobs.values():
                self._update(job)
            return [job.job for job in self._jobs.values()]

    def _update(self, job: _Job) -> None:
        if job.process is None or (status := job.process.poll()) is None:
            return
        job.process = None
        if job.job.state not in _LIVE:
            return
        state = "COMPLETED" if status == 0 else "FAILED"
        code, by = (status, None) if status >= 0 else (None, -status)
        job.job = replace(job.job, state=state, exit_code=code, signal=by)

    def ends(self, job_ids: Sequence[int]) -> Sequence[JobEnd]:
        self._called("ends")
        known = {job.job_id: job for job in self.jobs_now()}
        ended = {j: _end_of(job) for j, job in known.items() if job.state not in _LIVE}
        ended = {**self._forgotten, **ended}
        return [ended[j] for j in job_ids if j in ended]

    def _next(self) -> int:
        return max(self._jobs, default=0) + 1

    def submit(self, script: str, options: Mapping[str, str]) -> int:
        self._called("submit")
        nodes = tuple(options["nodelist"].split(","))
        if not set(nodes) <= set(self.nodes_by_name):
            raise EngineFault("sbatch: Invalid node name specified")
        with self._lock:
            number = self._next()
            job = SlurmJob(
                number,
                options["job-name"],
                options.get("uid") or OWN_USER,
                options["partition"],
                "PENDING",
                "JobHeldUser",
                comment=options["comment"],
                held=True,
                required_nodes=nodes,
                node_count=len(nodes),
                cpus=int(options["cpus-per-task"]) * len(nodes),
                memory_bytes=int(options["mem"].removesuffix("M")) << 20,
            )
            self._jobs[number] = _Job(job, script, options)
            if self.lose_answers:
                self.lose_answers -= 1
                raise EngineFault("sbatch: timed out", retryable=True)
            return number

    def release(self, job_ids: Sequence[int]) -> None:
        self._called("release")
        with self._lock:
            for job_id in job_ids:
                job = self._jobs.get(job_id)
                if job is not None and job.job.state == "CANCELLED":
                    raise SlurmRefused("scontrol: Job/step already completing or completed")
                if job is not None and job.job.held:
                    job.job = replace(job.job, held=False, state_reason="Resources")
                    if not self.held_back:
                        self._run(job)

    def _run(self, job: _Job) -> None:
        path = self.directory / f"script.{job.job.job_id}"
        path.write_text(job.script)
        commands = self._commands()
        steps = self._steps(job.job.job_id)
        environment = {
            **os.environ,
            "PATH": f"{commands}:{os.environ['PATH']}",
            "FAKE_STEPS": str(steps),
            "SLURMD_NODENAME": (*job.job.required_nodes, "anywhere")[0],
        }
        output = Path(job.options.get("output", "/dev/null")).open("wb")  # noqa: SIM115
        with output:
            job.process = subprocess.Popen(
                ["/bin/sh", path], stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                start_new_session=True, cwd="/", env=environment,
            )  # fmt: skip
        job.job = replace(job.job, state="RUNNING", nodes=job.job.required_nodes, start_time=1.0)
        if job.job.task is not None:
            job.job = replace(job.job, task_id=job.job.task, array_tasks="")

    def update(self, job_id: int, fields: Mapping[str, str], task: int | None = None) -> None:
        self._called("update")
        if self.forbids_updates:
            raise SlurmRefused("scontrol: Access/permission denied")
        with self._lock:
            job = self._jobs[job_id] if task is None else self._split(job_id, task)
            for name, value in fields.items():
                match name:
                    case "Comment":
                        job.job = replace(job.job, comment=value)
                    case "ReqNodeList":
                        job.job = replace(
                            job.job, required_nodes=tuple(value.split(",")) if value else ()
                        )
                    case "NumCPUs":
                        job.job = replace(job.job, cpus=int(value))

    def update_all(self, changes: Mapping[int, Mapping[str, str]]) -> None:
        self._called("update_all")
        if self.forbids_updates or changes.keys() - self._jobs.keys():
            raise SlurmRefused("scontrol: Access/permission denied")
        for job_id, fields in changes.items():
            self.update(job_id, fields)

    def _split(self, array: int, task: int) -> _Job:
        """Make a task that waits in its array a job of its own; the last keeps its number."""
        whole = self._jobs[array]
        tasks, _, limit = whole.job.array_tasks.partition("%")
        left = [t for t in tasks_of(tasks) if t != task]
        whole_range = left[-1] - left[0] + 1 == len(left) > 1
        listed = f"{left[0]}-{left[-1]}" if whole_range else ",".join(map(str, left))
        number = self._next()
        alone = replace(whole.job, job_id=number, task_id=task, array_tasks="")
        self._jobs[number] = _Job(alone, whole.script, whole.options)
        text = f"{listed}%{limit}" if limit else listed
        whole.job = replace(whole.job, array_tasks=text)
        return self._jobs[number]

    def hold(self, job_ids: Sequence[int]) -> None:
        self._called("hold")
        with self._lock:
            for job_id in job_ids:
                if job_id not in self._jobs:
                    raise SlurmRefused("scontrol: Invalid job id specified")
                if self._jobs[job_id].job.state != "PENDING":
                    raise SlurmRefused("scontrol: Job is no longer pending execution")
                self._jobs[job_id].job = replace(self._jobs[job_id].job, held=True)

    def cancel(self, job_ids: Sequence[int]) -> None:
        self._called("cancel")
        with self._lock:
            for job_id in job_ids:
                job = self._jobs.get(job_id)
                if job is None:
                    continue
                self._update(job)
                if job.job.state in _LIVE:
                    if job.process is not None:
                        job.process.send_signal(signal.SIGTERM)
                    job.job = replace(job.job, state="CANCELLED", exit_code=0, signal=15)

    def signal(self, job_ids: Sequence[int], name: str) -> None:
        self._called("signal")
        with self._lock:
            for job_id in job_ids:
                job = self._jobs.get(job_id)
                if job is not None and job.process is not None:
                    job.process.send_signal(getattr(signal, f"SIG{name}"))

    def suspend(self, job_ids: Sequence[int]) -> None:
        self._called("suspend")

    def resume(self, job_ids: Sequence[int]) -> None:
        self._called("resume")

    def requeue(self, job_ids: Sequence[int]) -> None:
        self._called("requeue")

    def script(self, job_id: int) -> str:
        self._called("script")
        return self._jobs[job_id].script

    def scripts(self, job_ids: Sequence[int]) -> Mapping[int, str]:
        return {job_id: self.script(job_id) for job_id in job_ids if job_id in self._jobs}

    def srun(self) -> tuple[str, Mapping[str, str]]:
        return str(self._commands() / "srun"), {}

    def usage(self, job_ids: Sequence[int]) -> Mapping[int, tuple[float, int]]:
        self._called("usage")
        return {}
