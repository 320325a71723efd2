"""Sorts lines: the machine's ``sort`` with runs on disk, or in memory by Python.

``external`` gives ``sort`` a buffer smaller than its file, so that it merges sorted runs.
"""

import subprocess
import sys
from pathlib import Path

from wharfinger.catalog.programs.steps import Step, run_in_folder

LINES = 80_000
NUMBERS = 120_000


def numbers(count: int, seed: int = 1) -> list[int]:
    """Pseudo-random whole numbers, the same everywhere.

    >>> numbers(3)
    [1103527590, 377401575, 662824084]
    """
    drawn, state = [], seed
    for _ in range(count):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        drawn.append(state)
    return drawn


def external(folder: Path) -> Step:
    """Sort a file of lines by ``sort``, by way of files in ``folder``."""
    source, result = folder / "lines", folder / "sorted"
    source.write_text("".join(f"{number} {number % 97} line\n" for number in numbers(LINES)))
    command = ["sort", "-n", "-S", "256K", "--parallel=1", "-T", str(folder)]
    command += ["-o", str(result), str(source)]
    return lambda _number: subprocess.run(command, check=True, env={"LC_ALL": "C"})


def in_memory(_folder: Path) -> Step:
    """Sort numbers and strings in this process."""
    unsorted = numbers(NUMBERS)
    return lambda _number: sorted(map(str, sorted(unsorted)))


if __name__ == "__main__":
    kinds = {"external": external, "memory": in_memory}
    sys.exit(run_in_folder("sorting", "Sort lines.", "where", kinds))
