# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What an admission asks on every decision: when what is busy should end, when to turn to another
queue, and which servers have room.

Called through wharfinger.native. Numbers of a queue come and go as lists: they are few.
"""

from libc.math cimport erfc, exp, log, log1p, sqrt, tanh
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memmove

cimport cython

import numpy as np

cdef enum:
    # Of more rows all are sorted again.
    MANY_CHANGES = 16


def sample_ages(list began, double now, Py_ssize_t most):
    """For how long some workloads of each queue have held resources.

    Args:
        began: Of each queue the times when its workloads got them, ascending.
        now: The time.
        most: So many of each queue at most, evenly spread over these.

    Returns:
        (A,) seconds, and for how many workloads each stands.

    Raises:
        ValueError: None are asked for.
    """
    cdef Py_ssize_t count, step, at, used = 0, room = 0
    cdef list times
    cdef double weight
    _check_most(most)
    for times in began:
        room += min(len(times), most)
    age_array, weight_array = np.empty(room), np.empty(room)
    cdef double[::1] ages = age_array
    cdef double[::1] weights = weight_array
    for times in began:
        count = len(times)
        if not count:
            continue
        step = _step(count, most)
        weight = _stands_for(count, step)
        for at in range(0, count, step):
            ages[used] = max(now - <double>times[at], 0.0)
            weights[used] = weight
            used += 1
    return age_array[:used], weight_array[:used]


cdef inline int _check_most(Py_ssize_t most) except -1:
    if most < 1:
        raise ValueError(f"{most} of each queue is none")
    return 0


cdef inline Py_ssize_t _step(Py_ssize_t count, Py_ssize_t most) noexcept:
    return (count + most - 1) // most


cdef inline double _stands_for(Py_ssize_t count, Py_ssize_t step) noexcept:
    """For how many each of those stands that are looked at."""
    return <double>count / <double>((count + step - 1) // step)


@cython.final
cdef class BusyCurve:
    """The cumulative distribution of busy periods, as a table that is read linearly.

    Beyond the table's end they end at the rate of its last step.

    Args:
        times: (P,) seconds, ascending.
        shares: (P,) of the busy periods, that are over by then.
    """

    cdef const double[::1] times
    cdef const double[::1] shares
    cdef double[::1] slopes
    cdef double rate

    def __init__(self, const double[::1] times not None, const double[::1] shares not None):
        if times.shape[0] < 1 or times.shape[0] != shares.shape[0]:
            raise ValueError("a table needs as many shares as times, and one at least")
        self.times, self.shares = times, shares
        self.slopes = np.append(np.diff(shares) / np.diff(times), 0.0)
        self.rate = 0.0
        cdef Py_ssize_t last = times.shape[0] - 1
        if last > 0 and shares[last] < 1.0:
            self.rate = log((1.0 - shares[last - 1]) / (1.0 - shares[last]))
            self.rate /= times[last] - times[last - 1]

    def releases(self, list began not None, double now, Py_ssize_t most):
        """When servers should come free that have been busy since then.

        Args:
            began: Of each queue the times when its workloads got them, ascending.
            now: The time.
            most: So many of each queue are looked at, at most, each for as many of them.

        Raises:
            ValueError: None are to be looked at.
        """
        cdef Py_ssize_t count, step, at, room = 0
        cdef double weight
        cdef list times
        _check_most(most)
        for times in began:
            room += min(len(times), most)
        cdef Releases made = Releases(self, room)
        for times in began:
            count = len(times)
            if not count:
                continue
            step = _step(count, most)
            weight = _stands_for(count, step)
            for at in range(0, count, step):
                made._add(max(now - <double>times[at], 0.0), weight)
        return made

    cdef Table table(self) noexcept:
        cdef Py_ssize_t last = self.times.shape[0] - 1
        return Table(&self.times[0], &self.shares[0], &self.slopes[0], self.rate, last)


cdef struct Table:
    const double* times
    const double* shares
    const double* slopes
    double rate  # At which those end that are older than the last time.
    Py_ssize_t last


cdef inline Py_ssize_t _point(const Table* table, double seconds) noexcept:
    """The last point that is not later; -1 = all are."""
    cdef Py_ssize_t low = 0, count = table.last + 1, half
    if table.times[0] > seconds:
        return -1
    while count > 1:
        half = count // 2
        low = low + half if table.times[low + half] <= seconds else low
        count -= half
    return low


cdef inline double _over(const Table* table, double seconds, Py_ssize_t* point) noexcept:
    """The share that is over; ``point`` is not after ``seconds``, and goes up to them."""
    cdef Py_ssize_t at = point[0]
    while at < table.last and table.times[at + 1] <= seconds:
        at += 1
    point[0] = at
    if at < 0:
        return table.shares[0]
    if at == table.last:
        return 1.0 - (1.0 - table.shares[at]) * exp(table.rate * (table.times[at] - seconds))
    return table.slopes[at] * (seconds - table.times[at]) + table.shares[at]


cdef struct Busy:
    double age  # Seconds, so far.
    double weight  # For so many it stands.
    double per_left  # 1 over the share of busy periods that are longer than that.
    Py_ssize_t point  # Of the table, where the age is.


cdef struct Odds:
    double mean  # How many have come free, and the variance of that.
    double variance
    double none  # The logarithm of the probability that none has.
    double stay  # That those stay busy that are not in that yet, each for as many.


@cython.final
cdef class Releases:
    """When busy servers should come free.

    That one has come free within t has the probability 1 - Π [1 - F(a + t)] / [1 - F(a)]: F is the
    distribution of busy periods, a how long each has been busy. So does ``BusyCurve`` make it.
    """

    cdef BusyCurve curve
    cdef Table table
    cdef Py_ssize_t count
    cdef Busy* busy

    def __cinit__(self, BusyCurve curve not None, Py_ssize_t room):
        self.curve, self.table, self.count = curve, curve.table(), 0
        self.busy = <Busy*>malloc((room + 1) * sizeof(Busy))
        if self.busy == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.busy)

    cdef void _add(self, double age, double weight) noexcept:
        cdef Busy* busy = &self.busy[self.count]
        # Beyond the last time the rate is constant: its age makes no difference.
        age = min(age, self.table.times[self.table.last])
        busy.age, busy.weight, busy.point = age, weight, _point(&self.table, age)
        busy.per_left = 1.0 / max(1.0 - _over(&self.table, age, &busy.point), 1e-9)
        self.count += 1

    cdef void _odds(self, const double* after, Py_ssize_t grid, Odds* odds) noexcept:
        """Of each time; these are ascending."""
        cdef Py_ssize_t each, g, point
        cdef Busy* busy
        cdef double stays, before = 1.0
        for g in range(grid):
            odds[g] = Odds(0.0, 0.0, 0.0, 1.0)
        for each in range(self.count):
            busy = &self.busy[each]
            if busy.weight != before or odds[grid - 1].stay < 1e-200:
                _weigh(odds, grid, before)
                before = busy.weight
            point = busy.point
            for g in range(grid):
                stays = (1.0 - _over(&self.table, busy.age + after[g], &point)) * busy.per_left
                stays = min(stays, 1.0)
                odds[g].mean += before * (1.0 - stays)
                odds[g].variance += before * (1.0 - stays) * stays
                odds[g].stay *= max(stays, 1e-12)
        _weigh(odds, grid, before)

    def expected(self, list seconds not None):
        """(G,) how many should have come free within each time; these are ascending."""
        cdef Py_ssize_t g, grid = len(seconds)
        cdef Odds* odds = self._told(seconds)
        made = [odds[g].mean for g in range(grid)]
        free(odds)
        return made

    def expected_by(self, double seconds):
        """How many should have come free within that time."""
        cdef Odds odds
        self._odds(&seconds, 1, &odds)
        return odds.mean

    def within(self, list seconds not None, Py_ssize_t position):
        """(G,) probability that so many have come free within each time; these are ascending.

        From the second on they are counted by a normal approximation.
        """
        cdef Py_ssize_t g, grid = len(seconds)
        cdef Odds* odds = self._told(seconds)
        made = [_within(&odds[g], position) for g in range(grid)]
        free(odds)
        return made

    cdef Odds* _told(self, list seconds) except NULL:
        """The odds of each time, to be freed."""
        cdef Py_ssize_t g, grid = len(seconds)
        cdef Odds* odds = <Odds*>malloc((grid + 1) * sizeof(Odds))
        cdef double* after = <double*>malloc((grid + 1) * sizeof(double))
        try:
            if odds == NULL or after == NULL:
                raise MemoryError
            for g in range(grid):
                after[g] = seconds[g]
            if grid:
                self._odds(after, grid, odds)
        except BaseException:
            free(odds)
            raise
        finally:
            free(after)
        return odds


cdef void _weigh(Odds* odds, Py_ssize_t grid, double weight) noexcept:
    """Each of those that have been added stands for so many."""
    cdef Py_ssize_t g
    for g in range(grid):
        if odds[g].stay < 1.0:
            odds[g].none += weight * log(odds[g].stay)
            odds[g].stay = 1.0


cdef double _within(const Odds* odds, Py_ssize_t position) noexcept:
    """The probability that so many have come free."""
    cdef double deviations, share = 1.0 - exp(odds.none)
    if position <= 1:
        return share
    deviations = (odds.mean - (position - 0.5)) / sqrt(max(odds.variance, 1e-12))
    # As ``wharfinger.model.arrays.normal_below``.
    deviations *= 0.7978846 + 0.0356774 * (deviations * deviations)
    return min(share, 0.5 + 0.5 * tanh(deviations))


cdef enum:
    SWITCHES = 9


def switch_after(
    Releases own, Py_ssize_t own_position, Releases other, Py_ssize_t other_position,
    double own_quality, double other_quality, double slack, double budget, bint better_alone,
):
    """When to turn from one queue to another, as ``wharfinger.policies.admission.switching`` says.

    Nine times from 0 to ``slack`` are considered.

    Args:
        own: Of the servers of the own queue; ``None`` = nothing is known. So with ``other``.
        own_position: Of the workload in its queue; so with ``other_position``.
        own_quality: Of the servers of its queue; so with ``other_quality``.
        slack: Seconds that it may wait in all.
        budget: Seconds that it may take from now on, its run included.
        better_alone: The better of both queues is waited in, and the other not.

    Returns:
        Seconds, or ``None``: nothing is expected of either queue.
    """
    cdef double[SWITCHES] waits, stays, goes, values
    cdef Odds[SWITCHES] odds
    cdef Py_ssize_t g
    cdef bint known = False
    cdef double later = max(budget - slack, 0.0), most = 0.0, best = 0.0
    for g in range(SWITCHES):
        waits[g], stays[g], goes[g] = slack * (<double>g / (SWITCHES - 1)), 0.0, 0.0
    if own is not None:
        own._odds(waits, SWITCHES, odds)
        for g in range(SWITCHES):
            stays[g] = _within(&odds[g], own_position)
            known = known or stays[g] != 0.0
    if other is not None:
        if other is not own:
            other._odds(waits, SWITCHES, odds)
        for g in range(SWITCHES):
            goes[g] = _within(&odds[g], other_position)
            known = known or goes[g] != 0.0
    if not known:
        return None
    if better_alone:
        better = own_quality * stays[SWITCHES - 1] >= other_quality * goes[SWITCHES - 1]
        return slack if better else 0.0
    for g in range(SWITCHES):
        values[g] = (
            stays[g] * own_quality * max(budget - waits[g], 0.0)
            + (1.0 - stays[g]) * goes[SWITCHES - 1 - g] * other_quality * later
        )
        most = max(most, values[g])
    for g in range(SWITCHES):
        if values[g] >= most * (1.0 - 1e-9):
            best = max(best, waits[g])
    return best


cdef enum:
    # Of more servers so many runs of so many are looked at, evenly spread: shares of all residents
    # are estimates. Where platforms take turns, a run has all of them.
    RUNS = 64
    RUN = 32


def room_by_quality(
    const double[::1] quality,
    const uint8_t[::1] accepting,
    const uint8_t[::1] unsettled,
    const int64_t[::1] cpu_capacity,
    const int64_t[::1] cpu_allocated,
    const int64_t[::1] memory_capacity,
    const int64_t[::1] memory_allocated,
    const int64_t[::1] residents,
    int64_t cpu,
    int64_t memory,
    double least,
    double below,
    double later_least,
    double later_below,
    int64_t at_least=1,
    const int64_t[::1] platform=None,
    const uint8_t[::1] suitable=None,
):
    """Which servers have room for a workload: now, and when one of their residents ends.

    Args:
        quality: (S,) of each server with its residents; the others are columns of a view.
        cpu: Thousandths of a CPU that it gets, and bytes of ``memory``.
        least: It takes servers of this quality and more, but ``below`` that.
        later_least: The same of the servers that it takes later on; so ``later_below``.
        at_least: So many servers are needed together.
        platform: (S,) the row of each server's platform in ``suitable`` (P,), which says whether it
            takes servers of that; ``None`` = of all.

    Returns:
        Whether so many have room now of the servers that it takes; whether of those that it takes
        later; and of all residents the share at whose ends one has room, both ways. In a cluster of
        more than 2,048 servers that share is estimated from as many, or from all if those have no
        such resident. A server that accepts no work or is not settled has
        none. Where it has room now, the others are not told.

    Raises:
        ValueError: The columns' lengths differ.
    """
    cdef Py_ssize_t s, servers = quality.shape[0]
    cdef Py_ssize_t run = 0, runs = 1, begin, end
    cdef bint takes_all = suitable is None
    cdef int64_t everyone = 0, useful = 0, useful_later = 0
    cdef int64_t now = 0, later = 0
    cdef double staying, then
    if not (
        accepting.shape[0] == unsettled.shape[0] == residents.shape[0] == servers
        and cpu_capacity.shape[0] == cpu_allocated.shape[0] == servers
        and memory_capacity.shape[0] == memory_allocated.shape[0] == servers
    ):
        raise ValueError("columns of servers have different lengths")
    if not takes_all and (platform is None or platform.shape[0] != servers):
        raise ValueError("columns of servers have different lengths")
    for s in range(servers):
        # Where none has room, two columns are read.
        if (
            cpu_capacity[s] - cpu_allocated[s] < cpu
            or memory_capacity[s] - memory_allocated[s] < memory
            or not accepting[s] or unsettled[s]
            or not (takes_all or suitable[platform[s]])
        ):
            continue
        if least <= quality[s] < below:
            now += 1
            if now >= at_least:
                return True, False, 1.0, 1.0
        if later_least <= quality[s] < later_below:
            later += 1
    if servers > RUNS * RUN:
        runs = RUNS
    # Where some tell nothing, all are looked at.
    while True:
        everyone = useful = useful_later = 0
        for run in range(runs):
            begin = run * servers // runs
            end = begin + RUN if runs > 1 else servers
            for s in range(begin, end):
                everyone += residents[s]
                if residents[s] < 1 or not accepting[s] or unsettled[s]:
                    continue
                if not (takes_all or suitable[platform[s]]):
                    continue
                # One ends that holds as much, and presses as much, as the mean of its server.
                staying = 1.0 - 1.0 / <double>residents[s]
                if (
                    <double>cpu_capacity[s] - <double>cpu_allocated[s] * staying < <double>cpu
                    or <double>memory_capacity[s] - <double>memory_allocated[s] * staying
                    < <double>memory
                ):
                    continue
                then = 1.0 - (1.0 - quality[s]) * staying
                if least <= then < below:
                    useful += residents[s]
                if later_least <= then < later_below:
                    useful_later += residents[s]
        if runs == 1 or (useful and useful_later):
            break
        runs = 1
    if not everyone:
        return False, later >= at_least, 0.0, 0.0
    return (
        False, later >= at_least,
        <double>useful / <double>everyone, <double>useful_later / <double>everyone,
    )


def near_best(
    const double[::1] drop,
    const double[::1] variance,
    const int64_t[::1] largest,
    int64_t cpu,
    double slower_by,
    double std,
    double share,
):
    """On which platforms a workload is not much less likely fast enough than on the best.

    Args:
        drop: (P,) what each platform takes off the logarithm of its performance, and (P,) its
            ``variance``; ``std`` is added to that everywhere.
        largest: (P,) thousandths of a CPU of the largest server; the best is none whose servers
            are all smaller than ``cpu``. These may be near it all the same: some placements give
            less.
        slower_by: So much longer it may take than on the fastest platform, as a share.
        share: Of the best platform's probability that suffices.

    Returns:
        (P,) whether each is; ``None`` = all are, or it fits on none.

    Raises:
        ValueError: The columns' lengths differ.
    """
    cdef Py_ssize_t p, platforms = drop.shape[0]
    cdef double fastest = 0.0, best = 0.0, may = log1p(slower_by)
    cdef bint found = False, all_are = True
    cdef uint8_t[::1] near
    if not variance.shape[0] == largest.shape[0] == platforms:
        raise ValueError("columns of platforms have different lengths")
    for p in range(platforms):
        if largest[p] >= cpu and (not found or drop[p] < fastest):
            found, fastest = True, drop[p]
    if not found:
        return None
    cdef double* kept = <double*>malloc(platforms * sizeof(double))
    if kept == NULL:
        raise MemoryError
    try:
        for p in range(platforms):
            kept[p] = 0.5 * erfc((drop[p] - fastest - may) / sqrt(2.0 * (variance[p] + std * std)))
            if largest[p] >= cpu:
                best = max(best, kept[p])
        for p in range(platforms):
            all_are = all_are and kept[p] >= share * best
        if all_are:
            return None
        near_array = np.empty(platforms, dtype=np.uint8)
        near = near_array
        for p in range(platforms):
            near[p] = kept[p] >= share * best
        return near_array.view(np.bool_)
    finally:
        free(kept)


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
