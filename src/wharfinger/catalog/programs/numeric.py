"""NumPy kernels on one thread: from arithmetic in the cache to memory's bandwidth.

The number of threads of the linear algebra library is read when NumPy is imported, so it is set
before; a program that takes more CPUs than it was given can't be sized.
"""

import os
import sys
from functools import partial

from wharfinger.catalog.programs.steps import Step, run_one_of

KERNELS = ("matmul", "fft", "svd", "stencil", "copy", "montecarlo", "sortnp")


def limit_threads(count: int) -> None:
    """Of NumPy's linear algebra; called before NumPy is imported, which reads this once."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(count)


def kernel(name: str) -> Step:
    """One of ``KERNELS``, on arrays from a fixed seed."""
    limit_threads(1)
    import numpy as np  # noqa: PLC0415 - after the threads are limited

    random = np.random.default_rng(7)

    def stencil() -> Step:
        grid = random.random((1000, 1000))

        def step(_number: int) -> None:
            for _ in range(12):
                inner = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
                grid[1:-1, 1:-1] = inner / 4

        return step

    def copy() -> Step:
        source = np.ones(8 << 20)
        target = np.empty_like(source)

        def step(_number: int) -> None:
            for _ in range(6):
                np.copyto(target, source)

        return step

    def montecarlo(_number: int) -> float:
        x, y = random.random((2, 3_000_000), dtype=np.float32)
        return float((x * x + y * y < 1).mean())

    match name:
        case "matmul":
            left, right = random.random((2, 900, 900))
            return lambda _number: left @ right
        case "fft":
            signal = random.random(1 << 20)
            return lambda _number: np.fft.irfft(np.fft.rfft(signal))
        case "svd":
            matrix = random.random((420, 420))
            return lambda _number: np.linalg.svd(matrix)
        case "stencil":
            return stencil()
        case "copy":
            return copy()
        case "montecarlo":
            return montecarlo
    values = random.random(800_000)
    return lambda _number: np.argsort(values, kind="stable")


if __name__ == "__main__":
    makers = {name: partial(kernel, name) for name in KERNELS}
    sys.exit(run_one_of("numeric", "Compute with NumPy.", "kernel", makers))
