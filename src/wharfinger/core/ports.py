"""Through which port each action leaves the core, and what stands behind a port.

An action is asked for under a key and answered by an event. The live runtime and the simulated one
differ in what they put behind the ports, and in the clock.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.decisions import Decision, ReasonCode, Stage


class Port(StrEnum):
    """What kind of means an action needs."""

    ENGINE = "engine"
    """Starts, sizes and stops workloads."""
    MONITOR = "monitor"
    """Reads their performance."""
    PROFILER = "profiler"
    """Makes profiling runs."""
    CLASSIFIER = "classifier"
    """Estimates what a workload needs."""
    PROVISIONER = "provisioner"
    """Acquires and releases servers."""
    DECIDER = "decider"
    """Finds places on a snapshot."""


PORTS: dict[type, Port] = {
    act.StartWorkload: Port.ENGINE,
    act.StopWorkload: Port.ENGINE,
    act.ResizeAllocation: Port.ENGINE,
    act.SuspendWorkload: Port.ENGINE,
    act.ResumeWorkload: Port.ENGINE,
    act.ForgetWorkload: Port.ENGINE,
    act.MeasureWorkload: Port.MONITOR,
    act.ProfileWorkload: Port.PROFILER,
    act.ClassifyWorkload: Port.CLASSIFIER,
    act.AcquireServer: Port.PROVISIONER,
    act.ReleaseServer: Port.PROVISIONER,
    act.DecidePlacement: Port.DECIDER,
}
OF_AN_ENGINE = frozenset({Port.ENGINE, Port.MONITOR, Port.PROFILER})
"""An engine is what stands behind these three."""


class Service(Protocol):
    """What stands behind one of the other ports."""

    def perform(self, action: act.Action) -> None:
        """Begin to carry out an action; its answer comes by ``poll``."""

    def poll(self) -> Sequence[ev.Report]:
        """The answers since the last call, oldest first."""

    def fileno(self) -> int | None:
        """A descriptor that is readable when there are answers; ``None`` = it answers at once."""

    def close(self) -> None:
        """Keep what it has learnt, and let go."""


def unanswerable(action: act.Action) -> list[ev.Report]:
    """What the core is told where nothing stands behind a port."""
    match action:
        case act.ClassifyWorkload(key=key):
            return [ev.ClassificationFailed(key, "this manager has no classifier")]
        case act.AcquireServer(key=key):
            return [ev.AcquisitionFailed(key, "this manager has no provisioner")]
        case act.DecidePlacement(key=key, request=request):
            decision = Decision(
                Stage.PLACEMENT,
                "core",
                accepted=False,
                reason=ReasonCode.NOT_SUPPORTED,
                message=f"nothing decides for {request.workload.name} outside the core",
                would_change="a manager with deciders",
            )
            return [ev.PlacementProposed(key, (), (), decision)]
    return []
