"""Several servers for one workload, where one does not keep its target (Quasar 3.3, scale-out).

Over its target, on a set of n servers that each alone give it p_i, with o(n) the performance on n
servers over that on one (the classification of scale-out):

    P = o(n) / n * sum of p_i

A service has o(n) = n: its balancer gives each server load in proportion to what it holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.contention import Array, LogEstimates, Rows
from wharfinger.model.arrays import normal_below
from wharfinger.model.profile import Classification, Estimate, quantile
from wharfinger.model.view import Capabilities, Request, View
from wharfinger.model.workload import Spread, Workload, WorkloadType
from wharfinger.policies.placement.sizing import ALONE, LEAST_STD, Sizing

WORTH = 0.1
"""Of a target: by so much each further server must raise the probability that it is kept, where no
number of servers is sure to keep it."""

NEARLY = 0.95
"""Of what a further server gives at most: with less CPU it is worth as much."""


CHEAPER = 0.8
"""Of the CPU that fewer servers take: what more servers may take, to be worth it."""


@dataclass(frozen=True, slots=True)
class ServerSet:
    """Servers for one workload, the best first.

    Attributes:
        normalized: Performance over target of all together.
        kept: Probability that the target is kept.
        lost: Targets of residents that are expected to be lost for it.
        shares: What each server gives of ``normalized``, which is their sum.
    """

    rows: tuple[int, ...]
    cpu_millicpus: tuple[int, ...]
    normalized: Estimate
    kept: float
    lost: float
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ServerChoice:
    """Among which sets are looked for.

    Attributes:
        free_millicpus: (S,) CPU that is free.
        possible: (S,) those that may be taken.
        lost: (S,) targets of residents that are expected to be lost for it.
        outs: Performance on each number of servers over that on one, by ``scale_out``.
        plateau: More CPU than gives this share of the most is not looked at.
        zone: (S,) over which they are spread: no zone has two more than another that could have
            one; ``None`` = over nothing.
    """

    free_millicpus: NDArray[np.int64]
    possible: NDArray[np.bool_]
    lost: Array
    outs: Mapping[int, Estimate]
    plateau: float
    zone: NDArray[np.int64] | None = None


def scale_out(
    workload: Workload, classification: Classification | None, capabilities: Capabilities
) -> dict[int, Estimate]:
    """Performance on each number of servers that it may have over that on one; with ``1``.

    Numbers that are not classified are between those that are, in logarithms.

    >>> from wharfinger.model.workload import Run, Scale
    >>> sort = Workload("sort", WorkloadType.BATCH, Run(("sort",)), scale=Scale(max_servers=4))
    >>> known = Classification("", "", servers={1: Estimate(1.0, 0.0), 4: Estimate(3.0, 0.2)})
    >>> outs = scale_out(sort, known, Capabilities(max_servers_per_workload=8))
    >>> {count: round(estimate.mean, 2) for count, estimate in outs.items()}
    {1: 1.0, 2: 1.73, 3: 2.39, 4: 3.0}
    """
    most = min(workload.scale.max_servers, capabilities.max_servers_per_workload)
    if most < 2 or classification is None:
        return {1: ALONE}
    if workload.type is WorkloadType.LATENCY_CRITICAL:
        return {count: Estimate(float(count), 0.0) for count in range(1, most + 1)}
    known = {1: ALONE, **{n: e for n, e in classification.servers.items() if n > 1}}
    counts = range(1, min(most, max(known)) + 1)
    at = [log(count) for count in sorted(known)]
    means = np.interp(np.log(counts), at, [log(known[n].mean) for n in sorted(known)])
    stds = np.interp(np.log(counts), at, [known[n].std for n in sorted(known)])
    return {n: Estimate(exp(m), float(s)) for n, m, s in zip(counts, means, stds, strict=True)}


def best_set(sizing: Sizing, servers: ServerChoice) -> ServerSet | None:
    """The fewest servers that keep the target with the confidence, and the least CPU there.

    Where no number does: as many as raise the probability by enough each. ``None`` = there are no
    two.
    """
    (rows, most), lost, outs = _by_quality(sizing, servers), servers.lost, servers.outs
    best: ServerSet | None = None
    for count in range(2, min(len(rows), max(outs)) + 1):
        found = _set_of(sizing, rows[:count], most[:count], lost, outs[count])
        if found.kept >= sizing.confidence:
            return _with_least(sizing, found, lost, outs[count])
        if best is None or found.kept - best.kept >= WORTH * (count - len(best.rows)):
            best = found
    return best


def cheaper_set(sizing: Sizing, servers: ServerChoice, most_millicpus: int) -> ServerSet | None:
    """Several servers that keep the target with at most so much CPU together; ``None`` = none do.

    Performance grows less and less with CPU on one server, so that two parts may take less. The
    rest as ``best_set``; of two numbers of servers the larger one must be as much cheaper again.
    """
    (rows, most), lost, outs = _by_quality(sizing, servers), servers.lost, servers.outs
    best: ServerSet | None = None
    for count in range(2, len(rows) + 1):
        found = _set_of(sizing, rows[:count], most[:count], lost, outs[count])
        if found.kept < sizing.confidence:
            continue
        found = _with_least(sizing, found, lost, outs[count])
        given = sum(found.cpu_millicpus)
        if given <= most_millicpus:
            best, most_millicpus = found, round(CHEAPER * given)
    return best


def _by_quality(sizing: Sizing, servers: ServerChoice) -> tuple[Rows, list[int]]:
    """As many as it may have, on which it does best, the best first; the most CPU on each."""
    at = _most_of(sizing, servers.free_millicpus, servers.plateau)
    rows = np.flatnonzero(servers.possible & (at >= 0))
    does = sizing.curve.medians[at[rows]] - sizing.drop.mean[rows]
    order = np.argsort(servers.lost[rows] - does, kind="stable")
    in_order = rows[order] if servers.zone is None else in_turn(rows[order], servers.zone)
    rows = in_order[: max(servers.outs)]
    return rows, sizing.curve.sizes[at[rows]].tolist()


def with_next(sizing: Sizing, found: ServerSet, servers: ServerChoice) -> ServerSet | None:
    """The same and the best server that is not in it, as ``best_set``; ``None`` = there is none."""
    at = _most_of(sizing, servers.free_millicpus, servers.plateau)
    left = servers.possible & (at >= 0)
    left[list(found.rows)] = False
    if servers.zone is not None:
        left = least_used(servers.zone, found.rows, left)
    if len(found.rows) + 1 not in servers.outs or not left.any():
        return None
    does = sizing.curve.medians[np.maximum(at, 0)] - sizing.drop.mean
    row = int(np.where(left, does - servers.lost, -np.inf).argmax())
    rows = np.array([*found.rows, row], dtype=np.intp)
    cpu = [*found.cpu_millicpus, int(sizing.curve.sizes[at[row]])]
    return _set_of(sizing, rows, cpu, servers.lost, servers.outs[len(rows)])


def zones_of(request: Request, view: View) -> NDArray[np.int64] | None:
    """(S,) over which its servers are to be spread; ``None`` = over nothing."""
    return view.zone if request.workload.scale.spread is Spread.ZONE else None


def in_turn(rows: Rows, zone: NDArray[np.int64]) -> Rows:
    """The first of each zone, then the second of each, and so on; unknown ones are their own."""
    of_each = zone[rows]
    by_zone = np.argsort(of_each, kind="stable")
    _, first, counts = np.unique(of_each[by_zone], return_index=True, return_counts=True)
    turn = np.empty(len(rows), dtype=np.intp)
    turn[by_zone] = np.arange(len(rows)) - np.repeat(first, counts)
    return rows[np.argsort(np.where(of_each > 0, turn, 0), kind="stable")]


def least_used(
    zone: NDArray[np.int64], held: Iterable[int], candidates: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """The candidates in the zones that have least of it; an unknown zone has nothing of it."""
    of_zone = np.bincount(zone[list(held)], minlength=int(zone.max()) + 1)
    of_zone[0] = 0
    has = of_zone[zone]
    return np.asarray(candidates & (has == has[candidates].min(initial=len(zone))))


def _most_of(
    sizing: Sizing, free_millicpus: NDArray[np.int64], plateau: float
) -> NDArray[np.int64]:
    """(S,) index of the largest size that is free there and of use; -1 = there is none."""
    sizes, medians = sizing.curve.sizes, sizing.curve.medians
    useful = sizes[int(np.argmax(medians >= medians.max() + log(plateau)))]
    return np.asarray(sizes.searchsorted(np.minimum(free_millicpus, useful), side="right") - 1)


def _together(
    sizing: Sizing, rows: Rows, cpu_millicpus: NDArray[np.int64], out: Estimate
) -> tuple[Array, Array, Array]:
    """Of (K, N) CPU on N servers: (K, N) what each gives, (K,) deviation, (K,) P(kept)."""
    at = np.minimum(sizing.curve.sizes.searchsorted(cpu_millicpus), len(sizing.curve.sizes) - 1)
    alone = np.exp(sizing.curve.medians[at] - sizing.drop.mean[rows])
    stds = np.sqrt(sizing.curve.variances[at] + sizing.drop.variance[rows])
    together = alone.sum(axis=1)
    # The parts share the curve, so their errors are taken as one.
    std = np.hypot((alone * stds).sum(axis=1) / together, out.std)
    mean = together * out.mean / len(rows)
    kept = normal_below((np.log(mean) - sizing.kept) / np.hypot(std, LEAST_STD))
    return alone * out.mean / len(rows), std, kept


def _set_of(
    sizing: Sizing, rows: Rows, cpu_millicpus: Sequence[int], lost: Array, out: Estimate
) -> ServerSet:
    given = np.array([cpu_millicpus], dtype=np.int64)
    (shares,), (std,), (kept,) = _together(sizing, rows, given, out)
    return ServerSet(
        tuple(rows.tolist()),
        tuple(cpu_millicpus),
        Estimate(float(shares.sum()), float(std)),
        float(kept),
        float(lost[rows].sum()),
        tuple(shares.tolist()),
    )


def _with_least(sizing: Sizing, found: ServerSet, lost: Array, out: Estimate) -> ServerSet:
    """The same with the least CPU that still keeps the target: of all, then of the last."""
    rows, given = np.array(found.rows, dtype=np.intp), np.array(found.cpu_millicpus)
    for capped in (slice(None), slice(-1, None)):
        caps = sizing.curve.sizes[sizing.curve.sizes < given[capped].max()]
        less = np.tile(given, (len(caps), 1))
        less[:, capped] = np.minimum(less[:, capped], caps[:, np.newaxis])
        enough = np.flatnonzero(_together(sizing, rows, less, out)[2] >= sizing.confidence)
        if enough.size:
            given = less[enough[0]]
    return _set_of(sizing, rows, given.tolist(), lost, out)


def best_when_empty(
    sizing: Sizing,
    suffered: LogEstimates,
    capacity_millicpus: NDArray[np.int64],
    usable: NDArray[np.bool_],
    outs: Mapping[int, Estimate],
    plateau: float,
    zone: NDArray[np.int64] | None = None,
) -> ServerSet | None:
    """``best_set`` if nothing else ran on the ``usable`` servers; ``suffered`` is by residents."""
    mean = sizing.drop.mean - suffered.mean
    variance = np.maximum(sizing.drop.variance - suffered.variance, 0.0)
    alone = replace(sizing, drop=LogEstimates(mean, variance))
    nothing = np.zeros(len(capacity_millicpus))
    return best_set(alone, ServerChoice(capacity_millicpus, usable, nothing, outs, plateau, zone))


@dataclass(frozen=True, slots=True)
class OneMore:
    """One server more for what runs: its row, its CPU, and times the present performance."""

    row: int
    cpu_millicpus: int
    factor: float


def one_more(
    sizing: Sizing,
    suffered: Array,
    held: Mapping[int, int],
    free_millicpus: NDArray[np.int64],
    possible: NDArray[np.bool_],
    lost: Array,
    outs: Mapping[int, Estimate],
    wanted: float,
    plateau: float,
    zone: NDArray[np.int64] | None = None,
    confidence: float | None = None,
) -> OneMore | None:
    """The best further server, with the least CPU that multiplies the performance by ``wanted``.

    ``held`` is the CPU on each row where it runs, ``suffered`` (S,) what residents take off a
    newcomer's logarithm of performance; the rest as ``best_set``. Both performances are predicted,
    so that what is wrong of the prediction on all servers alike does not count. With a
    ``confidence``, server and size are chosen by what it gives at least with that, and where no
    size is enough it gets the least that gives nearly as much as any.
    """
    count = len(held) + 1
    at = _most_of(sizing, free_millicpus, plateau)
    candidates = possible & (lost < 1.0) & (at >= 0)
    if zone is not None:
        candidates = least_used(zone, held, candidates)
    if count not in outs or not candidates.any():
        return None
    rows = np.fromiter(held, dtype=np.intp)
    alone = sizing.drop.mean - suffered
    here = float(np.exp(_medians(sizing, list(held.values())) - alone[rows]).sum())
    z = 0.0 if confidence is None else quantile(confidence)
    most = np.maximum(at, 0)
    does_most = sizing.curve.medians[most] - sizing.drop.mean
    does_most = does_most - z * np.sqrt(sizing.curve.variances[most] + sizing.drop.variance)
    row = int(np.where(candidates, does_most - lost, -np.inf).argmax())
    sizes = sizing.curve.sizes[: at[row] + 1]
    does = np.exp(_medians(sizing, sizes) - sizing.drop.mean[row])
    scaled = outs[count].mean / count / (outs[count - 1].mean / (count - 1))
    factors = scaled * (here + does) / here
    variances = sizing.curve.variances[: at[row] + 1] + sizing.drop.variance[row]
    sure = does * np.exp(-z * np.sqrt(variances))
    enough = np.flatnonzero(scaled * (here + sure) / here >= wanted)
    if not enough.size and confidence is not None:
        enough = np.flatnonzero(sure >= NEARLY * sure.max())
    least = int(enough[0]) if enough.size else int(factors.argmax())
    return OneMore(row, int(sizes[least]), float(factors[least]))


def _medians(sizing: Sizing, cpu_millicpus: Sequence[int] | NDArray[np.int64]) -> Array:
    """Logarithms of performance over target with so much CPU, without neighbors."""
    at = np.minimum(sizing.curve.sizes.searchsorted(cpu_millicpus), len(sizing.curve.sizes) - 1)
    return np.asarray(sizing.curve.medians[at])
