"""Measures programs on this machine without a manager: one, or the known programs' matrices."""

from wharfinger.profiler.run import profile_workload

__all__ = ["profile_workload"]
