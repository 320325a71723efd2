"""A decision of `ibench` beside one of `least-loaded` (the peer) in the same run.

    python -m benchmarks._ibench_decisions

Whole decisions, record included, with three classified residents on each server, one of which has
changed before each; asked in turns. Newcomers that no server suits are asked apart: these cost a
look at all servers. A reading of the residents' scores is the floor.
"""

from dataclasses import replace
from random import Random

import numpy as np

from benchmarks._harness import compare, parser, report
from benchmarks.core import classification, load, workload
from benchmarks.placement import DECIDED_PLATFORMS, RESIDENTS, Deciding, R, percentiles, timed
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Estimate
from wharfinger.model.view import Request

SERVERS = 10_000
POLICIES = ("ibench", "least-loaded")
MOST = 2.0
"""What a decision of `ibench` may take, in those of `least-loaded`."""


def decide(servers: int, rounds: int, seed: int, decisions: int) -> dict[str, object]:
    """Percentiles of the CPU time of decisions, and ratios of wall-clock time, in turns."""
    view, random = load(servers, seed, platforms=DECIDED_PLATFORMS).manager.view, Random(seed + 1)
    known = [replace(classification(random), platform="drawn-0") for _ in range(100)]
    # As loud as can be: nobody tolerates it but an empty server.
    loud = {source: Estimate(100.0, 1.0) for source in SharedResource}
    suited, unsuited = (
        [Request(workload("asked"), classification=each) for each in of]
        for of in (known, [replace(each, caused=loud) for each in known])
    )
    deciding = {name: Deciding(name, view, suited) for name in POLICIES}
    deciding["ibench, nowhere"] = Deciding("ibench", view, unsuited)
    columns = np.ones((servers * RESIDENTS, 3, R))
    contenders = {name: each.decide for name, each in deciding.items()}
    summary = compare({**contenders, "memory-read": columns.max}, rounds).summary("ibench")
    times = {}
    for name, each in deciding.items():
        nanoseconds, _ = timed(each.decide, decisions)
        times[name] = percentiles(np.array(nanoseconds) / 1000)
    ratio = times["ibench"]["median"] / times["least-loaded"]["median"]
    return {
        "servers": servers,
        "cpu_microseconds": times,
        "over_least_loaded": {"median": ratio, "most": MOST, "kept": ratio <= MOST},
        **summary,
    }


def main() -> None:
    options = parser("CPU time of a decision of ibench over least-loaded's.")
    options.add_argument("--servers", type=int, default=SERVERS)
    options.add_argument("--decisions", type=int, default=2_000)
    given = options.parse_args()
    result = decide(given.servers, given.rounds, given.seed, given.decisions)
    report("ibench-decisions", given, [result])


if __name__ == "__main__":
    main()
