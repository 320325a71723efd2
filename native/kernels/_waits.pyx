# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What an admission asks on every decision: when what is busy should end, when to turn to another
queue, and which servers have room and are fast enough.

Called through wharfinger.native. Numbers of a queue come and go as lists: they are few.
"""

from libc.math cimport erfc, exp, log, log1p, sqrt, tanh
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize

import numpy as np

cdef enum:
    # Parts of a table of equal length, of each of which the first point is known.
    PARTS = 256


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
        # A range with a step that varies would be an object.
        at = 0
        while at < count:
            ages[used] = max(now - <double>times[at], 0.0)
            weights[used] = weight
            used += 1
            at += step
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
    cdef double parts_per_second
    cdef int64_t[PARTS + 1] starts

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
        cdef double length = times[last] - times[0]
        self.parts_per_second = PARTS / length if length > 0 else 0.0
        cdef Py_ssize_t part, at = 0
        for part in range(PARTS + 1):
            # Not later than any time of the part, however that was rounded.
            while at < last and times[at + 1] <= times[0] + length * (part - 0.5) / PARTS:
                at += 1
            self.starts[part] = at

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
        cdef Releases made = _made(self, room)
        for times in began:
            count = len(times)
            if not count:
                continue
            step = _step(count, most)
            weight = _stands_for(count, step)
            # A range with a step that varies would be an object.
            at = 0
            while at < count:
                made._add(max(now - <double>times[at], 0.0), weight)
                at += step
        return made

    cdef Table table(self) noexcept:
        cdef Py_ssize_t last = self.times.shape[0] - 1
        return Table(
            &self.times[0], &self.shares[0], &self.slopes[0], self.rate, last,
            self.parts_per_second, &self.starts[0],
        )


cdef struct Table:
    const double* times
    const double* shares
    const double* slopes
    double rate  # At which those end that are older than the last time.
    Py_ssize_t last
    double parts_per_second
    const int64_t* starts  # A point that is not after each part.


cdef inline Py_ssize_t _point(const Table* table, double seconds) noexcept:
    """The last point that is not later, or one before that; -1 = all are later."""
    if table.times[0] > seconds:
        return -1
    return table.starts[<Py_ssize_t>min((seconds - table.times[0]) * table.parts_per_second, PARTS)]


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


cdef Releases _made(BusyCurve curve, Py_ssize_t room):
    """Of none yet."""
    cdef Releases made = Releases.__new__(Releases)
    made.curve, made.table, made.count = curve, curve.table(), 0
    made.busy = <Busy*>malloc((room + 1) * sizeof(Busy))
    if made.busy == NULL:
        raise MemoryError
    return made


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
    RUNS = 16
    RUN = 32
    # Servers are passed over so many at a time where none has room.
    BLOCK = 64


cdef struct Ask:
    int64_t cpu
    int64_t memory
    const uint8_t* suitable  # NULL = all platforms are.
    double least
    double below
    double later_least
    double later_below


cdef struct Ends:
    int64_t all  # Residents there are.
    int64_t useful  # Of these, at whose ends one has room; and once it takes other servers.
    int64_t useful_later


cdef struct Room:
    bint now  # Enough servers have room of those that it takes, and once it takes others.
    bint turned
    double share  # Of all residents, at whose ends one has room, both ways.
    double share_turned


@cython.final
cdef class ServerRooms:
    """Which servers have room for a workload: now, and when one of their residents ends.

    The columns of a view, whose numbers may change: they are read again each time.

    Args:
        platform: (S,) the row of each server's platform, of so many ``platforms``.

    Raises:
        ValueError: The columns' lengths differ.
    """

    cdef const uint8_t[::1] accepting
    cdef const uint8_t[::1] unsettled
    cdef const int64_t[::1] cpu_capacity
    cdef const int64_t[::1] cpu_allocated
    cdef const int64_t[::1] memory_capacity
    cdef const int64_t[::1] memory_allocated
    cdef const int64_t[::1] residents
    cdef const int64_t[::1] platform
    cdef Py_ssize_t servers
    cdef Py_ssize_t platforms

    def __init__(
        self,
        const uint8_t[::1] accepting not None,
        const uint8_t[::1] unsettled not None,
        const int64_t[::1] cpu_capacity not None,
        const int64_t[::1] cpu_allocated not None,
        const int64_t[::1] memory_capacity not None,
        const int64_t[::1] memory_allocated not None,
        const int64_t[::1] residents not None,
        const int64_t[::1] platform not None,
        Py_ssize_t platforms,
    ):
        self.servers = accepting.shape[0]
        if not (
            unsettled.shape[0] == residents.shape[0] == platform.shape[0] == self.servers
            and cpu_capacity.shape[0] == cpu_allocated.shape[0] == self.servers
            and memory_capacity.shape[0] == memory_allocated.shape[0] == self.servers
        ):
            raise ValueError("columns of servers have different lengths")
        self.accepting, self.unsettled, self.residents = accepting, unsettled, residents
        self.cpu_capacity, self.cpu_allocated = cpu_capacity, cpu_allocated
        self.memory_capacity, self.memory_allocated = memory_capacity, memory_allocated
        self.platform, self.platforms = platform, platforms

    def served(
        self, const double[::1] quality not None, int64_t cpu, int64_t memory, tuple own not None,
        tuple turned not None, int64_t servers, bytes suitable, Releases ends not None,
        list seconds not None, double turns_after, double gives, double exponent,
    ):
        """Probability that a workload is placed within each time: 1 where there is room now.

        With m ends that should give it a place it is (1 - exp(-``gives`` m)) to the ``exponent``.

        Args:
            quality: (S,) of each server with its residents.
            cpu: Thousandths of a CPU that it gets, and bytes of ``memory``.
            own: It takes servers of the one quality and more, but below the other.
            turned: The same of those that it takes ``turns_after`` so many seconds.
            servers: So many are needed together.
            suitable: (P,) whether it takes servers of each platform; ``None`` = of all.
            ends: What should end.
            seconds: (G,) ascending.

        Raises:
            ValueError: The columns' lengths differ.
        """
        cdef Room room = self._room(quality, cpu, memory, own, turned, servers, suitable)
        cdef Py_ssize_t g, grid = len(seconds)
        cdef double end, before, useful
        cdef Odds at_turn
        if room.now:
            return [1.0] * grid
        cdef Odds* odds = ends._told(seconds)
        ends._odds(&turns_after, 1, &at_turn)
        made = []
        for g in range(grid):
            end = odds[g].mean
            before = min(end, at_turn.mean)
            useful = before * room.share + (end - before) * room.share_turned
            if room.turned and <double>seconds[g] > turns_after:
                made.append(1.0)
            else:
                made.append((1.0 - exp(-gives * useful)) ** exponent)
        free(odds)
        return made

    def room(
        self, const double[::1] quality not None, int64_t cpu, int64_t memory, tuple own not None,
        tuple turned not None, int64_t servers=1, bytes suitable=None,
    ):
        """Whether so many servers have room now, and where ends give some; as ``served``.

        Returns:
            Of those that it takes; of those that it takes once it has turned; and of all residents
            the share at whose ends one has room, both ways. In a cluster of more than 512 servers
            that share is estimated from as many, or from all if those have no such resident. A
            server that accepts no work or is not settled has none. Where it has room now, the
            others are not told.
        """
        cdef Room room = self._room(quality, cpu, memory, own, turned, servers, suitable)
        return room.now, room.turned, room.share, room.share_turned

    cdef Room _room(
        self, const double[::1] quality, int64_t cpu, int64_t memory, tuple own, tuple turned,
        int64_t servers, bytes suitable,
    ) except *:
        cdef Ask ask = Ask(cpu, memory, NULL, own[0], own[1], turned[0], turned[1])
        cdef int64_t later = 0
        cdef Ends ends, part
        cdef Py_ssize_t begin, stop, run, runs = RUNS if self.servers > RUNS * RUN else 1
        if quality.shape[0] != self.servers:
            raise ValueError("columns of servers have different lengths")
        if suitable is not None:
            if len(suitable) < self.platforms:
                raise ValueError(f"{len(suitable)} of {self.platforms} platforms are told")
            ask.suitable = <const uint8_t*><const char*>suitable
        if not self.servers:
            return Room(False, False, 0.0, 0.0)
        if self._count(&ask, &quality[0], servers, &later):
            return Room(True, False, 1.0, 1.0)
        # Where some tell nothing, all are looked at.
        while True:
            ends = Ends(0, 0, 0)
            for run in range(runs):
                begin = run * self.servers // runs
                stop = begin + RUN if runs > 1 else self.servers
                part = self._ends(&ask, &quality[0], begin, stop)
                ends.all += part.all
                ends.useful += part.useful
                ends.useful_later += part.useful_later
            if runs == 1 or (ends.useful and ends.useful_later):
                break
            runs = 1
        if not ends.all:
            return Room(False, later >= servers, 0.0, 0.0)
        return Room(
            False, later >= servers,
            <double>ends.useful / <double>ends.all, <double>ends.useful_later / <double>ends.all,
        )

    cdef bint _count(
        self, const Ask* ask, const double* quality, int64_t at_least, int64_t* later
    ) noexcept:
        """Whether so many have room now; else how many have of those that it takes later."""
        cdef Py_ssize_t s, begin, end
        cdef int64_t now = 0, cpu = ask.cpu, all_lack
        cdef const int64_t* capacity = &self.cpu_capacity[0]
        cdef const int64_t* allocated = &self.cpu_allocated[0]
        for begin in range(0, self.servers, BLOCK):
            end = min(begin + BLOCK, self.servers)
            # Negative where all numbers are.
            all_lack = -1
            for s in range(begin, end):
                all_lack &= capacity[s] - allocated[s] - cpu
            if all_lack < 0:
                continue
            for s in range(begin, end):
                if (
                    capacity[s] - allocated[s] < cpu
                    or self.memory_capacity[s] - self.memory_allocated[s] < ask.memory
                    or not self.accepting[s] or self.unsettled[s]
                    or not (ask.suitable == NULL or ask.suitable[self.platform[s]])
                ):
                    continue
                if ask.least <= quality[s] < ask.below:
                    now += 1
                    if now >= at_least:
                        return True
                if ask.later_least <= quality[s] < ask.later_below:
                    later[0] += 1
        return False

    cdef Ends _ends(
        self, const Ask* ask, const double* quality, Py_ssize_t begin, Py_ssize_t stop
    ) noexcept:
        cdef Py_ssize_t s
        cdef Ends ends = Ends(0, 0, 0)
        cdef Ask asked = ask[0]
        cdef const int64_t* held = &self.residents[0]
        cdef const int64_t* cpu_capacity = &self.cpu_capacity[0]
        cdef const int64_t* cpu_allocated = &self.cpu_allocated[0]
        cdef const int64_t* memory_capacity = &self.memory_capacity[0]
        cdef const int64_t* memory_allocated = &self.memory_allocated[0]
        cdef const int64_t* platform = &self.platform[0]
        cdef const uint8_t* accepting = &self.accepting[0]
        cdef const uint8_t* unsettled = &self.unsettled[0]
        cdef double staying, then
        for s in range(begin, stop):
            ends.all += held[s]
            if held[s] < 1 or not accepting[s] or unsettled[s]:
                continue
            if not (asked.suitable == NULL or asked.suitable[platform[s]]):
                continue
            # One ends that holds as much, and presses as much, as the mean of its server.
            staying = 1.0 - 1.0 / <double>held[s]
            if (
                <double>cpu_capacity[s] - <double>cpu_allocated[s] * staying < <double>asked.cpu
                or <double>memory_capacity[s] - <double>memory_allocated[s] * staying
                < <double>asked.memory
            ):
                continue
            then = 1.0 - (1.0 - quality[s]) * staying
            if asked.least <= then < asked.below:
                ends.useful += held[s]
            if asked.later_least <= then < asked.later_below:
                ends.useful_later += held[s]
        return ends


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
        (P,) whether each is, as bytes; ``None`` = all are, or it fits on none.

    Raises:
        ValueError: The columns' lengths differ.
    """
    cdef Py_ssize_t p, platforms = drop.shape[0]
    cdef double fastest = 0.0, best = 0.0, may = log1p(slower_by)
    cdef bint found = False, all_are = True
    cdef bytes near
    cdef char* told
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
        near = PyBytes_FromStringAndSize(NULL, platforms)
        told = near
        for p in range(platforms):
            told[p] = kept[p] >= share * best
        return near
    finally:
        free(kept)
