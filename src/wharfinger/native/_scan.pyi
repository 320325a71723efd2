import numpy as np
from numpy.typing import NDArray

def least_loaded(
    cpu_capacity: NDArray[np.int64],
    cpu_allocated: NDArray[np.int64],
    memory_capacity: NDArray[np.int64],
    memory_allocated: NDArray[np.int64],
    accepting: NDArray[np.uint8],
    cpu: int,
    memory: int,
    keep: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64], int, int, int]: ...
def next_in_turn(
    cpu_capacity: NDArray[np.int64],
    cpu_allocated: NDArray[np.int64],
    memory_capacity: NDArray[np.int64],
    memory_allocated: NDArray[np.int64],
    accepting: NDArray[np.uint8],
    cpu: int,
    memory: int,
    keep: int,
    last: int,
) -> list[int]: ...
def closest_fits(
    tolerated: NDArray[np.float64],
    tolerated_variance: NDArray[np.float64],
    caused: NDArray[np.float64],
    caused_variance: NDArray[np.float64],
    residents: NDArray[np.int64],
    rows: NDArray[np.intp],
    own_tolerated: NDArray[np.float64],
    own_tolerated_variance: NDArray[np.float64],
    own_caused: NDArray[np.float64],
    own_caused_variance: NDArray[np.float64],
    z: float,
    most: float,
    also_beyond: NDArray[np.float64] | None,
    load: NDArray[np.float64],
    keep: int,
) -> NDArray[np.intp]: ...
def free_on(
    rows: list[int],
    cpu_capacity: NDArray[np.int64],
    cpu_allocated: NDArray[np.int64],
    memory_capacity: NDArray[np.int64],
    memory_allocated: NDArray[np.int64],
    residents: NDArray[np.int64],
) -> list[tuple[float, float, float]]: ...
def sizes_within(
    amounts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    rows: NDArray[np.intp] | None = None,
) -> NDArray[np.intp]: ...
def count_room(
    capacity: NDArray[np.int64],
    allocated: NDArray[np.int64],
    accepting: NDArray[np.uint8],
    sizes: NDArray[np.int64],
) -> NDArray[np.int64]: ...
