import numpy as np
from numpy.typing import NDArray

class Mixtures:
    def __init__(
        self,
        kernels: NDArray[np.float64],
        residuals: NDArray[np.float64],
        log_weights: NDArray[np.float64],
        means: NDArray[np.float64],
        of: NDArray[np.int64],
        settings: NDArray[np.float64],
        factors: NDArray[np.float64],
        unmeasured: NDArray[np.float64],
        logarithms: bool,
        ridge: float,
        least_variance: float,
    ) -> None: ...
    def fold_in(
        self, row: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None: ...
    def fold_in_many(
        self, rows: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], list[bool]]: ...
