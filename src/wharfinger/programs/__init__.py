"""Real programs to run under a manager, and the catalogue of those that are measured as known."""
