"""What the whole cluster gives and uses, summed over time as it changes.

Levels are what is now, sums are levels times seconds. Called by ``cluster`` at each change;
``report`` reads the sums, ``series`` (where it is asked for) the changes themselves.
"""

from typing import TYPE_CHECKING, NamedTuple

from wharfinger.simulator.cluster.servers import SimulatedServer

if TYPE_CHECKING:
    from wharfinger.simulator.cluster.runs import RunPart
    from wharfinger.simulator.results.series import Recorder


class Sums(NamedTuple):
    """Levels times seconds; CPU in thousandths.

    Attributes:
        most_capacity: As ``capacity``, until most workloads had ended; so is ``most_used``.
    """

    capacity: float
    allocated: float
    used: float
    busy: float
    most_capacity: float = 0.0
    most_used: float = 0.0


class Ledger:
    """Levels and sums. CPU in thousandths, time in seconds.

    Attributes:
        present: How many starts, runs and copies are under way.
        capacity: CPU of the servers that are there.
        allocated: CPU that was given away.
        used: CPU that does something.
        busy: Servers on which anything is.
        capacity_seconds: Sum of ``capacity`` over time; so are the other ``..._seconds``.
        recorder: Is told of every change; ``None`` = none.

    Sums begin with ``begin``; ``sums`` are those up to the last ``mark``: what comes after the last
    end is not the workloads' doing.
    """

    __slots__ = (
        "allocated",
        "allocated_seconds",
        "busy",
        "busy_seconds",
        "capacity",
        "capacity_seconds",
        "marked",
        "most",
        "present",
        "recorder",
        "since",
        "used",
        "used_seconds",
    )

    def __init__(self) -> None:
        self.present = 0
        self.since = 0.0
        self.capacity = self.allocated = self.used = 0.0
        self.busy = 0
        self.capacity_seconds = self.allocated_seconds = 0.0
        self.used_seconds = self.busy_seconds = 0.0
        self.recorder: Recorder | None = None
        self.marked = Sums(0.0, 0.0, 0.0, 0.0)
        self.most = 0.0, 0.0

    def advance(self, now: float) -> None:
        """Add up to now."""
        seconds = now - self.since
        if seconds > 0:
            self.since = now
            self.capacity_seconds += self.capacity * seconds
            self.allocated_seconds += self.allocated * seconds
            self.used_seconds += self.used * seconds
            self.busy_seconds += self.busy * seconds

    def begin(self, now: float) -> None:
        """The first has arrived: what was before does not count."""
        self.since = now
        self.capacity_seconds = self.allocated_seconds = 0.0
        self.used_seconds = self.busy_seconds = 0.0

    def mark(self, now: float, *, most: bool = True) -> None:
        """A workload has ended; perhaps the last.

        Args:
            now: The time.
            most: Most of them had not ended before.
        """
        self.advance(now)
        if most:
            self.most = self.capacity_seconds, self.used_seconds
        self.marked = Sums(
            self.capacity_seconds,
            self.allocated_seconds,
            self.used_seconds,
            self.busy_seconds,
            *self.most,
        )

    def move(self, now: float, machine: SimulatedServer, change: int) -> None:
        """A server comes (1) or leaves (-1)."""
        self.advance(now)
        self.capacity += change * machine.cpu_millicpus
        if self.recorder is not None:
            self.recorder.capacity(now, machine, present=change > 0)

    def hold(self, now: float, part: "RunPart", change: int) -> None:
        """A part is about to hold what it was given on its server (1), or to release it (-1)."""
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
            self.recorder.used(now, machine)
