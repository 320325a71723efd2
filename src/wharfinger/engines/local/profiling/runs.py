"""Runs of a copy: each under a supervisor and in cgroups, in a sandbox.

Called by ``session``. A copy's writes lie in the plan's upper layers and go with it; its output and
records lie in a run directory, which ``cleanup`` finds after a crash.
"""

import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from wharfinger.engines.local.checking import cannot_run
from wharfinger.engines.local.profiling.cleanup import clear_run
from wharfinger.engines.local.profiling.job import Lifeline, ProfilingJob
from wharfinger.engines.supervised.loads import LOAD_ALLOCATION
from wharfinger.engines.supervised.machine import limits
from wharfinger.engines.supervised.records import StartRecord, create_run
from wharfinger.engines.supervised.run import SupervisedTree, cpu_file
from wharfinger.errors import EngineFault, OutOfSpace
from wharfinger.host.accounts import UserAccount, other_account
from wharfinger.host.cgroups import Group
from wharfinger.host.environment import environment_of
from wharfinger.host.processes import children_of, descendants, has_ended
from wharfinger.host.reports import describe_failed_start, last_line
from wharfinger.host.run_dir import ExitRecord, read_run
from wharfinger.host.sandbox import SandboxOutcome, SandboxReport, clean_up, read_report, sandboxed
from wharfinger.host.supervisor import Supervisor, request_stop
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.workload import Workload, WorkloadType
from wharfinger.monitor.counters import cpu_seconds, io_bytes
from wharfinger.profiling.steps import RunFailed

BEGIN_SECONDS = 20.0
"""For a sandbox to be set up and the program's exec, at a small share of a busy CPU."""
END_SECONDS = 10.0
MAX_WORDS = 400
"""Characters of a copy's last line that are shown."""

AGAIN = 'while "$@"; do :; done'
"""A load generator is started again when it has come to its end, but not when it has failed."""
HELD = f'go=; trap go=1 USR1; until [ "$go" ]; do sleep 0.05; done; trap - USR1; {AGAIN}'
"""One whose copy has first to be ready: it waits for a signal."""


class SandboxedRun(SupervisedTree):
    """One start of the copy, until :meth:`clear` ends it; ``pidfd`` is readable once it is over."""

    def __init__(
        self, job: ProfilingJob, run_dir: Path, start: StartRecord, supervisor: Supervisor
    ) -> None:
        super().__init__(run_dir, start)
        self.pidfd = self._pidfd = supervisor.pidfd
        self._job = job
        self._supervisor = supervisor
        self._init = 0
        self.mark()

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

    def mark(self) -> None:
        """Measure its use of CPUs and devices from now on."""
        self._marked = self._looked = time.monotonic()
        self._cpu_seconds, self._io_bytes = self._read_cpu_seconds(), self._read_io_bytes()

    def used_cpus(self) -> float | None:
        """CPUs that it used since the last call or mark (``in_its_cpus``); ``None`` = unknown."""
        before, looked = self._cpu_seconds, self._looked
        self._cpu_seconds, self._looked = self._read_cpu_seconds(), time.monotonic()
        if before is None or self._cpu_seconds is None:
            return None
        used = (self._cpu_seconds - before) / (self._looked - looked)
        placement = self.start.placement
        asked = 0 if placement is None else placement.allocation.cpu_millicpus
        return in_its_cpus(used, asked, self._job.server.server.cpu_millicpus)

    def io_bytes_per_second(self) -> float | None:
        """To and from devices, of all processes since the mark; ``None`` = unknown."""
        if not (moved := self._read_io_bytes()):
            return None
        total = sum(max(0, count - self._io_bytes.get(pid, 0)) for pid, count in moved.items())
        return total / (time.monotonic() - self._marked)

    def _read_cpu_seconds(self) -> float | None:
        return cpu_seconds(cpu_file(self.group), self._supervisor.pid)

    def _read_io_bytes(self) -> dict[int, int]:
        return io_bytes(descendants(self._supervisor.pid))

    def set_cpu(self, cpu_millicpus: int) -> None:
        """Give it another allocation of CPU; raises ``RunFailed``."""
        server = self._job.server
        allocation = Allocation(cpu_millicpus, self._job.plan.memory_bytes)
        start = replace(self.start, placement=Placement(server.server.name, allocation))
        try:
            critical = start.latency_critical
            wanted = limits(allocation, server, server.cpus, latency_critical=critical)
            refused = self.resize(start, wanted)
        except (EngineFault, OutOfSpace) as fault:
            raise RunFailed(str(fault)) from fault
        if refused is not None:
            raise RunFailed(refused.reason)
        self.start = start

    def end(self) -> tuple[float, float]:
        """Seconds from its exec to its end, and of CPU time, set-up of the sandbox included.

        To be called once it is over. Raises ``RunFailed`` if it did not end well by itself.
        """
        record = read_run(self.run_dir).exit
        report = read_report(self.run_dir / "report")
        if problem := self._problem(record, report):
            killed = self._out_of_memory()
            raise RunFailed(problem, self._job.plan.memory_bytes if killed else 0)
        return report.ran_seconds if report else 0.0, record.cpu_seconds if record else 0.0

    def _problem(self, record: ExitRecord | None, report: SandboxReport | None) -> str:
        if record is None:
            return "the copy's supervisor was killed"
        if report is None and record.failed_step is not None:
            return describe_failed_start(record, self._job.workload.run)
        if report is None:
            return self._out_of_memory() or f"the copy was killed{self._words()}"
        if report.outcome is SandboxOutcome.CAP:
            return (
                f"the copy was killed: it had written {report.used_bytes} bytes, "
                f"and {self._job.cap_bytes} is the most; use profile.mode: live"
            )
        if report.outcome is SandboxOutcome.FAULT:
            why = cannot_run(self._job.workload, report.reason)
            return why or f"the copy could not be run: {report.reason}"
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
        line = last_line(self.run_dir, MAX_WORDS)
        return f": {line}" if line else ""

    def release_load(self) -> bool:
        """Let a load generator that is held begin; whether it was there to be told."""
        for pid in children_of(self._init):
            with suppress(OSError):
                held = HELD.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
                if held and _catches(pid, signal.SIGUSR1):
                    os.kill(pid, signal.SIGUSR1)
                    return True
        return False

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


