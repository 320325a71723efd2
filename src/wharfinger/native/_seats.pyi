import numpy as np
from numpy.typing import NDArray

def seat_residents(
    scores: NDArray[np.float64],
    per_point: float,
    min_score: float,
    max_drop: float,
    slope: NDArray[np.float64],
    doubt: NDArray[np.float64],
    steep: NDArray[np.float64],
    borne: NDArray[np.float64],
    drop: NDArray[np.float64],
    variance: NDArray[np.float64],
    unspent: NDArray[np.float64],
) -> None: ...
def press_residents(
    slope: NDArray[np.float64],
    doubt: NDArray[np.float64],
    steep: NDArray[np.float64],
    borne: NDArray[np.float64],
    caused: NDArray[np.float64],
    caused_variance: NDArray[np.float64],
    max_drop: float,
    margin: NDArray[np.float64],
    variance: NDArray[np.float64],
    drop: NDArray[np.float64],
    deviations: NDArray[np.float64],
) -> None: ...
def sum_losses(
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    drop: NDArray[np.float64],
    server: NDArray[np.int64],
    targets: NDArray[np.float64],
    performance: NDArray[np.float64],
) -> None: ...
