"""Slurm as an engine: Slurm's nodes are the servers, Slurm starts and isolates."""