def _catches(pid: int, number: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def in_its_cpus(used_cpus: float, asked_millicpus: int, server_millicpus: int) -> float:
    """What it used, in CPUs as they are allocated.

    A server that is less than what is asked of it has smaller CPUs: a node of a cluster whose
    daemon runs in a group with less CPU than the cluster gives out.

    >>> in_its_cpus(0.25, 1000, 500), in_its_cpus(0.25, 1000, 2000)
    (0.5, 0.25)
    """
    return used_cpus * max(1.0, asked_millicpus / server_millicpus)


def start_copy(job: ProfilingJob, upper_base: Path, name: str, cpu_millicpus: int) -> SandboxedRun:
    """Start the copy; what its predecessor wrote is removed. Raises ``RunFailed``."""
    placement = Placement(job.plan.server, Allocation(cpu_millicpus, job.plan.memory_bytes))
    try:
        clean_up(upper_base)
        critical = job.workload.type is WorkloadType.LATENCY_CRITICAL
        start = job.machine.plan(name, placement, latency_critical=critical)
        run_dir = create_run(job.directory, name, start)
        # The sandbox needs our rights, and gives them up for the program.
        account = other_account(job.workload.run.user)
        run = replace(
            job.workload.run,
            command=_command(job, upper_base, run_dir, account),
            env={**environment_of(account), **job.workload.run.env},
            user="",
        )
        workload = replace(job.workload, run=run)
        supervisor = job.machine.launch(run_dir, workload, start, placement)
    except (EngineFault, OSError) as error:
        raise RunFailed(f"the copy can't be started: {error}") from error
    return SandboxedRun(job, run_dir, start, supervisor)


def _command(
    job: ProfilingJob, upper_base: Path, run_dir: Path, account: UserAccount | None
) -> tuple[str, ...]:
    load, load_group = job.workload.measure.load_command, Group({})
    if load is not None:
        placement = Placement(job.plan.server, LOAD_ALLOCATION)
        load_group = job.machine.create_run(job.directory, load_dir(run_dir).name, placement)
        held = holds_load(job.workload)
        load = ("/bin/sh", "-c", HELD if held else AGAIN, "sh", *load)
    return sandboxed(
        job.workload.run.command,
        working_directory=Path(job.workload.run.working_directory),
        upper_base=upper_base,
        cap_bytes=job.cap_bytes,
        report=run_dir / "report",
        load_command=load,
        load_output=load_output(run_dir) if load else None,
        load_cgroup_procs=load_group.procs_files,
        account=account,
    )


def holds_load(workload: Workload) -> bool:
    """Whether its load generator waits to be released; else it waits for a socket that listens."""
    measure, ready = workload.measure, workload.run.ready
    return measure.load_command is not None and (ready is not None or measure.http is not None)


def load_dir(run_dir: Path) -> Path:
    """Where a copy's load generator has its output, and the record of its cgroups."""
    return run_dir.with_name(f"{run_dir.name}.load")


def load_output(run_dir: Path) -> Path:
    """What a copy's load generator has said."""
    return load_dir(run_dir) / "load-output"


def wait_until_begun(copy: SandboxedRun, lifeline: Lifeline) -> int:
    """Process 1 of its namespaces, once the program has begun; raises ``RunFailed``."""
    waited = 0.0
    while not (init := copy.init_pid()) and not copy.over:
        if waited > BEGIN_SECONDS:
            raise RunFailed(f"the copy has not begun within {BEGIN_SECONDS:g} s")
        lifeline.wait(0.005)
        waited += 0.005
    return init
