"""Collaborative filtering of drawn ratings, in four versions of the same computation.

``python -m wharfinger.catalog.programs.filtering VERSION [--users N] [--total STEPS] ...`` becomes
the program in C (``native/programs/filtering.c``), which is compiled with wharfinger. All versions
come to the same factors, up to rounding; ``experiment run ibench-figure58`` compares what they take
(dissertation 5.5.3).
"""

import os
import sys
from pathlib import Path

VERSIONS = ("plain", "simd", "reordered", "memoised")
"""Each has what the one before has, and one change more."""
PROGRAM = Path(__file__).parents[2] / "native" / "wharfinger-filtering"


def main() -> None:
    """Become the program; never returns."""
    os.execv(PROGRAM, [str(PROGRAM), *sys.argv[1:]])


if __name__ == "__main__":
    main()
