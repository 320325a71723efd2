"""Who shares a server slows whom: one platform's residents, put to the compiled solver.

The model, per instruction of resident i with n threads (nanoseconds):

    time_i = (core_i + cache_i L_llc + misses_i(share_i) miss_time_i L_mem) / speed_i
             + disk_i L_disk + network_i L_net         rate_i = 1 / time_i, or as asked
    L(u)   = 1 + k u^2 / (1 - u)          latency over that of an idle device
    u      = sum over residents of rate x bytes per instruction / bandwidth
    share  in proportion to rate x (misses + 0.05 accesses), none more than it can fill

It has one solution (``tests/property/test_contention.py`` looks for others). A device's demand
falls as its latency grows and latency grows without bound as u nears 1: nothing gives more than it
can. Called by ``truth``; ``reference.solve`` gives the same by bisection.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wharfinger.native import Contention
from wharfinger.simulator.truth.physics.application import Application
from wharfinger.simulator.truth.physics.coefficients import CoefficientRow, row_of
from wharfinger.simulator.truth.physics.hardware import Hardware

GAINS = (0.35, 0.25, 0.6, 0.6)
"""k of the law of latency: memory, last-level cache, disk, network."""


@dataclass(frozen=True, slots=True)
class Constants:
    """What the model leaves open, the same for all platforms.

    Attributes:
        smt: CPUs of platforms that have them are hardware threads; else all are cores.
        smt_cost: Scale of what a sibling thread costs.
        bandwidth: Scale of every platform's memory bandwidth.
        whim: Standard deviation of the logarithm of what one neighbor does, beyond the model, to a
            program where both do nothing but wait for memory, or for the disk.
    """

    smt: bool = True
    smt_cost: float = 1.0
    bandwidth: float = 1.0
    whim: float = 0.09


@dataclass(frozen=True, slots=True)
class Asked:
    """One resident, as the solver is asked about it.

    Attributes:
        application: What runs.
        cpus: That it has.
        memory_bytes: That it may take.
        cap: Instructions per ns that are asked of it; negative = all that it can.
        part: What it does here over what it would do with one server to work on.
        rereads: Bytes per instruction that it reads from disk again.
        beside: Place, in the group, of the one whose cores' other threads it is bound to; -1 = it
            goes where there is room.
    """

    application: Application
    cpus: float
    memory_bytes: float
    cap: float = -1.0
    part: float = 1.0
    rereads: float = 0.0
    beside: int = -1


Lists = tuple[list[int], list[float], list[float], list[float], list[float], list[float], list[int]]
"""Numbers of applications, CPUs, memory, caps, parts, rereads, whom each is bound to."""


@dataclass(frozen=True, slots=True)
class Solution:
    """What comes of a group, in the residents' order.

    Attributes:
        could: Instructions per ns that each could do if it were asked all.
        does: That it does.
        busy: CPUs that it keeps busy.
    """

    could: list[float]
    does: list[float]
    busy: list[float]


class Solver:
    """One platform.

    Args:
        hardware: Of it.
        constants: Of the model.
    """

    def __init__(self, hardware: Hardware, constants: Constants) -> None:
        self.hardware = hardware
        self._smt_cost = constants.smt_cost
        smt = hardware.smt and constants.smt
        cores = hardware.physical_cores if smt else float(hardware.cores)
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
        self.rows: dict[str, CoefficientRow] = {}

    def number(self, application: Application) -> int:
        """By which the kernel knows it; from now on it does."""
        number = self._numbers.get(application.name)
        if number is None:
            row = self.rows[application.name] = row_of(application, self.hardware, self._smt_cost)
            number = self.kernel.add(packed(row), row.identity)
            self._numbers[application.name] = number
        return number

    def solve(self, asked: list[Asked]) -> Solution:
        """Rates of the residents of one server."""
        return Solution(*self.kernel.solve(*self.lists(asked)))

    def lists(self, asked: Sequence[Asked]) -> Lists:
        """What the kernel is handed of a group."""
        return (
            [self.number(each.application) for each in asked],
            [each.cpus for each in asked],
            [each.memory_bytes for each in asked],
            [each.cap for each in asked],
            [each.part for each in asked],
            [each.rereads for each in asked],
            [each.beside for each in asked],
        )


def bandwidths(hardware: Hardware, constants: Constants) -> tuple[float, float, float, float]:
    """Bytes per ns of memory, last-level cache, disk and network."""
    return (
        hardware.memory_bandwidth * constants.bandwidth,
        hardware.llc_bandwidth,
        hardware.disk_bandwidth,
        hardware.network_bandwidth,
    )


def packed(row: CoefficientRow) -> "np.typing.NDArray[np.float64]":
    """(58,) as the kernel reads it."""
    scalars = (
        row.core, row.cache, row.access, row.miss_time, row.line,
        row.disk_time, row.disk, row.network_time, row.network,
        row.contention, row.coherence, row.threads, row.reach, row.paging,
        row.footprint, row.active, row.bound,
    )  # fmt: skip
    return np.array([*scalars, *row.pressure, *row.sensitivity, *row.curve], dtype=np.float64)
