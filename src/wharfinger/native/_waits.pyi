import numpy as np
from numpy.typing import NDArray

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
def near_best(
    drop: NDArray[np.float64],
    variance: NDArray[np.float64],
    largest: NDArray[np.int64],
    cpu: int,
    slower_by: float,
    std: float,
    share: float,
) -> bytes | None: ...

class BusyCurve:
    def __init__(self, times: NDArray[np.float64], shares: NDArray[np.float64]) -> None: ...
    def releases(self, began: list[list[float]], now: float, most: int) -> Releases: ...

class Releases:
    def expected(self, seconds: list[float]) -> list[float]: ...
    def within(self, seconds: list[float], position: int) -> list[float]: ...

class ServerRooms:
    def __init__(
        self,
        accepting: NDArray[np.uint8],
        unsettled: NDArray[np.uint8],
        cpu_capacity: NDArray[np.int64],
        cpu_allocated: NDArray[np.int64],
        memory_capacity: NDArray[np.int64],
        memory_allocated: NDArray[np.int64],
        residents: NDArray[np.int64],
        platform: NDArray[np.int64],
        platforms: int,
    ) -> None: ...
    def served(
        self,
        quality: NDArray[np.float64],
        cpu: int,
        memory: int,
        own: tuple[float, float],
        turned: tuple[float, float],
        servers: int,
        suitable: bytes | None,
        ends: Releases,
        seconds: list[float],
        turns_after: float,
        gives: float,
        exponent: float,
    ) -> list[float]: ...
    def room(
        self,
        quality: NDArray[np.float64],
        cpu: int,
        memory: int,
        own: tuple[float, float],
        turned: tuple[float, float],
        servers: int = 1,
        suitable: bytes | None = None,
    ) -> tuple[bool, bool, float, float]: ...
