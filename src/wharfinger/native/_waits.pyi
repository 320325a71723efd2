import numpy as np
from numpy.typing import NDArray

def sample_ages(
    placed: list[dict[str, float]], now: float, most: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def stay_odds(over: NDArray[np.float64]) -> NDArray[np.float64]: ...
