"""Makes our own base groups in each hierarchy, or says why that is impossible.

A refusal is a value, one sentence with its mend: an ordinary user is refused most of it.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wharfinger.errors import EngineFault
from wharfinger.host.cgroups import files
from wharfinger.host.cgroups.hierarchy import Hierarchy
from wharfinger.host.cgroups.limits import UNIFIED

BASE_PREFIX = "wharfinger-"
IDLE_SUFFIX = "-best-effort"
CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
_LEAF = "manager"
_MEND_V1 = (
    "start the manager as root, or let root make a group for this user in that hierarchy "
    "(mkdir, chown -R) and start the manager in it"
)


@dataclass(frozen=True, slots=True)
class GroupClaim:
    """Our base groups, ``wharfinger-<identity>`` and that of best-effort work, of one hierarchy.

    They are in the manager's own group, ``parent``. ``enabled`` are the v2 controllers that had to
    be enabled there, for which this process moved into a leaf next to ``base``.
    """

    version: int
    base: Path
    controllers: frozenset[str]
    parent: Path
    enabled: tuple[str, ...] = ()

    @property
    def idle(self) -> Path:
        """The base group of best-effort work, which yields to all other processes."""
        return _idle(self.base)

    def of(self, *, best_effort: bool) -> Path:
        """The base group of such work."""
        return self.idle if best_effort else self.base


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a controller is not available, and the mend; one sentence."""

    reason: str


def mend_v2() -> str:
    """The command that gives the manager a group of its own with the right to divide it."""
    user = "" if os.geteuid() == 0 else " --user"
    return f"run `systemd-run{user} --scope -p Delegate=yes wharfinger up`"


def claim_v1(hierarchy: Hierarchy, identity: str) -> GroupClaim | Refused:
    """Make our base groups in a v1 hierarchy."""
    base = hierarchy.own / f"{BASE_PREFIX}{identity}"
    try:
        _make_bases(base)
    except EngineFault as fault:
        _drop(base)
        return Refused(f"{fault}; {_MEND_V1}")
    return GroupClaim(1, base, hierarchy.controllers, hierarchy.own)


def claim_v2(
    hierarchy: Hierarchy, identity: str, *, pid: int
) -> tuple[GroupClaim | Refused, dict[str, Refused]]:
    """Make our base groups in the v2 hierarchy and have controllers delegated to them.

    Outside the root the kernel delegates controllers only from a group without processes, so
    this process (``pid``) then moves into a leaf of its own, if it is the only one there. Beside
    the claim, the reason for each v2 controller that is not available.
    """
    parent = _outside_leaf(hierarchy.own)
    base = parent / f"{BASE_PREFIX}{identity}"
    try:
        _check_writable(parent / "cgroup.procs")
        _make_bases(base)
        offered = _words(parent / "cgroup.controllers")
        wanted = [name for name in CONTROLLERS if name in offered]
        enabled, refusals = _delegate(parent, wanted, pid)
        held = [name for name in wanted if name not in refusals]
        for each in (base, _idle(base)):
            enable(each, held)
    except EngineFault as fault:
        _drop(base)
        refused = _refused(fault)
        return refused, dict.fromkeys(hierarchy.controllers, refused)
    return GroupClaim(2, base, frozenset({UNIFIED, *held}), parent, tuple(enabled)), refusals


def enable(group: Path, controllers: Iterable[str]) -> None:
    """Delegate v2 controllers from a group of ours to the groups in it."""
    delegated = _words(group / "cgroup.subtree_control")
    for name in controllers:
        if name not in delegated:
            files.write_value(group / "cgroup.subtree_control", f"+{name}")


def release(claim: GroupClaim, *, pid: int) -> None:
    """Remove our base groups and what is empty in them; then undo what was done to ``parent``.

    Groups with processes stay, and with them all that they depend on.
    """
    gone = [_remove_base(base) for base in (claim.idle, claim.base)]
    if not all(gone) or not claim.enabled:
        return
    # Another manager's groups in the same place keep the controllers: the kernel says EBUSY.
    with suppress(EngineFault):
        for name in claim.enabled:
            files.write_value(claim.parent / "cgroup.subtree_control", f"-{name}")
        _leave_leaf(claim.parent, pid)


def _idle(base: Path) -> Path:
    return base.with_name(base.name + IDLE_SUFFIX)


def _remove_base(base: Path) -> bool:
    for server in files.subdirectories(base):
        files.remove_directory(server)
    return files.remove_directory(base)


def _refused(fault: object) -> Refused:
    return Refused(f"{fault}; {mend_v2()}")


def _words(path: Path) -> frozenset[str]:
    return frozenset((files.read_text(path) or "").split())


def _make_bases(base: Path) -> None:
    for each in (base, _idle(base)):
        files.make_directory(each)
        _check_writable(each / "cgroup.procs")


def _drop(base: Path) -> None:
    for each in (base, _idle(base)):
        with suppress(EngineFault):
            files.remove_directory(each)


def _check_writable(file: Path) -> None:
    if not os.access(file, os.W_OK, effective_ids=True):
        raise EngineFault(f"no permission to write {file}")


def _outside_leaf(own: Path) -> Path:
    """Our group as it was before a manager that we descend from moved into a leaf of it."""
    siblings = files.subdirectories(own.parent) if own.name == _LEAF else ()
    ours = any(group.name.startswith(BASE_PREFIX) for group in siblings)
    return own.parent if ours else own


def _delegate(parent: Path, wanted: list[str], pid: int) -> tuple[list[str], dict[str, Refused]]:
    """Enable in the manager's own group what is not yet; ``(enabled, refusals)``."""
    delegated = _words(parent / "cgroup.subtree_control")
    lacking = [name for name in wanted if name not in delegated]
    if not lacking:
        return [], {}
    is_root = not (parent / "cgroup.events").exists()
    refused = None if is_root else _enter_leaf(parent, pid)
    if refused is not None:
        return [], dict.fromkeys(lacking, refused)
    enabled, refusals = [], {}
    for name in lacking:
        try:
            files.write_value(parent / "cgroup.subtree_control", f"+{name}")
            enabled.append(name)
        except EngineFault as fault:
            refusals[name] = _refused(fault)
    if not enabled and not is_root:
        with suppress(EngineFault):
            _leave_leaf(parent, pid)
    return enabled, refusals


def _enter_leaf(parent: Path, pid: int) -> Refused | None:
    others = sorted(int(word) for word in _words(parent / "cgroup.procs") if int(word) != pid)
    if others:
        return _refused(
            f"{len(others)} other processes (pid {others[0]} …) are in {parent}, and the kernel "
            "divides only a group without processes"
        )
    try:
        files.make_directory(parent / _LEAF)
        files.write_value(parent / _LEAF / "cgroup.procs", str(pid))
    except EngineFault as fault:
        return _refused(fault)
    return None


def _leave_leaf(parent: Path, pid: int) -> None:
    files.write_value(parent / "cgroup.procs", str(pid))
    files.remove_directory(parent / _LEAF)
