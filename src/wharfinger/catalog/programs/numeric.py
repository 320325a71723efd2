"""NumPy kernels on one thread: from arithmetic in the cache to memory's bandwidth.

The number of threads of the linear algebra library is read when NumPy is imported, so it is set
before; a program that takes more CPUs than it was given can't be sized.
"""

import argparse
import os
import sys
from collections.abc import Callable

from wharfinger.catalog.programs.steps import Step, add_total, repeat

KERNELS = ("matmul", "fft", "svd", "stencil", "copy", "montecarlo", "sortnp")


def make_kernels() -> dict[str, Callable[[], Step]]:
    """Every kernel by name; each makes its arrays when it is called."""
    import numpy as np  # noqa: PLC0415 - after the threads are limited

    random = np.random.default_rng(7)

    def matmul() -> Step:
        left, right = random.random((2, 900, 900))
        return lambda _number: left @ right

    def fft() -> Step:
        signal = random.random(1 << 20)
        return lambda _number: np.fft.irfft(np.fft.rfft(signal))

    def svd() -> Step:
        matrix = random.random((420, 420))
        return lambda _number: np.linalg.svd(matrix)

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

    def montecarlo() -> Step:
        def step(_number: int) -> float:
            x, y = random.random((2, 3_000_000), dtype=np.float32)
            return float((x * x + y * y < 1).mean())

        return step

    def sortnp() -> Step:
        values = random.random(800_000)
        return lambda _number: np.argsort(values, kind="stable")

    made = (matmul, fft, svd, stencil, copy, montecarlo, sortnp)
    return dict(zip(KERNELS, made, strict=True))


def main() -> int:
    """Compute until the total is reached."""
    parser = argparse.ArgumentParser(prog="numeric", description="Compute with NumPy.")
    parser.add_argument("--kernel", choices=KERNELS, default="matmul")
    add_total(parser)
    arguments = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    return repeat(make_kernels()[arguments.kernel](), arguments.total)


if __name__ == "__main__":
    sys.exit(main())
