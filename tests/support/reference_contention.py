"""The contention model in plain NumPy, by another method than the compiled solver's.

Tests and ``benchmarks/contention.py`` hold the kernel against it; nothing else calls it, since it
is thousands of times slower. The equations are those of ``solver``'s docstring. For given cache
shares and turns at the CPUs, each device's utilisation is bisected in turn until none moves;
shares and turns are a damped iteration around that. No derivative is taken.

Where each law comes from:

- Time per instruction is a sum of what the core takes and of what it waits for at each level, and
  misses under way together share one wait: Karkhanis and Smith, A first-order superscalar
  processor model (ISCA 2004); Chou, Fahs and Abraham, memory-level parallelism (ISCA 2004).
- Latency over that of an idle device, 1 + k u^2 / (1 - u): the form of the mean wait in a queue
  with one server (Pollaczek and Khinchine); its k is the model's own choice.
- Residents hold cache in proportion to what they bring in: Suh, Devadas and Rudolph, Analytical
  cache models (ICS 2001); Chandra, Guo, Kim and Solihin, inter-thread contention (HPCA 2005).
  That hits keep a line too, by a twentieth of a miss, stands for replacement by age.
- Speed-up of threads: Gunther's universal scalability law (``application.usl``).
- Threads in excess of the CPUs take turns, each the same share of its time: proportional-share
  scheduling, as Linux does it for equal weights.
- What a sibling thread costs: ``coefficients``. What paging costs, the square of the shortage, and
  the whims of a pair are this model's own (``docs/decisions/0033-physics.md``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt, tanh

import numpy as np

from wharfinger.errors import WharfingerError
from wharfinger.model.arrays import Array
from wharfinger.simulator.truth.physics.application import GRID_BYTES, usl
from wharfinger.simulator.truth.physics.coefficients import (
    LINE_BYTES,
    SOURCE,
    CoefficientRow,
    row_of,
)
from wharfinger.simulator.truth.physics.hardware import Hardware
from wharfinger.simulator.truth.physics.solver import GAINS, Asked, Constants, bandwidths

HIT_PRESSURE = 0.05
LEAST_SHARE = 64.0
LEAST_SPEED = 1e-12
WHIM_BOUND = 0.25
CLOSE = 1e-9
"""What shares and turns may still move, relative; devices are sought a hundred times closer."""
MOST = 2000
_PIECES = np.linspace(0.0, 1.0, 33)
_WORD = 2**64 - 1


class NoFixedPointError(WharfingerError):
    """The iteration did not settle."""


@dataclass(frozen=True, slots=True)
class State:
    """A guess, or the answer.

    Attributes:
        shares: (N,) bytes of the last-level cache that each holds.
        utilisations: (4,) of memory, last-level cache, disk and network.
        turn: Share of its time that each thread has a CPU.
    """

    shares: Array
    utilisations: Array
    turn: float = 1.0


@dataclass(frozen=True, slots=True)
class Found:
    """As ``solver.Solution``, and where it was found."""

    could: Array
    does: Array
    busy: Array
    state: State


@dataclass(frozen=True, slots=True)
class _Group:
    """What does not change while the rest is sought; (N,) each, if nothing else is said.

    Attributes:
        threads: That run.
        speed: Over one thread.
        cap: Instructions per ns, infinite = all that it can.
        fixed: ns per instruction of one thread in the core.
        cache: ns per instruction of one thread that it waits for an idle last level.
        access: Per instruction.
        miss_time: ns of one thread for each miss, memory idle.
        devices: (2, N) ns per instruction that disk and network take, idle.
        line: Bytes to and from memory for each miss.
        streams: (3, N) share of the cache's ports, disk and network for each instruction per ns.
        reach: Bytes of the cache that it can fill.
        curves: (N, K) misses per instruction on the grid of sizes.
        memory_bandwidth: Bytes per ns.
        cpus: Of the server.
        llc: Bytes of it.
    """

    threads: Array
    speed: Array
    cap: Array
    fixed: Array
    cache: Array
    access: Array
    miss_time: Array
    devices: Array
    line: Array
    streams: Array
    reach: Array
    curves: Array
    memory_bandwidth: float
    cpus: float
    llc: float

    def misses(self, shares: Array) -> Array:
        """Per instruction: straight lines between the points of the grid."""
        places, grid = np.log2(shares), np.log2(GRID_BYTES)
        lines = zip(places, self.curves, strict=True)
        return np.array([np.interp(place, grid, curve) for place, curve in lines])

    def waits(self, shares: Array, turn: float) -> tuple[Array, Array]:
        """Ns per instruction in the core, (N,), and at the four devices if idle, (4, N)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(self.speed >= LEAST_SPEED, 1 / (self.speed * turn), np.inf)
            caches = np.array([self.miss_time * self.misses(shares), self.cache])
            own = np.where(np.isinf(each), np.inf, self.fixed * each)
            return own, np.vstack([np.where(caches > 0, caches * each, 0.0), self.devices])

    def demands(self, shares: Array) -> Array:
        """(4, N) share of each device that an instruction per ns takes."""
        memory = self.misses(shares) * self.line / self.memory_bandwidth
        return np.vstack([memory, self.streams])


