"""How much programs slow one another, learnt from what runs together.

Performance of u beside its neighbors, relative to u alone, on a server of platform p:

    ln r = -κ_p · s_u · Σ_v π_v · c_v

c_v is the share of the server's CPU that is allocated to neighbor v, s_u the sensitivity of a
program and π_v its pressure, both 1 in the mean over programs, and κ_p what the mean program
loses on p where the mean program is allocated all of the server. It is the product of sensitivity
and pressure of Bubble-Up (Mars et al., MICRO 2011), with a coefficient for each platform. All
three are fitted by alternating ridge regressions; a program that was never seen beside others has
the mean, with the spread over programs as its variance.

The runtime and the simulator show a ``CorunObserver`` the residents of a server that were
measured, and give what it finds to a ``ColocationLearner``. Classifications carry the result as
``PairProfile`` of one factor, which the contention model ``by-pair`` adds up.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.prediction import slower
from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.arrays import Array
from wharfinger.model.pairs import PairProfile
from wharfinger.model.performance import Quantity
from wharfinger.model.platform import Server
from wharfinger.model.profile import Estimate
from wharfinger.model.workload import Workload

BASIS = "cpu-share"
"""Of the profiles."""
FIRST_COEFFICIENT = 0.1
"""κ before anything was seen: batch programs lose 3 to 8% to one to three neighbors (Pythia,
Figure 6)."""
SPREAD = 0.7
"""Standard deviation of sensitivity and of pressure over programs, in units of their mean."""
PLATFORM_SPREAD = 0.1
"""Of κ over platforms."""
MODEL_ERROR = 0.07
"""Standard deviation of what the product misses, of the logarithm of performance."""
MAX_FACTOR = 6.0
"""Of a sensitivity and of a pressure."""
ROUNDS = 4
FIRST_FIT, FIT_AGAIN = 50, 1.5
"""Observations for the first fit, and how many times as many for the next."""
MAX_OBSERVATIONS = 10_000

Program = Callable[[Workload], str]


@dataclass(frozen=True, slots=True)
class Corun:
    """One program beside its neighbors on one server.

    Attributes:
        drop: Logarithm of its predicted performance alone over its performance there.
        variance: Of that.
        neighbors: Share of the server's CPU that is allocated to each neighbor's program.
    """

    program: str
    platform: str
    drop: float
    variance: float
    neighbors: Mapping[str, float]

    @classmethod
    def from_json(cls, stated: Any) -> "Corun":
        """As ``asdict`` gives it; ``ValueError`` = it is none."""
        if not isinstance(stated, dict) or set(stated) != {f.name for f in fields(cls)}:
            raise ValueError(f"{stated!r} is no co-run")
        neighbors = {str(name): float(share) for name, share in stated["neighbors"].items()}
        numbers = float(stated["drop"]), float(stated["variance"])
        return cls(str(stated["program"]), str(stated["platform"]), *numbers, neighbors)


@dataclass(frozen=True, slots=True)
class Factor:
    """Mean and variance of a sensitivity or a pressure."""

    mean: float
    variance: float


UNSEEN = Factor(1.0, SPREAD**2)


@dataclass(frozen=True, slots=True)
class ColocationModel:
    """Coefficients by platform, sensitivities and pressures by program.

    ``coefficient`` is that of a platform that was not seen.

    >>> profiles = ColocationModel().profiles("sort", {"small": 0.5, "large": 0.25})
    >>> {name: round(each.beside(each).mean, 3) for name, each in profiles.items()}
    {'small': 0.951, 'large': 0.975}
    """

    coefficients: Mapping[str, float] = field(default_factory=dict)
    sensitivities: Mapping[str, Factor] = field(default_factory=dict)
    pressures: Mapping[str, Factor] = field(default_factory=dict)
    coefficient: float = FIRST_COEFFICIENT

    def profiles(self, program: str, shares: Mapping[str, float]) -> dict[str, PairProfile]:
        """Of a program, by platform, which is allocated these shares of a server's CPU there."""
        own = self.sensitivities.get(program, UNSEEN)
        pressure = self.pressures.get(program, UNSEEN)
        profiles = {}
        for platform, share in shares.items():
            coefficient = self.coefficients.get(platform, self.coefficient)
            profiles[platform] = PairProfile(
                BASIS,
                suffers=(coefficient * own.mean,),
                presses=(share * pressure.mean,),
                suffers_variance=(coefficient**2 * own.variance,),
                presses_variance=(share**2 * pressure.variance,),
            )
        return profiles


