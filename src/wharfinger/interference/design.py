"""Which set to measure next: what it would tell about decisions near the threshold.

The posterior of the default form is Gaussian, so the variance that a run would take off every other
prediction is known before it is made. With rows x of all candidate sets, V the covariance of the
weights, σ² the variance of a run, and ω_t the density of the drop of set t at the threshold,

    gain(s) = Σ_t ω_t (x_t V x_s)² / (x_s V x_s + σ²) = x_s V B V x_s / (x_s V x_s + σ²)

with B = Σ ω_t x_t x_tᵀ, and after each chosen set V loses V x_s x_sᵀ V / (x_s V x_s + σ²). A set
with a neighbor that alone breaks the threshold is never safe and not proposed (Pythia 3.7).

Source: Cohn, Ghahramani and Jordan (1996), who take the mean variance of all predictions; the
weights ω are ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from numpy.typing import NDArray

from wharfinger.interference.boxcox import BoxCox, BoxCoxPredictor
from wharfinger.interference.measurements import (
    DEFAULT_ERROR,
    ContentionMeasurements,
    Members,
    ServiceSets,
    SetTable,
)
from wharfinger.model.arrays import Array

MAX_CANDIDATES = 4000
FIRST = 2
"""Sets of a degree that are drawn at random before the first fit."""
ROUNDS = 3
"""Fits while a sample is chosen."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A set to measure.

    Attributes:
        worth: Share of the variance of decisions near the threshold that it removes.
        drop: Predicted, with its standard deviation.
    """

    service: ServiceSets
    neighbors: tuple[str, ...]
    worth: float
    drop: float
    std: float


def proposals(
    measurements: ContentionMeasurements,
    count: int,
    degrees: Sequence[int],
    qos: float,
    rng: np.random.Generator,
) -> list[Proposal]:
    """The sets worth most over all services, most first, each given those before it.

    Where there are very many, of a random part of them.
    """
    predictors = BoxCox().fit(measurements.services)
    found: list[Proposal] = []
    for service in measurements.services:
        predictor = predictors[service.setting]
        assert isinstance(predictor, BoxCoxPredictor)
        candidates = [
            each
            for degree in degrees
            for each in [_unmeasured(service, degree, qos, rng)]
            if len(each)
        ]
        if candidates:
            found += _chosen(service, predictor, candidates, count, qos)
    return sorted(found, key=lambda each: -each.worth)[:count]


def _unmeasured(service: ServiceSets, degree: int, qos: float, rng: np.random.Generator) -> Members:
    """(n, degree) sets of neighbors that are safe alone, without the measured ones."""
    bearable = service.single <= -np.log(qos) if service.scale.tells_performance else True
    usable = np.flatnonzero(~np.isnan(service.single) & bearable)
    if not len(usable):
        return np.zeros((0, degree), dtype=np.intp)
    total = comb(len(usable) + degree - 1, degree)
    if total <= MAX_CANDIDATES:
        all_sets = list(combinations_with_replacement(usable.tolist(), degree))
        members = np.array(all_sets, dtype=np.intp)
    else:
        members = np.unique(np.sort(rng.choice(usable, (MAX_CANDIDATES, degree)), axis=1), axis=0)
    known = service.sets.get(degree)
    measured = set(map(tuple, known.members.tolist())) if known is not None else set()
    return members[[tuple(each) not in measured for each in members.tolist()]]


def _chosen(
    service: ServiceSets,
    predictor: BoxCoxPredictor,
    candidates: Sequence[Members],
    count: int,
    qos: float,
) -> list[Proposal]:
    drops, stds = (
        np.concatenate(part)
        for part in zip(*(predictor.drops(each) for each in candidates), strict=True)
    )
    order, worth = ranked(service, predictor, candidates, count, qos)
    sets = [tuple(each) for members in candidates for each in members.tolist()]
    return [
        Proposal(
            service,
            tuple(service.names[at] for at in sets[number]),
            float(share),
            float(drops[number]),
            float(stds[number]),
        )
        for number, share in zip(order, worth, strict=True)
    ]


def ranked(
    service: ServiceSets,
    predictor: BoxCoxPredictor,
    candidates: Sequence[Members],
    count: int,
    qos: float,
) -> tuple[list[int], list[float]]:
    """Numbers of candidates, one after another, with what each removes of the variance."""
    rows, covariance, slopes, noise = predictor.linear(candidates)
    drops = np.concatenate([predictor.drops(each)[0] for each in candidates])
    deviations = np.sqrt(np.maximum(np.einsum("ij,ij->i", rows @ covariance, rows), 0)) / slopes
    near = _density(drops, deviations, noise, qos) if service.scale.tells_performance else 1.0
    spread = near / slopes**2
    run = (DEFAULT_ERROR**2 + noise) * slopes**2
    important = (rows * spread[:, None]).T @ rows if np.ndim(spread) else rows.T @ rows
    before = float(np.sum(important * covariance)) or 1.0
    order: list[int] = []
    worth: list[float] = []
    left = np.ones(len(rows), dtype=np.bool_)
    for _ in range(min(count, len(rows))):
        reach = rows @ covariance
        variance = np.maximum(np.einsum("ij,ij->i", reach, rows), 0.0) + run
        gain = np.einsum("ij,ij->i", reach @ important, reach) / variance
        best = int(np.argmax(np.where(left, gain, -1.0)))
        order.append(best)
        worth.append(float(gain[best]) / before)
        left[best] = False
        covariance = covariance - np.outer(reach[best], reach[best]) / variance[best]
    return order, worth


def _density(drops: Array, deviations: Array, noise: float, qos: float) -> Array:
    """Of each drop at the threshold, with a floor: far from it all tell as much."""
    std = np.sqrt(deviations**2 + noise) + DEFAULT_ERROR
    return np.asarray(np.exp(-0.5 * ((drops + np.log(qos)) / std) ** 2) + 0.05)


def by_information(
    measurements: ContentionMeasurements,
    share: float,
    rng: np.random.Generator,
    qos: float = 0.95,
) -> tuple[ContentionMeasurements, ContentionMeasurements]:
    """Of measured sets, those that tell most, as many as ``sampled`` takes; and the others."""
    both = [_informed(each, share, rng, qos) for each in measurements.services]
    return ContentionMeasurements(tuple(s for s, _ in both)), ContentionMeasurements(
        tuple(o for _, o in both)
    )


def _informed(
    service: ServiceSets, share: float, rng: np.random.Generator, qos: float
) -> tuple[ServiceSets, ServiceSets]:
    sizes = {d: max(1, round(share * len(table))) for d, table in service.sets.items()}
    total = sum(sizes.values())
    taken: dict[int, list[int]] = {
        degree: rng.permutation(len(table))[: min(FIRST, sizes[degree])].tolist()
        for degree, table in service.sets.items()
    }
    for turn in range(ROUNDS):
        goal = round(total * (turn + 1) / ROUNDS)
        missing = goal - sum(map(len, taken.values()))
        if missing > 0:
            _take(service, taken, missing, qos)
    return _split(service, taken)


def _take(service: ServiceSets, taken: dict[int, list[int]], count: int, qos: float) -> None:
    learned, _ = _split(service, taken)
    predictor = BoxCox().fit([learned])[service.setting]
    assert isinstance(predictor, BoxCoxPredictor)
    degrees = list(service.sets)
    rest = {d: _without(len(service.sets[d]), taken[d]) for d in degrees}
    candidates = [service.sets[d].members[rest[d]] for d in degrees]
    order, _ = ranked(service, predictor, candidates, count, qos)
    where = [(d, int(at)) for d in degrees for at in rest[d]]
    for number in order:
        degree, at = where[number]
        taken[degree].append(at)


def _without(size: int, places: Sequence[int]) -> NDArray[np.intp]:
    left = np.ones(size, dtype=np.bool_)
    left[list(places)] = False
    return np.flatnonzero(left)


def _split(service: ServiceSets, taken: dict[int, list[int]]) -> tuple[ServiceSets, ServiceSets]:
    chosen: dict[int, SetTable] = {}
    others: dict[int, SetTable] = {}
    for degree, table in service.sets.items():
        places = np.array(taken[degree], dtype=np.intp)
        chosen[degree] = table.take(places)
        others[degree] = table.take(_without(len(table), taken[degree]))
    return replace(service, sets=chosen), replace(service, sets=others)
