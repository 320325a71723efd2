import numpy as np
from numpy.typing import NDArray

def seat_residents(
    scores: NDArray[np.float64],
    per_point: float,
    min_score: float,
    max_drop: float,
    slope: NDArray[np.float64],
    doubt: NDArray[np.float64],
    drop: NDArray[np.float64],
    variance: NDArray[np.float64],
    unspent: NDArray[np.float64],
) -> None: ...
