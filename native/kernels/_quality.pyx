# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Resource quality (ARQ, equation 1): of servers and of workloads, and servers in order of it.

Called through wharfinger.native.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memmove

import numpy as np

cdef enum:
    # Of more rows all are sorted again.
    MANY_CHANGES = 16


def tiers_with_room(
    const double[::1] quality,
    const uint8_t[::1] accepting,
    const int64_t[::1] cpu_capacity,
    const int64_t[::1] cpu_allocated,
    const int64_t[::1] memory_capacity,
    const int64_t[::1] memory_allocated,
    int64_t cpu,
    int64_t memory,
    list bounds not None,
):
    """Servers by ranges of quality, and in which ranges one has room for a workload.

    Args:
        quality: (S,) of each server; the others are columns of a view.
        cpu: Thousandths of a CPU that it gets, and bytes of ``memory``.
        bounds: (T + 1,) ascending; a range begins with the one, and ends before the next.

    Returns:
        Of each range (S,) which servers are in it, and whether one there accepts work and has room
        now.

    Raises:
        ValueError: The columns' lengths differ, or there is no range.
    """
    cdef Py_ssize_t s, at, servers = quality.shape[0], ranges = len(bounds) - 1
    if not (
        accepting.shape[0] == servers
        and cpu_capacity.shape[0] == cpu_allocated.shape[0] == servers
        and memory_capacity.shape[0] == memory_allocated.shape[0] == servers
    ):
        raise ValueError("columns of servers have different lengths")
    if ranges < 1:
        raise ValueError("a range needs two bounds")
    tiers, bound_array = np.zeros((ranges, servers), dtype=np.uint8), np.array(bounds)
    has_room = [False] * ranges
    cdef uint8_t[:, ::1] inside = tiers
    cdef const double[::1] bound = bound_array
    for s in range(servers):
        if not bound[0] <= quality[s] < bound[ranges]:
            continue
        at = 0
        while quality[s] >= bound[at + 1]:
            at += 1
        inside[at, s] = True
        if (
            accepting[s]
            and cpu_capacity[s] - cpu_allocated[s] >= cpu
            and memory_capacity[s] - memory_allocated[s] >= memory
        ):
            has_room[at] = True
    return list(tiers.view(np.bool_)), has_room


cdef class OrderedRows:
    """The numbers of some rows in order. What has been asked last is kept: only rows that have
    changed since are moved, so an answer hangs on the arguments alone.
    """

    cdef double[::1] values
    cdef uint8_t[::1] counts
    cdef double[::1] ordered
    cdef Py_ssize_t count

    def __init__(self):
        self.values, self.counts = np.zeros(0), np.zeros(0, dtype=np.uint8)
        self.ordered, self.count = np.zeros(0), 0

    def quantiles(
        self, const double[::1] values not None, const uint8_t[::1] counts not None,
        list shares not None,
    ):
        """As ``numpy.quantile`` of the values whose rows count.

        Args:
            values: (S,) none of them NaN.
            counts: (S,) whether each row does.
            shares: From 0 to 1.

        Returns:
            One for each share; ``shares`` where no row counts.

        Raises:
            ValueError: The lengths differ.
        """
        cdef Py_ssize_t row, changed = 0, rows = values.shape[0]
        if counts.shape[0] != rows:
            raise ValueError("columns of servers have different lengths")
        if self.values.shape[0] == rows:
            for row in range(rows):
                changed += self.counts[row] != counts[row] or self.values[row] != values[row]
        if self.values.shape[0] != rows or changed > MANY_CHANGES:
            self._sort(np.array(values), np.array(counts))
        elif changed:
            for row in range(rows):
                if self.counts[row] != counts[row] or self.values[row] != values[row]:
                    self._move(row, values[row], counts[row])
        if not self.count:
            return shares
        return [self._quantile(share) for share in shares]

    def _sort(self, values, counts):
        self.values, self.counts = values, counts
        there = np.sort(values[counts > 0])
        self.count, self.ordered = len(there), np.append(there, np.zeros(len(values) - len(there)))

    cdef Py_ssize_t _at(self, double value) noexcept:
        """The first that is not less."""
        cdef Py_ssize_t low = 0, high = self.count, middle
        while low < high:
            middle = (low + high) // 2
            if self.ordered[middle] < value:
                low = middle + 1
            else:
                high = middle
        return low

    cdef void _move(self, Py_ssize_t row, double value, uint8_t counts) noexcept:
        cdef Py_ssize_t at
        cdef double* ordered = &self.ordered[0]
        if self.counts[row]:
            at = self._at(self.values[row])
            self.count -= 1
            memmove(ordered + at, ordered + at + 1, (self.count - at) * sizeof(double))
        self.values[row], self.counts[row] = value, counts
        if counts:
            at = self._at(value)
            memmove(ordered + at + 1, ordered + at, (self.count - at) * sizeof(double))
            ordered[at] = value
            self.count += 1

    cdef double _quantile(self, double share) noexcept:
        cdef double place = share * (self.count - 1), least, most
        cdef Py_ssize_t at = min(<Py_ssize_t>place, self.count - 1)
        least, most = self.ordered[at], self.ordered[min(at + 1, self.count - 1)]
        place -= at
        # As NumPy: from the nearer one.
        if place < 0.5:
            return least + (most - least) * place
        return most - (most - least) * (1.0 - place)


def refresh_quality(const double[:, :, ::1] levels, list rows not None, double[:, ::1] quality,
                    Py_ssize_t sources):
    """Resource quality of some servers again, from the scores of their residents.

    Args:
        levels: (4, R, S) tolerated, its variance, caused, its variance; points.
        rows: Of these servers.
        quality: (2, S) from 0 to 1, by what is caused alone, and by what is tolerated, too.
        sources: How many count, the first ones.
    """
    cdef Py_ssize_t row, source
    cdef double tolerated, left
    if quality.shape[0] != 2 or levels.shape[0] != 4 or not 0 < sources <= levels.shape[1]:
        raise ValueError("levels are (4, R, S), and qualities (2, S)")
    for row in rows:
        if row < 0 or row >= levels.shape[2] or row >= quality.shape[1]:
            raise ValueError(f"there is no row {row}")
        tolerated = left = 0.0
        for source in range(sources):
            left += 100.0 - min(levels[2, source, row], 100.0)
            tolerated += min(max(levels[0, source, row], 0.0), 100.0)
        left /= sources
        quality[0, row] = left / 100.0
        quality[1, row] = (left + tolerated / sources) / 2 / 100.0


def needed_quality(caused, tolerated, frozenset counted not None):
    """The resource quality that a workload needs, from 0 to 1; sources that are unknown need none.

    Args:
        caused: Estimates of scores by source.
        tolerated: The same; ``None`` = what is caused counts alone.
        counted: The sources that count.
    """
    cdef double wanted = 0.0, score
    for source, each in caused.items():
        if source in counted:
            score = each.mean
            wanted += min(score, 100.0)
    if tolerated is not None:
        for source, each in tolerated.items():
            if source in counted:
                score = each.mean
                wanted += max(100.0 - score, 0.0)
        wanted /= 2
    return max(0.0, wanted / (100.0 * len(counted)))
