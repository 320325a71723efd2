"""A Slurm cluster of our own on this machine, for the demo and for tests of the Slurm engine."""
