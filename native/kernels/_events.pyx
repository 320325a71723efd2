# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""The event loop: callbacks in the order of time, priority and sequence.

Called through wharfinger.simulator.kernel.loop; ``wharfinger.simulator.reference_loop`` says the same in
plain Python.

The heap is implicit and 4-ary, in two arrays: the times, which are all that is looked at unless
some are equal, and the rest. Its root is at index 3, so that four siblings begin at a multiple of
four: their times lie in one half of a cache line, and the times of all their children in two whole
ones. Behind the last entry times are infinite, so that a sibling that is missing is never chosen.
Callbacks and arguments stay where they are: two items of one list, which is also what the garbage
collector looks through.

Methods are plain C functions (binding=False), which Python calls in half the time.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.math cimport INFINITY, isfinite
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy


cdef extern from "Python.h":
    bint PyCallable_Check(object callback)
    object PyObject_CallOneArg(object callback, object argument)
    PyObject** PySequence_Fast_ITEMS(object sequence)


cdef extern from "stdlib.h" nogil:
    void* aligned_alloc(size_t alignment, size_t size)


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* The bits of times that are not negative are ordered as the times are, and integers are
       compared sooner and without a branch. Adding zero makes -0.0 be 0.0. */
    static inline int64_t key_of(double time) {
        int64_t key;
        time += 0.0;
        memcpy(&key, &time, sizeof key);
        return key;
    }

    static inline double time_of(int64_t key) {
        double time;
        memcpy(&time, &key, sizeof time);
        return time;
    }

    #define prefetch(address) __builtin_prefetch((address), 1)
    """
    int64_t key_of(double time) noexcept nogil
    double time_of(int64_t key) noexcept nogil
    void prefetch(const void* address) noexcept nogil


cdef enum:
    ROOT = 3
    # Entries that there is room for beyond the capacity: those before the root, and the siblings
    # that the last entry might have.
    SPARE = 8
    LINE_BYTES = 64
    FIRST_CAPACITY = 64
    # So many cancelled events are not worth a compaction.
    FEW = 64
    LAST_GENERATION = 0x7FFFFFFF
    # Python looks for signals between its own instructions; callbacks need not have any.
    EVENTS_PER_SIGNAL_CHECK = 4096


# Integers are taken as Py_ssize_t: Cython asks for their __index__ then, which a float lacks.


cdef struct Rest:
    # 16 bytes: those of four siblings fill one cache line.
    uint64_t sequence
    int32_t priority
    uint32_t slot  # more than 2**32 pending events would take 200 GB


cdef struct Heap:
    int64_t* times
    Rest* rests
    size_t end  # one behind the last entry


cdef struct Payload:
    PyObject* callback  # None: the slot is empty, or its event was cancelled
    PyObject* argument


@cython.final
@cython.no_gc_clear
cdef class EventLoop:
    """Calls what is scheduled, in the order of (time, priority, sequence).

    Of equal times the lower priority comes first, of equal priorities what was scheduled first.
    Callbacks may schedule and cancel; they may not run the loop that runs them. What a callback
    raises leaves ``step`` or ``run``, and the loop can go on behind that event.

    Attributes:
        now: Seconds; 0 at first, then the time of the event that was last called, or ``until``.
        executed: How many callbacks were called, those that raised included.

    Example:
        >>> loop = EventLoop()
        >>> _ = loop.schedule(2.0, print, "later"), loop.schedule(1.0, print, "sooner")
        >>> loop.run()
        sooner
        later
        2
        >>> loop.now
        2.0
    """

    cdef readonly double now
    cdef readonly uint64_t executed
    cdef Heap heap
    cdef uint64_t sequence
    cdef list payloads  # a Payload per slot
    cdef uint32_t* generations  # per slot, how often it was used
    cdef uint32_t* unused  # a stack of slots
    cdef size_t unused_count
    cdef size_t capacity  # of slots, and of entries
    cdef size_t cancelled  # entries still in the heap
    cdef bint running
    cdef bint stopping
    cdef object __weakref__

    def __cinit__(self):
        self.payloads = []
        self.heap.end = ROOT

    def __dealloc__(self):
        free(self.heap.times)

    def __len__(self):
        """How many events are pending; what was cancelled does not count."""
        return self.heap.end - ROOT - self.cancelled

    def __sizeof__(self):
        """Bytes, callbacks and arguments left out."""
        return EventLoop.__basicsize__ + _block_bytes(self.capacity)

    def schedule(self, double time, callback, argument=None, Py_ssize_t priority=0):
        """Has ``callback(argument)`` called at a time.

        Args:
            time: Seconds, absolute; now at the earliest.
            callback: What it returns is not looked at.
            argument: Handed to it.
            priority: Among equal times the lowest is called first.

        Returns:
            A handle for ``cancel``: not 0, and no two events of a loop have the same.

        Raises:
            ValueError: The time is past or not finite, or the priority does not fit in 32 bits.
            TypeError: The callback can't be called.
        """
        cdef uint32_t slot
        cdef Rest rest
        if not (self.now <= time < INFINITY):
            raise ValueError(_why_not(time, self.now))
        if priority != <int32_t>priority:
            raise ValueError(f"priority is {priority}: it must fit in 32 bits")
        if not PyCallable_Check(callback):
            raise TypeError(f"callback {callback!r} can't be called")
        while self.unused_count == 0:
            self._grow()
        slot = self.unused[self.unused_count - 1]
        _put(self._payload(slot), callback, argument)
        self.unused_count -= 1
        self.generations[slot] += 1
        rest.sequence, rest.priority, rest.slot = self.sequence, <int32_t>priority, slot
        self.sequence += 1
        self.heap.end += 1
        _rise(&self.heap, self.heap.end - 1, ROOT, key_of(time), rest)
        return (<int64_t>self.generations[slot] << 32) | slot

    def cancel(self, Py_ssize_t handle):
        """Takes an event back.

        Args:
            handle: What ``schedule`` returned.

        Returns:
            False where it is not pending: it was called, is being called, or was cancelled.
        """
        cdef uint32_t slot = <uint32_t>handle
        cdef Payload* payload
        if handle < 0 or slot >= self.capacity or self.generations[slot] != handle >> 32:
            return False
        payload = self._payload(slot)
        # Held until the end: when the last reference goes, anything may be called.
        callback, argument = <object>payload.callback, <object>payload.argument
        if callback is None:
            return False
        _put(payload, None, None)
        self.cancelled += 1
        if self.cancelled > FEW and 2 * self.cancelled > self.heap.end - ROOT:
            self._compact()
        return True

    def peek(self):
        """The time of the next event in seconds; ``None`` where nothing is pending."""
        return time_of(self.heap.times[ROOT]) if self._find() else None

    def step(self):
        """Calls the next event.

        Returns:
            False where nothing was pending.

        Raises:
            RuntimeError: A callback asks for it.
        """
        self._begin()
        try:
            if not self._find():
                return False
            self._execute()
            return True
        finally:
            self.running = False

    def run(self, double until=INFINITY):
        """Calls events until none is pending, or a callback calls ``stop``.

        Args:
            until: Seconds. Events at this time are still called; then it is this time, unless
                the loop was stopped or ``until`` is infinite.

        Returns:
            How many events were called.

        Raises:
            ValueError: ``until`` is past, or no number.
            RuntimeError: A callback asks for it.
        """
        cdef uint64_t before = self.executed
        cdef int64_t limit = key_of(until)
        if not (self.now <= until):
            raise ValueError(f"until is {until} s: it must be {self.now} s, which is now, or later")
        self._begin()
        try:
            while not self.stopping and self._find() and self.heap.times[ROOT] <= limit:
                self._execute()
                if self.executed % EVENTS_PER_SIGNAL_CHECK == 0:
                    PyErr_CheckSignals()
        finally:
            self.running = False
        if isfinite(until) and not self.stopping:
            self.now = until
        return self.executed - before

    def stop(self):
        """Ends ``run`` behind the callback that calls this; elsewhere it does nothing."""
        self.stopping = True

    cdef int _begin(self) except -1:
        if self.running:
            raise RuntimeError("the loop is running: a callback can't run it too")
        self.running, self.stopping = True, False
        return 0

    cdef bint _find(self) except -1:
        """Whether anything is pending; it is at the root then, and nothing that was cancelled."""
        while self.heap.end > ROOT:
            if self._payload(self.heap.rests[ROOT].slot).callback is not <PyObject*>None:
                return True
            self.cancelled -= 1
            self._drop()
        return False

    cdef int _execute(self) except -1:
        """Calls the event at the root, when everything is ready for the next."""
        cdef Payload* payload = self._payload(self.heap.rests[ROOT].slot)
        callback, argument = <object>payload.callback, <object>payload.argument
        _put(payload, None, None)
        self.now = time_of(self.heap.times[ROOT])
        self.executed += 1
        self._drop()
        PyObject_CallOneArg(callback, argument)
        return 0

    cdef void _drop(self) noexcept:
        """Removes the root, of which the payload is gone."""
        cdef Heap* heap = &self.heap
        cdef size_t last = heap.end - 1, next_slot
        cdef int64_t time = heap.times[last]
        self._release(heap.rests[ROOT].slot)
        heap.times[last] = key_of(INFINITY)
        heap.end = last
        if last > ROOT:
            _settle(heap, ROOT, time, heap.rests[last])
            # They come from memory while the callback runs.
            next_slot = heap.rests[ROOT].slot
            prefetch(&PySequence_Fast_ITEMS(self.payloads)[2 * next_slot])
            prefetch(&self.generations[next_slot])

    cdef void _release(self, uint32_t slot) noexcept:
        # A slot that has used up its generations rests for ever, so that handles stay unique.
        if self.generations[slot] < LAST_GENERATION:
            self.unused[self.unused_count] = slot
            self.unused_count += 1

    cdef void _compact(self) noexcept:
        """Drops all that was cancelled; what is left is made a heap from the bottom up."""
        cdef Heap* heap = &self.heap
        cdef Payload* payloads = <Payload*>PySequence_Fast_ITEMS(self.payloads)
        cdef size_t at, end = ROOT
        for at in range(ROOT, heap.end):
            if payloads[heap.rests[at].slot].callback is <PyObject*>None:
                self._release(heap.rests[at].slot)
            else:
                heap.times[end], heap.rests[end] = heap.times[at], heap.rests[at]
                end += 1
        for at in range(end, heap.end):
            heap.times[at] = key_of(INFINITY)
        heap.end = end
        self.cancelled = 0
        at = _parent(end - 1) + 1 if end > ROOT + 1 else ROOT
        while at > ROOT:
            at -= 1
            _settle(heap, at, heap.times[at], heap.rests[at])

    cdef Payload* _payload(self, size_t slot) except NULL:
        # The collector empties the list when it takes a cycle apart.
        if 2 * self.capacity != <size_t>PyList_GET_SIZE(self.payloads):
            raise RuntimeError("the loop was ended by the garbage collector")
        return <Payload*>PySequence_Fast_ITEMS(self.payloads) + slot

    cdef int _grow(self) except -1:
        """Doubles the capacity."""
        cdef size_t old = self.capacity
        cdef size_t capacity = 2 * old if old else FIRST_CAPACITY
        cdef void* block
        more = [None] * (2 * (capacity - old))
        if self.capacity != old:
            return 0  # that list set the collector going, and what it ended has scheduled
        block = aligned_alloc(LINE_BYTES, _block_bytes(capacity))
        if block == NULL:
            raise MemoryError
        try:
            self.payloads.extend(more)
        except MemoryError:
            free(block)
            raise
        self._move(block, capacity)
        return 0

    cdef void _move(self, void* block, size_t capacity) noexcept:
        """Goes on in a larger block; called when no slot is unused."""
        cdef Heap* heap = &self.heap
        cdef size_t at, old = self.capacity
        cdef int64_t* times = <int64_t*>block
        cdef Rest* rests = <Rest*>(times + capacity + SPARE)
        cdef uint32_t* generations = <uint32_t*>(rests + capacity + SPARE)
        if old:
            memcpy(times, heap.times, heap.end * sizeof(int64_t))
            memcpy(rests, heap.rests, heap.end * sizeof(Rest))
            memcpy(generations, self.generations, old * sizeof(uint32_t))
        for at in range(heap.end, capacity + SPARE):
            times[at] = key_of(INFINITY)
            rests[at].sequence = rests[at].priority = rests[at].slot = 0
        free(heap.times)
        heap.times, heap.rests = times, rests
        self.generations, self.unused = generations, generations + capacity
        self.capacity = capacity
        for at in range(old, capacity):
            self.generations[at] = 0
            self._release(old + capacity - 1 - at)


def _why_not(double time, double now):
    if not isfinite(time):
        return f"time is {time}: it must be finite"
    return f"time is {time} s: it must be {now} s, which is now, or later"


cdef inline size_t _block_bytes(size_t capacity) noexcept nogil:
    """Times, rests, generations and the stack of slots: whole cache lines, as capacities are."""
    if capacity == 0:
        return 0
    return (capacity + SPARE) * (sizeof(int64_t) + sizeof(Rest)) + 2 * capacity * sizeof(uint32_t)


cdef inline void _put(Payload* payload, callback, argument) noexcept:
    """Fills a slot. What was there must be held by somebody else, so that nothing ends here."""
    cdef PyObject* old_callback = payload.callback
    cdef PyObject* old_argument = payload.argument
    Py_INCREF(callback)
    Py_INCREF(argument)
    payload.callback, payload.argument = <PyObject*>callback, <PyObject*>argument
    Py_DECREF(<object>old_callback)
    Py_DECREF(<object>old_argument)


cdef inline size_t _first_child(size_t at) noexcept nogil:
    return 4 * at - 8


cdef inline size_t _parent(size_t at) noexcept nogil:
    return at // 4 + 2


cdef inline bint _rest_before(const Rest* one, const Rest* other) noexcept nogil:
    if one.priority != other.priority:
        return one.priority < other.priority
    return one.sequence < other.sequence


cdef inline bint _before(const Heap* heap, size_t one, size_t other) noexcept nogil:
    if heap.times[one] != heap.times[other]:
        return heap.times[one] < heap.times[other]
    return _rest_before(&heap.rests[one], &heap.rests[other])


cdef inline size_t _first_of_four(const Heap* heap, size_t at) noexcept nogil:
    """Which of four siblings comes first; without a branch that can't be foreseen.

    Times that are equal, which are rarely met, are compared once more, with the rest.
    """
    cdef const int64_t* times = heap.times
    cdef size_t low = at + (times[at + 1] < times[at])
    cdef size_t high = at + 2 + (times[at + 3] < times[at + 2])
    cdef size_t first = low ^ ((low ^ high) & -<size_t>(times[high] < times[low]))
    if (
        (times[at] == times[at + 1])
        | (times[at + 2] == times[at + 3])
        | (times[low] == times[high])
    ):
        low = at + _before(heap, at + 1, at)
        high = at + 2 + _before(heap, at + 3, at + 2)
        first = high if _before(heap, high, low) else low
    return first


cdef inline void _settle(Heap* heap, size_t top, int64_t time, Rest rest) noexcept nogil:
    """Puts an entry in the place of ``top`` or below it.

    The gap goes down to a leaf first, and the entry up from there: it comes from the bottom, so
    it hardly rises, and going down takes a comparison less on each level.
    """
    cdef size_t at = top, child = _first_child(top), below, first
    while child < heap.end:
        below = _first_child(child)
        if below < heap.end:
            # The children of all four: one of these groups is looked at next.
            prefetch(&heap.times[below])
            prefetch(&heap.times[below + 8])
            prefetch(&heap.rests[below])
            prefetch(&heap.rests[below + 4])
            prefetch(&heap.rests[below + 8])
            prefetch(&heap.rests[below + 12])
        first = _first_of_four(heap, child)
        heap.times[at], heap.rests[at] = heap.times[first], heap.rests[first]
        at, child = first, _first_child(first)
    _rise(heap, at, top, time, rest)


cdef inline void _rise(Heap* heap, size_t at, size_t top, int64_t time, Rest rest) noexcept nogil:
    """Puts an entry in the place of ``at`` or above it, ``top`` at the highest."""
    cdef size_t parent
    while at > top:
        parent = _parent(at)
        if heap.times[parent] < time:
            break
        if heap.times[parent] == time and _rest_before(&heap.rests[parent], &rest):
            break
        heap.times[at], heap.rests[at] = heap.times[parent], heap.rests[parent]
        at = parent
    heap.times[at], heap.rests[at] = time, rest
