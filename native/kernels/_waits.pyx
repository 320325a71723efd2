# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What a queue asks of the servers that are busy: since when they are, and how surely they stay so.

Called through wharfinger.native. Both give exactly what Python's and NumPy's operations in the same
order give.
"""

from cpython.dict cimport PyDict_Next
from cpython.object cimport PyObject

import numpy as np


def sample_ages(list placed, double now, Py_ssize_t most):
    """For how long some workloads of each queue have held resources.

    Args:
        placed: Of each queue a dict, by workload, of the times when they got them.
        now: The time.
        most: So many of each queue at most, evenly spread over the order of the dict.

    Returns:
        (A,) seconds, and for how many workloads each stands.

    Raises:
        ValueError: None are asked for.
    """
    cdef Py_ssize_t count, step, some, at, place, used = 0, room = 0
    cdef PyObject *key
    cdef PyObject *value
    cdef dict times
    cdef double began
    if most < 1:
        raise ValueError(f"{most} of each queue is none")
    for times in placed:
        room += min(len(times), most)
    ages, weights = np.empty(room), np.empty(room)
    cdef double[::1] age = ages
    cdef double[::1] weight = weights
    for times in placed:
        count = len(times)
        if not count:
            continue
        step = (count + most - 1) // most
        some = (count + step - 1) // step
        at = place = 0
        while some and PyDict_Next(times, &place, &key, &value):
            if at % step == 0:
                began = <object>value
                age[used] = now - began if began < now else 0.0
                weight[used] = <double>count / <double>((count + step - 1) // step)
                used += 1
                some -= 1
            at += 1
    return ages[:used], weights[:used]


def stay_odds(const double[:, ::1] over):
    """How surely each of A busy servers stays busy until each of G times.

    Args:
        over: (A, 1 + G) share of busy periods that are over by now, and by each time.

    Returns:
        (3, A, G) the probability that it has come free, that times its reverse, and the reverse,
        which is above 0.
    """
    cdef Py_ssize_t servers = over.shape[0], times = over.shape[1] - 1, a, g
    cdef double left, stays
    odds = np.empty((3, servers, max(times, 0)))
    cdef double[:, :, ::1] out = odds
    for a in range(servers):
        for g in range(times):
            left = max(1.0 - over[a, 0], 1e-9)
            stays = min((1.0 - over[a, 1 + g]) / left, 1.0)
            out[0, a, g] = 1.0 - stays
            out[1, a, g] = out[0, a, g] * stays
            out[2, a, g] = max(stays, 1e-12)
    return odds
