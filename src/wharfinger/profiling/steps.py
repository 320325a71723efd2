"""What an interpreter of plans asks for, one step at a time, and the possible outcomes.

A port carries the steps out. For the interpreter, time passes in readings alone; its caller reads,
by waiting or by an event, and passes the result on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity


@dataclass(frozen=True, slots=True)
class Stretch:
    """Performance over some time.

    Attributes:
        values: By quantity, in its unit; latency in seconds. Empty where a whole run did not end.
        used_cpus: CPU seconds per second.
        neighbor: Rate of the known program beside the workload; of a source that is probed, its
            rate over that alone.
    """

    seconds: float
    values: Mapping[Quantity, float] = field(default_factory=dict)
    used_cpus: float | None = None
    neighbor: float | None = None


@dataclass(frozen=True, slots=True)
class RunAt:
    """Run the workload, or let it go on, at an allocation, without a source.

    Attributes:
        cpu_millicpus: Its allocation; 0 = it does not run.
        known: The known program that runs, too; empty = none.
        further: Index of the plan's run elsewhere that this is; ``None`` = on its own server.
        warm_up_seconds: To be discarded.
    """

    cpu_millicpus: int
    known: str = ""
    further: int | None = None
    warm_up_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Inject:
    """Raise a source of interference beside the workload, at the plan's first allocation."""

    resource: SharedResource
    intensity: float


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Remove the source, and tell the interference that the workload causes.

    ``probed`` has readings of the source's rate beside the workload over that alone. ``slowed``:
    the workload was slowed by the source.
    """

    resource: SharedResource
    probed: Sequence[float]
    slowed: bool


@dataclass(frozen=True, slots=True)
class ReadFor:
    """Read the performance.

    Attributes:
        seconds: At least; infinite = one whole run, from its start to its own end.
        until: The port's time when to stop waiting.
        reserved_starts: Starts that later steps need, should the program end; ``None`` = it is
            not started again.
    """

    seconds: float
    until: float = inf
    reserved_starts: int | None = 0


class Interruption(Exception):
    """A step did not go as asked; the message says why."""


class RunFailed(Interruption):
    """There can be no run, or its end says nothing."""


class StartsUsedUp(Interruption):
    """The program has ended and may not be started again."""


class NeighborFell(Interruption):
    """The neighbor of this name fell below its target while a source was at work."""


class SourceSilent(Interruption):
    """The source can't be used."""


class DoesNotFit(Interruption):
    """Memory is not enough for the known program and the residents."""


class ProgramEnded(Interruption):
    """The program ended well before it reported enough of its performance.

    ``stretch`` is the whole run, ``work`` what it does; 1 where it reported none.
    """

    def __init__(self, stretch: Stretch, work: float) -> None:
        super().__init__("it ended before it told how it performs")
        self.stretch = stretch
        self.work = work
