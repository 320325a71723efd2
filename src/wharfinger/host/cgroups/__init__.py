"""Control of a workload's CPU, memory, freezing and killing by cgroups, v2, hybrid and v1.

The local engine calls ``discover`` once and ``CgroupControl.create`` per start; the supervisor
enters the group by ``Group.procs_files``. Whatever the kernel refuses is an ``EngineFault``, which
names the file and the kernel's error. From the kernel's side to ours:

* ``hierarchy``: where this process stands, and what limits it there;
* ``claim``: our own base group in each hierarchy, or why not;
* ``control``: what can be done, and the workloads' groups;
* ``group``: one workload's group, with its ``limits``.
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
