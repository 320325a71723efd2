# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Servers by the hashed scores of what they tolerate, a table for each source (Paragon 3.3).

Called through ``wharfinger.policies.placement.paragon_hash``, which makes the hashes and tells what
has changed.

A table is a ring of 2^14 slots; a server stands in the slot of its hashed score. A newcomer's score
of what it causes, hashed by the same function, names a slot: the next server along the ring is a
candidate. The hash hashed again names another. One slot's servers are told apart by their tags, so
that the answer hangs on the columns alone, not on the order in which they have changed.

A change costs as much as a server has scores, a question as much as it makes draws: neither grows
with the servers, as long as a slot holds few of them.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

cdef extern from *:
    int __builtin_ctzll(unsigned long long) nogil

cdef enum:
    SOURCES = 17  # of interference: those of ``SharedResource``
    SLOTS = 16384
    MASK = 16383
    WORDS = 256   # of 64 bits, one for each slot
    NONE = -1


cdef struct Server:
    uint32_t tag          # stands for its name
    uint32_t asked        # the last question that it was drawn for
    uint8_t noted         # it has changed, and will be read
    int32_t[SOURCES] slot
    int32_t[SOURCES] after    # the next one in the slot, and the one before
    int32_t[SOURCES] before


cdef void* _grown(void* memory, size_t count, size_t size) except NULL:
    cdef void* larger = realloc(memory, max(count, 1) * size)
    if larger == NULL:
        raise MemoryError()
    return larger


