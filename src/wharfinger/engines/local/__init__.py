"""This machine as a cluster: servers are sets of its CPUs with a share of memory."""

from wharfinger.engines.local.engine import LocalEngine
from wharfinger.engines.supervised.machine import identity_of_directory

__all__ = ["LocalEngine", "identity_of_directory"]
