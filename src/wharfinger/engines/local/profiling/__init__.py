"""Profiling on this machine: one process for each plan, which runs copies and measures them.

The engine holds a ``client.ProfilingClient``. For each plan that starts ``worker`` with a ``job``;
there ``wharfinger.profiling`` interprets the plan, and ``session`` carries its steps out: with
``runs`` (the workload under a supervisor, in a sandbox), ``readings`` (its performance, unsmoothed)
and sources of interference. ``cleanup`` removes what is left, whatever died; docs/profiling.md.
"""
