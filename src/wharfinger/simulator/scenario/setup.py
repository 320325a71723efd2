"""All that a scenario and a seed give for one run, drawn before it begins, for every policy."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.manifest.kinds import BOOLEAN, DURATION, NAME, TIME, choice
from wharfinger.manifest.sections import section
from wharfinger.model.platform import Server
from wharfinger.model.view import Resize
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.scenario.others import Evictions, ForeignJob
from wharfinger.simulator.scenario.scenario_kinds import FRACTION, SIGMA
from wharfinger.simulator.truth.ground_truth import GroundTruth

_MAX_OUTAGES = 1_000_000


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
class EngineAbility:
    """What the simulated engine can do; no policy plans anything else."""

    resize: Annotated[
        Resize, choice(Resize, "any")("How far it changes the allocations of what runs.")
    ] = Resize.ANY
    suspend: Annotated[bool, BOOLEAN("It suspends what runs, and resumes it.")] = True
    fractional_cpu: Annotated[bool, BOOLEAN("CPU in thousandths; else in whole CPUs.")] = True


@dataclass(frozen=True, slots=True)
class Measuring:
    """How well performance is seen."""

    every_seconds: Annotated[float, DURATION("Between two measurements of a server.")] = 30.0
    noise: Annotated[float, FRACTION("Standard deviation of a measurement's logarithm.")] = 0.03
    delay_seconds: Annotated[float, TIME("Until it is told.")] = 1.0


@dataclass(frozen=True, slots=True)
class Outage:
    """One server that is away for a while."""

    server: Annotated[str, NAME("E.g. `big-01`.")]
    at_seconds: Annotated[float, TIME("When.")]
    for_seconds: Annotated[float, DURATION("How long.")]

    @property
    def end_seconds(self) -> float:
        """When it is back."""
        return self.at_seconds + self.for_seconds


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong. Times between failures are exponentially distributed.

    Those of a run have listed outages only, in order of time (``draw_faults``).
    """

    outages: Annotated[
        tuple[Outage, ...],
        section(
            Outage, "Those listed besides. Servers are named by platform and number.", many=True
        ),
    ] = ()
    start_failures: Annotated[float, FRACTION("Share of starts that fail.")] = 0.0
    lost_answers: Annotated[float, FRACTION("Share of answers that are lost.")] = 0.0
    found_seconds: Annotated[float, DURATION("Until a lost one is noticed.", name="foundAfter")] = (
        30.0
    )
    mtbf_seconds: Annotated[float | None, DURATION("Mean time between failures.")] = None
    repair_seconds: Annotated[float, DURATION("Mean time until it is back.")] = 600.0


def draw_faults(
    faults: Faults, servers: Sequence[str], horizon_seconds: float, random: np.random.Generator
) -> Faults:
    """The faults of a run until the horizon.

    ``InvalidInput`` if an outage names no server, or far too many would be drawn.
    """
    names = set(servers)
    for outage in faults.outages:
        if outage.server not in names:
            some = ", ".join(servers) if len(servers) <= 3 else f"{servers[0]} to {servers[-1]}"
            raise InvalidInput(f"faults: no server {outage.server!r}; they are {some}")
    outages = [*faults.outages]
    mtbf, repair = faults.mtbf_seconds, faults.repair_seconds
    if mtbf is not None:
        expected = len(servers) * horizon_seconds / (mtbf + repair)
        if expected > _MAX_OUTAGES:
            raise InvalidInput(f"faults: about {expected:.0f} failures in all; raise mtbf")
        for server in servers:
            at = random.exponential(mtbf)
            while at < horizon_seconds:
                away = random.exponential(repair)
                outages.append(Outage(server, at, away))
                at += away + random.exponential(mtbf)
    in_order = sorted(_merged(outages), key=lambda outage: (outage.at_seconds, outage.server))
    return replace(faults, outages=tuple(in_order), mtbf_seconds=None)


def _merged(outages: Iterable[Outage]) -> list[Outage]:
    merged: list[Outage] = []
    for outage in sorted(outages, key=lambda outage: (outage.server, outage.at_seconds)):
        last = merged[-1] if merged else None
        if last is None or outage.server != last.server or outage.at_seconds > last.end_seconds:
            merged.append(outage)
        else:
            end = max(last.end_seconds, outage.end_seconds)
            merged[-1] = replace(last, for_seconds=end - last.at_seconds)
    return merged


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """Input of one run.

    Attributes:
        jobs: In order of arrival.
        training: Applications that were profiled exhaustively before, for policies that classify.
        needs: Of the physics: by application, usable thousandths of a CPU on a server, and bytes.
        others: Jobs of others on the same servers, in order of time.
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
    engine: EngineAbility = field(default_factory=EngineAbility)
    max_servers: int = 8
    notes: tuple[str, ...] = ()
    needs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    others: tuple[ForeignJob, ...] = ()
    evictions: Evictions | None = None
