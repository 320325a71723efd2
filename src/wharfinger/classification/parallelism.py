"""Whether more CPU helps a program beyond what was measured, by how many CPUs it kept busy.

Work takes CPU time, which the CPUs share, and time in which the program waits for a disk or a
network, which CPUs do not shorten (utilization law). With n CPUs of which u are busy, at a rate P:

    1 / P = (u / P) / n + d        so d = (1 - u / n) / P

d is that wait for a unit of work. The smaller of two allocations a tells it, where all CPUs can be
used; then the larger tells how many the program used: n = u / (1 - d P). Fewer than a: no more help
it (n is its parallelism: Eager, Zahorjan and Lazowska, "Speedup versus efficiency in parallel
systems", 1989). All of them: the entry is censored, more may help, at most to the rate

    1 / P(c) = (u / P) / c + d

How much of that gain (as a share of its logarithm) a program has is learnt from known programs that
used all their CPUs of the same allocation.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, exp, hypot, inf, log

import numpy as np

from wharfinger.classification.utility import UtilityRow
from wharfinger.estimators.estimator import NORMAL_90
from wharfinger.model.configuration import Configuration
from wharfinger.model.memo import by_identity
from wharfinger.model.performance import SATURATED_SHARE
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Estimate

PRIOR_SHARES = (0.0, 1.0)
"""Of the possible gain, as if two more programs were known: where none is, either is as likely."""
LEAST_SHARE_STD = 0.05
"""Of a share of the possible gain."""
LEAST_POSSIBLE = 0.05
"""Of the logarithm of a rate: what part of a smaller gain a program has is noise."""
DOUBLINGS = 2
"""Beyond the last column, that a curve is continued by."""
LONGER = 1.5
"""A disk or a network that is asked for more makes wait longer, by so much at most."""
USED_SHARE = 0.1
"""Of the CPU that the larger allocation has more: of less in use no more helps."""
LEAST_COMPUTING = 0.02
"""Of a program's time: with less it waits for nothing but devices, and errors are too large."""


@dataclass(frozen=True, slots=True)
class Use:
    """A rate, and the CPUs kept busy meanwhile, with an allocation; all above 0."""

    cpus: float
    rate: float
    busy: float


@dataclass(frozen=True, slots=True)
class Parallelism:
    """What two allocations tell of a program.

    Attributes:
        cpus: How many it can use; infinite = more than were measured (censored).
        most: The larger allocation.
        waiting_seconds: For a unit of work, that no CPU shortens.
    """

    cpus: float
    most: Use
    waiting_seconds: float

    @property
    def censored(self) -> bool:
        """Whether more CPU may help."""
        return self.cpus == inf

    def possible_gain(self, cpus: float) -> float:
        """The logarithm of the most that it could do with so many CPUs over what was measured."""
        most = self.most
        if not self.censored or cpus <= most.cpus:
            return 0.0
        rate = 1 / (most.busy / most.rate / cpus + self.waiting_seconds)
        return max(0.0, log(rate / most.rate))


def parallelism(uses: Sequence[Use]) -> Parallelism | None:
    """By the smallest and the largest allocation; ``None`` = unknown.

    With one allocation, only where it was used wholly.

    >>> small, large = Use(1.0, 10.0, 1.0), Use(4.0, 29.0, 3.0)
    >>> round(parallelism([small, large]).cpus, 2)
    3.0
    >>> waits, with_all = Use(1.0, 10.0, 0.5), Use(4.0, 16.0, 0.85)  # Four threads, half of it I/O.
    >>> parallelism([waits, with_all]).censored, parallelism([with_all])
    (True, None)
    """
    if not uses:
        return None
    small, most = (pick(uses, key=lambda use: use.cpus) for pick in (min, max))
    if most.busy >= SATURATED_SHARE * most.cpus:
        waiting = max(0.0, 1 - most.busy / most.cpus) / most.rate
        return Parallelism(inf, most, waiting)
    if small.cpus >= most.cpus:
        return None
    waiting = max(0.0, 1 - small.busy / small.cpus) / small.rate
    cpus = most.busy / max(1 - LONGER * waiting * most.rate, LEAST_COMPUTING)
    used = most.busy - small.busy >= USED_SHARE * (most.cpus - small.cpus)
    if used and cpus >= SATURATED_SHARE * most.cpus:
        return Parallelism(inf, most, waiting)
    return Parallelism(min(cpus, most.cpus), most, waiting)


