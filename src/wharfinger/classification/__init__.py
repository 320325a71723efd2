"""Profiling plans and classification: workload rows on one side, learning on the other."""
