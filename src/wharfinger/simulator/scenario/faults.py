"""Draws when servers fail and are back."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.simulator.scenario.scenario_types import FaultModel
from wharfinger.simulator.scenario.setup import Faults, Outage

_MOST_OUTAGES = 1_000_000


def draw_faults(
    model: FaultModel, servers: Sequence[str], horizon_seconds: float, random: np.random.Generator
) -> Faults:
    """What goes wrong in a run.

    Args:
        model: As stated.
        servers: Their names.
        horizon_seconds: Nothing is drawn beyond it.
        random: Of faults alone.

    Raises:
        InvalidInput: A listed outage names no server, or far too many would be drawn.
    """
    known = set(servers)
    for outage in model.outages:
        if outage.server not in known:
            raise InvalidInput(f"faults: no server {outage.server!r}; they are {_some(servers)}")
    outages = [*model.outages]
    if model.mtbf_seconds is not None:
        expected = len(servers) * horizon_seconds / (model.mtbf_seconds + model.repair_seconds)
        if expected > _MOST_OUTAGES:
            raise InvalidInput(f"faults: about {expected:.0f} failures in all; raise mtbf")
        for server in servers:
            outages += _of_server(server, model.mtbf_seconds, model, horizon_seconds, random)
    return Faults(
        tuple(sorted(_merged(outages), key=lambda outage: (outage.at_seconds, outage.server))),
        model.start_failures,
        model.lost_answers,
        model.found_seconds,
    )


def _some(servers: Sequence[str]) -> str:
    return ", ".join(servers) if len(servers) <= 3 else f"{servers[0]} to {servers[-1]}"


def _of_server(
    server: str, mtbf: float, model: FaultModel, horizon: float, random: np.random.Generator
) -> Iterator[Outage]:
    """It is there, and away, for exponentially distributed times."""
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
