"""What it costs to find the rates of those who share a server.

    python -m benchmarks.contention --rounds 20

One solution with 1 to 32 residents, each sought from the same cold start, on servers of all
platforms in turn: `solver` is all of ``Solver.solve``, as the ground truth calls it; `kernel` is
the compiled part, whose lists are made before. Against the same fixed point in NumPy by bisection
(the peer) and against making the kernel's seven lists and reading them once (the floor). Iterations
are of 2,000 groups of each size, not only of the timed ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks._harness import Timing, arguments, compare, report
from tests.support import reference_contention as reference
from tests.support.physics import PLATFORMS, Group, drawn_group_of
from wharfinger.simulator.truth.physics.solver import Constants, Lists, Solver

SIZES = (1, 2, 4, 8, 16, 32)
TIMED = len(PLATFORMS)
"""Groups that a turn solves, one to a platform."""
PEER_EVERY = 8
"""The peer solves each eighth of them, or a round would take seconds."""
COUNTED = 2000
CONSTANTS = Constants()


@dataclass(frozen=True, slots=True)
class Case:
    """One group, ready to be solved."""

    group: Group
    solver: Solver

    @classmethod
    def of(cls, group: Group) -> "Case":
        case = cls(group, Solver(group[0], CONSTANTS))
        case.solver.solve(group[1])  # its rows are made once, by whoever asks first
        return case

    def solve(self) -> object:
        return self.solver.solve(self.group[1])

    def lists(self) -> Lists:
        return self.solver.lists(self.group[1])

    def refer(self) -> object:
        return reference.solve(self.group[1], self.group[0], CONSTANTS)


def read_once(case: Case) -> float:
    """The floor."""
    return sum(sum(each) for each in case.lists())


def each_of(cases: Sequence[Case], solve: Callable[[Case], object]) -> Callable[[], None]:
    def run() -> None:
        for case in cases:
            solve(case)

    return run


def cost(size: int, rounds: int, seed: int) -> Mapping[str, Any]:
    """Seconds of a solution, and how many iterations it takes."""
    cases = [Case.of(drawn_group_of(seed + at, size)) for at in range(TIMED)]
    ready = [(case.solver.kernel.solve, case.lists()) for case in cases]

    def kernels() -> None:
        for solve, lists in ready:
            solve(*lists)

    some = cases[::PEER_EVERY]
    timing = compare(
        {
            "solver": each_of(cases, Case.solve),
            "kernel": kernels,
            "numpy-bisection": each_of(some, Case.refer),
            "lists": each_of(cases, read_once),
        },
        rounds,
    )
    solved = {name: len(cases) for name in timing.seconds} | {"numpy-bisection": len(some)}
    each = {name: [s / solved[name] for s in times] for name, times in timing.seconds.items()}
    return {
        "residents": size,
        **Timing(each).summary("solver"),
        "iterations": iterations(size, seed),
    }


def iterations(size: int, seed: int) -> Mapping[str, float]:
    """Of the solver, over many groups."""
    taken = [
        Case.of(drawn_group_of(seed + at, size)).solver.kernel.iterations for at in range(COUNTED)
    ]
    p50, p99 = np.percentile(taken, [50, 99])
    return {"p50": float(p50), "p99": float(p99), "max": float(max(taken)), "groups": COUNTED}


def main() -> None:
    options = arguments("The contention solver, against NumPy and reading its input.")
    report("contention", options, [cost(size, options.rounds, options.seed) for size in SIZES])


if __name__ == "__main__":
    main()
