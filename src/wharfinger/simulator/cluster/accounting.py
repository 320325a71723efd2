"""What the whole cluster has and uses, as it changes (levels), and summed over time.

``results.report`` reads the sums, ``results.series`` the changes.
"""

from dataclasses import dataclass
from typing import NamedTuple

from wharfinger.simulator.cluster.runs import RunPart, SimulatedServer
from wharfinger.simulator.results.series import Recorder


class Sums(NamedTuple):
    """Levels times seconds; CPU in thousandths.

    ``most_*`` until most workloads had ended, ``steady_*`` in the steady state.
    """

    capacity: float = 0.0
    allocated: float = 0.0
    used: float = 0.0
    busy: float = 0.0
    most_capacity: float = 0.0
    most_used: float = 0.0
    steady_capacity: float = 0.0
    steady_allocated: float = 0.0
    steady_used: float = 0.0


_NOTHING = Sums()


@dataclass(slots=True)
class Ledger:
    """Levels and sums; CPU in thousandths, time in seconds.

    Attributes:
        present: How many starts, runs and profiling plans are under way.
        marked: Sums up to the last ``mark``: what comes after the last end does not count.
        steady: From when to when the cluster is in its steady state.
    """

    present: int = 0
    since: float = 0.0
    capacity: float = 0.0
    allocated: float = 0.0
    used: float = 0.0
    busy: int = 0
    sums: Sums = _NOTHING
    marked: Sums = _NOTHING
    recorder: Recorder | None = None
    steady: tuple[float, float] = (0.0, 0.0)

    def advance(self, now: float) -> None:
        """Add up to now."""
        since, seconds = self.since, now - self.since
        if seconds > 0:
            self.since = now
            capacity, allocated, used, busy, most_capacity, most_used, *steady = self.sums
            begins, ends = self.steady
            if since < ends and now > begins:
                within = min(now, ends) - max(since, begins)
                levels = self.capacity, self.allocated, self.used
                steady = [sum_ + level * within for sum_, level in zip(steady, levels, strict=True)]
            self.sums = Sums(
                capacity + self.capacity * seconds,
                allocated + self.allocated * seconds,
                used + self.used * seconds,
                busy + self.busy * seconds,
                most_capacity,
                most_used,
                *steady,
            )

    def begin(self, now: float) -> None:
        """The first workload has arrived: what was before does not count."""
        self.since, self.sums = now, _NOTHING

    def mark(self, now: float, *, most: bool = True) -> None:
        """A workload has ended, perhaps the last; with ``most``, most had not ended before."""
        self.advance(now)
        if most:
            sums = self.sums
            self.sums = sums._replace(most_capacity=sums.capacity, most_used=sums.used)
        self.marked = self.sums

    def move(self, now: float, machine: SimulatedServer, change: int) -> None:
        """A server comes (1) or leaves (-1)."""
        self.advance(now)
        self.capacity += change * machine.cpu_millicpus
        if self.recorder is not None:
            self.recorder.capacity(machine.server.name, machine.cpu_millicpus)

    def hold(self, now: float, part: RunPart, change: int) -> None:
        """A part is about to hold its allocation on its server (1), or to release it (-1)."""
        self.advance(now)
        machine = part.machine
        self.allocated += change * part.allocation.cpu_millicpus
        if len(machine.parts) == (0 if change > 0 else 1):
            self.busy += change
        if change < 0 and len(machine.parts) == 1:
            self.use(now, machine, 0.0)
        if self.recorder is not None:
            self.recorder.allocated(now, self.allocated)

    def use(self, now: float, machine: SimulatedServer, used_millicpus: float) -> None:
        """So much of a server's CPU does something from now on."""
        if used_millicpus == machine.used_millicpus:
            return
        self.advance(now)
        self.used += used_millicpus - machine.used_millicpus
        machine.used_millicpus = used_millicpus
        if self.recorder is not None:
            self.recorder.used(now, machine.server.name, used_millicpus)
