from collections.abc import Iterable
from typing import final

import numpy as np
from numpy.typing import NDArray

@final
class HarmonyIndex:
    def touch(self, row: int) -> None: ...
    def drop(self, row: int) -> None: ...
    def is_current(self, rows: int) -> bool: ...
    def update(
        self,
        rows: int,
        platform: NDArray[np.int64],
        tolerated: NDArray[np.float64],
        tolerated_variance: NDArray[np.float64],
        caused: NDArray[np.float64],
        caused_variance: NDArray[np.float64],
        cpu_capacity: NDArray[np.int64],
        cpu_allocated: NDArray[np.int64],
        memory_capacity: NDArray[np.int64],
        memory_allocated: NDArray[np.int64],
        residents: NDArray[np.int64],
        accepting: NDArray[np.uint8],
        unsettled: NDArray[np.uint8],
    ) -> None: ...
    def best(
        self,
        platforms: Iterable[Iterable[int]],
        caused: NDArray[np.float64],
        caused_variance: NDArray[np.float64],
        tolerated: NDArray[np.float64],
        tolerated_variance: NDArray[np.float64],
        z: float,
        cpu: int,
        memory: int,
        keep: int,
        bound: int,
        excluded: Iterable[int] = ...,
    ) -> tuple[list[int], list[float], int, bool]: ...
