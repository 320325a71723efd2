"""Rates of the residents of one server, by the compiled solver of contention.

The model, per instruction of resident i with n threads (nanoseconds):

    time_i = (core_i + cache_i L_llc + misses_i(share_i) miss_time_i L_mem) / speed_i
             + disk_i L_disk + network_i L_net         rate_i = 1 / time_i, or as asked
    L(u)   = 1 + k u^2 / (1 - u)          latency over that of an idle device
    u      = sum over residents of rate x bytes per instruction / bandwidth
    share  in proportion to rate x (misses + 0.05 accesses), none more than it can fill

It has one solution (``tests/property/test_contention.py`` looks for others, and compares with a
solution by bisection). A device's demand falls as its latency grows, and latency grows without
bound as u nears 1: no device gives more than it can. Called by ``truth``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

import numpy as np

from wharfinger.native import Contention
from wharfinger.simulator.truth.physics.application import GRID_BYTES, Application
from wharfinger.simulator.truth.physics.coefficients import CoefficientRow, row_of
from wharfinger.simulator.truth.physics.hardware import Hardware

GAINS = (0.35, 0.25, 0.6, 0.6)  # k of the law of latency: memory, last-level cache, disk, network


@dataclass(frozen=True, slots=True)
class Constants:
    """What the model leaves open, the same for all platforms.

    Attributes:
        smt: CPUs of platforms that have them are hardware threads; else all are cores.
        smt_cost: Scale of what a sibling thread costs; ``bandwidth`` of memory bandwidth.
        whim: Idiosyncratic noise: standard deviation of the logarithm of what one neighbor does,
            beyond the model, to a program where both only wait for memory, or for the disk.
    """

    smt: bool = True
    smt_cost: float = 1.0
    bandwidth: float = 1.0
    whim: float = 0.09


@dataclass(frozen=True, slots=True)
class Asked:
    """One resident, as the solver is asked about it.

    Attributes:
        cap: Instructions per ns that are asked of it; negative = all that it can.
        part: Its rate here over what it would have on one server alone.
        rereads: Bytes per instruction that it reads from disk again.
        beside: Place in the group of the one on whose cores' other threads it runs; -1 = on any.
        cores: Of hardware with unlike cores, the group of those that it runs on.
    """

    application: Application
    cpus: float
    memory_bytes: float
    cap: float = -1.0
    part: float = 1.0
    rereads: float = 0.0
    beside: int = -1
    cores: int = 0


Lists = tuple[list[int], list[float], list[float], list[float], list[float], list[float], list[int]]
"""Numbers of applications, CPUs, memory, caps, parts, rereads, beside."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Of each resident, in order: instructions per ns that it could do and does; busy CPUs."""

    could: list[float]
    does: list[float]
    busy: list[float]


@dataclass(frozen=True, slots=True)
class Spent:
    """Ns per instruction of a thread in the core, waiting for the last level and for memory.

    Without paging and what siblings cost; ``misses`` of the last level are per instruction.
    """

    core: float
    cache: float
    memory: float
    misses: float


class Solver:
    """The solver of one platform; it keeps the numbers of all applications it was asked about."""

    def __init__(self, hardware: Hardware, constants: Constants) -> None:
        self.hardware = hardware
        self._smt_cost = constants.smt_cost
        smt = hardware.smt and constants.smt
        cores = hardware.cores / 2 if smt else float(hardware.cores)
        self.has_siblings = smt
        self.kernel = Contention(
            float(hardware.cores),
            cores,
            float(hardware.memory_bytes),
            float(hardware.llc_bytes),
            bandwidths(hardware, constants),
            GAINS,
            constants.whim,
        )
        self._numbers: dict[str, int] = {}
        self._rows: dict[str, CoefficientRow] = {}

    def _number(self, application: Application, cores: int) -> int:
        key = _key(application, cores)
        number = self._numbers.get(key)
        if number is None:
            row = row_of(application, self.hardware.cores_of(cores), self._smt_cost)
            number = self._numbers[key] = self.kernel.add(row.packed(), row.identity)
        return number

    def solve(self, asked: list[Asked]) -> Solution:
        """Of the residents of one server."""
        return Solution(*self.kernel.solve(*self.lists(asked)))

    def spent(self, asked: list[Asked]) -> list[Spent]:
        """Of the residents of one server, what their time goes into."""
        self.solve(asked)
        used = self.kernel.utilisation()
        return [
            self._spent(each, share, used)
            for each, share in zip(asked, self.kernel.shares(), strict=True)
        ]

    def _spent(self, asked: Asked, share: float, used: Sequence[float]) -> Spent:
        key = _key(asked.application, asked.cores)
        if key not in self._rows:
            hardware = self.hardware.cores_of(asked.cores)
            self._rows[key] = row_of(asked.application, hardware, self._smt_cost)
        row = self._rows[key]
        misses = float(np.interp(log2(share), np.log2(GRID_BYTES), row.curve))
        memory = misses * row.miss_time * latency(0, used[0])
        return Spent(row.core, row.cache * latency(1, used[1]), memory, misses)

    def lists(self, asked: Sequence[Asked]) -> Lists:
        """A group as the kernel takes it."""
        return (
            [self._number(each.application, each.cores) for each in asked],
            [each.cpus for each in asked],
            [each.memory_bytes for each in asked],
            [each.cap for each in asked],
            [each.part for each in asked],
            [each.rereads for each in asked],
            [each.beside for each in asked],
        )


def _key(application: Application, cores: int) -> str:
    return f"{application.name}\0{cores}" if cores else application.name


def latency(device: int, used: float) -> float:
    """Of memory, last-level cache, disk or network, over that of an idle one.

    >>> latency(0, 0.5)
    1.175
    """
    return 1 + GAINS[device] * used * used / (1 - used)


def bandwidths(hardware: Hardware, constants: Constants) -> tuple[float, float, float, float]:
    """Bytes per ns of memory, last-level cache, disk and network."""
    return (
        hardware.memory_bandwidth * constants.bandwidth,
        hardware.llc_bandwidth,
        hardware.disk_bandwidth,
        hardware.network_bandwidth,
    )
