"""Sorts lines: the machine's ``sort`` with runs on disk, or in memory by Python.

``external`` gives ``sort`` a buffer smaller than its file, so that it writes sorted runs to
files and merges them, as sorting of what does not fit in memory does.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from wharfinger.catalog.programs.steps import Step, add_total, repeat, stop_in_order

LINES = 80_000
NUMBERS = 120_000


def numbers(count: int, seed: int = 1) -> list[int]:
    """Pseudo-random whole numbers, the same everywhere.

    >>> numbers(3)
    [1103527590, 377401575, 662824084]
    """
    found, state = [], seed
    for _ in range(count):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        found.append(state)
    return found


def external(folder: Path) -> Step:
    """Sort a file of lines by ``sort``, by way of files in ``folder``."""
    source, result = folder / "lines", folder / "sorted"
    source.write_text("".join(f"{number} {number % 97} line\n" for number in numbers(LINES)))
    command = ["sort", "-n", "-S", "256K", "--parallel=1", "-T", str(folder)]

    def step(_number: int) -> None:
        subprocess.run([*command, "-o", str(result), str(source)], check=True, env={"LC_ALL": "C"})

    return step


def in_memory() -> Step:
    """Sort numbers and strings in this process."""
    given = numbers(NUMBERS)
    return lambda _number: sorted(map(str, sorted(given)))


def main() -> int:
    """Sort until the total is reached."""
    parser = argparse.ArgumentParser(prog="sorting", description="Sort lines.")
    parser.add_argument("--where", choices=["external", "memory"], default="external")
    parser.add_argument(
        "--directory", metavar="DIR", help="for the files (default: $TMPDIR, else the system's)"
    )
    add_total(parser)
    arguments = parser.parse_args()
    if arguments.where == "memory":
        return repeat(in_memory(), arguments.total)
    stop_in_order()
    with tempfile.TemporaryDirectory(prefix="sorting-", dir=arguments.directory) as folder:
        return repeat(external(Path(folder)), arguments.total)


if __name__ == "__main__":
    sys.exit(main())
