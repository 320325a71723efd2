"""What the simulator's pieces cost, part by part.

    python -m benchmarks.simulation --part loop --rounds 20

`loop`: one event of the hold model (``_hold.py``), with 100 to 100,000 events pending; against
SimPy and `heapq` with tuples (the peers), and against calling the callback alone (the floor).

`runs`: whole runs of the scenario ``synthetic``, the decision core included (``_runs.py``); once
each, as a run of 100,000 workloads takes a minute. Seconds are of the run, without drawing the
population.
"""

import argparse
import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks import _hold, _runs
from benchmarks._harness import Timing, compare, parser, report

PENDING = (100, 10_000, 100_000)

Part = Callable[[argparse.Namespace], Sequence[Mapping[str, Any]]]


def loop(options: argparse.Namespace) -> Sequence[Mapping[str, Any]]:
    """The event loop alone."""
    if _hold.simpy is None:
        print(_hold.HOW_TO_GET_SIMPY, file=sys.stderr)
    return [hold(pending, options.rounds, options.seed) for pending in PENDING]


def hold(pending: int, rounds: int, seed: int) -> Mapping[str, Any]:
    _hold.check(pending, seed)
    contenders = _hold.contenders(pending, seed)
    with nothing_to_collect():
        timing = compare(contenders, rounds)
    each = {name: [s / _hold.EVENTS for s in times] for name, times in timing.seconds.items()}
    return {"model": "hold", "pending": pending, **Timing(each).summary("event-loop")}


@contextmanager
def nothing_to_collect():
    """No contender's events are looked through by the collector while another is timed."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def runs(options: argparse.Namespace) -> Sequence[Mapping[str, Any]]:
    """Whole runs."""
    return [
        _runs.Case(policy, servers, workloads, options.seed).measured()
        for servers, workloads in _runs.SIZES
        for policy in _runs.POLICIES
    ]


PARTS: Mapping[str, Part] = {"loop": loop, "runs": runs}


def main() -> None:
    options_of = parser("Costs of the simulator, against peers and floors.")
    options_of.add_argument("--part", choices=PARTS, help="default: all")
    options = options_of.parse_args()
    parts = [options.part] if options.part else list(PARTS)
    results = [{"part": part, **result} for part in parts for result in PARTS[part](options)]
    report("simulation", options, results)


if __name__ == "__main__":
    main()
