"""The event log and its snapshots: acknowledged means on disk."""
