"""A simulated cluster: clock, ground truth, populations, scenarios, and what is reported of a run."""
