"""What an interpreter of plans asks for, one step at a time, and the possible outcomes.

A port carries the steps out; for the interpreter, time passes in readings alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity


@dataclass(frozen=True, slots=True)
class Stretch:
    """Performance over some time; without values where a whole run did not end.

    ``used_cpus`` are CPU seconds per second. ``neighbor`` is the rate of the known co-runner, or of
    a source that is probed over its rate alone.
    """

    seconds: float
    values: Mapping[Quantity, float] = field(default_factory=dict)
    used_cpus: float | None = None
    neighbor: float | None = None


@dataclass(frozen=True, slots=True)
class RunAt:
    """Run the workload, or let it go on, at an allocation (0 = not at all), without a source.

    ``known`` is the program that runs, too; ``further`` the index of the plan's run elsewhere that
    this is; the warm-up is discarded.
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

    ``probed`` has the source's rates beside the workload over that alone.
    """

    resource: SharedResource
    probed: Sequence[float]
    slowed: bool


@dataclass(frozen=True, slots=True)
class ReadFor:
    """Read the performance for ``seconds`` at least; infinite = one whole run.

    ``until`` is the port's time when to stop waiting. ``reserved_starts`` are those that later
    steps need, should the program end; ``None`` = it is not started again.
    """

    seconds: float
    until: float = inf
    reserved_starts: int | None = 0


class Interruption(Exception):
    """A step did not go as asked; the message says why."""


class RunFailed(Interruption):
    """There can be no run, or its end says nothing.

    Attributes:
        out_of_memory_bytes: The limit of which it ran out; 0 = it has not.
    """

    def __init__(self, why: str, out_of_memory_bytes: int = 0) -> None:
        super().__init__(why)
        self.out_of_memory_bytes = out_of_memory_bytes


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
