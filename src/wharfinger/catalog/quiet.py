"""How quiet this machine is: CPU time that others use, and that the hypervisor takes.

Read from ``/proc/stat``, over a period: a load average still includes the last minute.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from wharfinger.errors import Unavailable

STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Since the machine started, over all of its CPUs, in ticks; steal went to other machines."""

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
        _user, _nice, _system, idle, io_wait, _irq, _soft_irq, steal = ticks
        return cls(sum(ticks) - idle - io_wait - steal, steal, sum(ticks))


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Shares of all CPUs' time in a period: used by this machine, and taken by others."""

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
