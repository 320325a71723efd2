"""This machine as servers and cgroups: how a start is planned, and launched under a supervisor.

Called by the engine for starts, and by the profiler's process for its runs.
"""

import hashlib
import os
import resource
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from wharfinger.engines.supervised.records import StartRecord, create_run
from wharfinger.errors import InvalidInput
from wharfinger.host.accounts import other_account
from wharfinger.host.cgroups import CgroupControl, Group, Limits
from wharfinger.host.environment import environment
from wharfinger.host.processes import marker_of
from wharfinger.host.supervisor import LaunchSpec, Supervisor, launch, signal_named
from wharfinger.host.topology import LocalServer
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.workload import Workload

BEST_EFFORT_NICE = 19
MAX_PROCESSES = 4096
"""Processes and threads of one workload: the guard against fork bombs."""


@dataclass(slots=True)
class Launcher:
    """What this machine gives to runs; ``open_files`` are each program's soft and hard limit."""

    servers: dict[str, LocalServer]
    control: CgroupControl
    open_files: tuple[int, int]
    log_cap_bytes: int

    def only(self, server: str, *, log_cap_bytes: int) -> "Launcher":
        """With one server; raises ``KeyError`` if there is none of that name."""
        return replace(self, servers={server: self.servers[server]}, log_cap_bytes=log_cap_bytes)

    def plan(
        self, key: str, placement: Placement, *, latency_critical: bool = False
    ) -> StartRecord:
        """Where a run is to be. Write it down before anything is made, so that it is found again.

        Raises ``InvalidInput`` for an allocation or a key that the kernel could not keep, and
        ``KeyError`` if there is no such server.
        """
        server = self.servers[placement.server]
        limits(placement.allocation, server, server.cpus)
        group = self.control.group(
            placement.server, key, best_effort=placement.allocation.best_effort
        )
        return StartRecord(placement, server.cpus, group.to_plain(), latency_critical)

    def create_run(self, directory: Path, key: str, placement: Placement) -> Group:
        """Make a run directory, and then the cgroups that it names; raises as :meth:`launch`."""
        start = self.plan(key, placement)
        create_run(directory, key, start)
        return self._prepare(key, start, placement)

    def launch(
        self,
        run_dir: Path,
        workload: Workload,
        start: StartRecord,
        placement: Placement,
        *,
        paced: bool = True,
    ) -> Supervisor:
        """Launch a run whose directory, named after its key, is there, in its cgroups.

        ``start`` is as planned, perhaps by an earlier engine; ``placement`` has its allocation now.
        If ``paced``, its supervisor paces it where there is no quota. Raises ``InvalidInput`` for
        an allocation that no kernel could keep, ``EngineFault`` if the kernel refuses.
        """
        group = self._prepare(run_dir.name, start, placement)
        spec = self.spec_of(run_dir, workload, start, placement, group)
        pace = pace_of(start, group) if paced else None
        return launch(run_dir, replace(spec, cpu_millicpus=pace))

    def spec_of(
        self,
        run_dir: Path,
        workload: Workload,
        start: StartRecord,
        placement: Placement,
        group: Group,
    ) -> LaunchSpec:
        """How its program is started in its groups, unpaced; raises ``InvalidInput``."""
        return LaunchSpec(
            command=workload.run.command,
            env={**environment(workload), **marker_of(run_dir)},
            working_directory=Path(workload.run.working_directory),
            stop_grace_seconds=workload.run.stop_grace_seconds,
            log_cap_bytes=self.log_cap_bytes,
            cgroup_procs=group.procs_files,
            cgroup_kill=group.kill_file,
            freezer=group.freezer,
            cpus=start.cpus,
            nice=BEST_EFFORT_NICE if placement.allocation.best_effort else 0,
            # The manager raises its own for the workloads that it watches; programs that use
            # select() fail in odd ways when they inherit that.
            rlimits=((resource.RLIMIT_NOFILE, *self.open_files),),
            account=other_account(workload.run.user),
            stop_signal=signal_named(workload.run.stop_signal),
        )

    def _prepare(self, key: str, start: StartRecord, placement: Placement) -> Group:
        """Its cgroups, in our own base, or where an engine in another cgroup has made them."""
        wanted = limits(
            placement.allocation,
            self.servers[placement.server],
            start.cpus,
            latency_critical=start.latency_critical,
        )
        server = start.placement.server if start.placement else ""
        group = groups_of(start.groups, key)
        if group == self.control.group(server, key, best_effort=wanted.best_effort):
            return self.control.create(server, key, wanted)
        group.resize(wanted)
        return group

    def remove_former_bases(self, group: Group) -> None:
        """Remove the groups around one, when an earlier manager made them in another cgroup."""
        bases = {base for claim in self.control.claims for base in (claim.base, claim.idle)}
        for directory in group.directories:
            server, base = directory.parent, directory.parent.parent
            if base in bases:
                continue
            with suppress(OSError):  # Others of its runs are still there, or it is gone.
                server.rmdir()
                base.rmdir()


def limits(
    allocation: Allocation,
    server: LocalServer,
    cpus: tuple[int, ...],
    *,
    latency_critical: bool = False,
) -> Limits:
    """The cgroups' limits; raises ``InvalidInput`` for an allocation that no kernel could keep.

    No quota is wider than the server's own, which the kernel would refuse below a group with less.
    """
    try:
        return Limits(
            cpu_millicpus=min(allocation.limit_millicpus or 0, server.server.cpu_millicpus),
            best_effort=allocation.best_effort,
            memory_bytes=allocation.memory_bytes,
            cpus=cpus,
            memory_nodes=server.memory_nodes,
            max_processes=MAX_PROCESSES,
            latency_critical=latency_critical,
        )
    except ValueError as error:
        raise InvalidInput(f"allocation on {server.server.name}: {error}") from error


def pace_of(start: StartRecord, group: Group) -> int | None:
    """The share of CPU time that the supervisor must enforce, in thousandths of a CPU.

    ``None`` where a quota does so, for best-effort work without a ceiling, and where it may use all
    of its CPUs.
    """
    if start.placement is None or group.has_quota:
        return None
    limit, most = start.placement.allocation.limit_millicpus, len(start.cpus) * MILLICPUS_PER_CPU
    return limit if limit is not None and limit < most else None


@cache
def raise_open_files() -> tuple[int, int]:
    """The limits on open files for workloads; our own, which watches them all, is raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft, hard


def groups_of(plain: Mapping[str, str], key: str) -> Group:
    """The groups in a start record; none in one that was meddled with to name a neighbor's."""
    try:
        group = Group.from_plain(plain)
    except InvalidInput:
        return Group({})
    same = {path.name for path in group.directories} <= {key}
    return group if same else Group({})


def identity_of_directory(directory: Path) -> str:
    """Names a manager's cgroups: the same for the same directory, and unlike any other's."""
    return hashlib.blake2s(os.fsencode(directory.resolve()), digest_size=6).hexdigest()
