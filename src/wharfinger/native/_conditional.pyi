import numpy as np
from numpy.typing import NDArray

class Conditional:
    def __init__(
        self,
        mean: NDArray[np.float64],
        covariance: NDArray[np.float64],
        free_level: bool,
        level_variance: float,
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