def solve(
    asked: Sequence[Asked],
    hardware: Hardware,
    constants: Constants,
    start: State | None = None,
) -> Found:
    """Rates of the residents of one server.

    Args:
        asked: Of the residents.
        hardware: Of the server.
        constants: Of the model.
        start: Where to begin; the answer must not depend on it.

    Raises:
        NoFixedPointError: Nothing settled.
    """
    group = _group(asked, hardware, constants)
    crowded = float(group.reach.sum()) > group.llc
    state = start or State(group.reach * min(1.0, group.llc / group.reach.sum()), np.full(4, 0.3))
    if not crowded:
        state = replace(state, shares=group.reach)
    if group.threads.sum() <= group.cpus:
        state = replace(state, turn=1.0)
    damping, last = np.full(len(asked) + 1, 0.5), np.zeros(len(asked) + 1)
    for _ in range(MOST):
        state = replace(state, utilisations=_utilisations(group, state))
        found = _rates(group, state)
        shares = _filled(group, state, found.does) if crowded else state.shares
        turn = _turn(group, state, found.busy)
        step = np.log([*(shares / state.shares), turn / state.turn])
        if np.max(np.abs(step)) < CLOSE:
            return found
        # What turns round has gone too far.
        damping = np.where(step * last < 0, 0.5 * damping, np.minimum(1.0, 1.1 * damping))
        last, factor = step, np.exp(damping * step)
        state = State(state.shares * factor[:-1], state.utilisations, state.turn * factor[-1])
    raise NoFixedPointError(f"shares still move by {np.max(np.abs(step)):.1e} after {MOST} rounds")


# --- for given cache shares and turns -----------------------------------------------------


def _latency(device: int, u: Array | float) -> Array:
    return np.asarray(1 + GAINS[device] * u * u / (1 - u))


def _rates(group: _Group, state: State) -> Found:
    own, waits = group.waits(state.shares, state.turn)
    times = waits * np.array([_latency(r, u) for r, u in enumerate(state.utilisations)])[:, None]
    could = 1 / (own + times.sum(axis=0))
    does = np.minimum(could, group.cap)
    computing = np.where(group.speed >= LEAST_SPEED, own + times[:2].sum(axis=0), 0.0)
    return Found(could, does, computing * group.threads * state.turn * does, state)


def _utilisations(group: _Group, state: State) -> Array:
    """Each device's in turn, the others held, until none moves."""
    u = state.utilisations.copy()
    own, waits = group.waits(state.shares, state.turn)
    demands = group.demands(state.shares)
    for _ in range(MOST):
        before = u.copy()
        for r in range(4):
            others = own + sum(waits[s] * _latency(s, u[s]) for s in range(4) if s != r)
            u[r] = _bisected(r, float(u[r]), others, waits[r], demands[r], group.cap)
        if float(np.max(np.abs(u - before))) < CLOSE / 100:
            return u
    raise NoFixedPointError("the devices' utilisations do not settle")


