"""Where a workload goes: candidates, filters, ranking, sizing; one file per policy."""
