"""Runs of a copy: each under a supervisor and in cgroups, in a sandbox.

Called by ``session``. What a copy writes lies in the plan's upper layers and goes with it; its
output and records lie in a run directory of its own, which ``cleanup`` finds after a crash.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from wharfinger.engines.local.machine import groups_of, limits, pace_of
from wharfinger.engines.local.measuring import LOAD_ALLOCATION, cpu_file
from wharfinger.engines.local.profiling.cleanup import clear_run
from wharfinger.engines.local.profiling.job import Lifeline, ProfilingJob
from wharfinger.engines.local.records import StartRecord, create_run
from wharfinger.errors import EngineFault, OutOfSpace
from wharfinger.host.cgroups import Group
from wharfinger.host.pacing import request_pace
from wharfinger.host.processes import has_ended
from wharfinger.host.run_dir import ExitRecord, read_run
from wharfinger.host.sandbox import SandboxOutcome, SandboxReport, clean_up, read_report, sandboxed
from wharfinger.host.supervisor import Supervisor, read_output, request_stop
from wharfinger.host.tree import children_of, descendants
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.monitor.counters import cpu_seconds
from wharfinger.profiling.steps import RunFailed

BEGIN_SECONDS = 20.0
"""For a sandbox to be set up and the program's exec, at a small share of a busy CPU."""
END_SECONDS = 10.0
_LAST_WORDS_BYTES = 400

AGAIN = 'while "$@"; do :; done'
"""A load generator is started again when it has come to its end, but not when it has failed."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a copy ended by itself.

    Attributes:
        ran_seconds: From its exec to its end.
        cpu_seconds: Set-up of the sandbox included.
        problem: Why this is not the end of a whole run; empty where it is.
    """

    ran_seconds: float
    cpu_seconds: float
    problem: str


