"""What a profiling plan means: once, for real runs and for simulated ones.

``interpreter`` goes through a plan step by step over a port (``steps``); ``procedure`` says for how
long and at which intensities, ``scores`` what counts as an entry, and ``observations`` gathers the
entries. An engine brings the port: the local one blocks until a reading is there, the simulated
cluster schedules an event. Pure: no clock, no process, no file.
"""
