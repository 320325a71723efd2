"""What is reported of a simulated run."""
