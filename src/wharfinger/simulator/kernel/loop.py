"""The event loop of a simulation: an event is a callback and its argument, called at its time.

Events are called by (time, priority, sequence); times are absolute seconds and compared exactly. A
callback may schedule for the present moment. State is in objects, not in suspended generators
(docs/decisions/0026-event-loop.md). It is compiled (``native/kernels/_events.pyx``).
"""

from wharfinger.native import EventLoop

__all__ = ["EventLoop"]