def _bisected(
    device: int, guess: float, others: Array, wait: Array, demand: Array, cap: Array
) -> float:
    """Where what the residents take is what the device is used: more latency, less taken.

    Cut in 32 rather than in 2 at a time, as NumPy does these at once; first around the guess.
    """
    if not np.any(demand):
        return 0.0
    near = guess + np.array([-1e-4, -1e-8, 1e-8, 1e-4])
    points = np.array([0.0, *near[(near > 0) & (near < 1)], 1 - 1e-12])
    while True:
        times = others[:, None] + wait[:, None] * _latency(device, points)
        taken = demand @ np.minimum(1 / times, cap[:, None])
        at = min(max(1, int(np.sum(taken > points))), len(points) - 1)
        low, high = float(points[at - 1]), float(points[at])
        if high - low < CLOSE / 1e4:
            return (low + high) / 2
        points = low + (high - low) * _PIECES


# --- what they move to --------------------------------------------------------------------


def _filled(group: _Group, state: State, does: Array) -> Array:
    """Cache in proportion to what each brings in; none more than it can fill, nor no line."""
    pressure = does * (group.misses(state.shares) + HIT_PRESSURE * group.access)
    few = pressure * group.llc <= LEAST_SHARE * pressure.sum()
    fixed, shares = few, np.where(few, LEAST_SHARE, group.reach)
    while not np.all(fixed):
        left = group.llc - shares[fixed].sum()
        portions = pressure * left / pressure[~fixed].sum()
        over = ~fixed & (portions >= group.reach)
        if not np.any(over):
            return np.where(fixed, shares, portions)
        fixed = fixed | over
    return shares


def _turn(group: _Group, state: State, busy: Array) -> float:
    """Share of its time that each thread has a CPU, so that no more than all are busy."""
    threads, total = float(group.threads.sum()), float(busy.sum())
    if threads <= group.cpus or total <= 0:
        return 1.0
    return min(1.0, max(group.cpus / threads, state.turn * group.cpus / total))


# --- what does not change -----------------------------------------------------------------


def _group(asked: Sequence[Asked], hardware: Hardware, constants: Constants) -> _Group:
    rows = [
        row_of(each.application, hardware.cores_of(each.cores), constants.smt_cost)
        for each in asked
    ]
    threads = [min(each.cpus, row.threads) for each, row in zip(asked, rows, strict=True)]
    memory, ports, disk, network = bandwidths(hardware, constants)

    def of(name: str) -> Array:
        return np.array([getattr(row, name) for row in rows], dtype=np.float64)

    rereads = np.array([each.rereads for each in asked])
    parts = np.array([each.part for each in asked])
    over_one = [usl(n, row.contention, row.coherence) for n, row in zip(threads, rows, strict=True)]
    speed = np.array(over_one) * parts
    caps = np.array([each.cap for each in asked])
    weights = [
        _weight(each, row, n, float(fast))
        for each, row, n, fast in zip(asked, rows, threads, speed, strict=True)
    ]
    slower, devices = _all_whims(asked, rows, weights, disk, constants.whim)
    return _Group(
        threads=np.array(threads),
        speed=speed / slower,
        cap=np.where(caps < 0, np.inf, caps),
        fixed=_fixed(asked, rows, threads, weights, hardware, constants),
        cache=of("cache"),
        access=of("access"),
        miss_time=of("miss_time"),
        devices=np.array([(of("disk_time") + rereads / disk) * devices, of("network_time")]),
        line=of("line"),
        streams=np.array(
            [
                of("access") * LINE_BYTES / ports,
                (of("disk") + rereads) / disk,
                of("network") / network,
            ]
        ),
        reach=of("reach"),
        curves=np.array([row.curve for row in rows]),
        memory_bandwidth=memory,
        cpus=float(hardware.cores),
        llc=float(hardware.llc_bytes),
    )


def _fixed(
    asked: Sequence[Asked],
    rows: Sequence[CoefficientRow],
    threads: Sequence[float],
    weights: Sequence[float],
    hardware: Hardware,
    constants: Constants,
) -> Array:
    """Ns per instruction in the core: paging and siblings counted."""
    paging = [_paging(at, asked, rows, hardware) for at in range(len(rows))]
    siblings = _siblings(asked, rows, threads, weights, hardware, constants)
    core = np.array([row.core for row in rows])
    return np.asarray(core + np.array(paging) + siblings)


