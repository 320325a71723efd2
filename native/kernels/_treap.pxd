# The search trees of the indices of servers: treaps (Seidel and Aragon, 1996) over an array of nodes.
# All inline: this file is a part of each kernel that names it, and no module of its own.
#
# A tree of the load index has a node for each server and is ordered by (memory, row). So that the
# least loaded of a subtree is known without looking into it, each node has the best of its own: that
# is McCreight's priority search tree (1985). A tree of the harmony index has a node for each block of
# servers, ordered by (spare, load, order); each node has bounds of what the servers of its subtree have and
# bear.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

cdef enum:
    NOTHING = -1
    SOURCES = 17  # of interference: those of ``SharedResource``
    LEVELS = 34   # what is tolerated and what is caused of each
    WIDTH = 64    # servers that a block holds


cdef struct Node:
    int64_t cpu        # allocated
    int64_t memory     # allocated
    int32_t left
    int32_t right
    int32_t best       # row of the subtree with the least (cpu, memory, row)
    int32_t freest     # row of the subtree with the least (cpu, row)
    int32_t group      # whose tree it is in; NOTHING = in none
    uint32_t priority  # no child's is higher


cdef struct Block:
    double spare           # points tolerated less points caused, of the first server
    double load            # share of CPU that is allocated, of the first server
    int64_t order          # of joining, of the first server
    int64_t most_cpu       # that a server of the subtree has free
    int64_t most_memory
    int32_t left
    int32_t right
    uint32_t priority      # no child's is higher
    int32_t count
    uint8_t most[LEVELS]   # that a server of the subtree bears
    # The servers themselves, as (spare, load, order) rises.
    int64_t own_cpu        # the most that one has free
    int64_t own_memory
    uint8_t own[LEVELS]    # the most that one bears
    int32_t slots[WIDTH]
    double spares[WIDTH]
    uint8_t bears[LEVELS][WIDTH]


ctypedef fused AnyNode:
    Node
    Block


cdef inline bint is_left(const AnyNode* nodes, int32_t row, int32_t of) noexcept nogil:
    if AnyNode is Block:
        if nodes[row].spare != nodes[of].spare:
            return nodes[row].spare < nodes[of].spare
        if nodes[row].load != nodes[of].load:
            return nodes[row].load < nodes[of].load
        return nodes[row].order < nodes[of].order
    else:
        if nodes[row].memory != nodes[of].memory:
            return nodes[row].memory < nodes[of].memory
        return row < of


cdef inline bint is_less_loaded(const Node* nodes, int32_t row, int32_t other) noexcept nogil:
    if nodes[row].cpu != nodes[other].cpu:
        return nodes[row].cpu < nodes[other].cpu
    return is_left(nodes, row, other)


cdef inline bint is_freer(const Node* nodes, int32_t row, int32_t other) noexcept nogil:
    if nodes[row].cpu != nodes[other].cpu:
        return nodes[row].cpu < nodes[other].cpu
    return row < other


cdef inline void sum_up(AnyNode* nodes, int32_t top) noexcept nogil:
    """What a node says of its subtree, from itself and its children."""
    if AnyNode is Block:
        bound_self(&nodes[top])
        if nodes[top].left != NOTHING:
            bound_both(&nodes[top], &nodes[nodes[top].left])
        if nodes[top].right != NOTHING:
            bound_both(&nodes[top], &nodes[nodes[top].right])
    else:
        find_best(nodes, top)


cdef inline void bound_self(Block* block) noexcept nogil:
    cdef int at
    block.most_cpu, block.most_memory = block.own_cpu, block.own_memory
    for at in range(LEVELS):
        block.most[at] = block.own[at]


cdef inline void bound_both(Block* block, const Block* child) noexcept nogil:
    cdef int at
    block.most_cpu = max(block.most_cpu, child.most_cpu)
    block.most_memory = max(block.most_memory, child.most_memory)
    for at in range(LEVELS):
        block.most[at] = max(block.most[at], child.most[at])


cdef inline void find_best(Node* nodes, int32_t top) noexcept nogil:
    cdef int32_t best = top, freest = top, child = nodes[top].left
    if child != NOTHING:
        if is_less_loaded(nodes, nodes[child].best, best):
            best = nodes[child].best
        if is_freer(nodes, nodes[child].freest, freest):
            freest = nodes[child].freest
    child = nodes[top].right
    if child != NOTHING:
        if is_less_loaded(nodes, nodes[child].best, best):
            best = nodes[child].best
        if is_freer(nodes, nodes[child].freest, freest):
            freest = nodes[child].freest
    nodes[top].best, nodes[top].freest = best, freest


cdef inline int32_t inserted(AnyNode* nodes, int32_t top, int32_t row) noexcept nogil:
    """The tree's top with a row in it that was not."""
    if top == NOTHING:
        return row
    if nodes[row].priority > nodes[top].priority:
        parted(nodes, top, row, &nodes[row].left, &nodes[row].right)
        sum_up(nodes, row)
        return row
    if is_left(nodes, row, top):
        nodes[top].left = inserted(nodes, nodes[top].left, row)
    else:
        nodes[top].right = inserted(nodes, nodes[top].right, row)
    sum_up(nodes, top)
    return top


cdef inline void parted(
    AnyNode* nodes, int32_t top, int32_t row, int32_t* left, int32_t* right
) noexcept nogil:
    """Part a tree into those left of a row and those right of it."""
    if top == NOTHING:
        left[0] = right[0] = NOTHING
        return
    if is_left(nodes, top, row):
        left[0] = top
        parted(nodes, nodes[top].right, row, &nodes[top].right, right)
    else:
        right[0] = top
        parted(nodes, nodes[top].left, row, left, &nodes[top].left)
    sum_up(nodes, top)


cdef inline int32_t removed(AnyNode* nodes, int32_t top, int32_t row) noexcept nogil:
    """The tree's top without a row that was in it."""
    if top == row:
        return joined(nodes, nodes[top].left, nodes[top].right)
    if is_left(nodes, row, top):
        nodes[top].left = removed(nodes, nodes[top].left, row)
    else:
        nodes[top].right = removed(nodes, nodes[top].right, row)
    sum_up(nodes, top)
    return top


cdef inline int32_t joined(AnyNode* nodes, int32_t left, int32_t right) noexcept nogil:
    """One tree of two, all of the first left of the second."""
    if left == NOTHING:
        return right
    if right == NOTHING:
        return left
    if nodes[left].priority > nodes[right].priority:
        nodes[left].right = joined(nodes, nodes[left].right, right)
        sum_up(nodes, left)
        return left
    nodes[right].left = joined(nodes, left, nodes[right].left)
    sum_up(nodes, right)
    return right


cdef inline uint32_t mixed(uint32_t number) noexcept nogil:
    """A priority: any numbers do that look drawn (the finalizer of MurmurHash3, Appleby)."""
    number ^= number >> 16
    number *= <uint32_t>0x85EBCA6B
    number ^= number >> 13
    number *= <uint32_t>0xC2B2AE35
    return number ^ (number >> 16)
