"""Finds what this machine's cgroups let us control, and makes the workloads' groups there.

Each is ``<own group>/wharfinger-<identity>/<server>/<key>`` in each usable hierarchy; that of
best-effort work is below a base group of its own, which yields to all other processes of the
machine. No limit of a group that we did not make is ever changed. The local engine calls
``discover`` once, ``create`` per start, and stores ``Group.to_plain``, so that a later manager, in
any cgroup, finds the group again.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wharfinger.errors import EngineFault, InvalidInput
from wharfinger.host.cgroups.claim import (
    CONTROLLERS,
    GroupClaim,
    Refused,
    claim_v1,
    claim_v2,
    enable,
    mend_v2,
    release,
)
from wharfinger.host.cgroups.files import make_directory, read_text, write_value
from wharfinger.host.cgroups.group import Group
from wharfinger.host.cgroups.hierarchy import (
    CGROUP_FILE,
    MOUNTINFO_FILE,
    Hierarchy,
    find_hierarchies,
)
from wharfinger.host.cgroups.limits import FILES, UNIFIED, Limits, Means, set_weight
from wharfinger.model.platform import MILLICPUS_PER_CPU, Condition, ConditionKind

PROMISED_WEIGHT = 10
"""Of the CPU time that workloads are promised, over that of one other process a CPU.

Promises of up to ten elevenths of a CPU hold beside such a process.
"""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
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
    """What can be controlled here, and where; made by ``discover``.

    ``cpu_count`` is what our base groups weigh as, ``pid`` the process that ``close`` moves back.
    """

    identity: str
    claims: tuple[GroupClaim, ...]
    refusals: Mapping[str, Refused]
    means: frozenset[Means]
    cpu_count: int
    pid: int

    @property
    def has_memory(self) -> bool:
        """Memory can be limited."""
        return Means.MEMORY in self.means

    def conditions(self) -> tuple[Condition, ...]:
        """What is missing, why, and what an operator can do about it."""
        return tuple(
            Condition(kind, f"{what}: {self._why(needed[0])}")
            for kind, what, needed in _CONDITIONS
            if not self.means.intersection(needed)
        )

    def _why(self, means: Means) -> str:
        for controller, _ in FILES[means].values():
            if controller in self.refusals:
                return self.refusals[controller].reason
        controller, file = FILES[means][2]
        if any(controller in claim.controllers for claim in self.claims):
            return f"this kernel has no {file}; use one that was built with it"
        what = "cgroup v2" if controller == UNIFIED else f"the cgroup controller {controller!r}"
        return f"{what} is not there for this process; {mend_v2()}"

    def create(self, server: str, key: str, limits: Limits) -> Group:
        """Make a workload's group with its limits, or set them on an existing one.

        After a failure nothing is left behind. ``InvalidInput``: no group can have that name.
        """
        best_effort = limits.best_effort
        group = self.group(server, key, best_effort=best_effort)
        try:
            for claim in self.claims:
                base = claim.of(best_effort=best_effort)
                self._prepare_server(claim, base / server)
                make_directory(base / server / key)
                if claim.version == 1 and "cpuset" in claim.controllers:
                    # No process may enter a group without CPUs and memory nodes of its own.
                    for directory in ("", server, f"{server}/{key}"):
                        _copy_cpuset(claim.parent, base / directory)
            refused = group.resize(limits)
        except EngineFault:
            group.remove(timeout_seconds=0)
            raise
        if refused is not None:  # only where the group existed and is in use
            raise EngineFault(f"{server}/{key}: {refused.reason}")
        return group

    def group(self, server: str, key: str, *, best_effort: bool = False) -> Group:
        """The group of that name, which may not exist; ``InvalidInput`` where none can have it."""
        _check_name("server", server)
        _check_name("key", key)
        return Group(
            {
                controller: claim.of(best_effort=best_effort) / server / key
                for claim in self.claims
                for controller in sorted(claim.controllers)
            }
        )

    def close(self) -> None:
        """Remove our base groups where they are empty; those with workloads stay."""
        for claim in self.claims:
            release(claim, pid=self.pid)

    def _prepare_server(self, claim: GroupClaim, directory: Path) -> None:
        make_directory(directory)
        if claim.version == 2:
            enable(directory, sorted(claim.controllers - {UNIFIED}))
        # Else all workloads would weigh as one process.
        _weigh(claim, directory, self.cpu_count * MILLICPUS_PER_CPU)


def _weigh_bases(claim: GroupClaim, cpu_count: int) -> None:
    """Beside the machine's other processes: what is promised is kept, the rest yields to them."""
    _weigh(claim, claim.base, PROMISED_WEIGHT * cpu_count * MILLICPUS_PER_CPU)
    _weigh(claim, claim.idle, 0)


def _weigh(claim: GroupClaim, directory: Path, cpu_millicpus: int) -> None:
    """Make a group of ours weigh as so many CPUs; 0 = it gets what all others leave."""
    if "cpu" in claim.controllers:
        set_weight(directory, cpu_millicpus, claim.version)


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
    """Find what can be controlled, and make our base group in each usable hierarchy.

    Nothing missing is an error; ``conditions`` says what is missing. ``identity`` is the manager's,
    unique on this machine and the same after a restart; part of a group's name, else
    ``InvalidInput``. ``cpu_count`` is of all servers together; ``None`` = those we may run on.
    """
    _check_name("identity", identity)
    pid = os.getpid() if pid is None else pid
    cpu_count = len(os.sched_getaffinity(0)) if cpu_count is None else cpu_count
    claims, refusals = _claim_all(find_hierarchies(cgroup_file, mountinfo_file), identity, pid)
    kept = []
    for claim in claims:
        try:
            _weigh_bases(claim, cpu_count)
            kept.append(claim)
        except EngineFault as fault:
            refusals.update(dict.fromkeys(claim.controllers, Refused(str(fault))))
            release(claim, pid=pid)
    means = frozenset(means for means in Means if any(_holds(claim, means) for claim in kept))
    return CgroupControl(identity, tuple(kept), refusals, means, cpu_count, pid)


def _claim_all(
    hierarchies: tuple[Hierarchy, ...], identity: str, pid: int
) -> tuple[list[GroupClaim], dict[str, Refused]]:
    """v2 first: where it can kill and count CPU time, v1's freezer and cpuacct are not needed."""
    claims: list[GroupClaim] = []
    refusals: dict[str, Refused] = {}
    wanted = {*CONTROLLERS, "cpuacct", "freezer"}
    for hierarchy in sorted(hierarchies, key=lambda hierarchy: -hierarchy.version):
        if hierarchy.version == 2:
            claim, refused = claim_v2(hierarchy, identity, pid=pid)
            refusals.update(refused)
            if isinstance(claim, Refused):
                refusals[UNIFIED] = claim
                continue
            if (claim.base / "cgroup.kill").exists():
                wanted.discard("freezer")
            if (claim.base / "cpu.stat").exists():
                wanted.discard("cpuacct")
        elif wanted & hierarchy.controllers:
            claim = claim_v1(hierarchy, identity)
            if isinstance(claim, Refused):
                refusals.update(dict.fromkeys(hierarchy.controllers, claim))
                continue
        else:
            continue
        claims.append(claim)
    return claims, refusals


def _holds(claim: GroupClaim, means: Means) -> bool:
    controller, file = FILES[means].get(claim.version, ("", ""))
    return controller in claim.controllers and (claim.base / file).exists()
