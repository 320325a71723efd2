"""A simulated cluster: clock, ground truth, populations, scenarios, reports of what became."""
