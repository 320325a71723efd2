"""How quiet this machine is: CPU time that others use, and that the hypervisor takes.

Read from ``/proc/stat``, over a period: a load average still includes the last minute.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from wharfinger.errors import Unavailable

STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Since the machine started, in ticks; steal went to other machines."""

    busy: int
    steal: int
    total: int

    @property
    def idle(self) -> int:
        """Idle, or waiting for I/O."""
        return self.total - self.busy - self.steal

    @classmethod
    def read(cls, path: Path = STAT, cpus: Iterable[int] | None = None) -> "CpuTimes":
        """As it is now, of these CPUs together (``None`` = of all), else ``Unavailable``."""
        names = ["cpu"] if cpus is None else [f"cpu{number}" for number in cpus]
        try:
            lines = {name: ticks for name, *ticks in map(str.split, path.read_text().splitlines())}
            rows = [tuple(map(int, lines[name][:8])) for name in names]
            _user, _nice, _system, idle, io_wait, _irq, _soft_irq, steal = map(
                sum, zip(*rows, strict=True)
            )
        except (OSError, ValueError, KeyError) as error:
            raise Unavailable(f"{path}: CPU times can't be read: {error!r}") from error
        total = sum(map(sum, rows))
        return cls(total - idle - io_wait - steal, steal, total)


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
    """What goes on here while we do nothing; ``Unavailable``: the kernel does not say."""
    earlier = CpuTimes.read()
    time.sleep(seconds)
    return Disturbance.between(earlier, CpuTimes.read())
