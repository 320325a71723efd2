"""One machine's means: the supervisor, cgroups, topology. Knows nothing of the manager's state."""
