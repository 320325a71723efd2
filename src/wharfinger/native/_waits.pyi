from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Estimate

def sample_ages(
    began: list[list[float]], now: float, most: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def switch_after(
    own: Releases | None,
    own_position: int,
    other: Releases | None,
    other_position: int,
    own_quality: float,
    other_quality: float,
    slack: float,
    budget: float,
    better_alone: bool,
) -> float | None: ...
def needed_quality(
    caused: Mapping[SharedResource, Estimate],
    tolerated: Mapping[SharedResource, Estimate] | None,
    counted: frozenset[SharedResource],
) -> float: ...
def room_by_quality(
    quality: NDArray[np.float64],
    accepting: NDArray[np.uint8],
    unsettled: NDArray[np.uint8],
    cpu_capacity: NDArray[np.int64],
    cpu_allocated: NDArray[np.int64],
    memory_capacity: NDArray[np.int64],
    memory_allocated: NDArray[np.int64],
    residents: NDArray[np.int64],
    cpu: int,
    memory: int,
    least: float,
    below: float,
    later_least: float,
    later_below: float,
    at_least: int = 1,
    platform: NDArray[np.int64] | None = None,
    suitable: NDArray[np.uint8] | None = None,
) -> tuple[bool, bool, float, float]: ...
def near_best(
    drop: NDArray[np.float64],
    variance: NDArray[np.float64],
    largest: NDArray[np.int64],
    cpu: int,
    slower_by: float,
    std: float,
    share: float,
) -> NDArray[np.bool_] | None: ...
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

class BusyCurve:
    def __init__(self, times: NDArray[np.float64], shares: NDArray[np.float64]) -> None: ...
    def releases(self, began: list[list[float]], now: float, most: int) -> Releases: ...

class OrderedRows:
    def quantiles(
        self, values: NDArray[np.float64], counts: NDArray[np.uint8], shares: list[float]
    ) -> list[float]: ...

class Releases:
    def expected(self, seconds: list[float]) -> list[float]: ...
    def expected_by(self, seconds: float) -> float: ...
    def within(self, seconds: list[float], position: int) -> list[float]: ...