@dataclass(frozen=True, slots=True)
class KnownProgramUse:
    """A known program's rates by allocation in thousandths, and how many CPUs it kept busy."""

    uses: tuple[Use, ...]
    rates: Mapping[int, float]

    def nearest(self, cpus: float) -> Use:
        """With about so much."""
        return min(self.uses, key=lambda use: abs(log(use.cpus / cpus)))


def known_uses(rows: Iterable[UtilityRow]) -> tuple[KnownProgramUse, ...]:
    """Of rows of scale-up, by CPU alone; those whose CPU use is unknown are left out."""
    known = []
    for row in rows:
        if not row.used:
            continue
        named = {
            Configuration.parse(name): (entry.value, name) for name, entry in row.entries.items()
        }
        plain = {
            c.cpu_millicpus: each
            for c, each in named.items()
            if c == Configuration(c.cpu_millicpus)
        }
        rates = {cpu: rate for cpu, (rate, _) in sorted(plain.items()) if rate > 0}
        busy = {cpu: row.used.get(name, 0.0) for cpu, (_, name) in plain.items()}
        uses = own_uses(rates, {cpu: each for cpu, each in busy.items() if each > 0})
        if uses:
            known.append(KnownProgramUse(tuple(uses), rates))
    return tuple(known)


def gains(
    own: Parallelism,
    smallest: float,
    known: tuple[KnownProgramUse, ...],
    cpu_millicpus: Sequence[int],
) -> dict[int, Estimate]:
    """Rates with more CPU, over that with the most that was measured, of a censored program.

    Args:
        own: Of the program.
        smallest: Its smaller allocation, in CPUs: known programs are looked at with as much.
        known: What else is known.
        cpu_millicpus: Allocations above the largest measured.
    """
    made = {}
    for cpu in cpu_millicpus:
        share = _share_of_gain(known, smallest, own.most.cpus, cpu)
        possible = own.possible_gain(cpu / MILLICPUS_PER_CPU)
        made[cpu] = Estimate(exp(share.mean * possible), share.std * possible)
    return made


@by_identity(maxsize=1024)
def _share_of_gain(
    known: tuple[KnownProgramUse, ...], smallest: float, most: float, cpu_millicpus: int
) -> Estimate:
    """What part of the possible gain known programs have, over that with the larger allocation."""
    shares = [*PRIOR_SHARES]
    for each in known:
        alike = parallelism([each.nearest(smallest), each.nearest(most)])
        if alike is None or not alike.censored or cpu_millicpus not in each.rates:
            continue
        possible = alike.possible_gain(cpu_millicpus / MILLICPUS_PER_CPU)
        if possible > LEAST_POSSIBLE:
            share = log(each.rates[cpu_millicpus] / alike.most.rate) / possible
            shares.append(min(1.0, max(0.0, share)))
    values = np.array(shares)
    mean = float(values.mean())
    apart = float(np.quantile(np.abs(values - mean), 0.9))
    return Estimate(mean, max(float(values.std()), apart / NORMAL_90, LEAST_SHARE_STD))


def own_uses(rates: Mapping[int, float], busy: Mapping[int, float]) -> list[Use]:
    """Of what was measured, by allocation in thousandths."""
    return [
        Use(cpu / MILLICPUS_PER_CPU, rates[cpu], busy[cpu])
        for cpu in sorted(rates.keys() & busy.keys())
    ]


def beyond(
    own: Parallelism,
    smallest: float,
    level: Estimate,
    columns: Collection[int],
    known: tuple[KnownProgramUse, ...],
) -> dict[int, Estimate]:
    """Points of the curve by CPU, in thousandths, where its parallelism tells more than the rest.

    Args:
        own: Its parallelism.
        smallest: Allocation at which it was measured, in CPUs.
        level: Its rate with the most, as measured.
        columns: Allocations at which it was not measured.
        known: Of known programs; without any, what the estimator says of the columns stays.
    """
    most, least = (round(cpus * MILLICPUS_PER_CPU) for cpus in (own.most.cpus, smallest))
    end = max(most, *columns) if columns else most
    continued = (end * 2**i for i in range(1, DOUBLINGS + 1))
    above = sorted(cpu for cpu in (*columns, *continued) if cpu > most)
    if own.censored:
        if not known:
            above = [cpu for cpu in above if cpu > end]
        return {
            cpu: Estimate(level.mean * gain.mean, hypot(level.std, gain.std))
            for cpu, gain in gains(own, smallest, known, above).items()
        }
    enough = max(least, ceil(own.cpus * MILLICPUS_PER_CPU))
    between = [cpu for cpu in columns if enough < cpu < most]
    ends = [enough] if least < enough < most else []
    return dict.fromkeys((*ends, *between, *above), level)
