"""A simulated cluster as an engine: time passes only when somebody waits for a report."""

from wharfinger.engines.simulated.engine import SimulatedEngine

__all__ = ["SimulatedEngine"]