cdef class HashedServers:
    """Tables of servers; the columns are read by ``update``, ``touch`` says which have changed.

    Args:
        hashes: (R, 2^14) the slot of each score of each source.
        tagged: Whether a server's tag is hashed with its scores, and all scores of a newcomer with
            each: equal scores then lie apart.

    Raises:
        ValueError: The hashes are of another shape, or one is 2^14 or more.
    """

    cdef uint16_t* hashes    # (SOURCES, SLOTS)
    cdef int32_t* heads      # (SOURCES, SLOTS) the first row in each slot
    cdef uint64_t* taken     # (SOURCES, WORDS) which slots have any
    cdef Server* servers     # by row
    cdef int32_t* notes      # rows that are to be read
    cdef Py_ssize_t rows, room, note_count
    cdef uint32_t question
    cdef bint tagged

    def __cinit__(self, const uint16_t[:, ::1] hashes, bint tagged):
        cdef Py_ssize_t r, at
        if hashes.shape[0] != SOURCES or hashes.shape[1] != SLOTS:
            raise ValueError(f"{SOURCES} x {SLOTS} hashes are needed")
        self.hashes = <uint16_t*>_grown(NULL, SOURCES * SLOTS, sizeof(uint16_t))
        self.heads = <int32_t*>_grown(NULL, SOURCES * SLOTS, sizeof(int32_t))
        self.taken = <uint64_t*>_grown(NULL, SOURCES * WORDS, sizeof(uint64_t))
        for r in range(SOURCES):
            for at in range(SLOTS):
                if hashes[r, at] > MASK:
                    raise ValueError(f"hash {hashes[r, at]} is not below {SLOTS}")
                self.hashes[r * SLOTS + at] = hashes[r, at]
        self.tagged = tagged
        self._empty()

    def __dealloc__(self):
        free(self.hashes)
        free(self.heads)
        free(self.taken)
        free(self.servers)
        free(self.notes)

    cdef void _empty(self) noexcept nogil:
        cdef Py_ssize_t at
        for at in range(SOURCES * SLOTS):
            self.heads[at] = NONE
        memset(self.taken, 0, SOURCES * WORDS * sizeof(uint64_t))
        self.rows = self.note_count = 0

    def touch(self, Py_ssize_t row):
        """Something about a row has changed, or will before ``update``; new rows need none."""
        if 0 <= row < self.rows and not self.servers[row].noted:
            self.servers[row].noted = 1
            self.notes[self.note_count] = <int32_t>row
            self.note_count += 1

    def drop(self, Py_ssize_t row):
        """A row is taken out of the columns; those behind it move up, and all are read again."""
        if 0 <= row < self.rows:
            self._empty()

    def is_current(self, Py_ssize_t rows):
        """Whether nothing has changed since ``update``, and there are still so many rows."""
        return self.note_count == 0 and self.rows == rows

    def read_rows(self):
        """How many rows have been read: ``update`` needs the tags of those that follow."""
        return self.rows

    def update(
        self, Py_ssize_t rows, const double[:, :] tolerated, const uint32_t[::1] tags
    ):
        """Read the rows that have changed or are new.

        Args:
            rows: How many servers there are.
            tolerated: (R, at least ``rows``) points; counted as 0 below 0, as 100 above.
            tags: Of the rows that are new, which stand for the servers' names.

        Raises:
            ValueError: A column is too short, or rows were left out without ``drop``.
        """
        cdef Py_ssize_t row, first = self.rows
        if rows < first or rows > INT32_MAX:
            raise ValueError(f"{rows} rows, and {first} before; drop says which have gone")
        if tolerated.shape[0] != SOURCES or tolerated.shape[1] < rows:
            raise ValueError(f"{SOURCES} scores of {rows} servers are needed")
        if tags.shape[0] != rows - first:
            raise ValueError(f"{tags.shape[0]} tags of {rows - first} new rows")
        self._make_room(rows)
        while self.note_count:
            self.note_count -= 1
            row = self.notes[self.note_count]
            self.servers[row].noted = 0
            self._take_out(<int32_t>row)
            self._put_in(<int32_t>row, tolerated)
        for row in range(first, rows):
            self.servers[row].tag = tags[row - first]
            self.servers[row].asked = 0
            self.servers[row].noted = 0
            self.rows += 1
            self._put_in(<int32_t>row, tolerated)

    cdef int _make_room(self, Py_ssize_t rows) except -1:
        if rows <= self.room:
            return 0
        cdef Py_ssize_t room = max(2 * self.room, rows)
        self.servers = <Server*>_grown(self.servers, room, sizeof(Server))
        self.notes = <int32_t*>_grown(self.notes, room, sizeof(int32_t))
        self.room = room
        return 0

    cdef void _put_in(self, int32_t row, const double[:, :] tolerated) noexcept:
        cdef Server* server = &self.servers[row]
        cdef int32_t slot, head
        cdef int r
        for r in range(SOURCES):
            slot = _score(tolerated[r, row])
            if self.tagged:
                slot = (slot ^ <int32_t>_mixed(server.tag + <uint32_t>r)) & MASK
            slot = self.hashes[r * SLOTS + slot]
            head = self.heads[r * SLOTS + slot]
            server.slot[r], server.after[r], server.before[r] = slot, head, NONE
            if head != NONE:
                self.servers[head].before[r] = row
            self.heads[r * SLOTS + slot] = row
            self.taken[r * WORDS + (slot >> 6)] |= (<uint64_t>1) << (slot & 63)

    cdef void _take_out(self, int32_t row) noexcept nogil:
        cdef Server* server = &self.servers[row]
        cdef int32_t slot, after, before
        cdef int r
        for r in range(SOURCES):
            slot, after, before = server.slot[r], server.after[r], server.before[r]
            if after != NONE:
                self.servers[after].before[r] = before
            if before != NONE:
                self.servers[before].after[r] = after
            else:
                self.heads[r * SLOTS + slot] = after
                if after == NONE:
                    self.taken[r * WORDS + (slot >> 6)] &= ~((<uint64_t>1) << (slot & 63))

    def drawn(
        self,
        const double[::1] caused,
        const uint8_t[::1] able,
        Py_ssize_t wanted,
        Py_ssize_t most,
        int64_t[::1] into,
    ):
        """Different servers that are able, as the hashes of a newcomer's scores name them.

        Args:
            caused: (R,) points; NaN = unknown: that source's table is not asked, unless all are.
            able: (S,) 1 = may be answered.
            wanted: How many servers.
            most: How often to hash for that.
            into: (at least ``wanted``,) is given their rows, in order.

        Returns:
            How many were found, and how often was hashed.

        Raises:
            ValueError: A shape is wrong, or not all rows have been read.
        """
        cdef int32_t[SOURCES] values
        cdef int[SOURCES] sources
        cdef int known = 0, r
        cdef Py_ssize_t found = 0, step = 0, again = 0
        cdef int32_t row, slot
        cdef uint32_t all_scores = 0
        if caused.shape[0] != SOURCES or able.shape[0] != self.rows or self.note_count:
            raise ValueError(f"not {SOURCES} scores, or not {self.rows} rows that are up to date")
        if into.shape[0] < wanted:
            raise ValueError(f"no room for {wanted} rows")
        for r in range(SOURCES):
            if caused[r] == caused[r]:
                values[known], sources[known] = _score(caused[r]), r
                known += 1
        if not known:
            for r in range(SOURCES):
                values[r], sources[r] = 0, r
            known = SOURCES
        if self.tagged:
            # Who shares a score with another, as of what it leaves alone, is sent elsewhere still.
            for r in range(known):
                all_scores = _mixed(all_scores + <uint32_t>values[r])
        if self.question == <uint32_t>0xFFFFFFFF:
            for row in range(<int32_t>self.rows):
                self.servers[row].asked = 0
            self.question = 0
        self.question += 1
        while found < wanted and step < most:
            r = <int>(step % known)
            again = step // known
            # The count keeps the hashes from running in a circle.
            slot = (values[r] + <int32_t>(all_scores & MASK) + <int32_t>(again & MASK)) & MASK
            values[r] = self.hashes[sources[r] * SLOTS + slot]
            row = self._next(sources[r], values[r], <uint32_t>step)
            step += 1
            if row != NONE and self.servers[row].asked != self.question:
                self.servers[row].asked = self.question
                if able[row]:
                    into[found] = row
                    found += 1
        return found, step

    cdef int32_t _next(self, int source, int32_t slot, uint32_t step) noexcept nogil:
        """The next server along the ring; of one slot's the first by tags from a drawn one on."""
        cdef const uint64_t* taken = &self.taken[source * WORDS]
        cdef int32_t word = slot >> 6, at
        cdef uint64_t bits = taken[word] & (<uint64_t>0xFFFFFFFFFFFFFFFF << (slot & 63))
        cdef uint32_t start, least, behind
        cdef int32_t row, best
        for at in range(WORDS + 1):
            if bits:
                break
            word = (word + 1) % WORDS
            bits = taken[word]
        if not bits:
            return NONE
        best = row = self.heads[source * SLOTS + 64 * word + __builtin_ctzll(bits)]
        if self.servers[row].after[source] == NONE:
            return row
        start = _mixed((<uint32_t>slot << 16) ^ step)
        least = self.servers[row].tag - start
        while row != NONE:
            behind = self.servers[row].tag - start
            if behind < least or (behind == least and row < best):
                best, least = row, behind
            row = self.servers[row].after[source]
        return best


cdef inline int32_t _score(double points) noexcept nogil:
    """In 14 bits; no number counts as 0."""
    if not points > 0.0:
        return 0
    return <int32_t>(min(points, 100.0) * (<double>MASK / 100.0) + 0.5)


cdef inline uint32_t _mixed(uint32_t number) noexcept nogil:
    """Any numbers do that look drawn (the finalizer of MurmurHash3, Appleby)."""
    number ^= number >> 16
    number *= <uint32_t>0x85EBCA6B
    number ^= number >> 13
    number *= <uint32_t>0xC2B2AE35
    return number ^ (number >> 16)