class CorunObserver:
    """Tells which programs run beside which; ``program`` names that of a workload."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._seen: dict[str, dict[str, frozenset[str]]] = {}

    def look(
        self, server: Server, residents: Sequence[WorkloadRecord], rates: Mapping[str, Estimate]
    ) -> list[Corun]:
        """What is new: each resident is told once beside the same neighbors.

        Args:
            server: Where they are.
            residents: All of the server.
            rates: Measured rate of work by key, with its relative standard error.
        """
        running = [each for each in residents if each.phase is Phase.RUNNING]
        before, now = self._seen.pop(server.name, {}), dict[str, frozenset[str]]()
        found = []
        for record in running:
            beside = frozenset(other.key for other in running if other is not record)
            if record.key in rates and beside:
                now[record.key] = beside
                if before.get(record.key) != beside:
                    found.append(self._corun(server, record, running, rates[record.key]))
        if now:
            self._seen[server.name] = now
        return [each for each in found if each is not None]

    def _corun(
        self,
        server: Server,
        record: WorkloadRecord,
        running: Sequence[WorkloadRecord],
        rate: Estimate,
    ) -> Corun | None:
        platform = server.platform.name
        alone = _alone(record, platform)
        if alone is None or rate.mean <= 0:
            return None
        shares: dict[str, float] = {}
        for other in running:
            if other is not record:
                name, share = self._program(other.workload), _cpu_on(other, server)
                shares[name] = shares.get(name, 0.0) + share
        drop, variance = log(alone.mean / rate.mean), alone.std**2 + rate.std**2
        return Corun(self._program(record.workload), platform, drop, variance, shares)


class ColocationLearner:
    """Fits what was seen together, now and then.

    Attributes:
        model: The newest fit.
        coruns: What it is made of, oldest first.
        servers: CPU in thousandths of a server of each platform.
    """

    def __init__(self, program: Program, servers: Mapping[str, int]) -> None:
        self.model = ColocationModel()
        self.coruns: deque[Corun] = deque(maxlen=MAX_OBSERVATIONS)
        self.servers = dict(servers)
        self._program = program
        self._count, self._fit_at = 0, float(FIRST_FIT)

    def learn(self, coruns: Sequence[Corun]) -> None:
        """Add some, oldest first."""
        self.coruns += coruns
        self._count += len(coruns)
        if self._count >= self._fit_at:
            self.model = fit(self.coruns)
            self._fit_at = FIT_AGAIN * self._count

    def profiles(self, workload: Workload) -> dict[str, PairProfile]:
        """Of a workload with what it states, by platform; empty = it states nothing."""
        if workload.reservation is None or workload.best_effort:
            return {}
        cpu = workload.reservation.cpu_millicpus
        shares = {name: min(1.0, cpu / size) for name, size in self.servers.items() if size > 0}
        return self.model.profiles(self._program(workload), shares)


def _alone(record: WorkloadRecord, platform: str) -> Estimate | None:
    """Its predicted rate of work without neighbors; ``None`` = unknown."""
    made = record.classification
    if made is None or len(record.placements) != 1 or Quantity.RATE not in made.curves:
        return None
    cpu = record.placements[0].allocation.cpu_millicpus
    rate = made.curves[Quantity.RATE].at(cpu)
    (drop,), (variance,) = slower(made, (platform,), cpu)
    return Estimate(rate.mean * float(np.exp(-drop)), float(np.hypot(rate.std, variance**0.5)))


def _cpu_on(record: WorkloadRecord, server: Server) -> float:
    """Share of the server's CPU that is allocated to it."""
    there = (p.allocation.cpu_millicpus for p in record.placements if p.server == server.name)
    return sum(there) / max(server.cpu_millicpus, 1)


# --- fitting --------------------------------------------------------------------------------


def fit(coruns: Collection[Corun]) -> ColocationModel:
    """By alternating ridge regressions, each towards what is known before."""
    data = _Observations.of(coruns)
    coefficients = np.full(len(data.platforms), FIRST_COEFFICIENT)
    sensitivities, pressures = np.ones(len(data.programs)), np.ones(len(data.programs))
    usual, weights, precision = FIRST_COEFFICIENT, sensitivities, np.eye(len(data.programs))
    for _ in range(ROUNDS):
        pressed = data.pressed(pressures)
        usual, coefficients = data.coefficients(sensitivities[data.program] * pressed)
        there = coefficients[data.platform]
        sensitivities, weights = data.sensitivities(there * pressed)
        pressures, precision = data.pressures(there * sensitivities[data.program])
    variances: Array = np.diagonal(np.linalg.inv(precision))
    return ColocationModel(
        dict(zip(data.platforms, coefficients.tolist(), strict=True)),
        _factors(data.programs, sensitivities, 1 / weights),
        _factors(data.programs, pressures, variances),
        usual,
    )


