"""Control of a workload's CPU, memory, freezing and killing by cgroups, v2, hybrid and v1.

The local engine calls ``discover`` once and ``CgroupControl.create`` per start. Whatever the kernel
refuses is an ``EngineFault``, which names the file and the kernel's error. ``hierarchy`` finds the
groups of this process, ``claim`` makes our base group there, ``control`` the workloads' groups.
"""

from wharfinger.host.cgroups.control import CgroupControl, discover
from wharfinger.host.cgroups.group import Group, GroupUsage
from wharfinger.host.cgroups.hierarchy import OwnLimits, find_hierarchies, own_limits
from wharfinger.host.cgroups.limits import Limits, Means, ResizeRefused

__all__ = [
    "CgroupControl",
    "Group",
    "GroupUsage",
    "Limits",
    "Means",
    "OwnLimits",
    "ResizeRefused",
    "discover",
    "find_hierarchies",
    "own_limits",
]
