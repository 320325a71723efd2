"""From an action to what the supervisor is told: environment, limits, CPUs.

Pure but for a look at our own environment. Called by the engine for a start and a resize.
"""

import hashlib
import os
import resource
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from wharfinger.core.actions import StartWorkload
from wharfinger.engines.local.records import StartRecord
from wharfinger.errors import EngineFault, InvalidInput
from wharfinger.host.cgroups import Group, Limits
from wharfinger.host.cgroups.claim import GroupClaim
from wharfinger.host.processes import KEY_VARIABLE
from wharfinger.host.supervisor import LaunchSpec
from wharfinger.host.topology import LocalServer
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.workload import Workload

WORKLOAD_VARIABLE = "WHARFINGER_WORKLOAD"
BEST_EFFORT_NICE = 19
MAX_PROCESSES = 4096
"""Processes and threads of one workload: the guard against fork bombs."""

_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

OpenFiles = tuple[int, int]
"""Soft and hard limit on open files."""


def environment(workload: Workload, key: str) -> dict[str, str]:
    """The program's whole environment: little of ours, all of the workload's, and its name."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {
        "PATH": _DEFAULT_PATH,
        **inherited,
        **workload.run.env,
        KEY_VARIABLE: key,
        WORKLOAD_VARIABLE: workload.name,
    }


def placement_of(
    action: StartWorkload, servers: Mapping[str, LocalServer]
) -> tuple[Placement, LocalServer]:
    """Where a start is to run.

    Raises:
        InvalidInput: On more than one server.
        EngineFault: There is no such server, now.
    """
    if len(action.placements) != 1:
        raise InvalidInput(f"{len(action.placements)} servers; the local engine starts on one")
    placement = action.placements[0]
    server = servers.get(placement.server)
    if server is None:
        raise EngineFault(f"this machine has no server {placement.server!r}", retryable=True)
    return placement, server


def limits(allocation: Allocation, server: LocalServer, cpus: tuple[int, ...]) -> Limits:
    """What the cgroups must hold it to.

    Raises:
        InvalidInput: An allocation that no kernel could keep.
    """
    try:
        return Limits(
            cpu_millicpus=allocation.cpu_millicpus,
            best_effort=allocation.best_effort,
            memory_bytes=allocation.memory_bytes,
            cpus=cpus,
            memory_nodes=server.memory_nodes,
            max_processes=MAX_PROCESSES,
        )
    except ValueError as error:
        raise InvalidInput(f"allocation on {server.server.name}: {error}") from error


def pace_of(start: StartRecord, group: Group) -> int | None:
    """The share of CPU time that the supervisor must see to, in thousandths of a CPU.

    ``None`` where that is not needed: a quota does it, it is best-effort work, or it may use all
    of its CPUs.

    Args:
        start: What it is given, and where.
        group: Its cgroups, as they are now.
    """
    if start.placement is None or start.placement.allocation.best_effort or group.has_quota:
        return None
    cpu_millicpus = start.placement.allocation.cpu_millicpus
    return cpu_millicpus if cpu_millicpus < len(start.cpus) * MILLICPUS_PER_CPU else None


def launch_spec(
    action: StartWorkload,
    group: Group,
    cpus: tuple[int, ...],
    *,
    log_cap_bytes: int,
    open_files: OpenFiles,
    cpu_millicpus: int | None = None,
) -> LaunchSpec:
    """All that the supervisor is told; ``cpu_millicpus`` as :func:`pace_of` has it."""
    run = action.workload.run
    best_effort = action.placements[0].allocation.best_effort
    return LaunchSpec(
        command=run.command,
        env=environment(action.workload, action.key),
        working_directory=Path(run.working_directory),
        stop_grace_seconds=run.stop_grace_seconds,
        log_cap_bytes=log_cap_bytes,
        cgroup_procs=group.procs_files,
        cgroup_kill=group.kill_file,
        freezer=group.freezer,
        cpus=cpus,
        nice=BEST_EFFORT_NICE if best_effort else 0,
        cpu_millicpus=cpu_millicpus,
        # The manager raises its own for the workloads that it watches; programs that use
        # select() fail in odd ways when they inherit that.
        rlimits=((resource.RLIMIT_NOFILE, *open_files),),
    )


@cache
def raise_open_files() -> OpenFiles:
    """Raise our own limit as far as we may; each workload takes some descriptors to watch.

    Returns:
        The limit before, which is what workloads are to have; the same at every call.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft, hard


def groups_of(plain: Mapping[str, str], key: str) -> Group:
    """The groups that a start record names.

    A record that was meddled with must not lead us to a neighbor's groups.
    """
    try:
        group = Group.from_plain(plain)
    except InvalidInput:
        return Group({})
    same = {path.name for path in group.directories} <= {key}
    return group if same else Group({})


def remove_former_bases(group: Group, claims: Iterable[GroupClaim]) -> None:
    """Remove the groups around one, when an earlier manager made them in another cgroup."""
    bases = {claim.base for claim in claims}
    for directory in group.directories:
        server, base = directory.parent, directory.parent.parent
        if base in bases:
            continue
        for former in (server, base):
            try:
                former.rmdir()
            except OSError:
                break  # Others of its runs are still there, or it is gone.


def identity_of_directory(directory: Path) -> str:
    """Names a manager's cgroups: the same for the same directory, and unlike any other's."""
    return hashlib.blake2s(os.fsencode(directory.resolve()), digest_size=6).hexdigest()
