# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The rates of those who share a server: one fixed point (see ``simulation.physics.solver``).

Unknown are the utilisation of memory, of the last-level cache's ports, of the disk and of the
network, how much of the last-level cache each resident holds, and the turn that each thread gets
where there are more than CPUs. For the four utilisations u the equations F(u) = demand(latency(u))
/ capacity - u are nearly linear, since a saturated device's demand falls as 1 - u: Newton's method
with all 16 derivatives, and nine more for the turn. Cache shares take a step of Newton's of their
own after each, by the derivative of what one brings in by what it holds itself. What cannot change
while the others do (siblings on a core, short memory, pairs' whims) is worked out before.

``reference.py`` is the same in NumPy, by bisection.
"""

from libc.math cimport exp, fabs, log2, sqrt, tanh
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from _whims cimport whim_of

cdef enum:
    SHARED = 4          # memory, last-level cache, disk, network
    UNKNOWN = 5         # the same, and the turn at the CPUs
    PRIVATE = 9         # of a core: see CORE_RESOURCES
    POINTS = 27         # of a miss curve
    NUMBERS = 17        # of a row, before pressures, sensitivities and the curve
    MOST = 200          # iterations

cdef double GRID_FROM = 14.0
cdef double PER_OCTAVE = 2.0
cdef double HIT_PRESSURE = 0.05     # of an access that hits, to keep its line
cdef double FULL = 1 - 1e-9
cdef double CLOSE = 1e-7            # of utilisations, absolute
cdef double CLOSE_SHARES = 1e-7     # of rates by cache shares, relative
cdef double LEAST_SHARE = 64.0      # bytes of the last level: a line
cdef double LEAST_STAY = 0.05       # of 1 - d log pressure / d log share
cdef double LEAST_SPEED = 1e-12     # over one thread: less is none
cdef double LOG2_E = 1.4426950408889634
cdef double WHIM_BOUND = 0.25
cdef uint64_t SOURCE = 1ULL << 62  # in the identity of a source of interference


cdef struct Row:
    double core, cache, access, miss_time, line
    double disk_time, disk, network_time, network
    double contention, coherence, threads, reach, paging, footprint, active, bound
    double pressure[PRIVATE]
    double sensitivity[PRIVATE]
    double curve[POINTS]
    uint64_t identity


cdef struct Resident:
    Row* row
    double cpus        # threads that run
    double cap         # instructions per ns that are asked of it; negative = all that it can
    double speed       # over one thread, on all servers together per server
    double fixed       # ns per instruction in the core, all that does not change counted
    double rereads     # ns per instruction of disk, where it is alone, for what memory can't hold
    double disk        # bytes per instruction
    double device      # time that its disk takes over what the model says
    double weight      # threads that are busy, about
    Py_ssize_t beside  # whose cores it shares; -1 = it goes where there is room
    double share       # of the last-level cache, in bytes
    double target
    double pressure    # lines per ns that it brings in, about
    double give        # what it moves by for each byte that it should
    double felt        # d log could / d log share
    double misses      # per instruction
    double slope       # of these, per unit of log2 of the share
    double computing   # ns per instruction, in CPUs
    double rate        # instructions per ns
    double could       # the same, were it asked all


cdef void* _grown(void* memory, size_t count, size_t size) except NULL:
    cdef void* larger = realloc(memory, max(count, 1) * size)
    if larger == NULL:
        raise MemoryError()
    return larger


cdef inline double _usl(double n, double contention, double coherence) noexcept nogil:
    if n <= 1:
        return n
    return n / (1 + contention * (n - 1) + coherence * n * (n - 1))


cdef inline void _look_up(Resident* each) noexcept nogil:
    # Misses per instruction with the share that it has, and how they change with it.
    cdef double place = (log2(each.share if each.share > 1 else 1) - GRID_FROM) * PER_OCTAVE
    cdef int at
    if place <= 0:
        each.misses, each.slope = each.row.curve[0], 0
        return
    if place >= POINTS - 1:
        each.misses, each.slope = each.row.curve[POINTS - 1], 0
        return
    at = <int>place
    each.slope = each.row.curve[at + 1] - each.row.curve[at]
    each.misses = each.row.curve[at] + (place - at) * each.slope
    each.slope *= PER_OCTAVE


cdef inline void _bind(Resident* each, Resident* other) noexcept nogil:
    # What one loses to another whose threads are its siblings, as far as there are so many.
    cdef double covered = min(1.0, other.cpus / each.cpus) if each.cpus > 0 else 0
    cdef int r
    for r in range(PRIVATE):
        each.fixed += covered * each.row.sensitivity[r] * other.row.pressure[r]


cdef class Contention:
    """Solves for the residents of servers of one platform.

    Args:
        cpus: That it has.
        cores: Behind them.
        memory_bytes: Of it.
        llc_bytes: Last-level cache.
        bandwidths: Bytes per ns of memory, last-level cache, disk and network.
        gains: k of the law of latency, 1 + k u^2 / (1 - u), of the same four.
        whim: Standard deviation of what a neighbour does to one that waits for memory all the time,
            beyond the model.
    """

    cdef double cpus, cores, memory, llc, whim
    cdef double bandwidth[SHARED]
    cdef double gain[SHARED]
    cdef Row* rows
    cdef Py_ssize_t count, room
    cdef Resident* here
    cdef Py_ssize_t n, seats
    cdef double u[SHARED]
    cdef double inflation[SHARED]
    cdef readonly int iterations

    def __cinit__(self, double cpus, double cores, double memory_bytes, double llc_bytes,
                  bandwidths, gains, double whim):
        cdef int r
        self.cpus, self.cores = cpus, cores
        self.memory, self.llc, self.whim = memory_bytes, llc_bytes, whim
        for r in range(SHARED):
            self.bandwidth[r] = bandwidths[r]
            self.gain[r] = gains[r]

    def __dealloc__(self):
        free(self.rows)
        free(self.here)

    def add(self, double[::1] numbers, uint64_t identity):
        """One more application; the number to ask for it by.

        Args:
            numbers: (17 + 9 + 9 + 27,) ``Row``'s, in its order.
            identity: Its, below 2^62; from there on, a source's, which have no whims together.
        """
        if numbers.shape[0] != NUMBERS + 2 * PRIVATE + POINTS:
            raise ValueError("numbers: not as many as a row has")
        if self.count == self.room:
            self.room = max(64, 2 * self.room)
            self.rows = <Row*>_grown(self.rows, self.room, sizeof(Row))
        memcpy(&self.rows[self.count], &numbers[0], numbers.shape[0] * sizeof(double))
        self.rows[self.count].identity = identity
        self.count += 1
        return self.count - 1

    def solve(self, list who, list cpus, list memory, list caps, list parts, list rereads,
              list beside):
        """Rates of those who are on one server.

        Args:
            who: Numbers of applications, as ``add`` gave them; N of them.
            cpus: CPUs that each has.
            memory: Bytes that each may take.
            caps: Instructions per ns that are asked of each; negative = all that it can.
            parts: What each does here over what it would with one server to work on alone.
            rereads: Bytes per instruction that each reads from its disk again.
            beside: Place of the one whose cores' other threads each is bound to; -1 = no one's.

        Returns:
            Instructions per ns that each could do, that it does, and CPUs that it keeps busy.
        """
        cdef Py_ssize_t i, n = len(who)
        cdef Resident* each
        if n > self.seats:
            self.here = <Resident*>_grown(self.here, 2 * n, sizeof(Resident))
            self.seats = 2 * n
        self.n = n
        cdef double taken = 0
        for i in range(n):
            each = &self.here[i]
            at = <Py_ssize_t>who[i]
            if at < 0 or at >= self.count:
                raise IndexError("no such application")
            each.row = &self.rows[at]
            each.cpus = min(<double>cpus[i], each.row.threads)
            each.cap = caps[i]
            each.speed = _usl(each.cpus, each.row.contention, each.row.coherence) * <double>parts[i]
            each.disk = each.row.disk + <double>rereads[i]
            each.rereads = <double>rereads[i] / self.bandwidth[2]
            each.beside = <Py_ssize_t>beside[i]
            each.device = 1
            if each.beside >= n:
                raise IndexError("bound to nobody")
            each.share = <double>memory[i]  # until it is looked at
            taken += each.share
        self._settle(taken)
        self._iterate()
        could, does, busy = [], [], []
        for i in range(n):
            each = &self.here[i]
            could.append(each.could)
            does.append(each.rate)
            busy.append(each.computing * each.rate)
        return could, does, busy

    def utilisation(self):
        """Of memory, last-level cache, disk and network in the last answer, 0 to 1."""
        return [self.u[r] for r in range(SHARED)]

    def shares(self):
        """Bytes of the last-level cache that each of the last answer's residents holds."""
        return [self.here[i].share for i in range(self.n)]

    cdef void _settle(self, double taken) noexcept nogil:
        # What does not change while the rest is sought.
        cdef Py_ssize_t i
        cdef int r
        cdef Resident* each
        cdef Resident* other
        cdef Row* row
        cdef double total = 0, alone, short_of, siblings = 0, weight
        cdef double pressed[PRIVATE]
        for r in range(PRIVATE):
            pressed[r] = 0
        cdef double lacking = 1 - self.memory / taken if taken > self.memory else 0
        for i in range(self.n):
            each = &self.here[i]
            row = each.row
            short_of = 1 - each.share / row.footprint if each.share < row.footprint else 0
            short_of = 1 - (1 - short_of) * (1 - lacking)
            each.fixed = row.core + row.paging * short_of * short_of
            weight = each.cpus * row.active
            if each.cap >= 0 and each.speed > 0:
                alone = (row.core + row.cache + row.access * row.miss_time) / each.speed
                weight *= min(1.0, each.cap * alone)
            each.weight = weight
            if each.beside >= 0:
                continue
            total += weight
            for r in range(PRIVATE):
                pressed[r] += weight * row.pressure[r]
        if total > self.cores and self.cores < self.cpus:
            siblings = min(1.0, 2 * (total - self.cores) / total)
        for i in range(self.n):
            each = &self.here[i]
            row = each.row
            if each.beside >= 0:
                other = &self.here[each.beside]
                _bind(each, other)
                _bind(other, each)
            elif siblings > 0:
                for r in range(PRIVATE):
                    each.fixed += siblings * row.sensitivity[r] * pressed[r] / total
            if self.whim > 0:
                self._bear_whims(i)

    cdef void _bear_whims(self, Py_ssize_t i) noexcept nogil:
        # Who waits for the same thing as a neighbour waits somewhat more or less than by the model.
        cdef Py_ssize_t j
        cdef Resident* each = &self.here[i]
        cdef Resident* other
        cdef double memory = 0, disk = 0, near
        cdef double idle = 1 - each.row.active
        for j in range(self.n):
            other = &self.here[j]
            if j == i or each.row.identity & other.row.identity & SOURCE:
                continue
            if each.row.bound > 0 and other.row.bound > 0:
                near = min(1.0, other.weight)
                near *= sqrt(each.row.bound * other.row.bound)
                memory += near * whim_of(each.row.identity, other.row.identity)
            if idle > 0 and other.row.active < 1:
                near = sqrt(idle * (1 - other.row.active)) * min(1.0, other.cpus)
                if other.cap >= 0:
                    near *= min(1.0, other.cap * other.row.disk / self.bandwidth[2])
                disk += near * whim_of(each.row.identity + 1, other.row.identity)
        each.speed *= exp(-WHIM_BOUND * tanh(self.whim * memory / WHIM_BOUND))
        each.device = exp(WHIM_BOUND * tanh(self.whim * disk / WHIM_BOUND))

    cdef void _iterate(self) noexcept nogil:
        cdef Py_ssize_t i
        cdef int r, step
        cdef bint crowded
        cdef double reach = 0, threads = 0, turn = 1.0, off, off_before = 1e9, damping = 1.0
        cdef Resident* each
        for r in range(SHARED):
            self.u[r] = 0.3
        for i in range(self.n):
            each = &self.here[i]
            reach += each.row.reach
            threads += each.cpus
        crowded = reach > self.llc
        for i in range(self.n):
            each = &self.here[i]
            each.share = each.row.reach * (self.llc / reach if crowded else 1.0)
            _look_up(each)
        for step in range(MOST):
            self.iterations = step + 1
            off = self._utilise(&turn, threads, damping)
            if crowded:
                off = max(off, self._shift(turn, damping))
            if off < CLOSE:
                return
            # Where loads bind and do not in turns, or steep curves meet: shorter steps.
            if off > 0.95 * off_before and step > 4:
                damping = max(0.1, 0.75 * damping)
            elif off < 0.7 * off_before:
                damping = min(1.0, 1.1 * damping)
            off_before = off

    cdef double _utilise(self, double* turn, double threads, double damping) noexcept nogil:
        # One step of Newton's for the four utilisations and, where there are more threads than
        # CPUs, the logarithm of the turn that each gets at one; how far off they were. Long, since
        # a solution costs what its one loop over the residents does.
        cdef double f[UNKNOWN]
        cdef double jacobian[UNKNOWN][UNKNOWN]
        cdef double slope[SHARED]
        cdef double demand[SHARED]
        cdef double by[SHARED]
        cdef double step, off = 0, d, here, waits, busy
        cdef int r, c, unknown = SHARED + 1 if threads > self.cpus else SHARED
        cdef Py_ssize_t i
        cdef bint capped
        cdef Resident* each
        cdef Row* row
        for r in range(SHARED):
            d = 1 - self.u[r]
            self.inflation[r] = 1 + self.gain[r] * self.u[r] * self.u[r] / d
            slope[r] = self.gain[r] * (2 * self.u[r] - self.u[r] * self.u[r]) / (d * d)
            f[r] = -self.u[r]
        f[SHARED] = -1.0
        for r in range(unknown):
            for c in range(unknown):
                jacobian[r][c] = -1.0 if r == c and r < SHARED else 0.0
        for i in range(self.n):
            each = &self.here[i]
            row = each.row
            if each.speed < LEAST_SPEED:
                each.rate = each.could = each.computing = 0
                continue
            d = 1 / (each.speed * turn[0])
            by[0] = row.miss_time * each.misses * d
            by[1] = row.cache * d
            by[2] = (row.disk_time + each.rereads) * each.device
            by[3] = row.network_time
            each.computing = each.fixed * d + by[0] * self.inflation[0] + by[1] * self.inflation[1]
            d = each.computing + by[2] * self.inflation[2] + by[3] * self.inflation[3]
            waits = each.computing / d
            each.computing *= each.cpus * turn[0]
            each.could = 1 / d
            capped = 0 <= each.cap <= each.could
            each.rate = each.cap if capped else each.could
            demand[0] = each.misses * row.line / self.bandwidth[0]
            demand[1] = row.access * 64.0 / self.bandwidth[1]
            demand[2] = each.disk / self.bandwidth[2]
            demand[3] = row.network / self.bandwidth[3]
            for r in range(SHARED):
                f[r] += demand[r] * each.rate
                by[r] *= slope[r]
            busy = each.computing * each.rate / self.cpus
            f[SHARED] += busy
            if unknown > SHARED:
                here = each.cpus * turn[0] * each.rate / self.cpus
                for c in range(2):
                    jacobian[SHARED][c] += here * by[c]
            if capped:
                continue
            for r in range(SHARED):
                here = demand[r] * each.rate * each.rate
                for c in range(SHARED):
                    jacobian[r][c] -= here * by[c]
            if unknown > SHARED:
                for c in range(SHARED):
                    jacobian[c][SHARED] += demand[c] * each.rate * waits
                    jacobian[SHARED][c] -= busy * each.rate * by[c]
                jacobian[SHARED][SHARED] += busy * waits
        if unknown > SHARED:
            if turn[0] >= 1 and f[SHARED] <= 0:
                unknown = SHARED  # nobody has to wait for a CPU
            else:
                off = fabs(f[SHARED])
                # Where all do only what they are asked, turns change nothing until they bind.
                jacobian[SHARED][SHARED] = max(0.05, jacobian[SHARED][SHARED])
        for r in range(SHARED):
            off = max(off, fabs(f[r]))
        _solve(jacobian, f, unknown)
        for r in range(SHARED):
            step = self.u[r] - damping * f[r]
            # Never all the way to full, nor to empty: the law bends there.
            step = max(step, 0.1 * self.u[r] if step < 0 else step)
            self.u[r] = min(FULL, min(step, 1 - 0.1 * (1 - self.u[r])))
        if unknown > SHARED:
            step = turn[0] * exp(damping * min(0.7, max(-0.7, -f[SHARED])))
            turn[0] = min(1.0, max(self.cpus / threads, step))
        return off

    cdef double _shift(self, double turn, double damping) noexcept nogil:
        # Cache in proportion to what each brings in, nobody more than it can fill: for s_i = k p_i
        # one step of Newton's, s_i + (k p_i - s_i) / (1 - e_i), with e_i = d log p_i / d log s_i
        # and k such that all together have the whole. How far off rates are by it, relative.
        cdef double left = self.llc, pressure = 0, portion = 0, off = 0, total
        cdef double felt, moved, wanted, waits
        cdef Py_ssize_t i
        cdef bint again = True
        cdef Resident* each
        for i in range(self.n):
            each = &self.here[i]
            each.pressure = each.rate * (each.misses + HIT_PRESSURE * each.row.access)
            pressure += each.pressure
        for i in range(self.n):
            each = &self.here[i]
            each.target, each.give, each.felt = -1.0, 1.0, 0.0
            if each.pressure * self.llc <= LEAST_SHARE * pressure:
                each.target = LEAST_SHARE  # too little to count; no curve begins so low
                left -= LEAST_SHARE
            elif each.slope < 0:
                moved = each.slope * LOG2_E
                # Fewer misses press less, and run faster.
                waits = each.row.miss_time * self.inflation[0] / (each.speed * turn)
                each.felt = -each.could * waits * moved
                felt = each.felt if each.cap < 0 or each.cap > each.could else 0.0
                each.give = 1 / max(LEAST_STAY, 1 - felt - moved * each.rate / each.pressure)
        while again:
            again = False
            pressure = total = 0
            for i in range(self.n):
                each = &self.here[i]
                if each.target < 0:
                    pressure += each.pressure * each.give
                    total += each.share * (each.give - 1)
            portion = (left + total) / pressure if pressure > 0 else 0.0
            for i in range(self.n):
                each = &self.here[i]
                if each.target >= 0:
                    continue
                wanted = each.share + (portion * each.pressure - each.share) * each.give
                if wanted >= each.row.reach:
                    each.target = each.row.reach
                    left -= each.row.reach
                    again = True
        total = 0
        for i in range(self.n):
            each = &self.here[i]
            if each.target < 0:
                wanted = each.share + (portion * each.pressure - each.share) * each.give
                each.target = max(wanted, 0.1 * each.share)
            moved = each.target - each.share
            off = max(off, fabs(moved) * each.felt / each.share)
            each.share += damping * moved
            total += each.share
        for i in range(self.n):
            each = &self.here[i]
            if total > self.llc:
                each.share *= self.llc / total
            _look_up(each)
        return off * (CLOSE / CLOSE_SHARES)


cdef void _solve(double[UNKNOWN][UNKNOWN] a, double* b, int size) noexcept nogil:
    # Gauss with pivoting; the answer is in b.
    cdef int k, i, j, p
    cdef double t
    for k in range(size):
        p = k
        for i in range(k + 1, size):
            if fabs(a[i][k]) > fabs(a[p][k]):
                p = i
        if p != k:
            for j in range(size):
                a[k][j], a[p][j] = a[p][j], a[k][j]
            b[k], b[p] = b[p], b[k]
        for i in range(k + 1, size):
            t = a[i][k] / a[k][k]
            if t != 0:
                for j in range(k, size):
                    a[i][j] -= t * a[k][j]
                b[i] -= t * b[k]
    for k in range(size - 1, -1, -1):
        t = b[k]
        for j in range(k + 1, size):
            t -= a[k][j] * b[j]
        b[k] = t / a[k][k]
