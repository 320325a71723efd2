"""Faults, as a scenario states them, and drawn: when servers fail and are back."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.manifest.kinds import DURATION
from wharfinger.manifest.sections import section
from wharfinger.simulator.scenario.scenario_kinds import FRACTION
from wharfinger.simulator.scenario.setup import Faults, Outage

_MAX_OUTAGES = 1_000_000


@dataclass(frozen=True, slots=True)
class FaultModel:
    """What goes wrong. Times between failures are exponentially distributed."""

    mtbf_seconds: Annotated[float | None, DURATION("Mean time between failures.")] = None
    repair_seconds: Annotated[float, DURATION("Mean time until it is back.")] = 600.0
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


def draw_faults(
    model: FaultModel, servers: Sequence[str], horizon_seconds: float, random: np.random.Generator
) -> Faults:
    """The faults of a run until the horizon.

    Raises:
        InvalidInput: A listed outage names no server, or far too many would be drawn.
    """
    names = set(servers)
    for outage in model.outages:
        if outage.server not in names:
            some = ", ".join(servers) if len(servers) <= 3 else f"{servers[0]} to {servers[-1]}"
            raise InvalidInput(f"faults: no server {outage.server!r}; they are {some}")
    outages = [*model.outages]
    if model.mtbf_seconds is not None:
        expected = len(servers) * horizon_seconds / (model.mtbf_seconds + model.repair_seconds)
        if expected > _MAX_OUTAGES:
            raise InvalidInput(f"faults: about {expected:.0f} failures in all; raise mtbf")
        for server in servers:
            outages += _of_server(server, model.mtbf_seconds, model, horizon_seconds, random)
    return Faults(
        tuple(sorted(_merged(outages), key=lambda outage: (outage.at_seconds, outage.server))),
        model.start_failures,
        model.lost_answers,
        model.found_seconds,
    )


def _of_server(
    server: str, mtbf: float, model: FaultModel, horizon: float, random: np.random.Generator
) -> Iterator[Outage]:
    at = random.exponential(mtbf)
    while at < horizon:
        away = random.exponential(model.repair_seconds)
        yield Outage(server, at, away)
        at += away + random.exponential(mtbf)


def _merged(outages: Iterable[Outage]) -> Iterator[Outage]:
    """One where several of a server overlap."""
    last: Outage | None = None
    for outage in sorted(outages, key=lambda outage: (outage.server, outage.at_seconds)):
        if last is None:
            last = outage
        elif outage.server != last.server or outage.at_seconds > _end(last):
            yield last
            last = outage
        else:
            end = max(_end(last), _end(outage))
            last = Outage(last.server, last.at_seconds, end - last.at_seconds)
    if last is not None:
        yield last


def _end(outage: Outage) -> float:
    return outage.at_seconds + outage.for_seconds
