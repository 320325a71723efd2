# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The servers, ordered for least-loaded: what a scan over all of them finds, without one.

Kept by ``manager.columns``, asked by policies through ``ClusterView.loads``.

Servers of one size (CPU and memory) form a group, and in a group load orders as what is allocated
does. Its servers stand in a tree by allocated memory (``_treap.pxd``), of whose every subtree the
least loaded server is known. So those with enough memory are a few whole subtrees, and their best
come out one after the other: O(log S) for each group and each server that is asked for. A change of
a server is noted, and made in the tree when somebody asks: who never asks pays for notes alone.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memmove

from _treap cimport NOTHING, Node, inserted, is_left, mixed, removed

import numpy as np

from wharfinger.native._scan import least_loaded

cdef enum:
    MOST_GROUPS = 128  # With more sizes than this one pass over all servers is as good.

# Up to here different amounts are different shares of a capacity, also rounded; beyond, the order
# within a group would hang on the request.
cdef int64_t EXACT = 2**52


cdef struct Group:
    int64_t cpu        # capacity
    int64_t memory     # capacity
    int32_t root
    int32_t servers


cdef struct Found:
    double load
    double memory_load
    int32_t row
    int32_t top        # the subtree whose best it is; NOTHING = itself alone
    int32_t group


cdef void* _grown(void* memory, size_t count, size_t size) except NULL:
    cdef void* larger = realloc(memory, max(count, 1) * size)
    if larger == NULL:
        raise MemoryError()
    return larger


