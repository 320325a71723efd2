"""Sources of interference with tunable intensity (iBench), what is measured with them, and eq. 5.1.

Who calls: the profiler, which finds what a workload tolerates and causes, and ``wharfinger
ibench``. The sources themselves are C, ``native/ibench``.
"""
