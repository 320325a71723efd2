"""What the demo's users would reserve, and for which of it a baseline has room at once. Pure."""

import random
from collections.abc import Mapping, Sequence

MIN_OVER, MAX_OVER, UNDER = 1.5, 3.0, 0.5
_OVER_SHARE, _UNDER_SHARE = 0.7, 0.2
_STEP_CPUS = 0.05


def reservations(
    names: Sequence[str], need_cpus: float, seed: int, max_cpus: float
) -> dict[str, float]:
    """CPUs that users would reserve: over- and underestimates as in a large cluster, but milder.

    There (Quasar, Figure 1d) 70% of workloads reserved up to ten times too much and 20% up to five
    times too little. Here 70% reserve 1.5 to 3 times what they need, 20% half of it, and the rest
    what they need; ``seed`` draws which. None is above ``max_cpus``: it would never start.

    >>> stated = reservations("abcdefghij", 0.2, 0, 1.0).values()
    >>> sum(cpus > 0.2 for cpus in stated), sum(cpus < 0.2 for cpus in stated)
    (7, 2)
    """
    rng = random.Random(seed)
    ranks = [(rank + 0.5) / len(names) for rank in range(len(names))]
    rng.shuffle(ranks)
    stated = {}
    for name, rank in zip(names, ranks, strict=True):
        factor = UNDER if rank < _OVER_SHARE + _UNDER_SHARE else 1.0
        if rank < _OVER_SHARE:
            factor = rng.uniform(MIN_OVER, MAX_OVER)
        steps = round(need_cpus * factor / _STEP_CPUS)
        stated[name] = round(min(max(_STEP_CPUS, steps * _STEP_CPUS), max_cpus), 3)
    return stated


def with_room(stated: Mapping[str, float], servers: int, cpus_each: float) -> list[str]:
    """The workloads that would fit at once, each where most CPU is left; in the order given.

    >>> with_room({"a": 0.9, "b": 0.3, "c": 0.1}, 1, 1.0)
    ['a', 'c']
    """
    idle, fitting = [cpus_each] * servers, []
    for name, cpus in stated.items():
        most = max(idle)
        if cpus <= most + 1e-9:
            idle[idle.index(most)] -= cpus
            fitting.append(name)
    return fitting
