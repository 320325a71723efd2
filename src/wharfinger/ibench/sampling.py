"""What sources at work achieve in a time, by their own account and by the kernel's.

Called by the validation and its parts. A sample begins and ends with an order to the source, so
that its report is of that time and no other.
"""

import contextlib
import ctypes
import os
import platform
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wharfinger.catalog.quiet import CpuTimes
from wharfinger.errors import Unavailable
from wharfinger.ibench.driver import RunningSource
from wharfinger.ibench.sources import SourceSetting

NEVER_SECONDS = 1e6
"""Between a source's own reports, where orders alone end a period."""
_SCHEDULER_CLOCK = 2
_NETWORK = Path("/sys/class/net")


@dataclass(frozen=True, slots=True)
class SourceSample:
    """What a source did in a time, and how much of the CPUs it got.

    Attributes:
        achieved: On the scale of the intensity.
        cpu_seconds: That it used.
        waited_share: Of its CPUs' time, that it waited for, or that others had, from 0 to 1.
        counted: The kernel's count meanwhile, or its level at the end; ``None`` = not counted.
    """

    seconds: float
    achieved: float
    rate_per_second: float
    cpu_seconds: float
    waited_share: float
    footprint_bytes: int
    counted: float | None = None

    @property
    def cpu_share(self) -> float:
        """Of one CPU's time."""
        return self.cpu_seconds / self.seconds

    def performance(self, *, by_cpu_time: bool) -> float:
        """Work for each second, or for each second of CPU time that it got; 0 where none was."""
        if not by_cpu_time:
            return self.rate_per_second
        return self.rate_per_second / self.cpu_share if self.cpu_seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class KernelCounter:
    """The kernel's view of a source's pressure.

    Attributes:
        read: A count so far, or a level.
        full: What intensity 100 is, for each second or as a level; ``None`` = unknown.
    """

    name: str
    read: Callable[[], float]
    full: float | None
    is_level: bool = False


def takes_cpu_time(setting: SourceSetting) -> bool:
    """Whether it takes, at 100, all the CPU time that it gets: then that bounds its rate."""
    source = setting.source
    to_a_peer = source.name == "network-bandwidth" and setting.peer is not None
    return not (source.holds or source.uses_directory or to_a_peer)


def sample(
    sources: Sequence[RunningSource],
    seconds: float,
    counters: Sequence[KernelCounter | None] = (),
) -> list[SourceSample]:
    """Let them work on at their intensities for that time; raises ``Unavailable`` if one ends."""
    pairs = list(zip(sources, counters or [None] * len(sources), strict=True))
    try:
        begun = [_Reading.of(source, counter) for source, counter in pairs]
        time.sleep(seconds)
        return [
            before.until_now(source, counter)
            for before, (source, counter) in zip(begun, pairs, strict=True)
        ]
    except OSError as error:  # Of its files in /proc.
        raise Unavailable(f"a source ended: {error}") from error


@dataclass(frozen=True, slots=True)
class _Reading:
    seconds: float
    cpu_seconds: float
    waited_seconds: float
    cpus: CpuTimes
    counted: float | None
    reports: int

    @classmethod
    def of(cls, source: RunningSource, counter: KernelCounter | None) -> "_Reading":
        source.set_intensity(source.intensity)
        pinned = not source.setting.source.has_threads_of_all_cpus
        return cls(
            time.monotonic(),
            cpu_seconds_of(source.pid),
            waited_seconds_of(source.pid) if pinned else 0.0,
            CpuTimes.read(cpus=source.setting.cpus or None),
            None if counter is None else counter.read(),
            len(source.reports),
        )

    def until_now(self, source: RunningSource, counter: KernelCounter | None) -> SourceSample:
        after = _Reading.of(source, counter)
        report = source.reports[-1]
        seconds, cpu = after.seconds - self.seconds, after.cpu_seconds - self.cpu_seconds
        cpus = max(1, len(source.setting.cpus))
        ticks = max(1, after.cpus.total - self.cpus.total)
        others = 1 - (after.cpus.idle - self.cpus.idle) / ticks - cpu / seconds / cpus
        # The kernel tells of a wait when it is over, so long ones are seen in what others used.
        waited = max(others, (after.waited_seconds - self.waited_seconds) / seconds / cpus)
        counted = None
        if counter is not None and self.counted is not None and after.counted is not None:
            counted = (
                after.counted if counter.is_level else (after.counted - self.counted) / seconds
            )
        return SourceSample(
            seconds,
            report.achieved,
            report.rate_per_second,
            cpu,
            min(1.0, max(0.0, waited)),
            report.footprint_bytes,
            counted,
        )


