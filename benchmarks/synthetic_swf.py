"""A synthetic trace in the Standard Workload Format, as a batch site's might look.

Nothing is taken of any site. Programs have a size of their own, mostly a power of two (Feitelson
and Rudolph 1996), and a median run time; jobs arrive at random, and users ask for up to five times
what their jobs take (Mu'alem and Feitelson 2001), rounded up to a quarter of an hour::

    python -m benchmarks.synthetic_swf > src/wharfinger/simulator/scenario/scenarios/slurm-site.swf

The same seed gives the same file.
"""

import argparse
from collections.abc import Iterator

import numpy as np

NODES, CPUS = 24, 16
SIZES, SHARES = (1, 2, 4, 8, 16, 32, 48), (0.3, 0.15, 0.15, 0.15, 0.13, 0.08, 0.04)
"""Processors, and how many of the programs use so many."""
PROGRAMS, USERS = 24, 12
MEDIAN_SECONDS, SPREAD = 1500.0, 0.9
"""Of run times, and the standard deviation of their logarithm, between programs."""
WITHIN = 0.4
"""The same between the jobs of one program."""
ASKED, STEP_SECONDS = 5.0, 900
"""Users ask for up to so many times the run time, rounded up to a multiple of this."""
LOAD = 1.8
MEMORY_KIB = 1024**2
"""Of one processor."""


def lines(jobs: int, seed: int) -> Iterator[str]:
    """The lines of the file, the header first."""
    random = np.random.default_rng(seed)
    yield "; Version: 2.2"
    yield "; Computer: none"
    yield f"; Note: synthetic (python -m benchmarks.synthetic_swf --jobs {jobs} --seed {seed})"
    yield f"; MaxNodes: {NODES}"
    yield f"; MaxProcs: {NODES * CPUS}"
    size = random.choice(SIZES, PROGRAMS, p=SHARES)
    median = MEDIAN_SECONDS * random.lognormal(0.0, SPREAD, PROGRAMS)
    user = random.integers(1, USERS + 1, PROGRAMS)
    program = random.integers(0, PROGRAMS, jobs)
    run = np.clip(median[program] * random.lognormal(0.0, WITHIN, jobs), 30, 12 * 3600).round()
    asked = np.ceil(run * random.uniform(1.0, ASKED, jobs) / STEP_SECONDS) * STEP_SECONDS
    gap = float((size[program] * run).mean()) / (LOAD * NODES * CPUS)
    submitted = np.cumsum(random.exponential(gap, jobs)).round()
    for number in range(jobs):
        runs, processors = program[number], size[program[number]]
        told = {
            1: number + 1, 2: submitted[number], 4: run[number], 5: processors, 8: processors,
            9: asked[number], 10: MEMORY_KIB, 11: 1, 12: user[runs], 13: 1, 14: runs + 1, 15: 1,
        }  # fmt: skip
        yield " ".join(str(int(told.get(field, -1))) for field in range(1, 19))


def main() -> None:
    """Print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=240)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print("\n".join(lines(arguments.jobs, arguments.seed)))


if __name__ == "__main__":
    main()
