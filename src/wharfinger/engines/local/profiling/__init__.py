"""Profiling on this machine: one process for each plan, which runs copies and measures them.

The engine holds a ``client.Profiling``. That starts ``worker`` for a plan, told by a ``job.Job``.
There ``sequence`` goes through the plan with ``copies`` (the workload under a supervisor, in a
sandbox), ``readings`` (its performance, unsmoothed; ``host.measure.inside`` reads from within
its namespaces)
and ``injection`` (sources of interference beside it); ``scores`` makes entries of what was
measured. ``remains`` clears away, whoever died. docs/profiling.md says what happens and why.
"""
