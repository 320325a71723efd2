"""Finds what this machine's cgroups let us control, and makes the workloads' groups there.

In each usable hierarchy everything lies beneath the manager's own group::

    <own group>/wharfinger-<identity>/<server>/<key>

No limit of a group that we did not make is ever changed. The local engine calls ``discover``
once, ``create`` per start, and keeps ``Group.to_plain`` beside the start, so that a later
manager, perhaps in another cgroup, finds the group again.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from wharfinger.errors import EngineFault, InvalidInput
from wharfinger.host.cgroups.claim import (
    GroupClaim,
    Refused,
    claim_v1,
    claim_v2,
    enable,
    mend_v2,
    release,
)
from wharfinger.host.cgroups.files import (
    make_directory,
    read_text,
    remove_directory,
    write_value,
)
from wharfinger.host.cgroups.group import Group
from wharfinger.host.cgroups.hierarchy import (
    CGROUP_FILE,
    MOUNTINFO_FILE,
    Hierarchy,
    find_hierarchies,
)
from wharfinger.host.cgroups.limits import (
    UNIFIED,
    Limits,
    shares_of,
    weight_of,
)
from wharfinger.model.platform import MILLICPUS_PER_CPU, Condition, ConditionKind

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_V1_CONTROLLERS = frozenset({"cpu", "cpuset", "memory", "pids"})


class Means(StrEnum):
    """What can be done to a workload through cgroups."""

    QUOTA = "quota"
    WEIGHT = "weight"
    MEMORY = "memory"
    CPUSET = "cpuset"
    PROCESSES = "processes"
    KILL = "kill"
    FREEZER = "freezer"


# The file that must be in a group for it, with the controller, on v1 and on v2. What v2 does
# without a controller is under UNIFIED.
_FILES = {
    Means.QUOTA: {1: ("cpu", "cpu.cfs_quota_us"), 2: ("cpu", "cpu.max")},
    Means.WEIGHT: {1: ("cpu", "cpu.shares"), 2: ("cpu", "cpu.weight")},
    Means.MEMORY: {1: ("memory", "memory.limit_in_bytes"), 2: ("memory", "memory.max")},
    Means.CPUSET: {1: ("cpuset", "cpuset.cpus"), 2: ("cpuset", "cpuset.cpus")},
    Means.PROCESSES: {1: ("pids", "pids.max"), 2: ("pids", "pids.max")},
    Means.KILL: {2: (UNIFIED, "cgroup.kill")},
    Means.FREEZER: {1: ("freezer", "freezer.state"), 2: (UNIFIED, "cgroup.freeze")},
}

_PACED = "no CPU quota: workloads keep their share by being stopped and continued"
_CONDITIONS = (
    (ConditionKind.NO_CPU_QUOTA, _PACED, (Means.QUOTA,)),
    (ConditionKind.NO_CPU_WEIGHT, "CPU shares can't be set", (Means.WEIGHT,)),
    (ConditionKind.NO_CPU_SET, "workloads can't be bound to CPUs by cgroup", (Means.CPUSET,)),
    (ConditionKind.NO_MEMORY_LIMIT, "memory use can't be limited", (Means.MEMORY,)),
    (ConditionKind.NO_TREE_KILL, "there is no cgroup kill", (Means.KILL, Means.FREEZER)),
)


@dataclass(frozen=True, slots=True)
class CgroupControl:
    """What can be controlled here, and where. Made by ``discover``.

    Attributes:
        identity: The manager's; part of every group's path.
        claims: Our base groups.
        refusals: For each controller that was refused, why.
        means: What can be done.
        cpu_count: CPUs that our base groups weigh as much as.
        pid: The manager's process, which ``close`` moves back.
    """

    identity: str
    claims: tuple[GroupClaim, ...]
    refusals: Mapping[str, Refused]
    means: frozenset[Means]
    cpu_count: int
    pid: int

    @property
    def has_quota(self) -> bool:
        """CPU time can be limited in thousandths of a CPU."""
        return Means.QUOTA in self.means

    @property
    def has_memory(self) -> bool:
        """Memory can be limited."""
        return Means.MEMORY in self.means

    @property
    def has_process_limit(self) -> bool:
        """The number of processes can be limited."""
        return Means.PROCESSES in self.means

    @property
    def has_kill(self) -> bool:
        """The kernel kills a whole group at one word."""
        return Means.KILL in self.means

    @property
    def has_freezer(self) -> bool:
        """A whole group can be suspended."""
        return Means.FREEZER in self.means

    def conditions(self) -> tuple[Condition, ...]:
        """What is missing, why, and what an operator can do about it."""
        return tuple(
            Condition(kind, f"{what}: {self._why(needed[0])}")
            for kind, what, needed in _CONDITIONS
            if not self.means.intersection(needed)
        )

    def _why(self, means: Means) -> str:
        refused = [
            self.refusals[controller].reason
            for controller, _ in _FILES[means].values()
            if controller in self.refusals
        ]
        if refused:
            return refused[0]
        controller, file = _FILES[means][2]
        if any(controller in claim.controllers for claim in self.claims):
            return f"this kernel has no {file}; use one that was built with it"
        what = "cgroup v2" if controller == UNIFIED else f"the cgroup controller {controller!r}"
        return f"{what} is not there for this process; {mend_v2()}"

    def create(self, server: str, key: str, limits: Limits) -> Group:
        """Make a workload's group with its limits, or find it there and set them again.

        Nothing is left behind when it fails.

        Raises:
            InvalidInput: A name that no group can have.
            EngineFault: The kernel refuses.
        """
        group = self.group(server, key)
        try:
            for claim in self.claims:
                self._prepare_server(claim, server)
                make_directory(claim.base / server / key)
            self._inherit_cpuset(group)
            refused = group.resize(limits)
        except EngineFault:
            group.remove(timeout_seconds=0)
            raise
        if refused is not None:  # only where the group was there and is in use
            raise EngineFault(f"{server}/{key}: {refused.reason}")
        return group

    def group(self, server: str, key: str) -> Group:
        """The group of that name, whether or not it is there.

        Raises:
            InvalidInput: A name that no group can have.
        """
        _check_name("server", server)
        _check_name("key", key)
        return Group(
            {
                controller: claim.base / server / key
                for claim in self.claims
                for controller in sorted(claim.controllers)
            }
        )

    def remove_server(self, server: str) -> bool:
        """Remove a server's groups that are empty; whether none is left."""
        _check_name("server", server)
        gone = [remove_directory(claim.base / server) for claim in self.claims]
        return all(gone)

    def close(self) -> None:
        """Remove our base groups where they are empty; what has workloads stays."""
        for claim in self.claims:
            release(claim, pid=self.pid)

    def _prepare_server(self, claim: GroupClaim, server: str) -> None:
        directory = claim.base / server
        make_directory(directory)
        if claim.version == 2:
            enable(directory, sorted(claim.controllers - {UNIFIED}))
        weigh(claim, directory, self.cpu_count)

    def _inherit_cpuset(self, group: Group) -> None:
        """v1: no process may enter a group without CPUs and memory nodes of its own."""
        for claim in self.claims:
            if claim.version == 1 and "cpuset" in claim.controllers:
                leaf = group.paths["cpuset"]
                for directory in (claim.base, leaf.parent, leaf):
                    _copy_cpuset(claim.parent, directory)


