"""This process's own group in each mounted cgroup hierarchy, and what limits it there.

Changes nothing. Called by ``control``, which makes our groups there, and by
``wharfinger.host.topology``, which may not offer more than the manager itself has.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from wharfinger.errors import EngineFault
from wharfinger.host.cgroups.files import read_bytes, read_field, read_int, read_text
from wharfinger.model.platform import MILLICPUS_PER_CPU

CGROUP_FILE = Path("/proc/self/cgroup")
MOUNTINFO_FILE = Path("/proc/self/mountinfo")

_OCTAL = re.compile(rb"\\([0-7]{3})")
# v1 says "no limit" by the largest page-aligned number, which depends on the page size.
_NO_LIMIT_BYTES = 1 << 62


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted hierarchy; ``own`` is the directory of the group that this process is in.

    ``controllers`` are on v1 those mounted here, on v2 those that our own group may delegate.
    """

    version: int
    controllers: frozenset[str]
    mount: Path
    own: Path


@dataclass(frozen=True, slots=True)
class OwnLimits:
    """What limits the manager itself; ``None`` = no visible limit."""

    cpu_millicpus: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class _Mount:
    version: int
    controllers: frozenset[str]
    root: str
    point: str


def _lines(path: Path) -> list[bytes]:
    try:
        return read_bytes(path).splitlines()
    except OSError:
        return []  # no procfs, or no cgroups in this kernel


def _unescape(field: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), field))


def _mounts(lines: Iterable[bytes]) -> tuple[_Mount, ...]:
    visible: dict[str, _Mount] = {}
    for line in lines:
        before, separator, after = line.partition(b" - ")
        fields, source = before.split(b" "), after.split(b" ")
        if not separator or len(fields) < 6 or len(source) < 3:
            continue
        root, point = _unescape(fields[3]), _unescape(fields[4])
        visible.pop(point, None)  # a later mount on the same point hides an earlier one
        if source[0] == b"cgroup2":
            visible[point] = _Mount(2, frozenset(), root, point)
        elif source[0] == b"cgroup":
            options = frozenset(os.fsdecode(source[2]).split(","))
            visible[point] = _Mount(1, options, root, point)
    return tuple(visible.values())


def _memberships(lines: Iterable[bytes]) -> Iterator[tuple[int, frozenset[str], str]]:
    for line in lines:
        number, _, rest = os.fsdecode(line).partition(":")
        names, separator, path = rest.partition(":")  # the path may hold colons, the names not
        if not separator or names.startswith("name="):
            continue
        yield (2 if number == "0" and not names else 1), frozenset(names.split(",")), path


def _own_directory(mount: _Mount, path: str) -> Path | None:
    # A container may see only a part of a hierarchy (the mount's root), and a process moved into
    # a cgroup namespace from outside has a path that climbs out of it.
    if ".." in PurePosixPath(path).parts or ".." in PurePosixPath(mount.root).parts:
        return None
    try:
        relative = PurePosixPath(path).relative_to(mount.root)
    except ValueError:
        return None
    directory = Path(mount.point) / relative
    return directory if directory.is_dir() else None


def _offered(directory: Path) -> frozenset[str]:
    try:
        return frozenset((read_text(directory / "cgroup.controllers") or "").split())
    except EngineFault:
        return frozenset()


def find_hierarchies(
    cgroup_file: Path = CGROUP_FILE, mountinfo_file: Path = MOUNTINFO_FILE
) -> tuple[Hierarchy, ...]:
    """The hierarchies in which this process's own group is visible; unreadable = none."""
    mounts = _mounts(_lines(mountinfo_file))
    hierarchies = []
    for version, controllers, path in _memberships(_lines(cgroup_file)):
        for mount in mounts:
            if mount.version != version or (version == 1 and not controllers <= mount.controllers):
                continue
            own = _own_directory(mount, path)
            if own is not None:
                offered = controllers if version == 1 else _offered(own)
                hierarchies.append(Hierarchy(version, offered, Path(mount.point), own))
                break
    return tuple(hierarchies)


def _quota_millicpus(group: Path, version: int) -> int | None:
    if version == 1:
        quota, period = read_int(group / "cpu.cfs_quota_us"), read_int(group / "cpu.cfs_period_us")
    else:
        words = (read_text(group / "cpu.max") or "max").split()
        quota, period = (int(words[0]), int(words[1])) if words[0].isdigit() else (None, None)
    if quota is None or not period or quota < 0:
        return None
    return quota * MILLICPUS_PER_CPU // period


def _memory_limit_bytes(group: Path, version: int) -> int | None:
    if version == 2:
        return read_int(group / "memory.max")
    # This includes the limits of groups above that a container cannot see.
    limit = read_field(group / "memory.stat", "hierarchical_memory_limit")
    return limit if limit is not None and limit < _NO_LIMIT_BYTES else None


def own_limits(hierarchies: Iterable[Hierarchy]) -> OwnLimits:
    """The tightest CPU quota and memory limit over our own group and its visible ancestors."""
    quotas, limits = [], []
    for hierarchy in hierarchies:
        own, mount = hierarchy.own, hierarchy.mount
        for group in (own, *(above for above in own.parents if above.is_relative_to(mount))):
            if hierarchy.version == 2 or "cpu" in hierarchy.controllers:
                quotas.append(_quota_millicpus(group, hierarchy.version))
            if hierarchy.version == 2 or "memory" in hierarchy.controllers:
                limits.append(_memory_limit_bytes(group, hierarchy.version))
    return OwnLimits(
        cpu_millicpus=min((quota for quota in quotas if quota is not None), default=None),
        memory_bytes=min((limit for limit in limits if limit is not None), default=None),
    )
