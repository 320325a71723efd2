"""The clock of a simulation: an event is a callback and its argument, called when it is time.

There are no processes that wait, as in SimPy: who wants to go on later schedules a callback. So all
state lies in objects that can be looked at, as with the manager, and none in suspended generators
(docs/decisions/0026-event-loop.md says what each costs).

**The order** is (time, priority, sequence), and nothing else decides:

* An event is never called before one of an earlier time. Times are absolute, in seconds, and
  compared exactly: two are equal only when all their bits are.
* Of equal times the lowest priority is called first. A callback that schedules for this very moment
  is called in this moment still; where its priority is lower than that of others that wait, before
  them.
* Of equal priorities, what was scheduled first is called first. What was cancelled leaves no trace
  in the order of the rest.

The loop is compiled (``native/kernels/_events.pyx``); the tests hold it to one in Python.
"""

from wharfinger.native import EventLoop

__all__ = ["EventLoop"]
