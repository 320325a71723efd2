"""From what was read to entries of the rows: pure.

Source: Paragon (TOCS) 2.3 and iBench (dissertation chapter 5) for tolerated and caused scores.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from wharfinger.ibench.ramp import Tolerance
from wharfinger.model.performance import SATURATED_SHARE, Quantity
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Entry

PERFORMANCES = (Quantity.RATE, Quantity.THROUGHPUT, Quantity.LATENCY)
SINGLE_ERROR = 0.1
"""Relative error of what was measured once, with unknown noise."""
USE_ERROR = 0.05
CAPACITY_ERROR = 0.2
"""Relative errors of CPU time and of a capacity estimate."""
_MIN_ERROR = 0.005
"""Lower bound of relative errors, for the machine's own drift."""
_CONGESTED_SHARE = 0.95
"""A source that achieves less of what it was asked for had to share."""
_MIN_IO_BYTES_PER_SECOND = 16384.0
"""With less I/O, a source falls short for want of CPU time."""


def mean(told: Sequence[tuple[float, float]]) -> Entry | None:
    """Mean over time of (seconds, value), with its relative standard error; ``None`` = no values.

    >>> entry = mean([(1.0, 9.0), (1.0, 11.0)])
    >>> entry.value, round(entry.error, 6)
    (10.0, 0.1)
    """
    if not told:
        return None
    average = fmean((value for _, value in told), weights=[seconds for seconds, _ in told])
    if average <= 0:
        return None
    if len(told) == 1:
        return Entry(average, SINGLE_ERROR)
    error = stdev(value for _, value in told) / math.sqrt(len(told)) / average
    return Entry(average, max(_MIN_ERROR, error))


def capacity(entry: Entry, cpu_millicpus: int, used_cpus: float) -> Entry:
    """Capacity estimate of a service that answered ``entry`` requests/s with ``used_cpus``.

    By the utilisation law (U = X * D): the CPU time of a request is the same however many come.
    Not beyond one CPU, since its number of threads is unknown.

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


def tolerated(ramp: Tolerance) -> Entry:
    """A ramp's result: uncertain by the step that it lies in, and by the noise at its ends."""
    if ramp.censored:
        return Entry(ramp.low, 0.0, censored=True)
    points = {point.intensity: point for point in ramp.curve}
    high, low = points.get(ramp.high), points.get(ramp.low)
    drop = (low.relative_performance if low else 1.0) - (high.relative_performance if high else 1.0)
    noise = math.hypot(*(point.standard_error for point in (high, low) if point))
    step = ramp.high - ramp.low
    points_of_noise = min(step / 2, noise * step / drop) if drop > 0 else step / 2
    return Entry(ramp.score, math.hypot(step / math.sqrt(12), points_of_noise))


def tolerated_of_few(ratios: Mapping[float, float], tolerance: float) -> Entry:
    """Tolerated interference from ratios to performance alone by intensity, one reading each.

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

    >>> caused_on_cpu([0.5, 0.5], 2).value
    25.0
    """
    shares = [min(100.0, 100 * used / cpus) for used in used_cpus]
    error = stdev(shares) / math.sqrt(len(shares)) if len(shares) > 1 else 5.0
    return Entry(fmean(shares), max(0.5, error))


def caused_by_sharing(asked: float, achieved: Sequence[float]) -> Entry | None:
    """Caused interference, from what a source achieved of what it was asked for.

    Of a congested resource each gets its proportion of what both want: achieved / asked is
    100 / (asked + caused). ``None`` = it was not congested.

    >>> round(caused_by_sharing(100.0, [50.0, 50.0]).value)
    100
    >>> caused_by_sharing(25.0, [25.1]) is None
    True
    """
    if not achieved or asked <= 0:
        return None
    reached = fmean(achieved)
    if not 0 < reached < _CONGESTED_SHARE * asked:
        return None
    error = stdev(achieved) / math.sqrt(len(achieved)) if len(achieved) > 1 else reached / 4
    slope = 100 * asked / reached**2
    return Entry(min(100.0, max(0.0, 100 * asked / reached - asked)), max(1.0, slope * error))


def caused_on_device(
    maximum_per_second: float | None, io_bytes_per_second: float | None, shared: Entry | None
) -> Entry | None:
    """Caused interference on a device: by the workload's own I/O, or by sharing if that is larger.

    The first is its I/O alone over the source's maximum; the second is seen where it was slowed.
    """
    if io_bytes_per_second is None or not maximum_per_second:
        return shared
    value = min(100.0, 100 * io_bytes_per_second / maximum_per_second)
    own = Entry(value, max(1.0, value / 10))
    if io_bytes_per_second < _MIN_IO_BYTES_PER_SECOND or shared is None:
        return own
    return max(shared, own, key=lambda entry: entry.value)
