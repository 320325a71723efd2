"""Through which port each action leaves the core; live and simulated runtimes fill the ports."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, get_args

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.decisions import Decision, ReasonCode, Stage


class Port(StrEnum):
    """What kind of service an action needs."""

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
    **dict.fromkeys(get_args(act.EngineAction), Port.ENGINE),
    act.MeasureWorkload: Port.MONITOR,
    act.ProfileWorkload: Port.PROFILER,
    act.ProbeWorkload: Port.PROFILER,
    act.ClassifyWorkload: Port.CLASSIFIER,
    act.AcquireServer: Port.PROVISIONER,
    act.ReleaseServer: Port.PROVISIONER,
    act.DecidePlacement: Port.DECIDER,
}
OF_AN_ENGINE = frozenset({Port.ENGINE, Port.MONITOR, Port.PROFILER})
"""An engine is what stands behind these three."""


class Service(Protocol):
    """Performs the actions of one port that is not the engine's."""

    def perform(self, action: act.Action) -> None:
        """Begin an action; its answer comes by ``poll``."""

    def poll(self) -> Sequence[ev.Report]:
        """The answers since the last call, oldest first."""

    def fileno(self) -> int | None:
        """Readable when there are answers; ``None`` = it answers at once."""

    def close(self) -> None:
        """Save what it has learned, and release its resources."""


def unanswerable(action: act.Action) -> list[ev.Report]:
    """The answer to an action whose port is absent."""
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
