"""Sources of interference with tunable intensity (iBench), and what is measured with them.

Who calls: the profiler, which finds what a workload tolerates and causes, and ``wharfinger
ibench``. The sources themselves are C, ``native/ibench``.
"""
