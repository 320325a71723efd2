# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The law of latency of the simulator's services (simulator.truth.queueing), solved by bisection.

Called through wharfinger.native. The same numbers, to the last bit, as the equations in Python.
"""

from libc.math cimport exp, fabs, pow, sqrt
from libc.stdlib cimport free, malloc

cdef enum:
    HALVINGS = 50
cdef double SAME = 1e-9
cdef double LEAST_SPREAD = 1e-3


cdef struct Share:
    double weight
    double load
    double workers
    double service
    bint overloaded


def beyond(double load, double workers, double variation, double units):
    """Probability that a query takes longer than ``units`` mean service times.

    Args:
        load: ρ, below 1.
        workers: That answer queries side by side; 1 at least.
        variation: Squared coefficient of variation of the service time.
        units: Mean service times.
    """
    return _beyond(load, workers, variation, units)


def most_load(double units, double workers, double variation, double allowed):
    """The largest load ρ at which no more than the share ``allowed`` takes longer than ``units``."""
    cdef double low = 0.0, high = 1.0, middle
    cdef int _
    if _beyond(0.0, workers, variation, units) > allowed:
        return 0.0
    with nogil:
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if _beyond(middle, workers, variation, units) <= allowed:
                low = middle
            else:
                high = middle
            if high - low < 0.0:
                break
    return low


def longest(list shares, double variation, double allowed, double give_up, double precision):
    """Seconds beyond which the share ``allowed`` of the queries takes, over several servers.

    Args:
        shares: Of each server with load: its share of that, the load that it has and that it could
            answer, per second, and its workers.
        variation: Squared coefficient of variation of the service time.
        allowed: Below 1.
        give_up: The most that is answered.
        precision: Relative.
    """
    cdef Py_ssize_t count = len(shares), at
    cdef double low = 0.0, high = give_up, middle, could
    cdef int _
    cdef Share *parts = <Share *>malloc(max(count, 1) * sizeof(Share))
    if parts == NULL:
        raise MemoryError
    try:
        for at in range(count):
            weight, load, could, workers = shares[at]
            parts[at].weight, parts[at].workers = weight, workers
            parts[at].overloaded = could <= load
            if not parts[at].overloaded:
                parts[at].service = parts[at].workers / could
                parts[at].load = <double>load / could
        if _mixed(parts, count, variation, give_up) >= allowed:
            return give_up
        with nogil:
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                if _mixed(parts, count, variation, middle) > allowed:
                    low = middle
                else:
                    high = middle
                if high - low < precision * high:
                    break
        return high
    finally:
        free(parts)


cdef double _mixed(
    const Share *parts, Py_ssize_t count, double variation, double seconds
) noexcept nogil:
    """Probability that a query of any of the servers takes longer."""
    cdef double total = 0.0, slow
    cdef Py_ssize_t at
    for at in range(count):
        slow = 1.0
        if not parts[at].overloaded:
            slow = _beyond(
                parts[at].load, parts[at].workers, variation, seconds / parts[at].service
            )
        total += parts[at].weight * slow
    return total


cdef double _beyond(double load, double workers, double variation, double units) noexcept nogil:
    cdef double constant, spread, often, weight, rate, left, waits, leaves, total = 0.0
    if variation <= 1:
        # A constant, and an exponential part.
        spread = max(sqrt(variation), LEAST_SPREAD)
        constant, weight, rate = 1 - spread, 1.0, 1 / spread
    else:
        # One of two exponentials; the mean is 1 in both cases.
        often = 0.5 * (1 + sqrt((variation - 1) / (variation + 1)))
        constant, weight, rate = 0.0, often, 2 * often
    left = units - constant
    if left < 0:
        return 1.0
    waits = pow(load, sqrt(2 * (workers + 1)) - 1)
    leaves = 2 * workers * (1 - load) / (1 + variation)
    total += weight * _branch(rate, leaves, left, waits)
    if variation > 1:
        total += (1 - often) * _branch(2 * (1 - often), leaves, left, waits)
    return min(1.0, max(0.0, total))


cdef inline double _branch(double rate, double leaves, double left, double waits) noexcept nogil:
    """Of the queries that are served at this rate, those that take longer."""
    cdef double served = exp(-rate * left), gap = leaves - rate, waited
    if fabs(gap) < SAME * rate:
        waited = served * (1 + rate * left)
    else:
        waited = (leaves * served - rate * exp(-leaves * left)) / gap
    return (1 - waits) * served + waits * waited
