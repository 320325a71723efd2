from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

@final
class Contention:
    iterations: int
    def __init__(
        self,
        cpus: float,
        cores: float,
        memory_bytes: float,
        llc_bytes: float,
        bandwidths: Sequence[float],
        gains: Sequence[float],
        whim: float,
    ) -> None: ...
    def add(self, numbers: NDArray[np.float64], identity: int) -> int: ...
    def solve(
        self,
        who: list[int],
        cpus: list[float],
        memory: list[float],
        caps: list[float],
        parts: list[float],
        rereads: list[float],
        beside: list[int],
    ) -> tuple[list[float], list[float], list[float]]: ...
    def utilisation(self) -> list[float]: ...
    def shares(self) -> list[float]: ...
