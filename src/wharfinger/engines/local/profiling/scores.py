"""From what was measured to entries of the rows: pure.

Source: Paragon (TOCS) 2.3 and iBench (dissertation chapter 5) for tolerated and caused scores.
Called by ``sequence`` and ``injection``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from wharfinger.model.performance import SATURATED_SHARE, Quantity
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Entry

SINGLE_ERROR = 0.1
"""Relative error of a performance that was measured once: its noise is not known."""
LEAST_ERROR = 0.005
"""No performance is known better: the machine's own drift."""
CAPACITY_ERROR = 0.2
"""Relative error of what a service could answer, told from what it did."""
CONGESTED_SHARE = 0.95
"""A source that achieves less of what it was asked for had to share."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Performance over some time.

    Attributes:
        seconds: How long.
        values: By quantity, in its unit; latency in seconds.
    """

    seconds: float
    values: Mapping[Quantity, float]


def performance(stretches: Sequence[Stretch], quantity: Quantity) -> Entry | None:
    """The mean over time, with its relative standard error; ``None`` = nothing was told.

    >>> found = [Stretch(1.0, {Quantity.RATE: 9.0}), Stretch(1.0, {Quantity.RATE: 11.0})]
    >>> mean = performance(found, Quantity.RATE)
    >>> mean.value, round(mean.error, 6)
    (10.0, 0.1)
    """
    told = [(s.seconds, s.values[quantity]) for s in stretches if quantity in s.values]
    if not told:
        return None
    mean = fmean((value for _, value in told), weights=[seconds for seconds, _ in told])
    if mean <= 0:
        return None
    if len(told) == 1:
        return Entry(mean, SINGLE_ERROR)
    error = stdev(value for _, value in told) / math.sqrt(len(told)) / mean
    return Entry(mean, max(LEAST_ERROR, error))


def capacity(entry: Entry, cpu_millicpus: int, used_cpus: float) -> Entry:
    """What a service could answer, of which less was asked than its CPU allows.

    By the utilisation law (U = X * D): the CPU time of a request is the same however many come.
    Not beyond one CPU, since nobody knows how many threads it has.

    Args:
        entry: Requests a second that it answered.
        cpu_millicpus: Its allocation.
        used_cpus: CPU seconds per second meanwhile.

    >>> [capacity(Entry(40.0, 0.03), 500, used_cpus).value for used_cpus in (0.05, 0.45)]
    [400.0, 40.0]
    """
    used_millicpus = used_cpus * MILLICPUS_PER_CPU
    if not 0 < used_millicpus < SATURATED_SHARE * cpu_millicpus:
        return entry
    usable = min(cpu_millicpus, max(MILLICPUS_PER_CPU, used_millicpus))
    return Entry(entry.value * usable / used_millicpus, max(entry.error, CAPACITY_ERROR))


def relative(values: Mapping[Quantity, float], alone: Mapping[Quantity, float]) -> float | None:
    """Performance relative to that alone, more is better: of several quantities the worst.

    >>> relative({Quantity.LATENCY: 0.02}, {Quantity.LATENCY: 0.01})
    0.5
    """
    ratios = []
    for quantity in values.keys() & alone.keys():
        value, reference = values[quantity], alone[quantity]
        if quantity is Quantity.LATENCY:
            ratios.append(reference / value if value > 0 else 0.0)
        else:
            ratios.append(value / reference)
    return min(ratios) if ratios else None


def tolerated_of_few(ratios: Mapping[float, float], tolerance: float) -> Entry:
    """The score from one look at each of a few intensities, too few to judge a noise by.

    Args:
        ratios: Performance relative to that alone, by intensity; at least one.
        tolerance: How far it may drop.

    >>> round(tolerated_of_few({50.0: 1.0, 100.0: 0.9}, 0.05).value, 6)
    75.0
    >>> bound = tolerated_of_few({100.0: 0.99}, 0.05)
    >>> bound.value, bound.censored
    (100.0, True)
    """
    floor, low, at_low = 1 - tolerance, 0.0, 1.0
    for intensity in sorted(ratios):
        ratio = ratios[intensity]
        if ratio < floor:
            share = min(1.0, max(0.0, (at_low - floor) / (at_low - ratio)))
            step = intensity - low
            return Entry(low + share * step, step / math.sqrt(12))
        low, at_low = intensity, ratio
    return Entry(low, 0.0, censored=True)


def caused_on_cpu(used_cpus: Sequence[float], cpus: int) -> Entry:
    """CPU time as a share of what an integer source at 100 takes: all of each of the CPUs.

    Args:
        used_cpus: CPU seconds per second, in some stretches; at least one.
        cpus: Of the server.

    >>> caused_on_cpu([0.5, 0.5], 2).value
    25.0
    """
    shares = [min(100.0, 100 * used / cpus) for used in used_cpus]
    error = stdev(shares) / math.sqrt(len(shares)) if len(shares) > 1 else 5.0
    return Entry(fmean(shares), max(0.5, error))


def caused_by_sharing(asked: float, achieved: Sequence[float]) -> Entry | None:
    """What a source could not achieve beside the workload, where they shared in proportion.

    Of a congested resource each gets its part of what both want: achieved / asked is
    100 / (asked + caused). ``None`` = it was not congested.

    >>> round(caused_by_sharing(100.0, [50.0, 50.0]).value)
    100
    >>> caused_by_sharing(25.0, [25.1]) is None
    True
    """
    if not achieved or asked <= 0:
        return None
    mean = fmean(achieved)
    if not 0 < mean < CONGESTED_SHARE * asked:
        return None
    error = stdev(achieved) / math.sqrt(len(achieved)) if len(achieved) > 1 else mean / 4
    slope = 100 * asked / mean**2
    return Entry(min(100.0, max(0.0, 100 * asked / mean - asked)), max(1.0, slope * error))


def caused_by_own_use(bytes_per_second: float, maximum_per_second: float) -> Entry:
    """The workload's own I/O over the most that the source reaches."""
    value = min(100.0, 100 * bytes_per_second / maximum_per_second)
    return Entry(value, max(1.0, value / 10))


def larger(entries: Sequence[Entry | None]) -> Entry | None:
    """The entry of the highest value among those that there are."""
    return max((entry for entry in entries if entry), key=lambda entry: entry.value, default=None)
