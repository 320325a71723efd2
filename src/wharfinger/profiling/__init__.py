"""The meaning of a profiling plan, for real and for simulated runs: pure.

``interpreter`` yields the steps of a plan to a port (``steps``): the local engine's blocks until a
reading is there, the simulated cluster's schedules an event. ``procedure`` has the times and
intensities, ``scores`` turns readings into entries, ``observations`` collects them. ``rounds``
repeats plans for ``wharfinger profile``; ``curves``, ``crossing`` and ``probing`` judge them.
"""
