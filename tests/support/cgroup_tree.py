"""Cgroup trees of plain files, for the kinds of machine that this one is not.

A plain folder does not grow the kernel's files when it is made, so every group that a test will
need is laid out beforehand; what a test then reads is what would have been told to the kernel.
Pure v2 can be tried in no other way on a machine whose controllers are mounted as v1.
"""

from dataclasses import dataclass
from pathlib import Path

from wharfinger.host.cgroups import CgroupControl, discover

PID = 4711

V2_CORE = {
    "cgroup.procs": "",
    "cgroup.controllers": "cpuset cpu io memory pids",
    "cgroup.subtree_control": "",
    "cgroup.events": "populated 0\nfrozen 0",
    "cgroup.freeze": "0",
    "cgroup.kill": "",
    "cpu.stat": "usage_usec 1500000\nuser_usec 1000000",
}
V2_CONTROLLERS = {
    "cpu.max": "max 100000",
    "cpu.max.burst": "0",
    "cpu.weight": "100",
    "cpu.idle": "0",
    "cpuset.cpus": "",
    "cpuset.mems": "",
    "memory.max": "max",
    "memory.high": "max",
    "memory.swap.max": "max",
    "memory.oom.group": "0",
    "memory.current": "4096",
    "memory.peak": "12288",
    "memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 2",
    "pids.max": "max",
}
V1 = {
    "cpu": {
        "cpu.cfs_quota_us": "-1",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_burst_us": "0",
        "cpu.shares": "1024",
    },
    "cpuacct": {"cpuacct.usage": "2500000000"},
    "cpuset": {"cpuset.cpus": "", "cpuset.mems": ""},
    "memory": {
        "memory.limit_in_bytes": "9223372036854771712",
        "memory.memsw.limit_in_bytes": "9223372036854771712",
        "memory.usage_in_bytes": "8192",
        "memory.max_usage_in_bytes": "16384",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4",
        "memory.stat": "cache 0\nhierarchical_memory_limit 9223372036854771712",
    },
    "pids": {"pids.max": "max"},
    "freezer": {"freezer.state": "THAWED"},
}


def lay(directory: Path, files: dict[str, str]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory


def _lay_groups(top: Path, files: dict[str, str]) -> None:
    """Those that we shall make; fake directories get no files by themselves."""
    for base in ("wharfinger-test", "wharfinger-test-best-effort"):
        for group in ("", "s", "s/k"):
            lay(top / base / group, files)


@dataclass
class Tree:
    """A machine's ``/proc`` files and the folders that they speak of."""

    root: Path
    cgroup: str = ""
    mountinfo: str = ""

    def mount(self, line: str, mount: str, fstype: str, options: str, root: str = "/") -> Path:
        point = self.root / mount
        point.mkdir(parents=True, exist_ok=True)
        self.cgroup += line + "\n"
        escaped = str(point).replace("\\", r"\134").replace(" ", r"\040")
        self.mountinfo += f"31 23 0:28 {root} {escaped} rw - {fstype} {fstype} {options}\n"
        return point

    def v1(self, controllers: str, own: str) -> Path:
        """One v1 hierarchy, with the groups ``wharfinger-test/s/k`` in our own group."""
        point = self.mount(f"4:{controllers}:{own}", controllers, "cgroup", f"rw,{controllers}")
        files = {"cgroup.procs": ""}
        for name in controllers.split(","):
            files |= V1[name]
        top = lay(point / own.strip("/"), files)
        _lay_groups(top, files)
        return top

    def v2(self, own: str, mount: str = "unified", *, controllers: bool = True) -> Path:
        """The v2 hierarchy; our own group is the root's child that ``own`` names."""
        point = self.mount(f"0::{own}", mount, "cgroup2", "rw")
        files = V2_CORE | V2_CONTROLLERS if controllers else V2_CORE | {"cgroup.controllers": ""}
        top = lay(point / own.strip("/"), files | {"cgroup.procs": f"{PID}"})
        lay(top / "manager", V2_CORE)
        _lay_groups(top, files)
        return top

    def discover(self) -> CgroupControl:
        (self.root / "self-cgroup").write_text(self.cgroup)
        (self.root / "self-mountinfo").write_text(self.mountinfo)
        return discover(
            "test",
            cgroup_file=self.root / "self-cgroup",
            mountinfo_file=self.root / "self-mountinfo",
            cpu_count=2,
            pid=PID,
        )
