"""The event loop of a simulation: an event is a callback and its argument, called at its time.

There are no waiting processes as in SimPy: all state is in objects, none in suspended generators
(docs/decisions/0026-event-loop.md). Events are called by (time, priority, sequence): times are
absolute seconds and compared exactly, the lowest priority comes first, and of equal ones the event
that was scheduled first. A callback may schedule for the present moment. Cancelled events do not
change the order of the rest.

The loop is compiled (``native/kernels/_events.pyx``); the tests compare it with one in Python.
"""

from wharfinger.native import EventLoop

__all__ = ["EventLoop"]
