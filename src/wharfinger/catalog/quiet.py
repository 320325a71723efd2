"""How quiet this machine is: CPU time that others use, and that the hypervisor takes.

Read from ``/proc/stat``, over a period: a load average still tells of a minute ago.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from wharfinger.errors import Unavailable

STAT = Path("/proc/stat")
_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = range(8)


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Since the machine started, over all of its CPUs, in the kernel's ticks.

    Attributes:
        busy: Spent on anything.
        steal: Wanted, and given to other machines.
        total: Of all CPUs.
    """

    busy: int
    steal: int
    total: int

    @classmethod
    def read(cls, path: Path = STAT) -> "CpuTimes":
        """As it is now.

        Raises:
            Unavailable: The kernel does not say.
        """
        try:
            line = path.read_text().partition("\n")[0].split()
            ticks = [int(word) for word in line[1:9]]
        except (OSError, ValueError) as error:
            raise Unavailable(f"{path}: CPU times can't be read: {error}") from error
        if line[:1] != ["cpu"] or len(ticks) < 8:
            raise Unavailable(f"{path}: CPU times can't be read from {' '.join(line)[:60]!r}")
        steal, total = ticks[_STEAL], sum(ticks)
        return cls(total - ticks[_IDLE] - ticks[_IOWAIT] - steal, steal, total)


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Of all CPUs' time in a period, from 0 to 1.

    Attributes:
        busy_share: Spent by this machine on anything.
        steal_share: Taken by other machines.
    """

    busy_share: float
    steal_share: float

    @classmethod
    def between(cls, earlier: CpuTimes, later: CpuTimes) -> "Disturbance":
        """Over the time between two readings.

        >>> Disturbance.between(CpuTimes(0, 0, 0), CpuTimes(50, 10, 200))
        Disturbance(busy_share=0.25, steal_share=0.05)
        """
        total = max(1, later.total - earlier.total)
        return cls((later.busy - earlier.busy) / total, (later.steal - earlier.steal) / total)


def watch(seconds: float) -> Disturbance:
    """What goes on here while we do nothing.

    Raises:
        Unavailable: The kernel does not say.
    """
    earlier = CpuTimes.read()
    time.sleep(seconds)
    return Disturbance.between(earlier, CpuTimes.read())
