"""This machine as a cluster: servers are sets of its CPUs with a share of memory."""

from wharfinger.engines.local.engine import LocalEngine

__all__ = ["LocalEngine"]