def _factors(programs: Sequence[str], means: Array, variances: Array) -> dict[str, Factor]:
    rows = zip(programs, means.tolist(), variances.tolist(), strict=True)
    return {name: Factor(mean, variance) for name, mean, variance in rows}


@dataclass(frozen=True, slots=True, eq=False)
class _Observations:
    """N observations of K programs as arrays; shares are E entries of a sparse (N, K) matrix.

    Attributes:
        program: (N,) index of each; so with ``platform``.
        drop: (N,).
        weight: (N,) one over its variance, the model's error included.
        row: (E,) observation of each entry; ``neighbor`` its program, ``share`` its value.
        pair_row: (Q,) observation of each pair of entries of one observation; ``pair`` its place in
            a (K, K) matrix, ``product`` the product of both shares.
    """

    programs: tuple[str, ...]
    platforms: tuple[str, ...]
    program: NDArray[np.intp]
    platform: NDArray[np.intp]
    drop: Array
    weight: Array
    row: NDArray[np.intp]
    neighbor: NDArray[np.intp]
    share: Array
    pair_row: NDArray[np.intp]
    pair: NDArray[np.intp]
    product: Array

    @classmethod
    def of(cls, coruns: Collection[Corun]) -> "_Observations":
        names = {each.program for each in coruns}.union(*(each.neighbors for each in coruns))
        programs, platforms = tuple(sorted(names)), tuple(sorted({c.platform for c in coruns}))
        at, on = ({name: n for n, name in enumerate(each)} for each in (programs, platforms))
        entries = [
            [(at[name], share) for name, share in sorted(each.neighbors.items())] for each in coruns
        ]
        flat = [(row, k, share) for row, own in enumerate(entries) for k, share in own]
        pairs = [
            (row, k * len(programs) + other, share * another)
            for row, own in enumerate(entries)
            for k, share in own
            for other, another in own
        ]
        rows, neighbors, shares = (np.array(each) for each in zip(*flat, strict=True))
        pair_rows, places, products = (np.array(each) for each in zip(*pairs, strict=True))
        variances = np.array([each.variance for each in coruns])
        return cls(
            programs,
            platforms,
            np.array([at[each.program] for each in coruns]),
            np.array([on[each.platform] for each in coruns]),
            np.array([each.drop for each in coruns]),
            1 / (variances + MODEL_ERROR**2),
            rows,
            neighbors,
            shares,
            pair_rows,
            places,
            products,
        )

    def pressed(self, pressures: Array) -> Array:
        """(N,) Σ_v π_v c_v."""
        return _sums(self.row, self.share * pressures[self.neighbor], len(self.drop))

    def coefficients(self, x: Array) -> tuple[float, Array]:
        """κ of all platforms together, and of each, towards that."""
        prior, weighed = 1 / PLATFORM_SPREAD**2, self.weight * x
        shared = float((weighed @ self.drop + prior * FIRST_COEFFICIENT) / (weighed @ x + prior))
        shared, count = max(shared, 0.0), len(self.platforms)
        moments = _sums(self.platform, weighed * self.drop, count) + prior * shared
        weights = _sums(self.platform, weighed * x, count) + prior
        return shared, np.maximum(moments / weights, 0.0)

    def sensitivities(self, x: Array) -> tuple[Array, Array]:
        """(K,) s of each program, 1 in the mean of observations, and one over its variance."""
        prior, count, weighed = 1 / SPREAD**2, len(self.programs), self.weight * x
        weights = _sums(self.program, weighed * x, count) + prior
        means = (_sums(self.program, weighed * self.drop, count) + prior) / weights
        means = np.clip(means, 0.0, MAX_FACTOR)
        return means / max(float(means[self.program].mean()), 1 / MAX_FACTOR), weights

    def pressures(self, x: Array) -> tuple[Array, Array]:
        """(K,) π of each program, 1 in the mean of shares; (K, K) the inverse of its covariance."""
        prior, count = 1 / SPREAD**2, len(self.programs)
        weighed = self.weight * x
        products = (weighed * x)[self.pair_row] * self.product
        precision = _sums(self.pair, products, count * count).reshape(count, count)
        precision += prior * np.eye(count)
        moments = _sums(self.neighbor, (weighed * self.drop)[self.row] * self.share, count)
        means = np.clip(np.linalg.solve(precision, moments + prior), 0.0, MAX_FACTOR)
        mean = float(self.share @ means[self.neighbor] / max(self.share.sum(), 1e-9))
        return means / max(mean, 1 / MAX_FACTOR), precision


def _sums(at: NDArray[np.intp], values: Array, count: int) -> Array:
    return np.asarray(np.bincount(at, values, count), dtype=np.float64)
