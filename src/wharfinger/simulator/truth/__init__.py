"""Ground truth: how fast workloads really are, alone and beside others. No policy sees it."""
