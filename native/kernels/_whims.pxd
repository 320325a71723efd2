# What a neighbour does beyond the model: a draw for an ordered pair, the same on every machine.
# Inline: a part of the kernel that names it, and no module of its own.

from libc.stdint cimport uint64_t


cdef inline uint64_t _mixed(uint64_t x) noexcept nogil:
    # splitmix64
    x += 0x9E3779B97F4A7C15ULL
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL
    return x ^ (x >> 31)


cdef inline double whim_of(uint64_t one, uint64_t other) noexcept nogil:
    # About a standard normal draw for an ordered pair: the sum of four even ones.
    cdef uint64_t x = _mixed(one * 3 + _mixed(other))
    cdef double total = 0
    cdef int part
    for part in range(4):
        total += <double>(x & 0xFFFF) / 65536.0
        x >>= 16
    return (total - 2.0) * 1.7320508075688772
