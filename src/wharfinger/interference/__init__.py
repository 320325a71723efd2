"""How much a set of neighbors slows a service: models of many co-located workloads at once.

Pure: measurements in, predictions out; nothing of clusters. ``files.contention_sets`` reads and
writes files, ``wharfinger contention`` is the command, docs/contention.md the manual.

Source: Pythia (Middleware 2018), sections 2 and 3.
"""
