from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

class LoadIndex:
    def bind(
        self,
        cpu_capacity: NDArray[np.int64],
        cpu_allocated: NDArray[np.int64],
        memory_capacity: NDArray[np.int64],
        memory_allocated: NDArray[np.int64],
        accepting: NDArray[np.uint8],
        rows: int,
    ) -> None: ...
    def touch(self, row: int) -> None: ...
    def drop(self, row: int) -> None: ...
    def least_loaded(
        self, cpu: int, memory: int, keep: int, excluded: AbstractSet[int] = ...
    ) -> tuple[list[int], list[float]]: ...
    def freest(self, cpu: int, memory: int) -> int: ...
