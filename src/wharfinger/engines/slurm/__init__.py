"""Slurm as an engine: Slurm's nodes are the servers, Slurm starts and isolates."""

from wharfinger.engines.slurm.engine import SlurmEngine
from wharfinger.engines.slurm.settings import SlurmSettings

__all__ = ["SlurmEngine", "SlurmSettings"]