def weigh(claim: GroupClaim, directory: Path, cpu_count: int) -> None:
    """Make a group of ours weigh as much as one ordinary process on each CPU.

    All workloads together would otherwise weigh as much as a single process of our neighbors.

    Raises:
        EngineFault: The kernel refuses.
    """
    if "cpu" not in claim.controllers:
        return
    millicpus = cpu_count * MILLICPUS_PER_CPU
    if claim.version == 2:
        write_value(directory / "cpu.weight", str(weight_of(millicpus)))
    else:
        write_value(directory / "cpu.shares", str(shares_of(millicpus)))


def _copy_cpuset(source: Path, group: Path) -> None:
    for file in ("cpuset.cpus", "cpuset.mems"):
        value = read_text(source / file) or ""
        if read_text(group / file) != value:
            write_value(group / file, value)


def _check_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        raise InvalidInput(
            f"{what} {name!r} can't name a group; use 1 to 200 of the characters A-Z a-z 0-9 . _ -"
        )


def discover(
    identity: str,
    *,
    cgroup_file: Path = CGROUP_FILE,
    mountinfo_file: Path = MOUNTINFO_FILE,
    cpu_count: int | None = None,
    pid: int | None = None,
) -> CgroupControl:
    """Find what can be controlled, and make our base group in each hierarchy that has a say.

    What is missing is said by ``conditions``; nothing missing is an error.

    Args:
        identity: The manager's, unique on this machine and the same after a restart.
        cgroup_file: Where this process stands, as ``/proc/self/cgroup``.
        mountinfo_file: What is mounted, as ``/proc/self/mountinfo``.
        cpu_count: CPUs of all servers together; ``None`` = those this process may run on.
        pid: The process that is the manager; ``None`` = this one.

    Raises:
        InvalidInput: An identity that can't be part of a group's name.
    """
    _check_name("identity", identity)
    pid = os.getpid() if pid is None else pid
    cpu_count = len(os.sched_getaffinity(0)) if cpu_count is None else cpu_count
    claims, refusals = _claim_all(find_hierarchies(cgroup_file, mountinfo_file), identity, pid)
    kept = []
    for claim in claims:
        try:
            weigh(claim, claim.base, cpu_count)
            kept.append(claim)
        except EngineFault as fault:
            refusals.update(dict.fromkeys(claim.controllers, Refused(str(fault))))
            release(claim, pid=pid)
    means = frozenset(means for means in Means if any(_holds(claim, means) for claim in kept))
    return CgroupControl(identity, tuple(kept), refusals, means, cpu_count, pid)


def _claim_all(
    hierarchies: tuple[Hierarchy, ...], identity: str, pid: int
) -> tuple[list[GroupClaim], dict[str, Refused]]:
    """v2 first: what it can do need not be done by v1's freezer and cpuacct as well."""
    claims: list[GroupClaim] = []
    refusals: dict[str, Refused] = {}
    wanted = set(_V1_CONTROLLERS) | {"cpuacct", "freezer"}
    for hierarchy in hierarchies:
        if hierarchy.version != 2:
            continue
        claim, refused = claim_v2(hierarchy, identity, pid=pid)
        refusals.update(refused)
        if isinstance(claim, Refused):
            refusals[UNIFIED] = claim
            continue
        claims.append(claim)
        if (claim.base / "cgroup.kill").exists():
            wanted.discard("freezer")
        if (claim.base / "cpu.stat").exists():
            wanted.discard("cpuacct")
    for hierarchy in hierarchies:
        if hierarchy.version != 1 or not wanted & hierarchy.controllers:
            continue
        claimed = claim_v1(hierarchy, identity)
        if isinstance(claimed, Refused):
            refusals.update(dict.fromkeys(hierarchy.controllers, claimed))
        else:
            claims.append(claimed)
    return claims, refusals


def _holds(claim: GroupClaim, means: Means) -> bool:
    controller, file = _FILES[means].get(claim.version, ("", ""))
    return controller in claim.controllers and (claim.base / file).exists()
