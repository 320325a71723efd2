"""All that a scenario and a seed give for one run: servers, jobs, ground truth, costs, faults.

Everything is drawn before the run begins, so that two policies see the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from wharfinger.manifest.kinds import BOOLEAN, DURATION, NAME, TIME
from wharfinger.model.platform import Server
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.scenario.scenario_kinds import FRACTION, SIGMA
from wharfinger.simulator.truth.ground_truth import GroundTruth


@dataclass(frozen=True, slots=True)
class Costs:
    """What takes time besides running."""

    start_seconds: Annotated[float, TIME("From a start to the program running, mean.")] = 1.0
    start_spread: Annotated[
        float, SIGMA("Standard deviation of its logarithm.", name="startSigma")
    ] = 0.3
    resize_seconds: Annotated[float, TIME("Until a changed allocation holds.")] = 0.5
    stop_seconds: Annotated[float, TIME("Until a stop is done.")] = 0.5
    move_seconds: Annotated[float, TIME("What a start takes longer after a move.")] = 5.0
    keeps_work: Annotated[bool, BOOLEAN("A moved workload goes on where it was.")] = False
    phase_seconds: Annotated[
        float | None,
        DURATION("Of each profiling run.", name="profilingRun", default="as its plan says"),
    ] = None
    acquire_seconds: Annotated[float, TIME("From a server being ordered to its joining.")] = 60.0


@dataclass(frozen=True, slots=True)
class Outage:
    """One server that is away for a while."""

    server: Annotated[str, NAME("E.g. `big-01`.")]
    at_seconds: Annotated[float, TIME("When.")]
    for_seconds: Annotated[float, DURATION("How long.")]


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults of a run.

    Attributes:
        outages: In order of time.
        start_failures: Share of starts that fail and may be retried.
        lost_answers: Share of the engine's answers about workloads that are lost.
        found_seconds: After these the engine looks again and reports what was lost.
    """

    outages: tuple[Outage, ...] = ()
    start_failures: float = 0.0
    lost_answers: float = 0.0
    found_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Measuring:
    """How well performance is seen."""

    every_seconds: Annotated[float, DURATION("Between two measurements of a server.")] = 30.0
    noise: Annotated[float, FRACTION("Standard deviation of a measurement's logarithm.")] = 0.03
    delay_seconds: Annotated[float, TIME("Until it is told.")] = 1.0


@dataclass(frozen=True, slots=True)
class Setup:
    """Input of one run.

    Attributes:
        servers: At the beginning.
        jobs: In order of arrival.
        training: Applications that were profiled exhaustively before, for policies that classify.
        until_seconds: End of the run; ``None`` = when nothing more happens.
        fractional_cpu: Whether CPU is allocated in thousandths; else whole CPUs.
        max_servers: Of one workload.
        notes: For readers of results, a sentence each.
        needs: Of the physics: thousandths of a CPU that each application can use on a server, and
            memory that it takes.
    """

    name: str
    servers: tuple[Server, ...]
    jobs: tuple[Job, ...]
    truth: GroundTruth
    costs: Costs = field(default_factory=Costs)
    faults: Faults = field(default_factory=Faults)
    measuring: Measuring = field(default_factory=Measuring)
    training: tuple[str, ...] = ()
    until_seconds: float | None = None
    fractional_cpu: bool = True
    max_servers: int = 8
    notes: tuple[str, ...] = ()
    needs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
