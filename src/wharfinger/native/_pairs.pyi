import numpy as np
from numpy.typing import NDArray

def pair_drops(
    levels: NDArray[np.float64],
    variances: NDArray[np.float64],
    cross: NDArray[np.float64],
    profile: NDArray[np.int64],
    factors: NDArray[np.float64],
    factor_variances: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def pair_shortfalls(
    kept: NDArray[np.float64],
    drop: NDArray[np.float64],
    variance: NDArray[np.float64],
    z: float,
) -> NDArray[np.float64]: ...