def cpu_seconds_of(pid: int) -> float:
    """Of all threads of a process, by the scheduler's own clock, exact at the call."""
    return time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK)


def waited_seconds_of(pid: int) -> float:
    """That threads of a process had work and no CPU, summed; 0 where the kernel does not tell."""
    waited = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError, IndexError, ValueError):
            waited += int((task / "schedstat").read_text().split()[1])
    return waited / 1e9


# --- counters -------------------------------------------------------------------------------


def counter_of(source: RunningSource) -> KernelCounter:
    """The kernel's counter of what that source presses on, or its CPU time where there is none."""
    setting, pid = source.setting, source.pid
    name, most = setting.source.name, setting.maximum_per_second
    if name == "storage-bandwidth":
        return KernelCounter("I/O of the process (/proc/PID/io)", lambda: _moved_bytes(pid), most)
    if name == "network-bandwidth":
        local = setting.peer is None
        words = f"bytes of {'loopback' if local else 'all interfaces'} (/sys/class/net)"
        return KernelCounter(words, lambda: _interface_bytes(local=local), most)
    if name == "storage-capacity":
        words = "blocks of its file (st_blocks)"
        full = None if setting.quota is None else float(setting.quota)
        return KernelCounter(words, lambda: _file_bytes(pid), full, is_level=True)
    if name == "memory-capacity":
        before = _resident_bytes(pid)
        full = None if setting.footprint is None else float(setting.footprint)
        return KernelCounter(
            "resident memory (statm)", lambda: _resident_bytes(pid) - before, full, is_level=True
        )
    event = PerfEvent.opened(pid, *_EVENTS.get(name, _EVENTS["integer"]))
    if event is not None:
        return KernelCounter(event.name, event.read, None)
    return KernelCounter(
        "CPU time (scheduler)", lambda: cpu_seconds_of(pid), float(max(1, len(setting.cpus)))
    )


def _moved_bytes(pid: int) -> float:
    lines = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return float(lines["read_bytes"]) + float(lines["write_bytes"])


def _interface_bytes(*, local: bool) -> float:
    names = ["lo"] if local else [path.name for path in _NETWORK.iterdir() if path.name != "lo"]
    ways = ["rx"] if local else ["rx", "tx"]
    return float(
        sum(
            int((_NETWORK / name / "statistics" / f"{way}_bytes").read_text())
            for name in names
            for way in ways
        )
    )


def _file_bytes(pid: int) -> float:
    held = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        told = descriptor.stat()
        if told.st_nlink == 0 and "deleted" in str(descriptor.readlink()):
            held = max(held, told.st_blocks * 512)
    return float(held)


def _resident_bytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


_HARDWARE, _CACHE = 0, 3
_EVENTS = {
    "integer": ("instructions (perf)", _HARDWARE, 1),
    "memory-bandwidth": ("cache misses (perf)", _HARDWARE, 3),
    "tlb": ("misses of data translations (perf)", _CACHE, 3 | 1 << 16),
}
"""Name, type and number, of linux/perf_event.h."""
_CALLS = {"x86_64": 298, "aarch64": 241}
"""The system call's number."""


@dataclass(frozen=True, slots=True)
class PerfEvent:
    """A hardware counter of all threads of a process, open until this process ends."""

    name: str
    descriptors: tuple[int, ...]

    @classmethod
    def opened(cls, pid: int, name: str, kind: int, number: int) -> "PerfEvent | None":
        """``None`` where the kernel refuses, or the machine has no such counter."""
        call = _CALLS.get(platform.machine())
        if call is None:
            return None
        size, exclude_kernel = 112, 1 << 5
        attributes = struct.pack("=IIQQQQQ", kind, size, number, 0, 0, 0, exclude_kernel)
        buffer = ctypes.create_string_buffer(attributes.ljust(size, b"\0"), size)
        library = ctypes.CDLL(None, use_errno=True)
        descriptors: list[int] = []
        for task in Path(f"/proc/{pid}/task").iterdir():
            got = library.syscall(call, buffer, int(task.name), -1, -1, 8)
            if got < 0:
                for each in descriptors:
                    os.close(each)
                return None
            descriptors.append(got)
        return cls(name, tuple(descriptors))

    def read(self) -> float:
        """The count so far."""
        return float(sum(int.from_bytes(os.read(each, 8), "little") for each in self.descriptors))

    def close(self) -> None:
        """Release the descriptors."""
        for each in self.descriptors:
            os.close(each)
