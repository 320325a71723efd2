"""What one program needs and minds, without a manager; and the known programs, all of them.

``run`` profiles one program on this machine and lets nothing be left; ``campaign`` measures the
catalogue and keeps it as the known programs' matrices.
"""

from wharfinger.profiler.run import profile_workload

__all__ = ["profile_workload"]
