# cython: language_level=3, boundscheck=False, wraparound=False
"""Copies of frozen dataclasses with other values in some fields.

Called through wharfinger.native. The method that Python writes for a frozen dataclass looks up and
calls ``object.__setattr__`` for each field; this sets slots directly.
"""

cdef extern from "Python.h":
    int PyObject_GenericSetAttr(object made, object name, object value) except -1


def replaced(pattern, **changes):
    """As ``dataclasses.replace``, of a frozen one with slots that has no ``__post_init__``.

    Raises:
        TypeError: There is no such field.
    """
    cdef type kind = type(pattern)
    made = kind.__new__(kind)
    cdef Py_ssize_t set_ = 0
    for name in <tuple>kind.__match_args__:
        if name in changes:
            PyObject_GenericSetAttr(made, name, changes[name])
            set_ += 1
        else:
            PyObject_GenericSetAttr(made, name, getattr(pattern, name))
    if set_ != len(changes):
        unknown = ", ".join(sorted(set(changes) - set(kind.__match_args__)))
        raise TypeError(f"{kind.__name__} has no {unknown}")
    return made
