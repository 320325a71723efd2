from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Estimate

def needed_quality(
    caused: Mapping[SharedResource, Estimate],
    tolerated: Mapping[SharedResource, Estimate] | None,
    counted: frozenset[SharedResource],
) -> float: ...
def tiers_with_room(
    quality: NDArray[np.float64],
    accepting: NDArray[np.uint8],
    cpu_capacity: NDArray[np.int64],
    cpu_allocated: NDArray[np.int64],
    memory_capacity: NDArray[np.int64],
    memory_allocated: NDArray[np.int64],
    cpu: int,
    memory: int,
    bounds: list[float],
) -> tuple[list[NDArray[np.bool_]], list[bool]]: ...
def refresh_quality(
    levels: NDArray[np.float64], rows: list[int], quality: NDArray[np.float64], sources: int
) -> None: ...

class OrderedRows:
    def quantiles(
        self, values: NDArray[np.float64], counts: NDArray[np.uint8], shares: list[float]
    ) -> list[float]: ...
