import numpy as np
from numpy.typing import NDArray

def first_enough(
    medians: NDArray[np.float64],
    variances: NDArray[np.float64],
    drop: NDArray[np.float64],
    drop_variance: NDArray[np.float64],
    z: float,
) -> NDArray[np.int64]: ...
def first_enough_on(
    medians: NDArray[np.float64],
    variances: NDArray[np.float64],
    platform: NDArray[np.int64],
    drop: NDArray[np.float64],
    drop_variance: NDArray[np.float64],
    z: float,
) -> NDArray[np.int64]: ...
def sum_drops(
    caused: NDArray[np.float64],
    caused_variance: NDArray[np.float64],
    tolerated: NDArray[np.float64],
    std: NDArray[np.float64],
    per_point: float,
    min_score: float,
    max_drop: float,
    max_variance: float,
    rows: NDArray[np.intp] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def add_exceeded(
    tolerated: NDArray[np.float64],
    tolerated_variance: NDArray[np.float64],
    caused: NDArray[np.float64],
    caused_variance: NDArray[np.float64],
    residents: NDArray[np.int64],
    own_caused: tuple[float, float] | None,
    own_tolerated: tuple[float, float] | None,
    z: float,
    exceeded: NDArray[np.float64],
    norm: NDArray[np.float64],
) -> None: ...
def judge_room(
    need: NDArray[np.int64],
    memory: int,
    cpu_capacity: NDArray[np.int64],
    cpu_allocated: NDArray[np.int64],
    memory_capacity: NDArray[np.int64],
    memory_allocated: NDArray[np.int64],
    accepting: NDArray[np.uint8],
    usable: NDArray[np.uint8],
    unsettled: NDArray[np.uint8],
    nothing_fits: bool,
) -> NDArray[np.int64]: ...