def _weight(asked: Asked, row: CoefficientRow, threads: float, speed: float) -> float:
    """Threads that are busy, about."""
    weight = threads * row.active
    if asked.cap >= 0 and speed > 0:
        weight *= min(1.0, asked.cap * (row.core + row.cache + row.access * row.miss_time) / speed)
    return weight


def _paging(
    at: int, asked: Sequence[Asked], rows: Sequence[CoefficientRow], hardware: Hardware
) -> float:
    """Of memory it lacks what it was not given, and of that what the server has not."""
    taken = sum(each.memory_bytes for each in asked)
    given = min(1.0, asked[at].memory_bytes / rows[at].footprint)
    had = min(1.0, hardware.memory_bytes / taken) if taken > 0 else 1.0
    return rows[at].paging * (1 - given * had) ** 2


def _siblings(
    asked: Sequence[Asked],
    rows: Sequence[CoefficientRow],
    threads: Sequence[float],
    weights: Sequence[float],
    hardware: Hardware,
    constants: Constants,
) -> Array:
    """What the other threads of their cores take from each."""
    pressure = np.array([row.pressure for row in rows])
    sensitivity = np.array([row.sensitivity for row in rows])
    free = np.array([each.beside < 0 for each in asked])
    busy = np.where(free, weights, 0.0)
    total, lost = float(busy.sum()), np.zeros(len(rows))
    smt = hardware.smt and constants.smt
    cores = hardware.cores / 2
    if smt and total > cores:
        paired = min(1.0, 2 * (total - cores) / total)
        lost = np.where(free, paired * sensitivity @ (busy @ pressure / total), 0.0)
    for at, each in enumerate(asked):
        if each.beside >= 0:
            for one, other in ((at, each.beside), (each.beside, at)):
                covered = min(1.0, threads[other] / threads[one]) if threads[one] > 0 else 0.0
                lost[one] += covered * float(sensitivity[one] @ pressure[other])
    return lost


def _all_whims(
    asked: Sequence[Asked],
    rows: Sequence[CoefficientRow],
    weights: Sequence[float],
    disk: float,
    whim: float,
) -> tuple[Array, Array]:
    """By how much neighbors slow each, beyond the model, and its disk."""
    if whim <= 0:
        return np.ones(len(rows)), np.ones(len(rows))
    bound = [sqrt(row.bound) for row in rows]
    idle = [sqrt(1 - row.active) for row in rows]
    near = [min(1.0, weight) for weight in weights]
    reads = [
        min(1.0, each.cpus, row.threads)
        * (1 if each.cap < 0 else min(1.0, each.cap * row.disk / disk))
        for each, row in zip(asked, rows, strict=True)
    ]
    slower = [_whims(at, rows, bound, near, whim, 0) for at in range(len(rows))]
    devices = [_whims(at, rows, idle, reads, whim, 1) for at in range(len(rows))]
    return np.exp(slower), np.exp(devices)


def _whims(
    at: int,
    rows: Sequence[CoefficientRow],
    waits: Sequence[float],
    near: Sequence[float],
    whim: float,
    kind: int,
) -> float:
    """Logarithm of what its neighbors do to it beyond the model, bounded."""
    own = rows[at].identity
    total = sum(
        waits[at] * waits[place] * near[place] * _normal(own + kind, other.identity)
        for place, other in enumerate(rows)
        if place != at and not own & other.identity & SOURCE
    )
    return WHIM_BOUND * tanh(whim * total / WHIM_BOUND)


def _normal(one: int, other: int) -> float:
    """About a standard normal draw for an ordered pair, the same on every machine."""
    word = _mixed((3 * one + _mixed(other)) & _WORD)
    return (sum((word >> 16 * part & 0xFFFF) / 65536 for part in range(4)) - 2) * sqrt(3)


def _mixed(word: int) -> int:
    """splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    word = (word + 0x9E3779B97F4A7C15) & _WORD
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & _WORD
    return word ^ word >> 31
