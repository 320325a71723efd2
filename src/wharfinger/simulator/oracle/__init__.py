"""The oracle: a policy that may look at the ground truth."""
