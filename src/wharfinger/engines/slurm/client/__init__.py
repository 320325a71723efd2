"""Slurm's commands as calls with typed values; knows neither the core nor a workload."""