class SandboxedRun:
    """One start of the copy, until it is ended by :meth:`clear`."""

    def __init__(
        self, job: ProfilingJob, run_dir: Path, group: Group, supervisor: Supervisor
    ) -> None:
        self.run_dir = run_dir
        self.group = group
        self._job = job
        self._supervisor = supervisor
        self._init = 0

    @property
    def supervisor_pid(self) -> int:
        """Root of its tree of processes."""
        return self._supervisor.pid

    @property
    def pidfd(self) -> int:
        """Readable once it is over."""
        return self._supervisor.pidfd

    @property
    def over(self) -> bool:
        """Whether it has ended, and all of it."""
        return has_ended(self.pidfd)

    def init_pid(self) -> int:
        """Process 1 of its namespaces, once the program has been started; 0 = not yet."""
        if self._init:
            return self._init
        started = read_run(self.run_dir).started
        for init in children_of(started.process.pid) if started else ():
            if children_of(init):
                self._init = init
        return self._init

    def cpu_seconds(self) -> float | None:
        """CPU time of all of it until now."""
        return cpu_seconds(cpu_file(self.group), self.supervisor_pid)

    def io_bytes(self) -> dict[int, int] | None:
        """Bytes to and from devices until now, by process; ``None`` = the kernel does not say."""
        moved = {}
        for pid in descendants(self.supervisor_pid):
            with suppress(OSError, ValueError, KeyError):
                lines = Path(f"/proc/{pid}/io").read_text().splitlines()
                fields = dict(line.split(": ") for line in lines)
                moved[pid] = int(fields["read_bytes"]) + int(fields["write_bytes"])
        return moved or None

    def resize(self, cpu_millicpus: int) -> None:
        """Give it another allocation of CPU; raises ``RunFailed``."""
        allocation = Allocation(cpu_millicpus, self._job.plan.memory_bytes)
        server = self._job.server
        start = StartRecord(Placement(server.server.name, allocation), server.cpus)
        try:
            refused = self.group.resize(limits(allocation, server, server.cpus))
            if not self.group.has_quota:
                request_pace(self.run_dir, self.pidfd, pace_of(start, self.group))
        except (EngineFault, OutOfSpace) as fault:
            raise RunFailed(str(fault)) from fault
        if refused is not None:
            raise RunFailed(refused.reason)

    def end(self) -> RunEnd:
        """How it ended; to be asked once it is over."""
        record = read_run(self.run_dir).exit
        report = read_report(self.run_dir / "report")
        return RunEnd(
            report.ran_seconds if report else 0.0,
            record.cpu_seconds if record else 0.0,
            self._problem(record, report),
        )

    def _problem(self, record: ExitRecord | None, report: SandboxReport | None) -> str:
        if record is None:
            return "the copy's supervisor was killed"
        if report is None and record.failed_step is not None:
            return f"the copy could not be started: {record.failed_step.replace('_', ' ')}"
        if report is None:
            return self._out_of_memory() or f"the copy was killed{self._words()}"
        if report.outcome is SandboxOutcome.CAP:
            return (
                f"the copy was killed: it had written {report.used_bytes} bytes, "
                f"and {self._job.cap_bytes} is the most; use profile.mode: live"
            )
        if report.outcome is SandboxOutcome.FAULT:
            return f"the copy could not be run: {report.reason}"
        if report.outcome is SandboxOutcome.LOAD_ENDED:
            return f"the load generator ended with status {report.load_exit_code}{self._words()}"
        if report.exit_code == 0:
            return self._out_of_memory()
        how = "was killed" if report.exit_code is None else f"ended with status {report.exit_code}"
        return self._out_of_memory() or f"the copy {how}{self._words()}"

    def _out_of_memory(self) -> str:
        if not self.group.out_of_memory_kills():
            return ""
        return f"the copy needs more memory than {self._job.plan.memory_bytes} bytes"

    def _words(self) -> str:
        """The last line of its output."""
        data, _ = read_output(self.run_dir, -_LAST_WORDS_BYTES, _LAST_WORDS_BYTES)
        lines = data.decode(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    def kill(self) -> None:
        """End it, all of it, at once."""
        if not self.over:
            request_stop(self.run_dir, self.pidfd, 0.0)
            has_ended(self.pidfd, END_SECONDS)

    def clear(self) -> None:
        """End it and remove everything of it."""
        self.kill()
        self._supervisor.poll()
        self._supervisor.close()
        clear_run(self.run_dir)
        clear_run(load_dir(self.run_dir))


class SandboxedRuns:
    """Starts copies, with layers in ``upper_base`` that hold up to ``cap_bytes``; counts them."""

    def __init__(self, job: ProfilingJob, upper_base: Path, cap_bytes: int) -> None:
        self.started = 0
        self._job = replace(job, cap_bytes=cap_bytes)
        self._upper_base = upper_base

    def start(self, cpu_millicpus: int) -> SandboxedRun:
        """Start another one; what its predecessor wrote is gone.

        Raises:
            RunFailed: It can't be started.
        """
        self.started += 1
        job, name = self._job, f"{self._job.key}.p{self.started}"
        placement = Placement(job.plan.server, Allocation(cpu_millicpus, job.plan.memory_bytes))
        try:
            clean_up(self._upper_base)
            start = job.machine.plan(name, placement)
            run_dir = create_run(job.directory, name, start)
            run = replace(job.workload.run, command=self._command(name))
            workload, group = replace(job.workload, run=run), groups_of(start.groups, name)
            supervisor = job.machine.launch(run_dir, workload, start, group, placement)
        except (EngineFault, OSError) as error:
            raise RunFailed(f"the copy can't be started: {error}") from error
        return SandboxedRun(job, run_dir, group, supervisor)

    def _command(self, name: str) -> tuple[str, ...]:
        job = self._job
        load = job.workload.measure.load_command
        load_group, output = Group({}), None
        if load is not None:
            run_dir = load_dir(job.directory / name)
            placement = Placement(job.plan.server, LOAD_ALLOCATION)
            load_group = job.machine.create_run(job.directory, run_dir.name, placement)
            output = load_output(job.directory / name)
            load = ("/bin/sh", "-c", AGAIN, "sh", *load)
        return sandboxed(
            job.workload.run.command,
            working_directory=Path(job.workload.run.working_directory),
            upper_base=self._upper_base,
            cap_bytes=job.cap_bytes,
            report=job.directory / name / "report",
            load_command=load,
            load_output=output,
            load_cgroup_procs=load_group.procs_files,
        )


def load_dir(run_dir: Path) -> Path:
    """Where a copy's load generator has its output, and the record of its cgroups."""
    return run_dir.with_name(f"{run_dir.name}.load")


def load_output(run_dir: Path) -> Path:
    """What a copy's load generator has said."""
    return load_dir(run_dir) / "load-output"


def wait_until_begun(copy: SandboxedRun, lifeline: Lifeline) -> int:
    """Wait until the program has begun; process 1 of its namespaces.

    Raises:
        RunFailed: It has not.
    """
    waited = 0.0
    while not (init := copy.init_pid()) and not copy.over:
        if waited > BEGIN_SECONDS:
            raise RunFailed(f"the copy has not begun within {BEGIN_SECONDS:g} s")
        lifeline.wait(0.005)
        waited += 0.005
    return init
