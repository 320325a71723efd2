# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The servers of each platform, ordered by what their residents tolerate beyond what they cause.

Called through ``wharfinger.policies.placement.harmony``, which the core tells what has changed.

A newcomer goes where D1, what residents tolerate less what it causes, and D2, the reverse, are 0 or
more for every source; of those servers to the one with the least ‖D1 + D2‖₁ (Paragon 3.2). There that
norm is h = Σ tolerated - Σ caused of the server, and a constant of the newcomer. So servers stand in
the order of h, and the first one with room that passes is the best. It needs h >= Σ caused - Σ
tolerated of the newcomer: the walk begins there.

The order is kept in blocks of up to 64 servers, and the blocks in a tree (``_treap.pxd``). What a
server bears is kept in bytes, half points, rounded such that what does not pass by them does not
pass at all: a block is sifted by a few instructions for each source, a subtree by the most that
any of its servers bears. Only what is left is tested.

Where D may be negative (a confidence below one half, scores that are unknown), the norm is h, the
constant, and twice what the negative ones lack. It is never less than with h alone: then the walk
goes on until h alone is more than the best norm. So the answer is exact whatever is asked.

h is added up from a server's columns each time that they are read: it does not drift.
"""

from libc.math cimport INFINITY, ceil, fabs, floor, isfinite, isnan, sqrt
from libc.stdint cimport INT32_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memmove, memset

from _treap cimport LEVELS, NOTHING, SOURCES, WIDTH, Block, bound_self, inserted, mixed, removed

cdef double SLACK = 1e-9
"""Far more than rounding can do to a sum of points, for each point."""


cdef enum:
    FEW = 16   # servers: a block that has fewer gives them to another
    ALL = 255  # no level is higher


cdef struct Server:
    double spare       # points tolerated less points caused, added over the sources
    double load        # share of CPU that is allocated
    int64_t order      # of joining
    int64_t cpu        # free
    int64_t memory     # free
    int32_t tree       # of which platform; NOTHING = in none
    int32_t block
    uint8_t occupied   # else nobody there is slowed, and nobody slows
    uint8_t noted      # it has changed, and will be read
    uint8_t excluded   # from the answer to the question being asked
    double[SOURCES] tolerated
    double[SOURCES] caused
    double[SOURCES] tolerated_variance
    double[SOURCES] caused_variance


cdef struct Found:
    double rank        # the norm without the newcomer's constant
    int32_t slot


cdef struct Question:
    double z
    int64_t cpu
    int64_t memory
    double start       # no occupied server with less to spare passes
    bint bounded       # more doubt is never less: a test without a server's doubt is a bound
    int tests_caused   # how many caused scores are known
    int tests_tolerated
    int[SOURCES] by_caused     # sources, the most caused first
    int[SOURCES] by_tolerated  # sources, the least tolerated first
    double[SOURCES] caused
    double[SOURCES] caused_variance
    double[SOURCES] tolerated
    double[SOURCES] tolerated_variance
    double[SOURCES] own        # tolerated less caused; of what is unknown what harms none
    uint8_t[LEVELS] needs      # least that a server bears
    double constant
    Found* found       # best first
    Py_ssize_t first   # of those on the platforms being asked
    Py_ssize_t count
    Py_ssize_t keep
    Py_ssize_t steps
    Py_ssize_t bound


cdef void* _grown(void* memory, size_t count, size_t size) except NULL:
    cdef void* larger = realloc(memory, max(count, 1) * size)
    if larger == NULL:
        raise MemoryError()
    return larger


cdef class HarmonyIndex:
    """Servers by platform and by what they have to spare, over the columns of a ``View``.

    A server keeps its slot when rows move up; they stay in the order of joining. The columns are
    read by ``update``: ``touch`` says before which rows have changed.
    """

    cdef Server* servers     # by slot
    cdef Block* blocks
    cdef int32_t* slots      # by row
    cdef int32_t* notes      # slots that are to be read
    cdef int32_t* unused     # slots
    cdef int32_t* roots      # by platform
    cdef int32_t free_block  # the first; each names the next as its left
    cdef Py_ssize_t rows, room, used, note_count, unused_count, platforms, block_room, free_blocks
    cdef int64_t joined
    cdef uint32_t drawn

    def __cinit__(self):
        self.free_block = NOTHING

    def __dealloc__(self):
        free(self.servers)
        free(self.blocks)
        free(self.slots)
        free(self.notes)
        free(self.unused)
        free(self.roots)

    # --- kept up to date --------------------------------------------------------------------

    def touch(self, Py_ssize_t row):
        """Something about a row has changed, or will before ``update``; new rows need none."""
        cdef int32_t slot
        if 0 <= row < self.rows:
            slot = self.slots[row]
            if not self.servers[slot].noted:
                self.servers[slot].noted = 1
                self.notes[self.note_count] = slot
                self.note_count += 1

    def drop(self, Py_ssize_t row):
        """A row is taken out of the columns; those behind it move up."""
        cdef int32_t slot
        if not 0 <= row < self.rows:
            return
        slot = self.slots[row]
        self._take_out(slot)
        self.servers[slot].noted = 0
        self.unused[self.unused_count] = slot
        self.unused_count += 1
        self.rows -= 1
        memmove(&self.slots[row], &self.slots[row + 1], (self.rows - row) * sizeof(int32_t))

    def is_current(self, Py_ssize_t rows):
        """Whether nothing has changed since ``update``, and there are still so many rows."""
        return self.note_count == 0 and self.rows == rows

    def update(
        self,
        Py_ssize_t rows,
        const int64_t[:] platform,
        const double[:, :] tolerated,
        const double[:, :] tolerated_variance,
        const double[:, :] caused,
        const double[:, :] caused_variance,
        const int64_t[:] cpu_capacity,
        const int64_t[:] cpu_allocated,
        const int64_t[:] memory_capacity,
        const int64_t[:] memory_allocated,
        const int64_t[:] residents,
        const uint8_t[:] accepting,
        const uint8_t[:] unsettled,
    ):
        """Read the rows that have changed or are new.

        Args:
            rows: How many servers there are.
            platform: (at least ``rows``,) as all that follow; index of each server's.
            tolerated: (R, ...) points, the least that any resident tolerates.
            tolerated_variance: (R, ...).
            caused: (R, ...) points, by all residents together.
            caused_variance: (R, ...).
            cpu_capacity: Thousandths of a CPU.
            cpu_allocated: Of it.
            memory_capacity: Bytes.
            memory_allocated: Of it.
            residents: How many workloads are there. The scores of an empty server are not read: it
                passes every test of scores, and has 100 to spare for each source.
            accepting: 0 where no new work may be placed.
            unsettled: 1 where none may be placed for now.

        Raises:
            ValueError: A column is too short, rows were left out without ``drop``, or a changed row
                has a score that is no number, a negative variance or platform. Rows that were read
                before it are up to date.
        """
        cdef Py_ssize_t row
        cdef int32_t slot
        cdef Server read
        if rows < self.rows or rows > INT32_MAX:
            raise ValueError(f"{rows} rows, and {self.rows} before; drop says which have gone")
        if not (
            tolerated.shape[0] == SOURCES
            and tolerated_variance.shape[0] == SOURCES
            and caused.shape[0] == SOURCES
            and caused_variance.shape[0] == SOURCES
        ):
            raise ValueError(f"scores of {SOURCES} sources are needed")
        if rows > min(
            tolerated.shape[1],
            tolerated_variance.shape[1],
            caused.shape[1],
            caused_variance.shape[1],
            platform.shape[0],
            cpu_capacity.shape[0],
            cpu_allocated.shape[0],
            memory_capacity.shape[0],
            memory_allocated.shape[0],
            residents.shape[0],
            accepting.shape[0],
            unsettled.shape[0],
        ):
            raise ValueError(f"a column is shorter than {rows} rows")
        self._make_room(rows)
        # Notes first: a slot that is given anew is in none of them.
        while self.note_count or self.rows < rows:
            if self.note_count:
                slot = self.notes[self.note_count - 1]
                if not self.servers[slot].noted:  # dropped
                    self.note_count -= 1
                    continue
                row = self._row_of(slot)
            else:
                row, slot = self.rows, NOTHING
            if not 0 <= platform[row] < INT32_MAX:
                raise ValueError(f"row {row}: platform {platform[row]} is none")
            read.tree = NOTHING
            if accepting[row] and not unsettled[row]:
                read.tree = <int32_t>platform[row]
                self._make_tree(read.tree)
            read.cpu = cpu_capacity[row] - cpu_allocated[row]
            read.load = <double>cpu_allocated[row] / <double>max(cpu_capacity[row], 1)
            read.memory = memory_capacity[row] - memory_allocated[row]
            read.occupied = residents[row] > 0
            if read.occupied:
                _copy(read.tolerated, tolerated, row)
                _copy(read.tolerated_variance, tolerated_variance, row)
                _copy(read.caused, caused, row)
                _copy(read.caused_variance, caused_variance, row)
            else:
                _clear(&read)
            if not _is_sound(&read):
                raise ValueError(f"row {row}: a score is no number, or a variance is negative")
            self._make_blocks()
            if slot == NOTHING:
                slot = self._join()
            else:
                self.note_count -= 1
                self.servers[slot].noted = 0
            self._enter(slot, &read)

    cdef int _make_room(self, Py_ssize_t rows) except -1:
        """Room for so many servers: slots are given again."""
        if rows <= self.room:
            return 0
        cdef Py_ssize_t room = max(2 * self.room, rows)
        self.servers = <Server*>_grown(self.servers, room, sizeof(Server))
        self.slots = <int32_t*>_grown(self.slots, room, sizeof(int32_t))
        self.notes = <int32_t*>_grown(self.notes, room, sizeof(int32_t))
        self.unused = <int32_t*>_grown(self.unused, room, sizeof(int32_t))
        self.room = room
        return 0

    cdef int _make_tree(self, int32_t platform) except -1:
        if platform >= self.platforms:
            self.roots = <int32_t*>_grown(self.roots, platform + 1, sizeof(int32_t))
            while self.platforms <= platform:
                self.roots[self.platforms] = NOTHING
                self.platforms += 1
        return 0

    cdef int _make_blocks(self) except -1:
        """At least two free ones: one change needs no more."""
        cdef Py_ssize_t room = max(2 * self.block_room, 8)
        if self.free_blocks >= 2:
            return 0
        if room > INT32_MAX:
            raise MemoryError()
        self.blocks = <Block*>_grown(self.blocks, room, sizeof(Block))
        while self.block_room < room:
            self._free(<int32_t>self.block_room)
            self.block_room += 1
        return 0

    cdef void _free(self, int32_t block) noexcept nogil:
        self.blocks[block].left, self.free_block = self.free_block, block
        self.free_blocks += 1

    cdef int32_t _new_block(self) noexcept nogil:
        cdef int32_t block = self.free_block
        self.free_block = self.blocks[block].left
        self.free_blocks -= 1
        self.drawn += 1
        self.blocks[block].priority = mixed(self.drawn)
        self.blocks[block].count = 0
        return block

    cdef int32_t _join(self) noexcept nogil:
        """A slot for the next row."""
        cdef int32_t slot
        if self.unused_count:
            self.unused_count -= 1
            slot = self.unused[self.unused_count]
        else:
            slot = <int32_t>self.used
            self.used += 1
        self.joined += 1
        self.servers[slot].order = self.joined
        self.servers[slot].tree = NOTHING
        self.servers[slot].noted = self.servers[slot].excluded = 0
        self.slots[self.rows] = slot
        self.rows += 1
        return slot

    cdef void _enter(self, int32_t slot, Server* read) noexcept nogil:
        """Put a server where these numbers belong."""
        cdef int r
        self._take_out(slot)
        read.spare = 0.0
        for r in range(SOURCES):
            read.spare += read.tolerated[r] - read.caused[r]
        read.order = self.servers[slot].order
        read.noted = read.excluded = 0
        self.servers[slot] = read[0]
        if read.tree != NOTHING:
            self._put_in(slot)

    cdef void _put_in(self, int32_t slot) noexcept nogil:
        cdef Server* server = &self.servers[slot]
        cdef int32_t* root = &self.roots[server.tree]
        cdef int32_t block = _block_for(self.blocks, self.servers, root[0], server), upper
        if block == NOTHING:
            block = self._new_block()
        else:
            root[0] = removed(self.blocks, root[0], block)
        if self.blocks[block].count == WIDTH:
            upper = self._new_block()
            self._move_half(block, upper)
            if not _is_before(server, &self.servers[self.blocks[upper].slots[0]]):
                block, upper = upper, block
            self._plant(upper, root)
        _insert(&self.blocks[block], self.servers, slot)
        server.block = block
        self._plant(block, root)

    cdef void _take_out(self, int32_t slot) noexcept nogil:
        cdef int32_t tree = self.servers[slot].tree, block = self.servers[slot].block
        cdef int32_t* root
        cdef Block left
        cdef int at
        if tree == NOTHING:
            return
        root = &self.roots[tree]
        root[0] = removed(self.blocks, root[0], block)
        self.servers[slot].tree = NOTHING
        _remove(&self.blocks[block], slot)
        if self.blocks[block].count >= FEW or (root[0] == NOTHING and self.blocks[block].count):
            self._plant(block, root)
            return
        left = self.blocks[block]
        self._free(block)
        for at in range(left.count):
            self._put_in(left.slots[at])

    cdef void _move_half(self, int32_t lower, int32_t upper) noexcept nogil:
        """Of a full block into an empty one."""
        cdef Block* one = &self.blocks[lower]
        cdef Block* other = &self.blocks[upper]
        cdef int at, level
        for at in range(WIDTH // 2):
            other.slots[at] = one.slots[WIDTH // 2 + at]
            other.spares[at] = one.spares[WIDTH // 2 + at]
            self.servers[other.slots[at]].block = upper
            for level in range(LEVELS):
                other.bears[level][at] = one.bears[level][WIDTH // 2 + at]
        one.count = other.count = WIDTH // 2

    cdef void _plant(self, int32_t block, int32_t* root) noexcept nogil:
        """Into its tree, as its servers are now."""
        cdef Block* node = &self.blocks[block]
        cdef const Server* server
        cdef int at, level
        server = &self.servers[node.slots[0]]
        node.spare, node.load, node.order = server.spare, server.load, server.order
        node.own_cpu = node.own_memory = INT64_MIN
        for at in range(node.count):
            server = &self.servers[node.slots[at]]
            node.own_cpu = max(node.own_cpu, server.cpu)
            node.own_memory = max(node.own_memory, server.memory)
        for level in range(LEVELS):
            node.own[level] = 0
            for at in range(node.count):
                node.own[level] = max(node.own[level], node.bears[level][at])
        node.left = node.right = NOTHING
        bound_self(node)
        root[0] = inserted(self.blocks, root[0], block)

    cdef Py_ssize_t _row_of(self, int32_t slot) noexcept nogil:
        """Rows stand in the order of joining."""
        cdef Py_ssize_t low = 0, high = self.rows - 1, half
        while low < high:
            half = (low + high) >> 1
            if self.servers[self.slots[half]].order < self.servers[slot].order:
                low = half + 1
            else:
                high = half
        return low

    # --- questions --------------------------------------------------------------------------

    def best(
        self,
        platforms,
        const double[:] caused,
        const double[:] caused_variance,
        const double[:] tolerated,
        const double[:] tolerated_variance,
        double z,
        int64_t cpu,
        int64_t memory,
        Py_ssize_t keep,
        Py_ssize_t bound,
        excluded=(),
    ):
        """The servers that tolerate a newcomer and that it tolerates.

        Those of the first platforms come first, by rising ‖D1 + D2‖₁, of equal ones those with the
        smaller share of their CPU allocated, then those that joined first. An unknown score has no test; in the norm it counts as the one that harms
        none. Rounding aside the norm is that of the definition; equal is what is equal without the
        newcomer's constant.

        Args:
            platforms: Groups of indices, the preferred one first; in a group no platform is
                preferred. What stands in no group is not asked.
            caused: (R,) points, by the newcomer; NaN = unknown.
            caused_variance: (R,) of that.
            tolerated: (R,) points; NaN = unknown.
            tolerated_variance: (R,) of that.
            z: Standard deviations with which each of D1 and D2 must be 0 or more; 0 = as
                published, negative = a confidence below one half.
            cpu: Thousandths of a CPU that it gets.
            memory: Bytes that it gets.
            keep: How many servers to return at most.
            bound: How many servers and subtrees to look at; the block of servers that exceeds it
                is the last.
            excluded: Rows to leave out.

        Returns:
            Rows, their norms in points, how many servers and subtrees were looked at, and whether
            those were all that had to be: else there may be better servers, or some where none is returned.

        Raises:
            ValueError: Not R scores; a score is infinite; a variance is negative or no number;
                ``z`` is no number; ``cpu`` or ``memory`` is negative; ``keep`` or ``bound`` is
                below 1.
        """
        cdef Question asked
        cdef Py_ssize_t at
        cdef int32_t platform
        cdef bint complete = True
        if keep < 1 or bound < 1:
            raise ValueError(f"keep is {keep} and bound {bound}; they must be at least 1")
        if cpu < 0 or memory < 0:
            raise ValueError(f"cpu {cpu}, memory {memory}: a request must not be negative")
        if not isfinite(z):
            raise ValueError(f"z is {z}; it must be a finite number")
        if not (
            caused.shape[0] == SOURCES
            and caused_variance.shape[0] == SOURCES
            and tolerated.shape[0] == SOURCES
            and tolerated_variance.shape[0] == SOURCES
        ):
            raise ValueError(f"scores of {SOURCES} sources are needed")
        asked.z, asked.cpu, asked.memory = z, cpu, memory
        asked.keep, asked.bound = min(keep, max(self.rows, 1)), bound
        asked.steps = asked.count = 0
        if not _prepare(&asked, caused, caused_variance, tolerated, tolerated_variance):
            raise ValueError("a score is infinite, or a variance is negative or no number")
        wanted = [[each for each in group if 0 <= each < self.platforms] for group in platforms]
        without = [row for row in excluded if 0 <= row < self.rows]
        asked.found = <Found*>_grown(NULL, asked.keep, sizeof(Found))
        try:
            for at in without:
                self.servers[self.slots[at]].excluded = 1
            for group in wanted:
                if asked.count == asked.keep or not complete:
                    break
                asked.first = asked.count
                for platform in group:
                    complete = complete and _walk(
                        self.blocks, self.servers, self.roots[platform], &asked
                    )
            found = [
                (self._row_of(asked.found[at].slot), asked.found[at].rank + asked.constant)
                for at in range(asked.count)
            ]
        finally:
            for at in without:
                self.servers[self.slots[at]].excluded = 0
            free(asked.found)
        return [row for row, _ in found], [norm for _, norm in found], asked.steps, complete


cdef bint _prepare(
    Question* asked,
    const double[:] caused,
    const double[:] caused_variance,
    const double[:] tolerated,
    const double[:] tolerated_variance,
):
    """Everything that is the same for all servers; whether it can be asked."""
    cdef double needed, borne
    cdef int r
    cdef bint known = True
    asked.tests_caused = asked.tests_tolerated = 0
    asked.constant = 0.0
    for r in range(SOURCES):
        asked.caused[r], asked.caused_variance[r] = caused[r], caused_variance[r]
        asked.tolerated[r], asked.tolerated_variance[r] = tolerated[r], tolerated_variance[r]
        asked.needs[r] = asked.needs[SOURCES + r] = 0
        asked.own[r] = 100.0
        if isnan(tolerated[r]):
            known = False
        elif not (isfinite(tolerated[r]) and isfinite(tolerated_variance[r])):
            return False
        elif tolerated_variance[r] < 0:
            return False
        else:
            asked.own[r] = tolerated[r]
            borne = tolerated[r] - asked.z * sqrt(tolerated_variance[r])
            if asked.z >= 0:
                asked.needs[SOURCES + r] = ALL - _level(ceil(2 * (borne + SLACK * (1 + fabs(borne)))))
            _sort_in(asked.by_tolerated, asked.tests_tolerated, r, tolerated, -1)
            asked.tests_tolerated += 1
        if isnan(caused[r]):
            known = False
        elif not (isfinite(caused[r]) and isfinite(caused_variance[r])):
            return False
        elif caused_variance[r] < 0:
            return False
        else:
            asked.own[r] -= caused[r]
            needed = caused[r] + asked.z * sqrt(caused_variance[r])
            if asked.z >= 0:
                asked.needs[r] = _level(floor(2 * (needed - SLACK * (1 + fabs(needed)))))
            _sort_in(asked.by_caused, asked.tests_caused, r, caused, 1)
            asked.tests_caused += 1
        asked.constant += asked.own[r]
    asked.bounded = asked.z >= 0
    asked.start = -INFINITY
    if known and asked.z >= 0:
        asked.start = -asked.constant - SLACK * SOURCES * (100.0 + fabs(asked.constant))
        # Empty servers pass whatever the scores are.
        asked.start = min(asked.start, SOURCES * 100.0)
    return True


cdef void _sort_in(int* order, int count, int r, const double[:] scores, int sign) noexcept:
    """Keep the sources in the order of falling (or with sign -1 rising) scores."""
    while count > 0 and sign * scores[order[count - 1]] < sign * scores[r]:
        order[count] = order[count - 1]
        count -= 1
    order[count] = r


cdef bint _walk(
    const Block* blocks, const Server* servers, int32_t top, Question* asked
) noexcept nogil:
    """Test the servers of a subtree as they stand in order; False = the bound is hit."""
    cdef const Block* block
    while top != NOTHING:
        if asked.steps >= asked.bound:
            return False
        asked.steps += 1
        block = &blocks[top]
        if _is_hopeless(block.most_cpu, block.most_memory, block.most, asked):
            return True
        # Where the first is before the start, all in blocks before it are.
        if block.spare >= asked.start and not _walk(blocks, servers, block.left, asked):
            return False
        # All that comes is at least as far behind.
        if not _may_be_kept(servers, block.spare, block.slots[0], asked):
            return True
        if not _is_hopeless(block.own_cpu, block.own_memory, block.own, asked):
            asked.steps += block.count
            _sift(block, servers, asked)
        top = block.right
    return True


cdef inline bint _is_hopeless(
    int64_t most_cpu, int64_t most_memory, const uint8_t* most, const Question* asked
) noexcept nogil:
    """Whether no server passes of which none has or bears more."""
    cdef uint8_t lacking = 0
    cdef int level
    if most_cpu < asked.cpu or most_memory < asked.memory:
        return True
    for level in range(LEVELS):
        lacking |= most[level] < asked.needs[level]
    return lacking


cdef void _sift(const Block* block, const Server* servers, Question* asked) noexcept nogil:
    """Test those that bear enough by the bytes."""
    cdef uint8_t passing[WIDTH]
    cdef const uint8_t* bears
    cdef uint8_t needs
    cdef int at, level
    memset(passing, 1, WIDTH)
    for level in range(LEVELS):
        needs = asked.needs[level]
        bears = block.bears[level]
        if needs:
            for at in range(WIDTH):
                passing[at] &= bears[at] >= needs
    for at in range(block.count):
        if not passing[at] or block.spares[at] < asked.start:
            continue
        if not _may_be_kept(servers, block.spares[at], block.slots[at], asked):
            return
        if _passes(&servers[block.slots[at]], asked):
            _offer(servers, block.slots[at], asked)


cdef inline bint _passes(const Server* server, const Question* asked) noexcept nogil:
    """Whether it has room, and D1 and D2 are 0 or more for every source."""
    cdef double d
    cdef int at, r
    if server.cpu < asked.cpu or server.memory < asked.memory or server.excluded:
        return False
    if not server.occupied:
        return True
    for at in range(asked.tests_caused):
        r = asked.by_caused[at]
        d = server.tolerated[r] - asked.caused[r]
        if asked.bounded and d < 0:
            return False
        if d - asked.z * sqrt(server.tolerated_variance[r] + asked.caused_variance[r]) < 0:
            return False
    for at in range(asked.tests_tolerated):
        r = asked.by_tolerated[at]
        d = asked.tolerated[r] - server.caused[r]
        if asked.bounded and d < 0:
            return False
        if d - asked.z * sqrt(asked.tolerated_variance[r] + server.caused_variance[r]) < 0:
            return False
    return True


cdef inline bint _may_be_kept(
    const Server* servers, double rank, int32_t slot, const Question* asked
) noexcept nogil:
    """Whether there is room among those found, or the last of them on these platforms is worse."""
    cdef const Found* last
    if asked.count < asked.keep:
        return True
    last = &asked.found[asked.count - 1]
    if rank != last.rank:
        return rank < last.rank
    return _wins_tie(&servers[slot], &servers[last.slot])


cdef inline void _offer(const Server* servers, int32_t slot, Question* asked) noexcept nogil:
    cdef const Server* server = &servers[slot]
    cdef double lacking = 0.0, both, rank
    cdef Py_ssize_t at
    cdef int r
    for r in range(SOURCES):
        both = server.tolerated[r] - server.caused[r] + asked.own[r]
        if both < 0:
            lacking -= both
    rank = server.spare + 2.0 * lacking
    if not _may_be_kept(servers, rank, slot, asked):
        return
    if asked.count < asked.keep:
        asked.count += 1
    at = asked.count - 1
    while at > asked.first and _is_behind(servers, &asked.found[at - 1], rank, slot):
        asked.found[at] = asked.found[at - 1]
        at -= 1
    asked.found[at].rank, asked.found[at].slot = rank, slot


cdef inline bint _is_behind(
    const Server* servers, const Found* one, double rank, int32_t slot
) noexcept nogil:
    return rank < one.rank or (rank == one.rank and _wins_tie(&servers[slot], &servers[one.slot]))


cdef void _copy(double* into, const double[:, :] scores, Py_ssize_t row) noexcept:
    cdef int r
    for r in range(SOURCES):
        into[r] = scores[r, row]


cdef void _clear(Server* read) noexcept nogil:
    """The scores of an empty server."""
    cdef int r
    for r in range(SOURCES):
        read.tolerated[r] = 100.0
        read.caused[r] = read.tolerated_variance[r] = read.caused_variance[r] = 0.0


cdef bint _is_sound(const Server* read) noexcept nogil:
    cdef int r
    for r in range(SOURCES):
        if not (isfinite(read.tolerated[r]) and isfinite(read.caused[r])):
            return False
        if not (0 <= read.tolerated_variance[r] < INFINITY):
            return False
        if not (0 <= read.caused_variance[r] < INFINITY):
            return False
    return True


# --- blocks -----------------------------------------------------------------------------------


cdef inline bint _is_before(const Server* one, const Server* other) noexcept nogil:
    return one.spare < other.spare or (one.spare == other.spare and _wins_tie(one, other))


cdef inline bint _wins_tie(const Server* one, const Server* other) noexcept nogil:
    """The less loaded one, then the one that joined first."""
    return one.load < other.load or (one.load == other.load and one.order < other.order)


cdef int32_t _block_for(
    const Block* blocks, const Server* servers, int32_t top, const Server* server
) noexcept nogil:
    """The last block that does not begin behind a server, or the first; NOTHING = there is none."""
    cdef int32_t best = NOTHING, first = top
    while top != NOTHING:
        first = top
        if _is_before(server, &servers[blocks[top].slots[0]]):
            top = blocks[top].left
        else:
            best, top = top, blocks[top].right
    return first if best == NOTHING else best


cdef void _insert(Block* block, const Server* servers, int32_t slot) noexcept nogil:
    cdef const Server* server = &servers[slot]
    cdef int at = block.count, r
    while at > 0 and _is_before(server, &servers[block.slots[at - 1]]):
        at -= 1
    _shift(block, at, at + 1)
    block.slots[at], block.spares[at] = slot, server.spare
    for r in range(SOURCES):
        if server.occupied:
            block.bears[r][at] = _level(ceil(2 * server.tolerated[r]))
            block.bears[SOURCES + r][at] = ALL - _level(floor(2 * server.caused[r]))
        else:
            block.bears[r][at] = block.bears[SOURCES + r][at] = ALL
    block.count += 1


cdef void _remove(Block* block, int32_t slot) noexcept nogil:
    cdef int at = 0
    while block.slots[at] != slot:
        at += 1
    _shift(block, at + 1, at)
    block.count -= 1


cdef void _shift(Block* block, int source, int target) noexcept nogil:
    """Move those from one place on to another."""
    cdef int count = block.count - source, level
    memmove(&block.slots[target], &block.slots[source], count * sizeof(int32_t))
    memmove(&block.spares[target], &block.spares[source], count * sizeof(double))
    for level in range(LEVELS):
        memmove(&block.bears[level][target], &block.bears[level][source], count)


cdef inline uint8_t _level(double half_points) noexcept nogil:
    return <uint8_t>min(max(half_points, 0.0), <double>ALL)
