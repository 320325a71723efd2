"""What one program needs and minds, without a manager.

``run`` profiles one program on this machine and lets nothing be left.
"""

from wharfinger.profiler.run import profile_workload

__all__ = ["profile_workload"]
