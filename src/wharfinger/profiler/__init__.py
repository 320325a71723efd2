"""What one program needs and minds, with or without a manager.

Nothing of a manager is needed: ``run`` profiles on this machine and lets nothing be left.
"""

from wharfinger.profiler.run import profile_workload

__all__ = ["profile_workload"]
