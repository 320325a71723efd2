import numpy as np
from numpy.typing import NDArray

def fold_in(
    kernels: NDArray[np.float64],
    residuals: NDArray[np.float64],
    log_weights: NDArray[np.float64],
    means: NDArray[np.float64],
    of: NDArray[np.int64],
    settings: NDArray[np.float64],
    row: NDArray[np.float64],
    seen: NDArray[np.int64],
    ridge: float,
    least_variance: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