cdef class LoadIndex:
    """Servers by load, over the columns of a ``ClusterView``.

    The columns are read when something is asked: ``touch`` says before which rows have changed.
    """

    cdef const int64_t[::1] cpu_capacity, cpu_allocated, memory_capacity, memory_allocated
    cdef const uint8_t[::1] accepting
    cdef Py_ssize_t rows       # that there are
    cdef Py_ssize_t entered    # of them, that have a node; 0 until somebody asks
    cdef Py_ssize_t room       # nodes that fit
    cdef Node* nodes
    cdef uint8_t* noted        # by row: it is in ``notes``
    cdef int32_t* notes
    cdef Py_ssize_t note_count
    cdef Group* groups
    cdef int32_t group_count, inexact
    cdef list unused
    cdef dict group_of
    cdef uint32_t drawn

    def __cinit__(self):
        self.unused = []
        self.group_of = {}

    def __dealloc__(self):
        free(self.nodes)
        free(self.noted)
        free(self.notes)
        free(self.groups)

    # --- kept up to date --------------------------------------------------------------------

    def bind(
        self,
        const int64_t[::1] cpu_capacity,
        const int64_t[::1] cpu_allocated,
        const int64_t[::1] memory_capacity,
        const int64_t[::1] memory_allocated,
        const uint8_t[::1] accepting,
        Py_ssize_t rows,
    ):
        """Read these columns from now on, which hold what the ones before held and may be longer.

        Args:
            cpu_capacity: (at least ``rows``,) thousandths of a CPU, not negative.
            cpu_allocated: Of it.
            memory_capacity: Bytes, not negative.
            memory_allocated: Of it.
            accepting: 0 where no new work may be placed.
            rows: How many servers there are.

        Raises:
            ValueError: A column is shorter than that, or rows were left out without ``drop``.
        """
        if rows < self.rows or min(
            cpu_capacity.shape[0],
            cpu_allocated.shape[0],
            memory_capacity.shape[0],
            memory_allocated.shape[0],
            accepting.shape[0],
        ) < rows or rows >= 2**31:
            raise ValueError(f"{rows} rows: the columns are shorter, or there were more before")
        self.cpu_capacity, self.cpu_allocated = cpu_capacity, cpu_allocated
        self.memory_capacity, self.memory_allocated = memory_capacity, memory_allocated
        self.accepting, self.rows = accepting, rows

    def touch(self, Py_ssize_t row):
        """Something about a row has changed, or will before anything is asked."""
        if 0 <= row < self.entered and not self.noted[row]:
            self.noted[row] = 1
            self.notes[self.note_count] = <int32_t>row
            self.note_count += 1

    def drop(self, Py_ssize_t row):
        """A row is about to be taken out of the columns; those behind it move up.

        Raises:
            IndexError: There is no such row.
        """
        if not 0 <= row < self.rows:
            raise IndexError(f"row {row} of {self.rows}")
        self.rows -= 1
        if row >= self.entered:
            return
        # Noted rows are read by their old numbers, so before the columns move.
        self._read_noted()
        if self.nodes[row].group != NOTHING:
            self._take_out(row)
        self.entered -= 1
        memmove(
            &self.nodes[row], &self.nodes[row + 1], (self.entered - row) * sizeof(Node)
        )
        cdef Py_ssize_t at
        for at in range(self.entered):
            _move_up(&self.nodes[at].left, row)
            _move_up(&self.nodes[at].right, row)
            _move_up(&self.nodes[at].best, row)
            _move_up(&self.nodes[at].freest, row)
        for at in range(self.group_count):
            _move_up(&self.groups[at].root, row)

    # --- questions --------------------------------------------------------------------------

    def least_loaded(
        self, int64_t cpu, int64_t memory, Py_ssize_t keep, excluded=frozenset()
    ):
        """As ``wharfinger.native.least_loaded``: the servers with room, least loaded first.

        Args:
            cpu: Thousandths of a CPU that the workload gets.
            memory: Bytes that the workload gets.
            keep: How many of the best to return at most.
            excluded: Rows to leave out.

        Returns:
            The rows of the best servers, and their CPU loads.

        Raises:
            ValueError: ``keep`` is below 1, or a request is negative.
        """
        _check(cpu, memory, keep)
        self._read_noted()
        keep = min(keep, self.rows)
        if not keep:
            return [], []
        if self._is_scanned():
            return self._scan(cpu, memory, keep, excluded)
        cdef Py_ssize_t most = min(keep + len(excluded), self.rows), count, at
        cdef Found* found = <Found*>_grown(NULL, most, sizeof(Found))
        rows, loads = [], []
        try:
            count = self._find(cpu, memory, found, most)
            for at in range(count):
                if len(rows) < keep and not (excluded and found[at].row in excluded):
                    rows.append(found[at].row)
                    loads.append(found[at].load)
        finally:
            free(found)
        return rows, loads

    def freest(self, int64_t cpu, int64_t memory):
        """Of the servers that have so much when empty, the one with the most CPU free.

        Args:
            cpu: Thousandths of a CPU.
            memory: Bytes.

        Returns:
            Its row, the first of equal ones; -1 where no server is that large or accepts work.

        Raises:
            ValueError: A request is negative.
        """
        _check(cpu, memory, 1)
        self._read_noted()
        cdef int32_t best = NOTHING, row, at
        cdef int64_t free_there, most = 0
        for at in range(self.group_count):
            if self.groups[at].servers == 0:
                continue
            if self.groups[at].cpu < cpu or self.groups[at].memory < memory:
                continue
            row = self.nodes[self.groups[at].root].freest
            free_there = self.groups[at].cpu - self.nodes[row].cpu
            if best == NOTHING or free_there > most or (free_there == most and row < best):
                best, most = row, free_there
        return best

    # --- finding ----------------------------------------------------------------------------

    cdef bint _is_scanned(self):
        return self.inexact > 0 or self.group_count - len(self.unused) > MOST_GROUPS

    cdef _scan(self, int64_t cpu, int64_t memory, Py_ssize_t keep, excluded):
        accepting = np.array(self.accepting[: self.rows])
        accepting[list(excluded)] = 0
        rows, loads, *_ = least_loaded(
            self.cpu_capacity[: self.rows],
            self.cpu_allocated[: self.rows],
            self.memory_capacity[: self.rows],
            self.memory_allocated[: self.rows],
            accepting,
            cpu,
            memory,
            keep,
        )
        return rows.tolist(), loads.tolist()

    cdef Py_ssize_t _find(
        self, int64_t cpu, int64_t memory, Found* found, Py_ssize_t most
    ) noexcept nogil:
        """The ``most`` best, best first; whatever has not been offered is worse than all."""
        cdef Py_ssize_t count = 0, at = 0
        cdef int32_t group, node
        for group in range(self.group_count):
            if self.groups[group].cpu < cpu or self.groups[group].memory < memory:
                continue
            # Those with enough memory: to the left of each node that has, and that node.
            node = self.groups[group].root
            while node != NOTHING:
                if self.nodes[node].memory > self.groups[group].memory - memory:
                    node = self.nodes[node].left
                    continue
                self._offer(cpu, memory, group, node, NOTHING, found, &count, most)
                self._offer_subtree(cpu, memory, group, self.nodes[node].left, found, &count, most)
                node = self.nodes[node].right
        while at < count:
            self._offer_others(cpu, memory, found[at], found, &count, most)
            at += 1
        return count

    cdef void _offer_others(
        self, int64_t cpu, int64_t memory, Found taken, Found* found, Py_ssize_t* count,
        Py_ssize_t most,
    ) noexcept nogil:
        """The best of a subtree is taken: whatever else is in it may be the next."""
        cdef int32_t node = taken.top, group = taken.group
        if node == NOTHING:
            return
        while node != taken.row:
            self._offer(cpu, memory, group, node, NOTHING, found, count, most)
            if is_left(self.nodes, taken.row, node):
                self._offer_subtree(cpu, memory, group, self.nodes[node].right, found, count, most)
                node = self.nodes[node].left
            else:
                self._offer_subtree(cpu, memory, group, self.nodes[node].left, found, count, most)
                node = self.nodes[node].right
        self._offer_subtree(cpu, memory, group, self.nodes[node].left, found, count, most)
        self._offer_subtree(cpu, memory, group, self.nodes[node].right, found, count, most)

    cdef void _offer_subtree(
        self, int64_t cpu, int64_t memory, int32_t group, int32_t top, Found* found,
        Py_ssize_t* count, Py_ssize_t most,
    ) noexcept nogil:
        if top != NOTHING:
            self._offer(cpu, memory, group, self.nodes[top].best, top, found, count, most)

    cdef void _offer(
        self, int64_t cpu, int64_t memory, int32_t group, int32_t row, int32_t top, Found* found,
        Py_ssize_t* count, Py_ssize_t most,
    ) noexcept nogil:
        """Enter a server with enough memory where it belongs, if it has the CPU.

        Where the least loaded of a subtree has not, no other one in it has.
        """
        cdef Node* there = &self.nodes[row]
        cdef Group* size = &self.groups[group]
        cdef Found new
        cdef Py_ssize_t at
        if there.cpu > size.cpu - cpu:
            return
        new.load = _share(there.cpu + cpu, size.cpu)
        new.memory_load = _share(there.memory + memory, size.memory)
        new.row, new.top, new.group = row, top, group
        if count[0] == most:
            if not _before(&new, &found[most - 1]):
                return
        else:
            count[0] += 1
        at = count[0] - 1
        while at > 0 and _before(&new, &found[at - 1]):
            found[at] = found[at - 1]
            at -= 1
        found[at] = new

    # --- the trees --------------------------------------------------------------------------

    cdef int _read_noted(self) except -1:
        """Bring the trees up to date with the columns."""
        cdef Py_ssize_t at
        if self.rows > self.room:
            self._make_room()
        for at in range(self.entered, self.rows):
            self.nodes[at] = Node(0, 0, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, 0)
            self.noted[at] = 0
            self.drawn += 1
            self.nodes[at].priority = mixed(self.drawn)
            self._enter(<int32_t>at)
            self.entered += 1
        while self.note_count:
            self.note_count -= 1
            self.noted[self.notes[self.note_count]] = 0
            self._enter(self.notes[self.note_count])
        return 0

    cdef int _make_room(self) except -1:
        cdef Py_ssize_t room = max(2 * self.room, self.rows)
        self.nodes = <Node*>_grown(self.nodes, room, sizeof(Node))
        self.noted = <uint8_t*>_grown(self.noted, room, sizeof(uint8_t))
        self.notes = <int32_t*>_grown(self.notes, room, sizeof(int32_t))
        self.room = room
        return 0

    cdef int _enter(self, int32_t row) except -1:
        """Put a row where its columns' numbers belong."""
        cdef Node* node = &self.nodes[row]
        cdef int32_t group
        if node.group != NOTHING:
            if self.accepting[row] and self._is_as_it_was(row):
                return 0
            self._take_out(row)
        if not self.accepting[row]:
            return 0
        node.cpu, node.memory = self.cpu_allocated[row], self.memory_allocated[row]
        node.left = node.right = NOTHING
        node.best = node.freest = row
        node.group = group = self._group(self.cpu_capacity[row], self.memory_capacity[row])
        self.groups[group].servers += 1
        self.groups[group].root = inserted(self.nodes, self.groups[group].root, row)
        return 0

    cdef bint _is_as_it_was(self, int32_t row):
        cdef Node* node = &self.nodes[row]
        cdef Group* group = &self.groups[node.group]
        return (
            node.cpu == self.cpu_allocated[row]
            and node.memory == self.memory_allocated[row]
            and group.cpu == self.cpu_capacity[row]
            and group.memory == self.memory_capacity[row]
        )

    cdef int32_t _group(self, int64_t cpu, int64_t memory) except -1:
        """The group of the servers of this size; it is made where there is none."""
        cdef int32_t group
        known = self.group_of.get((cpu, memory))
        if known is not None:
            return known
        if self.unused:
            group = self.unused.pop()
        else:
            group = self.group_count
            self.groups = <Group*>_grown(self.groups, group + 1, sizeof(Group))
            self.group_count += 1
        self.groups[group].cpu, self.groups[group].memory = cpu, memory
        self.groups[group].root, self.groups[group].servers = NOTHING, 0
        self.group_of[cpu, memory] = group
        if cpu > EXACT or memory > EXACT:
            self.inexact += 1
        return group

    cdef int _take_out(self, int32_t row) except -1:
        """Out of its tree; and the group goes with its last server."""
        cdef int32_t at = self.nodes[row].group
        cdef Group* group = &self.groups[at]
        group.root = removed(self.nodes, group.root, row)
        group.servers -= 1
        self.nodes[row].group = NOTHING
        if group.servers == 0:
            del self.group_of[group.cpu, group.memory]
            self.unused.append(at)
            if group.cpu > EXACT or group.memory > EXACT:
                self.inexact -= 1
        return 0


cdef inline void _move_up(int32_t* row, Py_ssize_t dropped) noexcept nogil:
    if row[0] > dropped:
        row[0] -= 1


cdef inline double _share(int64_t allocated, int64_t capacity) noexcept nogil:
    return <double>allocated / <double>capacity if capacity > 0 else 0.0


cdef inline bint _before(Found* one, Found* other) noexcept nogil:
    if one.load != other.load:
        return one.load < other.load
    if one.memory_load != other.memory_load:
        return one.memory_load < other.memory_load
    return one.row < other.row


cdef int _check(int64_t cpu, int64_t memory, Py_ssize_t keep) except -1:
    if keep < 1:
        raise ValueError(f"keep is {keep}; it must be at least 1")
    if cpu < 0 or memory < 0:
        raise ValueError(f"cpu {cpu}, memory {memory}: a request must not be negative")
    return 0
